"""Stocks of MP-SPDZ's material: offered while nobody has claimed them, claimed at most once, left alone when in use.

Kills at any step: tests/properties/test_stock_claim_kills.py, for both kinds of stocks.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from pdml_spdz.engines.mp_spdz import directory
from pdml_spdz.engines.mp_spdz import preprocessing as stocks_of
from pdml_spdz.engines.mp_spdz.preprocessing import ITEMS, Preprocessed, Preprocessing, facts
from pdml_spdz.errors import PdmlError, StockError
from pdml_spdz.offline import claim as claims
from pdml_spdz.offline.ledger import Ledger
from pdml_spdz.offline.new_stock import Wanted, new_stock
from pdml_spdz.offline.stock import MANIFEST, StockPart, look, parts
from pdml_spdz.offline.stock import directory as part_of
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.certs import Identity
from tests.mp_spdz_stocks import COMPILED, PARTS, contents, material, write_parts
from tests.threads import run_threads

KIND = Preprocessed.of(COMPILED, 2, "semi")


def root(path: Path, m: int) -> Path:
    return path / f"P{m}"


def make(path: Path, count: int = 1) -> list[str]:
    """Stocks of two parties, each with its own root; their ids, in the order in which they are taken."""

    def party(link: Link) -> list[str]:
        made = []
        for _ in range(count):
            with new_stock(link, Preprocessing, root(path, link.me), Wanted(KIND, 0, ITEMS)) as new:
                write_parts(new)
            made.append(new.id)
        return sorted(made)

    first, second = run_threads(2, party)
    assert second == first
    return first


@contextmanager
def run_directory(at: Path, m: int) -> Iterator[directory.RunDirectory]:
    run = directory.create(COMPILED, Identity(m, Path("/none"), {}), [], parent=at)
    try:
        yield run
    finally:
        run.remove()


def claim(link: Link, at: Path, run: bytes = b"run") -> str:
    """One run's way to a stock: the material is all there, in a directory of its own. Returns the stock's id."""
    stocks = stocks_of.fitting(link, at, KIND, run)
    with run_directory(at, link.me) as own:
        stock = stocks_of.take(link, stocks, run, own.data).stock
        found = {path.parent.name: path.read_bytes() for path in own.data.glob("*/Triples")}
        assert found == {part: material(stock, part) for part in PARTS}
    return stock


def listed(at: Path) -> list[StockPart[Preprocessing]]:
    return look(Preprocessing, at)


def unused(at: Path) -> list[str]:
    return [part.name for part in listed(at) if not part.claims]


# Making


def test_stock_is_private_and_says_what_it_is_for(tmp_path: Path) -> None:
    (stock,) = make(tmp_path)
    for m in range(2):
        (found,) = map(facts, listed(root(tmp_path, m)))
        assert found.pop("created").startswith("20")
        assert found == {
            "id": stock,
            "party": m,
            "parties": 2,
            "protocol": "semi",
            "program": "normed_sum",
            "bytecode": "digest",
            "domain": "a field",
            "counts": {"triples": 1, "bits": 2, "inputs": [3, 3], "rounds": 4},
            "bytes": sum(len(material(stock, part)) for part in PARTS),
            "problem": "",
            "claims": [],
        }
        path = part_of(root(tmp_path, m), stock, m)
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        assert stat.S_IMODE((path / MANIFEST).stat().st_mode) == 0o600


def test_no_party_keeps_a_stock_that_another_could_not_make(tmp_path: Path) -> None:
    def party(link: Link) -> None:
        with new_stock(link, Preprocessing, root(tmp_path, link.me), Wanted(KIND, 0, ITEMS)) as new:
            write_parts(new)
            if link.me == 1:
                raise StockError("a full disk")

    with pytest.raises(StockError, match="a full disk"):
        run_threads(2, party)
    for m in range(2):
        assert listed(root(tmp_path, m)) == []
        assert not list(root(tmp_path, m).rglob("*party*"))


@pytest.mark.parametrize(
    ("damage", "phrase"),
    [
        ("flip", "Player-Data/2-DB-128/Triples is damaged: its digest is not"),
        ("cut", "Player-Data/2-DB-128/Triples has 24 bytes"),
        ("lose", "Player-Data/2-DB-128/Triples is missing"),
        ("add", "Player-Data/2-DB-128/Bits is not one of its files"),
    ],
)
def test_damaged_material_is_never_used(tmp_path: Path, damage: str, phrase: str) -> None:
    """Nor a stock's of a protocol without MACs: nothing else would notice."""
    (stock,) = make(tmp_path)
    path = part_of(root(tmp_path, 1), stock, 1) / "Player-Data" / "2-DB-128" / "Triples"
    content = bytearray(path.read_bytes())
    if damage == "flip":
        content[3] ^= 1
        path.write_bytes(content)
    elif damage == "cut":
        path.write_bytes(content[:-1])
    elif damage == "lose":
        path.unlink()
    else:
        path.with_name("Bits").touch()

    def party(link: Link) -> str:
        with pytest.raises(PdmlError) as caught:
            claim(link, root(tmp_path, link.me))
        if link.me == 1:
            link.abort(caught.value)
        return str(caught.value)

    other, own = run_threads(2, party)
    assert phrase in own
    assert "P1 ended the run: its offline stock is missing, spent" in other


