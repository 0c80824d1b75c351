"""The ledger of a stock: what was written stays written, what was torn never counts, what was edited is noticed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pdml_spdz.errors import StockError
from pdml_spdz.offline import ledger
from pdml_spdz.offline.ledger import Claim, Heading, Ledger, Position

HEADING = Heading("0123456789abcdef", 0, 100, 10)
FIRST = Claim("aa", "2026-01-01T00:00:00+00:00", (0, 10), (3,))
SECOND = Claim("bb", "2026-01-02T00:00:00+00:00", (12, 20), (0, 1), (7,))
THIRD = Claim("cc", "2026-01-03T00:00:00+00:00", (20, 20), (9,))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger with two claims."""
    path = tmp_path / ledger.FILE
    ledger.create(path, HEADING)
    append(path, FIRST)
    append(path, SECOND)
    return path


def append(path: Path, claim: Claim) -> None:
    held = Ledger.lock(path, HEADING)
    assert held is not None
    try:
        held.append(claim)
    finally:
        held.close()


def test_claims_come_back_as_they_were_written(path: Path) -> None:
    state = ledger.read(path, HEADING)
    assert state.claims == (FIRST, SECOND)
    assert state.position == Position(20, frozenset({0, 1, 3, 7}))
    assert [json.loads(line)["run"] for line in path.read_text().splitlines()[1:]] == ["aa", "bb"]


def test_several_claims_under_one_lock(path: Path) -> None:
    held = Ledger.lock(path, HEADING)
    assert held is not None
    held.append(THIRD)
    held.append(Claim("dd", "t", (20, 30), ()))
    held.close()
    assert ledger.read(path, HEADING).position == Position(30, frozenset({0, 1, 3, 7, 9}))


def test_a_last_line_torn_at_any_byte_is_not_a_claim_and_does_no_harm(path: Path) -> None:
    before = path.read_bytes()
    append(path, THIRD)
    line = path.read_bytes()[len(before) :]
    for kept in range(len(line)):
        path.write_bytes(before + line[:kept])
        whole = kept == len(line) - 1  # all but the newline: it counts, to be on the safe side
        assert ledger.read(path, HEADING).claims == ((FIRST, SECOND, THIRD) if whole else (FIRST, SECOND))
        append(path, Claim("dd", "t", (20, 30), ()))
        state = ledger.read(path, HEADING)
        assert state.claims[-1].run == "dd"
        assert len(state.claims) == 3 + whole


def test_zeros_at_the_end_are_a_torn_line(path: Path) -> None:
    """Some file systems lengthen a file before they write what is in it."""
    path.write_bytes(path.read_bytes() + bytes(100))
    assert ledger.read(path, HEADING).claims == (FIRST, SECOND)
    append(path, THIRD)
    assert ledger.read(path, HEADING).claims == (FIRST, SECOND, THIRD)


def test_any_single_edit_of_a_whole_line_is_noticed(path: Path) -> None:
    raw = path.read_bytes()
    for at in range(len(raw) - 1):  # without the last newline, whose loss is a torn line
        path.write_bytes(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :])
        with pytest.raises(StockError, match=r"line \d of "):
            ledger.read(path, HEADING)


def test_a_line_taken_out_or_doubled_is_noticed(path: Path) -> None:
    heading, first, second = path.read_bytes().splitlines(keepends=True)
    for lines in ([heading, second], [first, second], [heading, first, first], [heading, second, first], [second]):
        path.write_bytes(b"".join(lines))
        with pytest.raises(StockError, match="not what this stock's ledger can have"):
            ledger.read(path, HEADING)


@pytest.mark.parametrize(
    ("claim", "why"),
    [
        (Claim("x", "t", (19, 25), ()), "after 20 were used"),
        (Claim("x", "t", (25, 24), ()), "records 25 to 24"),
        (Claim("x", "t", (90, 101), ()), "of 100"),
        (Claim("x", "t", (20, 20), (3,)), "claimed twice"),
        (Claim("x", "t", (20, 20), (4, 4)), "claimed twice"),
        (Claim("x", "t", (20, 20), (4,), (4,)), "claimed twice"),
        (Claim("x", "t", (20, 20), (10,)), "not among the stock's 10"),
        (Claim("x", "t", (20, 20), (-1,)), "not among the stock's 10"),
    ],
)
def test_claims_that_cannot_be_are_neither_written_nor_read(path: Path, claim: Claim, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        append(path, claim)
    state = ledger.read(path, HEADING)
    assert state.claims == (FIRST, SECOND)
    line, _ = ledger._line(vars(claim), state.check)  # by someone who knows how the check is made
    path.write_bytes(path.read_bytes() + line)
    with pytest.raises(StockError, match=why):
        ledger.read(path, HEADING)


@pytest.mark.parametrize(
    "other",
    [Heading("00", 0, 100, 10), Heading("0123456789abcdef", 1, 100, 10), Heading("0123456789abcdef", 0, 101, 10)],
)
def test_another_stocks_ledger_is_refused(path: Path, other: Heading) -> None:
    with pytest.raises(StockError, match=r"line 1 of .*another stock or party than the manifest's"):
        ledger.read(path, other)


def test_a_ledger_that_cannot_be_read_is_an_error(path: Path) -> None:
    path.unlink()
    for opening in (ledger.read, Ledger.lock):
        with pytest.raises(StockError, match=r"cannot be read .*No such file"):
            opening(path, HEADING)
    path.mkdir()
    for opening in (ledger.read, Ledger.lock):
        with pytest.raises(StockError, match=r"cannot be read .*Is a directory"):
            opening(path, HEADING)


def test_a_locked_ledger_is_nobody_elses(path: Path) -> None:
    held = Ledger.lock(path, HEADING)
    assert held is not None
    assert Ledger.lock(path, HEADING) is None
    held.close()
    again = Ledger.lock(path, HEADING)
    assert again is not None
    again.close()


def test_a_damaged_ledger_is_not_left_locked(path: Path) -> None:
    raw = path.read_bytes()
    path.write_bytes(b"x" + raw)
    with pytest.raises(StockError):
        Ledger.lock(path, HEADING)
    path.write_bytes(raw)
    append(path, THIRD)


def test_a_ledger_replaced_under_the_lock_is_noticed(path: Path) -> None:
    held = Ledger.lock(path, HEADING)
    assert held is not None
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    copy.replace(path)  # as an editor does when it saves
    with pytest.raises(StockError, match="the file was replaced meanwhile"):
        held.append(THIRD)
    held.close()
