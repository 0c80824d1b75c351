"""Beaver triples in a wide ring."""

from __future__ import annotations

import numpy as np
import pytest

from pdml_spdz.errors import ProtocolError
from pdml_spdz.numerics import ring
from pdml_spdz.ot import extension, prg, triples
from pdml_spdz.transport.base import Link
from tests.ot.ot_pairs import bytes_are_uniform, ot_ends, ot_pair
from tests.threads import run_threads


@pytest.fixture(scope="module")
def ends() -> list[extension.Ends]:
    return ot_ends()


def made(ends: list[extension.Ends], n: int, bits: int = triples.BITS) -> list[triples.Triples]:
    return run_threads(len(ends), lambda link: triples.make(link, ends[link.me], n, bits))


def opened(shares: list[triples.Triples]) -> list[tuple[int, int, int]]:
    bits = shares[0].bits
    a, b, c = ([sum(column) % 2**bits for column in zip(*(getattr(s, f) for s in shares), strict=True)] for f in "abc")
    return list(zip(a, b, c, strict=True))


@pytest.mark.parametrize("bits", [64, 128, 192, 512, 640])
def test_c_is_a_times_b_for_two_parties(ends: list[extension.Ends], bits: int) -> None:
    shares = made(ends, 20, bits)
    assert all((a * b - c) % 2**bits == 0 for a, b, c in opened(shares))
    assert all(0 <= x < 2**bits for s in shares for x in [*s.a, *s.b, *s.c])
    assert len(shares[0]) == 20


def test_c_is_a_times_b_for_three_parties_in_two_rounds() -> None:
    def party(link: Link) -> tuple[triples.Triples, int]:
        ots = extension.set_up(link, b"three")
        before = link.traffic.rounds
        return triples.make(link, ots, 30), link.traffic.rounds - before

    results = run_threads(3, party)
    assert {rounds for _, rounds in results} == {2}
    assert all((a * b - c) % 2**512 == 0 for a, b, c in opened([shares for shares, _ in results]))


def test_batches_make_the_number_that_was_asked_for(
    ends: list[extension.Ends], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(triples, "BATCH", 4)
    values = opened(made(ends, 10, 64))
    assert len(values) == 10
    assert all((a * b - c) % 2**64 == 0 for a, b, c in values)
    assert opened(made(ends, 0, 64)) == []


def test_no_triple_comes_twice(ends: list[extension.Ends]) -> None:
    values = [x for _ in range(2) for triple in opened(made(ends, 15)) for x in triple]
    assert len(set(values)) == 90


def test_shares_look_uniform(ends: list[extension.Ends]) -> None:
    for s in made(ends, 400):
        for x in (s.a, s.b, s.c):
            assert bytes_are_uniform(ring.from_ints(x, 512))


def test_the_message_hides_a(ends: list[extension.Ends]) -> None:
    sender, receiver = ot_pair(ends)
    n, choices = 8, np.zeros(8 * 512, np.bool_)
    keys, request = receiver.extend(choices)
    pairs = sender.extend(n * 512, memoryview(request))
    a = ring.from_ints([1] * n, 512)
    _, message = triples._send(sender.hashing, pairs, a)
    assert bytes_are_uniform(message)
    # Negative control: whoever had both keys of a pair would read a.
    e0, e1 = (triples._pad(sender.hashing, pairs[:n, side], 512) for side in (0, 1))
    t = ring.from_bytes(message[: n * 64], 512)
    assert ring.to_ints(ring.add(ring.sub(t, e0), e1)) == [1] * n
    assert np.array_equal(keys, pairs[:, 0])


def test_shares_of_all_but_one_party_do_not_multiply() -> None:
    shares = made(ot_ends(3), 5, 128)[:2]
    assert not any((a * b - c) % 2**128 == 0 for a, b, c in opened(shares))


def test_a_ring_of_part_limbs_is_refused(ends: list[extension.Ends]) -> None:
    with pytest.raises(ValueError, match="wanted a multiple of 64"):
        made(ends, 1, 100)


def test_a_message_of_another_length_is_refused() -> None:
    with pytest.raises(ProtocolError, match="a message for 1 triples has 3 bytes"):
        triples._receive(prg.BlockHash(b""), prg.random_blocks(64), np.zeros(64, np.bool_), 1, memoryview(b"abc"))
