"""Stocks of MP-SPDZ's material: offered while nobody has claimed them, claimed at most once, left alone when in use."""

from __future__ import annotations

import json
import shutil
import stat
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pdml_spdz.engines.mp_spdz import directory, pool
from pdml_spdz.engines.mp_spdz.compiler import Compiled, Counts
from pdml_spdz.engines.mp_spdz.pool import Pool, list_stocks
from pdml_spdz.errors import PdmlError, StockError
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.inprocess import mesh
from tests.threads import run_threads

COMPILED = Compiled("normed_sum", Path("/none"), "a field", "digest", Counts(1, 2, (3, 3), 4))
PARTS = ("2-Dp-256", "2-DB-128", "2-D2-40")


def root(path: Path, m: int) -> Path:
    return path / f"P{m}"


def material(stock: str, m: int, part: str) -> bytes:
    return f"{stock} {m} {part}".encode()


def make(path: Path, M: int = 2, count: int = 1) -> list[str]:
    """Stocks of M parties, each with its own root; their ids, in the order in which they are taken."""

    def party(link: Link) -> list[str]:
        made = []
        for _ in range(count):
            with Pool(root(path, link.me), link.me).adding(link, COMPILED, "semi") as (stock, data):
                for part in PARTS:
                    (data / part).mkdir()
                    (data / part / "Triples").write_bytes(material(stock, link.me, part))
            made.append(stock)
        return sorted(made)

    first, *others = run_threads(M, party)
    assert all(other == first for other in others)
    return first


def run_directory(at: Path) -> Path:
    """Where a run takes a stock to: looks like what `directory.create` makes, without pipes, which cannot be copied."""
    (at / "Programs").mkdir(parents=True)
    (at / directory.LOCK).touch()
    (at / directory.DATA).mkdir()
    return at / directory.DATA


def claim(link: Link, at: Path, name: str = "run") -> str:
    """One run's way to a stock: agree, claim; the material is all there. Returns its id."""
    own = Pool(at, link.me)
    stock = own.agree(link, "semi", COMPILED.digest)
    into = run_directory(own.folder / f"{directory.PREFIX}{name}-{link.me}")
    own.claim(link, stock, b"run", into)
    found = {part.name: (part / "Triples").read_bytes() for part in into.iterdir()}
    assert found == {part: material(stock, link.me, part) for part in PARTS}
    return stock


def ledger(at: Path) -> list[dict[str, Any]]:
    path = at / pool.FOLDER / pool.LEDGER
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def contents(at: Path) -> set[bytes]:
    return {path.read_bytes() for path in at.rglob("Triples")}


# Making


def test_stock_is_private_and_says_what_it_is_for(tmp_path: Path) -> None:
    (stock,) = make(tmp_path)
    for m in range(2):
        (found,) = Pool(root(tmp_path, m), m).stocks()
        assert (found.id, found.party, found.parties, found.protocol) == (stock, m, 2, "semi")
        assert (found.program, found.bytecode, found.domain) == ("normed_sum", "digest", "a field")
        assert found.counts == {"triples": 1, "bits": 2, "inputs": [3, 3], "rounds": 4}
        assert found.bytes == sum(len(material(stock, m, part)) for part in PARTS)
        path = Pool(root(tmp_path, m), m).path(stock)
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        assert stat.S_IMODE((path / pool.MANIFEST).stat().st_mode) == 0o600
    assert [s.party for s in list_stocks(root(tmp_path, 1))] == [1]


def test_no_party_keeps_a_stock_that_another_could_not_make(tmp_path: Path) -> None:
    def party(link: Link) -> None:
        with Pool(root(tmp_path, link.me), link.me).adding(link, COMPILED, "semi"):
            if link.me == 1:
                raise StockError("a full disk")

    with pytest.raises(StockError, match="a full disk"):
        run_threads(2, party)
    for m in range(2):
        assert Pool(root(tmp_path, m), m).stocks() == []
        assert not list(root(tmp_path, m).rglob("*party*"))


def test_two_parties_of_one_machine_may_share_a_root(tmp_path: Path) -> None:
    def party(link: Link) -> str:
        with Pool(tmp_path, link.me).adding(link, COMPILED, "semi") as (stock, data):
            for part in PARTS:
                (data / part).mkdir()
                (data / part / "Triples").write_bytes(material(stock, link.me, part))
        assert claim(link, tmp_path) == stock
        return stock

    stock, _ = run_threads(2, party)
    assert list_stocks(tmp_path) == []
    assert sorted(line["party"] for line in ledger(tmp_path) if line["stock"] == stock) == [0, 1]


def test_stock_without_a_manifest_is_an_error(tmp_path: Path) -> None:
    (stock,) = make(tmp_path)
    (Pool(root(tmp_path, 0), 0).path(stock) / pool.MANIFEST).write_text("{")
    with pytest.raises(StockError, match="no manifest that can be read"):
        Pool(root(tmp_path, 0), 0).stocks()


# Claiming


