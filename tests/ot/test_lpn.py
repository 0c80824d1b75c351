"""NumberStock from LPN: the relation, the noise, and how often a secret serves."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdml_spdz.errors import EngineError, ProtocolError
from pdml_spdz.numerics import ring
from pdml_spdz.offline import make, on_demand
from pdml_spdz.offline.material import Plan
from pdml_spdz.offline.numbers import Kind, NumberStock
from pdml_spdz.offline.on_demand import LEVELS, Supply, kappa_for, levels
from pdml_spdz.ot import extension, ggm, lpn, silent, vole
from pdml_spdz.ot.lpn import LARGE, SHORT, SMALL, LpnParameters
from pdml_spdz.ot.vole import Correlation
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.inprocess import mesh
from tests.embedded.helpers import Wire
from tests.ot.ot_pairs import words_are_uniform
from tests.threads import run_threads

BITS = 160
BITS_OF_FITS = (160, 224)  # rings that fits use: with an agreed bound, and with a wide one
WINDOWS = pytest.mark.parametrize("bits", BITS_OF_FITS)


def pairwise(*axes: Sequence[Any]) -> list[Any]:
    """Of three axes with two values each half of the product, which has every pair; the others are long tests."""
    every = itertools.product(*(range(2) for _ in axes))
    values = {at: [axis[i] for axis, i in zip(axes, at, strict=True)] for at in every}
    return [pytest.param(*v, marks=[pytest.mark.long] if sum(at) % 2 else []) for at, v in values.items()]


TINY = (LpnParameters(16, 3, 6), LpnParameters(64, 4, 12))  # as the real ones are related, for tests: not secure


def holds(made: list[tuple[int, Correlation]], bits: int = BITS) -> bool:
    """sum_m rest_m = sum_{l != m} u_l delta_m, number by number. made : (delta, numbers) by party"""
    deltas, total = [delta for delta, _ in made], sum(delta for delta, _ in made)
    pads, rests = (
        [ring.to_ints(x) for x in column] for column in zip(*((c.pad, c.rest) for _, c in made), strict=True)
    )
    return all(
        (sum(rest) - sum(u * (total - delta) for u, delta in zip(pad, deltas, strict=True))) % 2**bits == 0
        for pad, rest in zip(zip(*pads, strict=True), zip(*rests, strict=True), strict=True)
    )


def supplied(
    M: int, planned: int, takes: list[int], *, whole: bool = False, bits: int = BITS, piece: int = 50
) -> list[tuple[int, Correlation]]:
    def party(link: Link) -> tuple[int, Correlation]:
        ots = extension.set_up(link, b"lpn")
        supply = Supply(link, ots, vole.set_up(link, ots, bits)[0], planned, whole=whole, piece=piece)
        return supply.delta, Correlation.join([supply.take(n) for n in takes])

    return run_threads(M, party)


@pytest.mark.parametrize(("bits", "M", "whole"), pairwise(BITS_OF_FITS, (2, 3), (True, False)))
def test_relation_holds_through_all_levels(monkeypatch: pytest.MonkeyPatch, M: int, whole: bool, bits: int) -> None:
    monkeypatch.setattr(on_demand, "LEVELS", TINY)
    monkeypatch.setattr(on_demand, "LEAST", 5)
    takes = [3, 5, 40, 1, 200, 51]  # the last level's secret is renewed, too
    made = supplied(M, sum(takes), takes, whole=whole, bits=bits)
    assert [len(c) for _, c in made] == [sum(takes)] * M
    assert holds(made, bits)
    for _, c in made:
        assert len({pad.tobytes() for pad in c.pad}) == len(c)
        assert words_are_uniform(c.pad[:, : bits // 64])
        assert words_are_uniform(c.rest[:, : bits // 64])


@pytest.mark.parametrize("bits", [128, 192, 288])
def test_relation_holds_in_other_rings(monkeypatch: pytest.MonkeyPatch, bits: int) -> None:
    monkeypatch.setattr(on_demand, "LEVELS", TINY)
    assert holds(supplied(2, 300, [0, 300], whole=True, bits=bits), bits)


@WINDOWS
def test_real_levels_are_climbed(bits: int) -> None:
    n = LARGE.secret * 5 // 4 + 1
    assert levels(n, n) == 3
    made = supplied(2, n, [n], whole=True, bits=bits, piece=0)
    some = np.r_[0:50, n // 2 : n // 2 + 50, n - 50 : n]
    assert holds([(delta, Correlation(c.pad[some], c.rest[some])) for delta, c in made], bits)


def test_secrets_are_not_given_out_and_have_a_code_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_demand, "LEVELS", TINY)
    monkeypatch.setattr(silent, "Code", KeptCode)
    KeptCode.keys.clear()
    secrets: list[Correlation] = []
    renew = silent.Source._renew

    def kept(source: silent.Source, secret: Correlation) -> None:
        secrets.append(secret)
        renew(source, secret)

    monkeypatch.setattr(silent.Source, "_renew", kept)
    made = supplied(2, 600, [600], whole=True)
    given = {pad.tobytes() for _, c in made for pad in c.pad}
    hidden = [pad.tobytes() for secret in secrets for pad in secret.pad]
    assert len(secrets) > 2 * 3  # both parties: two levels, and renewals
    assert len(set(hidden)) == len(hidden)
    assert not given & set(hidden)
    assert len(set(KeptCode.keys)) == len(secrets) // 2  # public: the same at both


class KeptCode(lpn.Code):
    keys: ClassVar[list[bytes]] = []

    def __init__(self, secret: int, key: np.ndarray) -> None:
        super().__init__(secret, key)
        self.keys.append(key.tobytes())


@WINDOWS
def test_z_has_no_bit_that_no_leaf_masks(bits: int) -> None:
    """What is above the ring in w would tell the sender about delta, if it travelled."""
    parameters, wire, blocks = TINY[0], Wire(), 3

    def party(link: Link) -> vole.Extended:
        ots = extension.set_up(link, b"z")
        ends = vole.set_up(link, ots, bits)[0]
        made = vole.extend(link, ends, ends.random(parameters.secret))
        silent.Source(link, ots, ends, parameters, Correlation.of(made)).next(blocks * parameters.block, last=True)
        return made

    results = run_threads(2, party, wire.tap(mesh(2)))
    trees = ggm.message_size(blocks, parameters.depth)
    assert [len(frame) for frame in wire.payloads(0, 1, "vole:noise")] == [trees + blocks * bits // 8]
    for made in results:
        for vector in (*made.v.values(), *made.w.values()):
            assert not (vector[:, -1] >> np.uint64(bits % 64)).any()


@pytest.mark.parametrize(("planned", "takes"), [(1, [1]), (3, [1, 1, 1]), (600, [1] * 9), (5000, [1, 1000, 3000, 999])])
def test_scalars_that_go_together_share_their_rounds(planned: int, takes: list[int]) -> None:
    count = 3

    def party(link: Link) -> tuple[list[int], list[Correlation], list[int], int]:
        material = on_demand.OnDemand(link, b"together", BITS, 64)
        material.reserve(Plan(0, (planned,) * count))
        supplies = material.scalars(count)
        before = link.offline_traffic.rounds
        parts = [[supply.take(n) for supply in supplies] for n in takes]
        given = [Correlation.join(list(column)) for column in zip(*parts, strict=True)]
        left = [supply._left for supply in supplies if isinstance(supply, Supply)]
        return [supply.delta for supply in supplies], given, left, link.offline_traffic.rounds - before

    results = run_threads(2, party)
    for i in range(count):
        assert holds([(deltas[i], given[i]) for deltas, given, *_ in results])
        assert len(results[0][1][i]) == sum(takes)
    for *_, left, rounds in results:
        assert len(set(left)) == 1
        assert left[0] >= 0
        assert rounds <= len(takes)


@WINDOWS
def test_one_number_of_each_block_is_noisy_and_odd(bits: int) -> None:
    """u - A r, which only its party can compute."""
    lpn_small = TINY[1]

    def party(link: Link) -> tuple[Correlation, Correlation, bytes]:
        ots = extension.set_up(link, b"noise")
        ends = vole.set_up(link, ots, bits)[0]
        r = Correlation.of(vole.extend(link, ends, ends.random(lpn_small.secret)))
        source = silent.Source(link, ots, ends, lpn_small, r)
        again = extension.Ends({}, {}, b"noise")  # what is public of `ots`
        return r, source.next(5 * lpn_small.block, last=False), again.label(b"pdml-lpn-code")

    places = set()
    for r, made, key in run_threads(2, party):
        code = lpn.Code(lpn_small.secret, np.frombuffer(key, np.uint64))
        clean = lpn.settled(code.times(lpn.digits(r.pad, bits), len(made)))
        noise = [x % 2**bits for x in ring.to_ints(ring.sub(made.pad, clean))]
        blocks = np.array(noise, dtype=object).reshape(5, lpn_small.block)
        assert [sum(x != 0 for x in block) for block in blocks] == [1] * 5
        assert all(x % 2 for block in blocks for x in block if x)
        places.add(tuple(int(np.flatnonzero(block)[0]) for block in blocks))
    assert len(places) == 2  # each party has its own (5 places of 16: equal once in a million)


@pytest.mark.parametrize("secret", [32, SHORT.secret, SMALL.secret])
def test_a_row_has_ten_different_places_and_follows_the_stream(secret: int) -> None:
    key, n = np.arange(2, dtype=np.uint64), 4096
    code = lpn.Code(secret, key)
    rows = np.concatenate([code.places(8), code.places(n - 8)])
    assert all(len(set(row)) == lpn.ONES for row in rows.tolist())
    assert np.array_equal(rows, lpn.Code(secret, key).places(n))  # however they are asked for
    stream = np.empty(n * lpn.ONES // 4, np.uint64)
    lpn.Streams(key.reshape(1, 2), None, 0).fill(0, stream)
    drawn = (stream.view(np.uint16) % secret).reshape(n, lpn.ONES)
    kept = (drawn == rows).all(axis=1)
    assert np.array_equal(kept, [len(set(row)) == lpn.ONES for row in drawn.tolist()])
    assert not kept.all()  # some had to be drawn again


def test_all_places_are_equally_likely() -> None:
    """Rows out of 64 places: each place is in 10 of 64, each pair of places in 90 of 64 * 63."""
    n, secret = 1 << 14, 64
    rows = lpn.Code(secret, np.arange(2, dtype=np.uint64)).places(n)
    there = np.zeros((n, secret))
    there[np.arange(n)[:, None], rows] = 1
    together = there.T @ there
    for found, p in (
        (np.diag(together), 10 / secret),
        (together[np.triu_indices(secret, 1)], 90 / (secret * (secret - 1))),
    ):
        assert np.abs(found - n * p).max() < 6 * math.sqrt(n * p * (1 - p))  # 2080 counts: by chance once in 10^5 keys


def test_a_row_of_the_code_is_the_sum_at_its_places() -> None:
    key, r = np.arange(2, dtype=np.uint64), np.arange(64, dtype=np.float64)[:, None] ** 2
    sums = lpn.Code(64, key).times(r, 24)
    assert np.array_equal(sums[:, 0], r[lpn.Code(64, key).places(24), 0].sum(axis=1))


@WINDOWS
@given(st.data())
def test_settled_digits_are_the_number(bits: int, data: st.DataObject) -> None:
    row = st.lists(st.integers(-(2**40), 2**40), min_size=bits // 32, max_size=bits // 32)
    sums = data.draw(st.lists(row, min_size=1, max_size=4))
    expected = [sum(x << 32 * i for i, x in enumerate(row)) % 2**bits for row in sums]
    vector = lpn.settled(np.array(sums, np.float64))
    assert ring.to_ints(vector) == expected
    assert np.array_equal(lpn.settled(lpn.digits(vector, bits)), vector)


@given(st.sampled_from([*LEVELS, *TINY]), st.lists(st.integers(1, 10**6), max_size=60))
def test_no_secret_serves_more_blocks_than_it_may(parameters: LpnParameters, wanted: list[int]) -> None:
    budget, served = silent.Budget(parameters), 0
    for i, n in enumerate(wanted):
        blocks = silent.blocks_for(n, parameters)
        if budget.take(blocks, last=i == len(wanted) - 1):
            served += parameters.kept
            assert served <= parameters.blocks
            served = 0
        served += blocks
        assert served <= parameters.blocks


@pytest.mark.parametrize("parameters", LEVELS)
def test_a_secret_is_made_of_whole_blocks_in_one_step(parameters: LpnParameters) -> None:
    assert parameters.secret % parameters.block == 0
    assert parameters.secret <= parameters.step * parameters.block


def test_nothing_is_given_after_the_last() -> None:
    budget = silent.Budget(TINY[0], used=TINY[0].blocks - TINY[0].kept)
    assert not budget.take(TINY[0].kept, last=True)
    with pytest.raises(ValueError, match="after the last"):
        budget.take(1, last=True)


def test_short_fits_have_digits_that_send_less() -> None:
    few, many = 16 * 90 * 9, 300 * 90 * 7  # of songs: what is likely of krylov, and power's
    assert (
        kappa_for([few]) == vole.FEWER_BYTES > kappa_for([many]) == kappa_for([few, 1]) == kappa_for([1]) == vole.KAPPA
    )
    shorter, usual = (vole.Digits(224, kappa).message_size(few) for kappa in (vole.FEWER_BYTES, vole.KAPPA))
    assert shorter < 0.82 * usual


def test_levels_are_climbed_where_they_pay() -> None:
    assert levels(SHORT.secret, SHORT.secret) == 0
    assert levels(2 * SHORT.secret, 2 * SHORT.secret) == 1
    assert levels(2 * SMALL.secret, 2 * SMALL.secret) == 2
    assert levels(10 * LARGE.secret, 10 * LARGE.secret) == 3
    assert levels(10 * LARGE.secret, SHORT.secret - 1) == 0  # a run that may stop soon


@pytest.mark.parametrize("bits", [160, 224])
def test_no_level_sends_more_than_the_one_below_would(bits: int) -> None:
    """Where the rule says that a level pays, and a little more numbers: secrets are not free."""

    def sent(n: int, level: int) -> int:
        if level == 0:
            return vole.Digits(bits, vole.KAPPA).message_size(n)
        return sum(silent.message_sizes(n, bits, LEVELS[level - 1]))

    for below, parameters in enumerate(LEVELS):
        n = parameters.secret * 3 // 2
        assert sent(parameters.secret, below) + sent(n, below + 1) < sent(n, below)


def test_more_than_planned_is_refused() -> None:
    def party(link: Link) -> str:
        ots = extension.set_up(link, b"lpn")
        supply = Supply(link, ots, vole.set_up(link, ots, BITS)[0], 20)
        supply.take(15)
        with pytest.raises(EngineError, match="more numbers by a scalar than its plan has"):
            supply.take(6)
        return "refused"

    assert run_threads(2, party) == ["refused"] * 2


def test_a_message_of_another_length_is_refused() -> None:
    with pytest.raises(ProtocolError, match="message of noise"):
        silent._masked(memoryview(bytes(24)), 1, BITS, peer=1)


# Of the sizes the first has the usual digits, the other those of a short fit.
@pytest.mark.parametrize(
    ("bits", "vole_kind", "sizes"), pairwise(BITS_OF_FITS, ("lpn", "ot"), ((10, 25, 700), (25, 700)))
)
def test_forecast_of_a_stock_is_what_making_it_took(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sizes: tuple[int, ...], vole_kind: str, bits: int
) -> None:
    for module in (on_demand, make):
        monkeypatch.setattr(module, "LEVELS", TINY)
    plan, kind = Plan(1, sizes), Kind(2, bits, 64, vole_kind)

    def party(link: Link) -> int:
        make.make(link, tmp_path, plan, kind, b"s")
        return sum(link.offline_traffic.sent.values())

    assert sum(run_threads(2, party)) == 2 * make.forecast(plan, kind).sent
    assert NumberStock.find(tmp_path, kind, 0)
    assert bool(NumberStock.find(tmp_path, Kind(2, bits, 64, "lpn"), 0))
    # What assumes less serves both.
    assert bool(NumberStock.find(tmp_path, Kind(2, bits, 64, "ot"), 0)) == (vole_kind == "ot")
