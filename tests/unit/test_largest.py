"""The largest of the parties' integers, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdml_spdz.errors import ProtocolError, QuotaError
from pdml_spdz.ot import group
from pdml_spdz.primitives.largest import BASE, largest
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.inprocess import mesh
from tests.embedded.helpers import Wire
from tests.threads import run_threads

LOW, HIGH = -128, 128


def points(raw: bytes) -> list[bytes]:
    return [raw[i : i + group.SIZE] for i in range(0, len(raw), group.SIZE)]


@given(st.lists(st.integers(LOW, HIGH - 1), min_size=2, max_size=4))
@settings(max_examples=12)
def test_every_party_gets_the_maximum(own: list[int]) -> None:
    assert run_threads(len(own), lambda link: largest(link, own[link.me], LOW, HIGH)) == [max(own)] * len(own)


def opened(own: list[int]) -> list[list[bytes]]:
    """What anyone can compute from the messages: the plaintexts B_j - sum_m x_m A_j, by digit."""
    wire, M = Wire(), len(own)

    def party(link: Link) -> int:
        return largest(link, own[link.me], LOW, HIGH)

    run_threads(M, party, wire.tap(mesh(M)))
    senders = [(m, (m + 1) % M) for m in range(M)]
    masked = [wire.payloads(*pair, "largest:masked") for pair in senders]
    shares = [wire.payloads(*pair, "largest:shares") for pair in senders]
    plain = []
    for digit in range(2):
        columns = zip(*(points(frames[digit]) for frames in masked), strict=True)
        sums = [_sum(column) for column in columns]
        keys = [_sum(column) for column in zip(*(points(frames[digit]) for frames in shares), strict=True)]
        plain.append([group.sub(B, key) for B, key in zip(sums[1::2], keys, strict=True)])
    return plain


def _sum(column: tuple[bytes, ...]) -> bytes:
    total, *others = column
    for point in others:
        total = group.add(total, point)
    return total


def test_what_is_opened_is_zero_beyond_the_maximum_and_random_up_to_it() -> None:
    """How many parties reach a value, and how often it was computed before, leaves no trace in the points."""
    own = [5 * BASE + 3 + LOW, 5 * BASE + 3 + LOW, 2 * BASE + 9 + LOW]
    runs = [opened(own) for _ in range(2)]
    zero = bytes(group.SIZE)
    for digit, top in enumerate((5, 3)):
        for plain in runs:
            assert [point == zero for point in plain[digit]] == [j > top for j in range(1, BASE)]
    random = [point for plain in runs for digit in plain for point in digit if point != zero]
    assert len(set(random)) == len(random) == 2 * (5 + 3)
    # Up to 2 two parties reach the first digit's values, above it one: counts times the generator would be few points.
    multiples = {group.base_times(n.to_bytes(group.SIZE, "little")) for n in range(1, 4)}
    assert not multiples & set(random)


def test_number_out_of_range_is_refused_before_anything_is_sent() -> None:
    wire = Wire()
    with pytest.raises(QuotaError, match="128 is not between -128 and 127"):
        run_threads(2, lambda link: largest(link, 128, LOW, HIGH), wire.tap(mesh(2)))
    assert not wire.steps()


def test_bytes_that_are_no_points_are_noticed() -> None:
    def party(link: Link) -> int:
        if link.me == 1:
            link.all_to_all("largest:key", bytes(group.SIZE))
            return 0
        return largest(link, 3, LOW, HIGH)

    with pytest.raises(ProtocolError, match="P1 sent 32 bytes that are not 1 group elements"):
        run_threads(2, party)