def test_each_stock_is_claimed_once_and_the_last_run_finds_none(tmp_path: Path) -> None:
    made = make(tmp_path, count=3)
    claimed = [run_threads(2, lambda link, i=i: claim(link, root(tmp_path, link.me), f"{i}")) for i in range(3)]
    assert claimed == [[stock] * 2 for stock in made]
    for m in range(2):
        lines = ledger(root(tmp_path, m))
        assert [line["stock"] for line in lines] == made
        assert all(line["party"] == m and line["run"] == b"run".hex() for line in lines)
        assert Pool(root(tmp_path, m), m).stocks() == []

    def none_left(link: Link) -> None:
        with pytest.raises(StockError, match=r"no unused stock(.|\n)*offline make") as caught:
            claim(link, root(tmp_path, link.me), "last")
        assert caught.value.common

    run_threads(2, none_left)


def test_only_a_stock_that_all_parties_have_is_taken(tmp_path: Path) -> None:
    first, second = make(tmp_path, count=2)
    shutil.rmtree(Pool(root(tmp_path, 1), 1).path(first))
    assert run_threads(2, lambda link: claim(link, root(tmp_path, link.me))) == [second] * 2


def test_party_that_claims_another_stock_is_noticed(tmp_path: Path) -> None:
    first, second = make(tmp_path, count=2)

    def party(link: Link) -> None:
        own = Pool(root(tmp_path, link.me), link.me)
        own.claim(link, second if link.me else first, b"run", run_directory(tmp_path / f"run-{link.me}"))

    with pytest.raises(StockError, match="claimed another stock"):
        run_threads(2, party)
    assert not contents(tmp_path / "run-0")  # nothing of either stays
    assert not contents(tmp_path / "run-1")


@pytest.mark.parametrize("_", range(5))
def test_of_runs_that_claim_at_once_one_gets_it(tmp_path: Path, _: int) -> None:
    """Four runs of two parties, all of whom have agreed on the same stock."""
    (stock,) = make(tmp_path)
    together = threading.Barrier(8)
    got: dict[tuple[int, int], bool] = {}

    def run(i: int) -> None:
        def party(link: Link) -> None:
            own = Pool(root(tmp_path, link.me), link.me)
            agreed = own.agree(link, "semi", COMPILED.digest)
            into = run_directory(tmp_path / f"run-{i}-{link.me}")
            together.wait()
            own.claim(link, agreed, bytes([i]), into)
            got[i, link.me] = True

        with suppress(PdmlError):
            run_threads(2, party)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for m in range(2):
        assert [line["stock"] for line in ledger(root(tmp_path, m))] == [stock]
        assert sum((i, m) in got for i in range(4)) <= 1
        assert Pool(root(tmp_path, m), m).stocks() == []
        assert not list(root(tmp_path, m).rglob("Triples"))
    # Runs with one party each claimed by another run end both; the stock is burnt all the same.
    assert {i for i, _ in got} in (set(), *({i} for i in range(4)))


def test_run_that_comes_too_late_is_told(tmp_path: Path) -> None:
    (stock,) = make(tmp_path)
    run_threads(2, lambda link: claim(link, root(tmp_path, link.me)))

    def late(link: Link) -> None:
        own = Pool(root(tmp_path, link.me), link.me)
        own.claim(link, stock, b"late", run_directory(tmp_path / f"late-{link.me}"))

    with pytest.raises(StockError, match=f"stock {stock} is gone: another run has claimed it"):
        run_threads(2, late)
    assert len(ledger(root(tmp_path, 0))) == 1


def test_directory_of_a_run_that_lives_is_left_alone(tmp_path: Path) -> None:
    """Another run of the same party, or `offline status`, looks at the stocks in between."""
    make(tmp_path, count=2)
    link = mesh(1)[0]
    own = Pool(root(tmp_path, 0), 0)
    into = run_directory(own.folder / f"{directory.PREFIX}live")
    with (into.parent / directory.LOCK).open("r+") as lock:
        directory.fcntl.flock(lock, directory.fcntl.LOCK_EX)
        own.claim(link, own.stocks()[0].id, b"run", into)
        assert len(own.stocks()) == len(list_stocks(own.root)) == 1
        assert len(contents(into)) == len(PARTS)
    before = tree(own.root)
    list_stocks(own.root)
    assert tree(own.root) == before  # to look changes nothing, whatever there is to clear away
    own.stocks()
    assert not into.exists()


def test_to_look_where_nothing_is_makes_nothing(tmp_path: Path) -> None:
    (tmp_path / pool.FOLDER / "stock-0" / "party-0").mkdir(parents=True)  # as a killed claim leaves it
    shutil.rmtree(tmp_path / pool.FOLDER / "stock-0" / "party-0")
    before = tree(tmp_path)
    assert list_stocks(tmp_path) == []
    assert list_stocks(tmp_path / "nowhere") == []
    assert tree(tmp_path) == before


def test_material_of_a_killed_claim_goes_when_the_next_stock_is_made(tmp_path: Path) -> None:
    (stock,) = make(tmp_path)
    own = Pool(root(tmp_path, 0), 0)
    with own._ledger() as ledger:  # killed between the claim and the move
        own._append(ledger, stock, b"run")
    assert contents(own.path(stock))
    assert list_stocks(own.root) == []
    make(tmp_path)
    assert not own.path(stock).exists()


def tree(at: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in at.rglob("*")}
