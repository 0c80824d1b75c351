"""Whether a shared integer is one of a few: right, and nothing else shows."""

from __future__ import annotations

import secrets

import pytest

from pdml_spdz.ot.group import ORDER
from pdml_spdz.primitives.zero_test import is_one_of
from pdml_spdz.transport.inprocess import between_threads, mesh
from tests.embedded.helpers import Wire


def asked(shares: list[int], values: range, wire: Wire | None = None) -> bool:
    links = mesh(len(shares))
    answers = between_threads(
        len(shares), lambda link: is_one_of(link, shares[link.me], values), wire.tap(links) if wire else links
    )
    assert len(set(answers)) == 1
    return answers[0]


@pytest.mark.parametrize("M", [2, 3])
@pytest.mark.parametrize(
    ("x", "result"), [(0, True), (2, True), (3, False), (-1, False), (2**60, False), (-(2**200), False)]
)
def test_answer_is_right_for_shares_of_any_size(M: int, x: int, result: bool) -> None:
    shares = [secrets.randbits(300) - 2**299 for _ in range(M - 1)]
    assert asked([*shares, x - sum(shares)], range(3)) == result


def test_order_of_the_group() -> None:
    assert asked([ORDER - 1, 1], range(1))  # the identity: a multiple of the order is zero


def test_traffic_does_not_depend_on_the_number() -> None:
    wires = [Wire(), Wire()]
    for x, wire in zip((1, 12345), wires, strict=True):
        asked([x, 0], range(3), wire)
    one, other = ([(s, len(data)) for s, data in wire.frames[0, 1]] for wire in wires)
    assert one == other