def test_two_parties_of_one_machine_may_share_a_root(tmp_path: Path) -> None:
    def party(link: Link) -> str:
        with new_stock(link, Preprocessing, tmp_path, Wanted(KIND, 0, ITEMS)) as new:
            write_parts(new)
        assert claim(link, tmp_path) == new.id
        return new.id

    stock, _ = run_threads(2, party)
    assert [(part.name, part.party, len(part.claims)) for part in listed(tmp_path)] == [(stock, 0, 1), (stock, 1, 1)]
    assert contents([tmp_path]) == set()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda part: (part / MANIFEST).write_text("{"), "its manifest.json cannot be used"),
        (lambda part: edit(part, format=6), "it has format 6"),
        (lambda part: (part / MANIFEST).write_text('{"id": "0"}'), "it has format 0, of before all stocks had one"),
        (lambda part: edit(part, items=[1, 1]), "it is not the material of one execution"),
        (lambda part: shutil.rmtree(part / directory.DATA), "Player-Data is missing, and the ledger has no claim"),
        (lambda part: (part / "ledger.jsonl").unlink(), "ledger.jsonl cannot be read"),
    ],
)
def test_damaged_stock_is_an_error_that_status_shows(tmp_path: Path, damage: object, message: str) -> None:
    (stock,) = make(tmp_path)
    damage(part_of(root(tmp_path, 0), stock, 0))  # type: ignore[operator]
    with pytest.raises(StockError, match=message) as caught:
        run_threads(2, lambda link: claim(link, root(tmp_path, link.me)))
    assert not caught.value.common
    (part,) = listed(root(tmp_path, 0))
    assert message in part.problem
    assert facts(part)["problem"] == part.problem


def edit(part: Path, **values: object) -> None:
    (part / MANIFEST).write_text(json.dumps(json.loads((part / MANIFEST).read_text()) | values))


# Claiming


def test_each_stock_is_claimed_once_and_the_last_run_finds_none(tmp_path: Path) -> None:
    made = make(tmp_path, count=3)
    claimed = [run_threads(2, lambda link, i=i: claim(link, root(tmp_path, link.me), bytes([i]))) for i in range(3)]
    assert claimed == [[stock] * 2 for stock in made]
    for m in range(2):
        claims = {part.name: part.claims for part in listed(root(tmp_path, m))}
        assert [[line.run for line in claims[stock]] for stock in made] == [["00"], ["01"], ["02"]]
        assert contents([root(tmp_path, m)]) == set()

    def none_left(link: Link) -> None:
        with pytest.raises(StockError, match=r"no unused stock(.|\n)*offline make") as caught:
            claim(link, root(tmp_path, link.me), b"last")
        assert caught.value.common

    run_threads(2, none_left)


def test_only_a_stock_that_all_parties_have_is_taken(tmp_path: Path) -> None:
    first, second = make(tmp_path, count=2)
    shutil.rmtree(part_of(root(tmp_path, 1), first, 1))
    assert run_threads(2, lambda link: claim(link, root(tmp_path, link.me))) == [second] * 2


