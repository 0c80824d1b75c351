"""Proofs that one scalar made several points: complete, and for nothing else."""

from __future__ import annotations

import pytest

from pdml_spdz.ot import group
from pdml_spdz.primitives import proof

ONE = group.base_times(group.scalar(1))
CONTEXT = b"what all have heard, step, party 1"


def statement(x: bytes, n: int) -> list[proof.Pair]:
    bases = [ONE, *(group.base_times(group.random_scalar()) for _ in range(n))]
    return [(A, group.times(x, A)) for A in bases]


@pytest.mark.parametrize("n", [0, 1, 5])
def test_proof_holds_for_its_statement_and_for_no_other(n: int) -> None:
    x, other = group.random_scalar(), group.random_scalar()
    pairs = statement(x, n)
    made = proof.prove(x, pairs, CONTEXT)
    assert len(made) == proof.SIZE
    assert proof.holds(made, pairs, CONTEXT)
    assert not proof.holds(made, pairs, CONTEXT.replace(b"1", b"2"))
    for i in range(n + 1):
        wrong = [*pairs]
        wrong[i] = wrong[i][0], group.times(other, wrong[i][0])
        assert not proof.holds(made, wrong, CONTEXT)
        assert not proof.holds(proof.prove(x, wrong, CONTEXT), wrong, CONTEXT)
        assert n == 0 or not proof.holds(proof.prove(other, wrong, CONTEXT), wrong, CONTEXT)
    for i in (0, group.SIZE - 1, group.SIZE, proof.SIZE - 1):
        bent = bytearray(made)
        bent[i] ^= 1
        assert not proof.holds(bytes(bent), pairs, CONTEXT)


@pytest.mark.parametrize("made", [b"", bytes(proof.SIZE), b"\xff" * proof.SIZE, bytes(proof.SIZE + 1)])
def test_numbers_that_are_no_scalars_are_no_proof(made: bytes) -> None:
    assert not proof.holds(made, statement(group.random_scalar(), 1), CONTEXT)


def test_two_proofs_of_one_statement_have_nothing_in_common() -> None:
    x = group.random_scalar()
    pairs = statement(x, 1)
    first, second = (proof.prove(x, pairs, CONTEXT) for _ in range(2))
    assert first[: group.SIZE] != second[: group.SIZE]
    assert first[group.SIZE :] != second[group.SIZE :]
