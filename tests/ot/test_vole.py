"""VOLE over Z_2^k: the relation, what the receiver lacks, and that nothing is used twice."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from pdml_spdz.errors import ProtocolError
from pdml_spdz.numerics import ring
from pdml_spdz.ot import extension, ggm, prg, vole
from pdml_spdz.transport.base import Link
from tests.ot.ot_pairs import bytes_are_uniform, ot_ends, vole_pairs, words_are_uniform
from tests.threads import run_threads


@pytest.fixture(scope="module")
def ends() -> list[extension.Ends]:
    return ot_ends()


@pytest.fixture
def pair(ends: list[extension.Ends]) -> tuple[vole.VoleSender, vole.VoleReceiver]:
    return vole_pairs(ends, 192)[0]


def holds(u: ring.Vector, v: ring.Vector, w: ring.Vector, delta: int, bits: int = 192) -> bool:
    expected = ring.add(ring.scale(u, delta), v)
    return np.array_equal(ring.pack(expected, bits), ring.pack(w, bits))


def extend(sender: vole.VoleSender, n: int) -> tuple[ring.Vector, ring.Vector, bytes]:
    """A fresh u, with v and the message for it."""
    u = ring.random(n, sender.digits.bits)
    return u, *sender.extend(u)


def stream_numbers(key: prg.Blocks, position: int, w: int, n: int, nonce: int) -> list[int]:
    """n numbers of w limbs from a leaf's stream, by Python's integers."""
    words = np.empty((w, n), np.uint64)
    prg.Streams(key[None], None, position * w // 2, nonce).fill(0, words)
    return ring.to_ints(np.ascontiguousarray(words.T))


def test_relation_holds_for_many_elements(ends: list[extension.Ends]) -> None:
    total, bits = 0, 160
    for sender, receiver in vole_pairs(ends, bits, count=4):
        n = 65_537
        u, v, message = extend(sender, n)
        w = receiver.extend(n, memoryview(message))
        assert holds(u, v, w, receiver.delta, bits)
        # A sample again by Python's integers, not by our own multiplication.
        ints = (ring.to_ints(x[:200]) for x in (u, v, w))
        assert all((a * receiver.delta + b - c) % 2**bits == 0 for a, b, c in zip(*ints, strict=True))
        total += n
    assert total >= 2**18


@pytest.mark.parametrize("kappa", range(1, 9))
@pytest.mark.parametrize("bits", [64, 160, 192, 224])
def test_relation_holds_for_every_digit_width(ends: list[extension.Ends], bits: int, kappa: int) -> None:
    sender, receiver = vole_pairs(ends, bits, kappa=kappa)[0]
    for n in (1, 34):
        u, v, message = extend(sender, n)
        assert len(message) == sender.digits.message_size(n)
        assert holds(u, v, receiver.extend(n, memoryview(message)), receiver.delta, bits)


@pytest.mark.parametrize("n", [0, 1, 99, 100, 101, 200, 201, 1000])
def test_relation_holds_across_chunks(
    pair: tuple[vole.VoleSender, vole.VoleReceiver], monkeypatch: pytest.MonkeyPatch, n: int
) -> None:
    monkeypatch.setattr(vole, "CHUNK", 100)
    sender, receiver = pair
    for _ in range(2):
        u, v, message = extend(sender, n)
        assert u.shape == v.shape == (n, 3)
        assert holds(u, v, receiver.extend(n, memoryview(message)), receiver.delta)


def test_every_ordered_pair_of_three_parties_has_its_own_vole() -> None:
    def party(link: Link) -> tuple[vole.VoleEnds, vole.Extended, int]:
        mine = vole.set_up(link, extension.set_up(link, b"three"), 128)[0]
        return mine, vole.extend(link, mine, mine.random(50)), link.traffic.rounds

    results = run_threads(3, party)
    for l, m in itertools.permutations(range(3), 2):
        ours, theirs = results[l][1], results[m][1]
        assert holds(ours.u, ours.v[m], theirs.w[l], results[m][0].receivers[l].delta, 128)
        assert not np.array_equal(ours.v[m], results[l][1].v[3 - l - m])
    assert len({mine.delta for mine, *_ in results}) == 3
    assert all(r.delta == mine.delta for mine, *_ in results for r in mine.receivers.values())
    assert {rounds for *_, rounds in results} == {4 + 2 + 1}


def test_sums_match_integers() -> None:
    leaves, w, n, position = prg.random_blocks(8), 2, 6, 10
    x = np.array([stream_numbers(leaf, position, w, n, 77) for leaf in leaves], dtype=object)
    for hole in (None, 0, 5, 7):
        plain, weighted = ggm.LeafSums(leaves, hole, position, w, 77).next(n)
        kept = [j for j in range(8) if j != hole]
        for columns, weights in ((plain, [1] * 8), (weighted, range(8))):
            expected = sum(weights[j] * x[j] for j in kept) % 2**128
            assert ring.to_ints(np.ascontiguousarray(ggm.to_words(ggm.settle(columns)).T)) == list(expected)


def test_receiver_lacks_the_leaf_that_hides_u(ends: list[extension.Ends]) -> None:
    sender, receiver = vole_pairs(ends, 128, kappa=3)[0]
    n, trees = 20, range(len(sender.digits))
    u, _, message = extend(sender, n)
    assert [int(h) for h in receiver._holes] == [receiver.delta >> 3 * i & 7 for i in trees[:-1]] + [
        int(receiver._holes[-1])
    ]
    for i in trees:
        hole = int(receiver._holes[i])
        assert not receiver.sums.leaves[i, hole].any()
        secret = sender.sums.leaves[i, hole].tobytes()
        assert secret not in receiver.sums.leaves.tobytes()
        assert secret not in message
    nonce = sender.sums.nonces[0]
    assert sender.sums.nonces == receiver.sums.nonces
    # What it gets of u in digit 0 is short of exactly the stream of its missing leaf ...
    known = [
        stream_numbers(leaf, 0, 2, n, nonce)
        for j, leaf in enumerate(receiver.sums.leaves[0])
        if j != receiver._holes[0]
    ]
    partial = [sum(column) for column in zip(*known, strict=True)]
    lowest = np.frombuffer(message[-16 * n :], np.uint64).reshape(2, n).T
    rest = [(a - b - c) % 2**128 for a, b, c in zip(ring.to_ints(u), ring.to_ints(lowest), partial, strict=True)]
    assert rest == stream_numbers(sender.sums.leaves[0, receiver._holes[0]], 0, 2, n, nonce)
    # ... and no leaf that it has makes that stream, nor do zeros.
    assert all(rest != numbers for numbers in [*known, stream_numbers(np.zeros(2, np.uint64), 0, 2, n, nonce)])


@pytest.mark.parametrize("kept", [True, False])
def test_no_part_of_a_stream_is_read_twice(
    ends: list[extension.Ends], monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    read: dict[bytes, list[tuple[int, int]]] = {}

    class Spy(prg.Streams):
        def __init__(self, keys: prg.Blocks, hole: int | None, block: int, nonce: int) -> None:
            super().__init__(keys, hole, block, nonce)
            self.keys, self.at = keys, [block] * len(keys)

        def fill(self, j: int, out: np.ndarray) -> bool:
            assert out.nbytes % 16 == 0
            start, self.at[j] = self.at[j], self.at[j] + out.nbytes // 16
            read.setdefault(self.keys[j].tobytes(), []).append((start, self.at[j]))
            return super().fill(j, out)

    sender, _ = vole_pairs(ends, 192, kappa=2)[0]
    sender.sums.keeps = kept
    monkeypatch.setattr(ggm, "Streams", Spy)
    monkeypatch.setattr(vole, "CHUNK", 16)
    for n in (1, 2, 5, 40, 7, 16, 33):
        extend(sender, n)
    assert len(read) == len(sender.digits) * 4
    for ranges in read.values():
        ranges.sort()
        assert all(end == start for (_, end), (start, _) in itertools.pairwise(ranges))  # no gap, no overlap


def test_two_calls_share_no_value(pair: tuple[vole.VoleSender, vole.VoleReceiver]) -> None:
    sender, _ = pair
    first, second = extend(sender, 501), extend(sender, 501)
    for a, b in zip(first[:2], second[:2], strict=True):
        assert len(set(ring.to_ints(a)) | set(ring.to_ints(b))) == 1002


def test_everything_looks_uniform(ends: list[extension.Ends]) -> None:
    sender, receiver = vole_pairs(ends, 192, kappa=4)[0]
    n = 20_000
    u, v, message = extend(sender, n)
    w = receiver.extend(n, memoryview(message))
    for x in (u, v, w):
        assert bytes_are_uniform(x)
        assert all(words_are_uniform(x[:, i]) for i in range(3))
    assert bytes_are_uniform(message[vole.HEADER.size :])
    # The corrections are u - u_i: what they mask is the same u each time, so compare them with each other too.
    top = np.frombuffer(message[-24 * n :], np.uint64)  # digit 0, three limbs
    assert words_are_uniform(top[:n] - u[:, 0])
    assert not words_are_uniform(top[:n] - top[:n] // np.uint64(2))  # the test can fail


def test_deltas_are_uniform_and_independent(ends: list[extension.Ends]) -> None:
    deltas = [receiver.delta for _, receiver in vole_pairs(ends, 192, count=300, kappa=5)]
    assert len(set(deltas)) == 300
    assert bytes_are_uniform(b"".join(d.to_bytes(24, "little") for d in deltas))


def test_another_delta_breaks_the_relation(pair: tuple[vole.VoleSender, vole.VoleReceiver]) -> None:
    sender, receiver = pair
    u, v, message = extend(sender, 10)
    w = receiver.extend(10, memoryview(message))
    assert not holds(u, v, w, receiver.delta ^ 1)
    assert not holds(u, v, w, receiver.delta ^ 1 << 191)


def test_a_changed_byte_of_the_message_spoils_its_own_element_only(
    pair: tuple[vole.VoleSender, vole.VoleReceiver],
) -> None:
    sender, receiver = pair
    n = 50
    u, v, message = extend(sender, n)
    digit = next(i for i in range(len(sender.digits)) if receiver._holes[i])  # a digit 0 ignores its correction
    offset = vole.HEADER.size + sum(
        vole.packed_size(n, sender.digits.width(i)) for i in range(digit + 1, len(sender.digits))
    )
    spoilt = bytearray(message)
    spoilt[offset + 8 * 7] ^= 1  # the lowest limb of element 7
    wrong = (receiver.extend(n, memoryview(spoilt)) != ring.add(ring.scale(u, receiver.delta), v)).any(axis=1)
    assert np.flatnonzero(wrong).tolist() == [7]


def test_receiver_refuses_a_message_from_elsewhere(pair: tuple[vole.VoleSender, vole.VoleReceiver]) -> None:
    sender, receiver = pair
    first, second = extend(sender, 4)[2], extend(sender, 4)[2]
    with pytest.raises(ProtocolError, match="from 4 on, 4 of them"):
        receiver.extend(4, memoryview(second))
    with pytest.raises(ProtocolError, match="from 0 on, 4 of them"):
        receiver.extend(4, memoryview(first))  # the refused range is burnt: the receiver has moved on
    with pytest.raises(ProtocolError, match="a VOLE message of 3 bytes"):
        receiver.extend(4, memoryview(b"abc"))


def test_kept_streams_go_on_where_the_ends_are_and_are_dropped(pair: tuple[vole.VoleSender, vole.VoleReceiver]) -> None:
    sender, receiver = pair
    both = vole.VoleEnds({1: sender}, {1: receiver})
    both.keep()
    for n in (6, 5):
        u, v, message = extend(sender, n)
        assert holds(u, v, receiver.extend(n, memoryview(message)), receiver.delta)
    _, _, message = extend(sender, 4)
    with pytest.raises(ProtocolError, match="a VOLE message"):
        receiver.extend(4, memoryview(message)[:-1])
    u, v, message = extend(sender, 4)  # the refused ones are burnt at both ends
    assert holds(u, v, receiver.extend(4, memoryview(message)), receiver.delta)
    assert sender.sums._kept
    both.drop()
    assert not sender.sums._kept
    assert not receiver.sums._kept


@pytest.mark.parametrize("kappa", [0, 9])
def test_digits_that_are_too_wide_are_refused(ends: list[extension.Ends], kappa: int) -> None:
    with pytest.raises(ValueError, match="wanted 1 to 8"):
        vole_pairs(ends, 128, kappa=kappa)


def test_a_message_for_ten_thousand_elements_is_below_six_megabytes() -> None:
    assert vole.Digits(160, vole.KAPPA).message_size(10**4) < 4_300_000
    assert vole.Digits(128, vole.KAPPA).message_size(10**4) < 2_800_000