def test_party_that_claims_another_stock_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, count=2)
    agree = claims._agree
    monkeypatch.setattr(
        claims, "_agree", lambda offers, stocks, plan: agree(offers, stocks[stocks[0].manifest.party :], plan)
    )
    with pytest.raises(StockError, match="claimed another part of stock"):
        run_threads(2, lambda link: claim(link, root(tmp_path, link.me)))
    monkeypatch.undo()
    for m in range(2):
        (left,) = unused(root(tmp_path, m))
        assert contents([root(tmp_path, m)]) == {material(left, part) for part in PARTS}
    # Each party has one that the other has burnt: neither is used by anyone.
    with pytest.raises(StockError, match="no unused stock"):
        run_threads(2, lambda link: claim(link, root(tmp_path, link.me)))


def test_what_another_party_has_claimed_is_burnt_and_removed(tmp_path: Path) -> None:
    _, second = make(tmp_path, count=2)
    (stock, _) = Preprocessing.find(root(tmp_path, 1), KIND, 1)
    held = Ledger.lock(stock.ledger_path, stock.manifest.heading)
    assert held is not None
    held.append(claims._line(b"killed", (0, 0), (0,)))
    held.close()
    assert run_threads(2, lambda link: claim(link, root(tmp_path, link.me))) == [second] * 2
    assert contents([tmp_path]) == set()
    assert unused(root(tmp_path, 0)) == []


@pytest.mark.parametrize("_", range(3))
def test_of_runs_that_claim_at_once_one_gets_it(tmp_path: Path, _: int) -> None:
    """Four runs of two parties, all of whom have found the same stock."""
    make(tmp_path)
    together = threading.Barrier(8)
    got: dict[tuple[int, int], str] = {}

    def run(i: int) -> None:
        def party(link: Link) -> None:
            at = root(tmp_path, link.me)
            stocks = stocks_of.fitting(link, at, KIND, bytes([i]))
            with run_directory(at, link.me) as own:
                together.wait()
                got[i, link.me] = stocks_of.take(link, stocks, bytes([i]), own.data).stock

        with suppress(PdmlError):
            run_threads(2, party)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({i for i, _ in got}) == 1
    assert len(got) == 2
    for m in range(2):
        (part,) = listed(root(tmp_path, m))
        assert [line.run for line in part.claims] == [bytes([i]).hex() for i, _ in got][:1]
    assert contents([tmp_path]) == set()


@pytest.mark.parametrize("listing", ["before", "after"])
def test_stock_that_is_claimed_while_it_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listing: str
) -> None:
    """Another run moves the files away between the reading of the ledger, their names and their sizes."""
    make(tmp_path)
    walk, claimed = os.walk, threading.Event()

    def interrupted(top: Path) -> Iterator[tuple[str, list[str], list[str]]]:
        names = list(walk(top)) if listing == "before" else None
        if not claimed.is_set():
            claimed.set()
            run_threads(2, lambda link: claim(link, root(tmp_path, link.me)))
        yield from names if names is not None else walk(top)

    monkeypatch.setattr(os, "walk", interrupted)
    (part,) = map(Preprocessing, parts(root(tmp_path, 0), 0))
    assert [line.run for line in part.state().claims] == [b"run".hex()]
    assert claimed.is_set()


def test_more_stocks_than_a_process_may_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "LOCKED", 2)
    made = make(tmp_path, count=4)
    assert [run_threads(2, lambda link: claim(link, root(tmp_path, link.me)))[0] for _ in made] == made


def test_directory_of_a_run_that_lives_is_left_alone(tmp_path: Path) -> None:
    """Another run of the same party, or `offline status`, looks at the stocks in between."""
    made = make(tmp_path, count=2)

    def party(link: Link) -> None:
        at = root(tmp_path, link.me)
        with run_directory(at, link.me) as own:
            stocks_of.take(link, stocks_of.fitting(link, at, KIND, b"run"), b"run", own.data)
            stocks_of.fitting(link, at, KIND, b"other")
            assert unused(at) == made[1:]
            assert len(contents([own.data])) == len(PARTS)
            own.lock.close()  # as the kernel does it for a process that ended
            before = tree(at)
            listed(at)
            assert tree(at) == before  # to look changes nothing, whatever there is to clear away
            stocks_of.fitting(link, at, KIND, b"other")
            assert not own.path.exists()

    run_threads(2, party)


def test_to_look_where_nothing_is_makes_nothing(tmp_path: Path) -> None:
    (tmp_path / "stock-0" / ".party-0.new").mkdir(parents=True)
    before = tree(tmp_path)
    assert listed(tmp_path) == []
    assert listed(tmp_path / "nowhere") == []
    assert tree(tmp_path) == before


def tree(at: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in at.rglob("*")}
