"""The largest of the parties' integers, and nothing else."""

from __future__ import annotations

import pytest

from pdml_spdz.errors import ProtocolError, QuotaError
from pdml_spdz.ot import group
from pdml_spdz.primitives import proof
from pdml_spdz.primitives.largest import largest
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.inprocess import mesh
from tests.embedded.helpers import Wire
from tests.threads import run_threads

LOW, HIGH = -128, 128
STEPS = ("largest:masked", "largest:shares")


def points(raw: bytes) -> list[bytes]:
    return [raw[i : i + group.SIZE] for i in range(0, len(raw), group.SIZE)]


def shares(raw: bytes) -> list[bytes]:
    return points(raw[: -proof.SIZE])


@pytest.mark.parametrize(
    ("own", "shifts", "width"),
    [
        ([3, -5], [0, 0], 1),
        ([LOW, LOW, LOW], [3, 4, 7], 8),
        ([HIGH - 1, 0, 5, 7], [15, 15, 15, 2], 16),
        ([1, 1], [9, 9], 16),
    ],
)
def test_every_party_gets_the_maximum_and_the_common_shift(own: list[int], shifts: list[int], width: int) -> None:
    M = len(own)
    found = run_threads(M, lambda link: largest(link, own[link.me], LOW, HIGH, shift=shifts[link.me], width=width))
    assert found == [max(own) + sum(shifts) % width] * M


def opened(own: list[int], shifts: list[int], width: int) -> tuple[list[bytes], Wire]:
    """What anyone can compute from the messages: the plaintexts B_j - sum_m x_m A_j; and the messages."""
    wire, M = Wire(), len(own)

    def party(link: Link) -> int:
        return largest(link, own[link.me], 0, 24, shift=shifts[link.me], width=width)

    run_threads(M, party, wire.tap(mesh(M)))
    senders = [(m, (m + 1) % M) for m in range(M)]
    (masked,), (parts,) = (zip(*(wire.payloads(*pair, step) for pair in senders), strict=True) for step in STEPS)
    sums = [group.added(column) for column in zip(*map(points, masked), strict=True)]
    keys = [group.added(column) for column in zip(*map(shares, parts), strict=True)]
    return [group.sub(B, key) for B, key in zip(sums[1::2], keys, strict=True)], wire


def test_what_is_opened_is_zero_beyond_the_result_and_random_up_to_it() -> None:
    """How many parties reach a value, and how often it was computed before, leaves no trace in the points."""
    own, shifts, width = [11, 11, 4], [3, 1, 2], 4
    runs = [opened(own, shifts, width)[0] for _ in range(2)]
    zero, top = bytes(group.SIZE), 11 + 6 % 4
    for plain in runs:
        assert [point == zero for point in plain] == [j > top for j in range(1, 24 + width - 1)]
    random = [point for plain in runs for point in plain if point != zero]
    assert len(set(random)) == len(random) == 2 * top
    # Up to 6 three parties reach a value, above it two: counts times the generator would be few points.
    multiples = {group.base_times(n.to_bytes(group.SIZE, "little")) for n in range(1, 4)}
    assert not multiples & set(random)


def test_nothing_is_sent_twice_and_every_message_is_fresh() -> None:
    """The same inputs again: no point of the first run comes back, so none is a function of the inputs alone."""
    sent = []
    for _ in range(2):
        wire = opened([5, 9], [1, 0], 4)[1]
        sent.append({p for step in wire.steps() for p in points(b"".join(wire.payloads(0, 1, step)))})
    assert not sent[0] & sent[1]


def test_number_out_of_range_is_refused_before_anything_is_sent() -> None:
    wire = Wire()
    with pytest.raises(QuotaError, match="128 is not between -128 and 127"):
        run_threads(2, lambda link: largest(link, 128, LOW, HIGH), wire.tap(mesh(2)))
    assert not wire.steps()


def test_bytes_that_are_no_points_are_noticed() -> None:
    def party(link: Link) -> int:
        if link.me == 1:
            link.all_to_all("largest:key", bytes(group.SIZE + proof.SIZE))
            return 0
        return largest(link, 3, LOW, HIGH)

    with pytest.raises(ProtocolError, match="P1 sent 32 bytes that are not 1 group elements"):
        run_threads(2, party)
