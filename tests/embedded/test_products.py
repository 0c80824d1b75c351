"""Products wait for each other; a round goes out when somebody sends it, and at no other time."""

from __future__ import annotations

import numpy as np

from pdml_spdz.engines.embedded.backend import Counting
from pdml_spdz.engines.embedded.products import Lazy
from pdml_spdz.engines.embedded.runner import Session, Shares
from pdml_spdz.engines.embedded.values import Scalars
from pdml_spdz.numerics import ring
from pdml_spdz.offline.material import Plan
from pdml_spdz.offline.on_demand import OnDemand
from pdml_spdz.primitives.sec_sum import masked_sum
from pdml_spdz.programs.precision import Precision
from pdml_spdz.transport.base import Link
from tests.threads import run_threads

P = Precision(2)
X = np.array([3.0, -5.0])


def test_one_round_for_all_that_waits() -> None:
    def party(link: Link) -> tuple[int, int, int, list[int]]:
        plan = Plan(0, (2, 2))
        material = OnDemand(link, b"test", P.vector_bits, P.scalar_bits)
        material.reserve(plan)
        shares = Shares(masked_sum(link, b"test", "auto"), P, material, Session())
        own = ring.from_float(X if link.me == 0 else 0 * X, 0, P.vector_bits)
        a, c = Lazy(2, P.vector_bits, (), (own,)), Scalars(shares, [2 + link.me])  # c = 2 + 3
        before = link.traffic.rounds
        first, second = shares.scale(c, a, 2), shares.scale(Scalars(shares, [7 * link.me]), a, 2)
        assert first.share is None  # to look at them sends nothing
        waiting = link.traffic.rounds - before
        shares.products.send()
        sent = link.traffic.rounds - before
        total = shares.add(first, second).value()
        return waiting, sent, link.traffic.rounds - before, ring.to_ints(total)

    results = run_threads(2, party)
    assert [r[:3] for r in results] == [(0, 1, 1)] * 2
    modulus = 1 << P.vector_bits
    opened = [sum(values) % modulus for values in zip(*(r[3] for r in results), strict=True)]
    assert opened == [36, -60 % modulus]


def test_scalars_that_are_equal_are_not_the_same() -> None:
    counting = Counting()
    one, other = Scalars(counting, [1]), Scalars(counting, [1])
    for c in (one, other, one):
        counting.scale(c, None, 10)
    assert counting.plan.vectors == (20, 10)


def test_one_round_for_all_truncations_that_wait_and_their_squares() -> None:
    """Squares of numbers that have lost their last bits are those of the numbers themselves, exactly."""
    secrets, shift = [3 << 40, -(5 << 40), 7], 20

    def party(link: Link) -> tuple[list[int], list[list[int]]]:
        material = OnDemand(link, b"test", P.vector_bits, P.scalar_bits)
        material.reserve(Plan(4, ()))
        shares = Shares(masked_sum(link, b"test", "auto"), P, material, Session())
        own = Scalars(shares, [100 + z if link.me else -100 for z in secrets])
        before = link.traffic.rounds
        y, other = own.round(60, shift), Scalars(shares, [link.me << 30]).round(40, 29)
        squares = y * y
        rounds = [link.traffic.rounds - before, len(y), len(squares)]
        found = [y.shares, squares.shares, other.shares]
        rounds.append(link.traffic.rounds - before)
        late = (other * other).shares  # nothing waits any more: an ordinary product
        return [*rounds, link.traffic.rounds - before], [*found, late]

    results = run_threads(2, party)
    assert [rounds for rounds, _ in results] == [[0, 3, 3, 1, 2]] * 2
    half = P.scalar_bits - 1
    y, squares, other, late = (
        [(sum(z) + (1 << half)) % (1 << P.scalar_bits) - (1 << half) for z in zip(*shares, strict=True)]
        for shares in zip(*(found for _, found in results), strict=True)
    )
    assert all(abs(found - (z >> shift)) < P.M for found, z in zip(y, secrets, strict=True))
    assert squares == [found * found for found in y]
    assert abs(other[0] - 2) < P.M
    assert late == [other[0] * other[0]]
