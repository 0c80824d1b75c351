"""Which stock is taken, and that all parties take the same; what is left of it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdml_spdz.errors import StockError
from pdml_spdz.offline import claim as claims
from pdml_spdz.offline import ledger
from pdml_spdz.offline.from_stock import StockMaterial, claim
from pdml_spdz.offline.material import Lots, Plan
from pdml_spdz.offline.numbers import TRIPLES, Kind, NumberStock, allot, scalar_name
from pdml_spdz.offline.on_demand import OnDemand
from pdml_spdz.offline.status import status
from pdml_spdz.offline.stock import MANIFEST, directory
from pdml_spdz.transport.base import Link
from tests.stocks import RUN, claim_fake, failures, fake, fake_kind, fake_part, parts
from tests.threads import run_threads


def test_smallest_scalars_that_will_do_are_taken() -> None:
    assert allot((8, 3, 8, 5), frozenset(), (4, 3)) == {0: 3, 1: 1}
    assert allot((8, 3, 8, 5), frozenset({3}), (3, 4)) == {0: 1, 1: 0}
    assert allot((8, 3), frozenset(), (2, 8)) == {0: 1, 1: 0}
    assert allot((8, 3), frozenset(), (4, 4)) == {0: 0}


@pytest.mark.parametrize(
    ("plan", "missing"),
    [
        (Plan(41, ()), "1 of 41 triples"),
        (Plan(0, (9,)), "1 of 1 scalars, with at least 9 numbers each"),
        (Plan(0, (8, 8, 8)), "1 of 3 scalars, with at least 8 numbers each"),
        (Plan(50, (9, 1)), "10 of 50 triples and 1 of 2 scalars, with at least 9 numbers each"),
    ],
)
def test_a_plan_that_does_not_fit_is_refused_with_what_is_missing(tmp_path: Path, plan: Plan, missing: str) -> None:
    fake(tmp_path, 2)
    for error in failures(2, lambda link: claim(link, NumberStock.find(tmp_path, fake_kind(2), link.me), plan, RUN)):
        assert isinstance(error, StockError)
        assert error.common
        assert f"stock 0123456789abcdef lacks {missing}." in str(error)
        assert "pdml-spdz offline make" in error.do
    assert [row.claims for row in status(tmp_path)] == [(), ()]


def test_stocks_of_another_kind_are_passed_over(tmp_path: Path) -> None:
    fake(tmp_path, 3)
    assert NumberStock.find(tmp_path, fake_kind(2), 0) == []
    assert NumberStock.find(tmp_path, Kind(3, 128, 64), 0) == []
    assert len(NumberStock.find(tmp_path, fake_kind(3), 2)) == 1
    assert NumberStock.find(tmp_path / "nowhere", fake_kind(2), 0) == []


def test_more_than_was_claimed_is_an_error_that_says_how_much(tmp_path: Path) -> None:
    fake(tmp_path, 2)
    plan = Plan(3, (4,))
    material = run_threads(2, lambda link: claim(link, NumberStock.find(tmp_path, fake_kind(2), link.me), plan, RUN))[0]
    assert [material.triples(n).a for n in (1, 0, 1)] == [[1], [], [2]]
    with pytest.raises(StockError, match="2 triples more than the 3 that were claimed"):
        material.triples(3)
    scalar = material.scalar()
    scalar.take(3)
    with pytest.raises(StockError, match="2 numbers more than the 4 of this scalar"):
        scalar.take(3)
    with pytest.raises(StockError, match="1 scalars more than were claimed"):
        material.scalar()


def test_reserve_claims_only_what_is_not_covered(tmp_path: Path) -> None:
    fake(tmp_path, 2)

    def party(link: Link) -> StockMaterial:
        material = StockMaterial(link, NumberStock.find(tmp_path, fake_kind(2), link.me), RUN)
        material.check(Plan(40, (8, 8)))
        material.reserve(Plan(10, (3, 3)))
        for _ in range(2):
            material.reserve(Plan(5, (3,)))
            material.triples(5)
            material.scalar()
        assert len(material.claims) == 1
        material.reserve(Plan(5, (3,)))
        return material

    found = [line for _, line in run_threads(2, party)[0].claims]
    assert [(line.records, line.items) for line in found] == [((0, 10), (1, 3)), ((10, 15), (0,))]


LOTS = Lots(Plan(6, (9,)), Plan(6, (3,)), Plan(0, (3,)), 2, Plan(6, (3,)), Plan(6, (6,)))


def by_lots(root: Path, run: bytes, lots: int, **options: bool) -> list[StockMaterial]:
    """A run that uses so many lots up, at two parties."""

    def party(link: Link) -> StockMaterial:
        def otherwise() -> OnDemand:
            return OnDemand(link, run, 64, 64)

        stocks = NumberStock.find(root, fake_kind(2), link.me)
        material = StockMaterial(link, stocks, run, otherwise if options.get("made") else None)
        material.check(*LOTS.awaited)
        material.begin(LOTS)
        for _ in range(lots):
            material.scalar().take(3)
        return material

    return run_threads(2, party)


def test_lots_that_a_run_has_not_begun_serve_the_next_one(tmp_path: Path) -> None:
    fake(tmp_path, 2, Plan(6, (3, 3, 3)), "aaaaaaaaaaaaaaaa")
    fake(tmp_path, 2, Plan(6, (3,)), "bbbbbbbbbbbbbbbb")
    first, second = ([(s, c.items) for s, c in by_lots(tmp_path, bytes([i]), 2)[0].claims] for i in range(2))
    assert first == [("aaaaaaaaaaaaaaaa", (0,)), ("aaaaaaaaaaaaaaaa", (1,))]
    assert second == [("bbbbbbbbbbbbbbbb", (0,)), ("aaaaaaaaaaaaaaaa", (2,))]


def test_lots_beyond_the_stock_are_made_in_the_run_or_end_it(tmp_path: Path) -> None:
    fake(tmp_path, 2, Plan(12, (3, 3, 3, 3)))
    with pytest.raises(StockError, match="a further lot, which no stock has") as caught:
        by_lots(tmp_path, b"a", 5)
    assert "go on with --resume" in str(caught.value)
    shutil.rmtree(tmp_path)
    fake(tmp_path, 2, Plan(12, (3, 3)))
    for material in by_lots(tmp_path, b"b", 4, made=True):
        assert (material.mode, len(material.claims)) == ("mixed", 2)
        assert material.used == Plan(6, (3, 3, 3, 3))


def test_a_stock_without_triples_serves_a_plan_without(tmp_path: Path) -> None:
    fake(tmp_path, 2, Plan(0, (2,)))
    assert parts(claim_fake(tmp_path, 2, Plan(0, (1,))))[1:] == ((0, 0), (0,))


# ---- parties that do not agree


def test_the_stock_that_loses_least_is_taken(tmp_path: Path) -> None:
    fake(tmp_path, 2, Plan(40, (100, 9)), "aaaaaaaaaaaaaaaa")
    fake(tmp_path, 2, Plan(40, (50, 8)), "bbbbbbbbbbbbbbbb")
    assert parts(claim_fake(tmp_path, 2, Plan(1, (7,)))) == ("bbbbbbbbbbbbbbbb", (0, 1), (1,))
    assert parts(claim_fake(tmp_path, 2, Plan(1, (7,)))) == ("aaaaaaaaaaaaaaaa", (0, 1), (1,))


def test_only_a_stock_that_all_parties_hold_is_taken(tmp_path: Path) -> None:
    fake(tmp_path, 3, stock="aaaaaaaaaaaaaaaa")
    fake(tmp_path, 3, stock="bbbbbbbbbbbbbbbb")
    shutil.rmtree(directory(tmp_path, "aaaaaaaaaaaaaaaa", 1))
    assert parts(claim_fake(tmp_path, 3, Plan(4, (3,))))[0] == "bbbbbbbbbbbbbbbb"
    shutil.rmtree(directory(tmp_path, "bbbbbbbbbbbbbbbb", 2))
    errors = failures(
        3, lambda link: claim(link, NumberStock.find(tmp_path, fake_kind(3), link.me), Plan(4, (3,)), RUN)
    )
    assert all(isinstance(error, StockError) and error.common for error in errors)
    assert "stock aaaaaaaaaaaaaaaa is not there or in use at P1; stock bbbb" in str(errors[0])


def test_no_stock_at_all_is_the_same_error_everywhere(tmp_path: Path) -> None:
    fake_part(tmp_path, 2, 1)
    errors = failures(2, lambda link: claim(link, NumberStock.find(tmp_path, fake_kind(2), link.me), Plan(4, ()), RUN))
    assert [isinstance(error, StockError) and error.common for error in errors] == [True, True]
    assert "this party has none of this kind" in str(errors[0])


def test_what_one_party_used_is_used_for_all(tmp_path: Path) -> None:
    fake(tmp_path, 3)
    for m, line in ((0, ledger.Claim("aa", "t", (0, 7), (1,))), (2, ledger.Claim("bb", "t", (0, 5), (3,)))):
        stock = NumberStock(directory(tmp_path, "0123456789abcdef", m))
        held = ledger.Ledger.lock(stock.ledger_path, stock.manifest.heading)
        assert held is not None
        held.append(line)
        held.close()
    materials = claim_fake(tmp_path, 3, Plan(4, (2, 2)))
    assert parts(materials)[1:] == ((7, 11), (0, 2))
    burnt = [sorted(i for line in row.claims for i in line.burnt) for row in status(tmp_path)]
    assert burnt == [[3], [1, 3], [1]]
    positions = {row.triples_left for row in status(tmp_path)}, {row.scalars_left for row in status(tmp_path)}
    assert positions == ({29}, {()})


def test_an_older_copy_of_one_partys_stock_is_not_used_again(tmp_path: Path) -> None:
    fake(tmp_path, 2)
    own = directory(tmp_path, "0123456789abcdef", 0)
    copy = shutil.copytree(own, tmp_path / "copy")
    first = parts(claim_fake(tmp_path, 2, Plan(4, (3,))))
    shutil.rmtree(own)
    copy.rename(own)
    second = parts(claim_fake(tmp_path, 2, Plan(4, (3,))))
    assert first[1:] == ((0, 4), (1,))
    assert second[1:] == ((4, 8), (3,))


@pytest.mark.parametrize("what", ["plan", "run"])
def test_parties_that_want_different_things_claim_nothing(tmp_path: Path, what: str) -> None:
    fake(tmp_path, 2)

    def party(link: Link) -> None:
        plan, run = (Plan(4 + link.me, ()), RUN) if what == "plan" else (Plan(4, ()), bytes([link.me]))
        claim(link, NumberStock.find(tmp_path, fake_kind(2), link.me), plan, run)

    for error in failures(2, party):
        if isinstance(error, StockError):
            assert "wants a stock for another run or plan" in str(error)
    assert [row.claims for row in status(tmp_path)] == [(), ()]


def test_parties_that_claim_different_parts_use_neither(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path, 2)
    agree = claims._agree

    def other_scalar(offers: claims.Offers, stocks: Sequence[NumberStock], plan: Plan) -> Any:
        agreed = agree(offers, stocks, plan)
        if agreed and stocks[0].manifest.party == 1:
            return agreed[0], claims.Choice(agreed[1].records, (0,))
        return agreed

    monkeypatch.setattr(claims, "_agree", other_scalar)
    errors = failures(
        2, lambda link: claim(link, NumberStock.find(tmp_path, fake_kind(2), link.me), Plan(4, (3,)), RUN)
    )
    assert any("claimed another part of stock" in str(error) for error in errors)
    monkeypatch.undo()
    assert parts(claim_fake(tmp_path, 2, Plan(4, (3,))))[1:] == ((4, 8), (3,))


@pytest.mark.parametrize("used", [ledger.Position(41), ledger.Position(0, frozenset({4}))])
def test_a_party_that_has_used_what_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, used: ledger.Position
) -> None:
    fake(tmp_path, 2)
    lock = claims._lock

    def lies(held: ExitStack, stocks: Sequence[NumberStock], plan: Plan) -> Any:
        ledgers, own = lock(held, stocks, plan)
        return ledgers, claims.Offer({stocks[0].id: used}, False) if stocks[0].manifest.party == 1 else own

    monkeypatch.setattr(claims, "_lock", lies)

    def party(link: Link) -> object:
        stocks = NumberStock.find(tmp_path, fake_kind(2), link.me)
        return claim(link, stocks, Plan(4, (3,)), RUN)

    error, _ = failures(2, party)
    assert isinstance(error, StockError)
    assert "P1 has used what is not in stock" in str(error)
    assert [row.claims for row in status(tmp_path)] == [(), ()]


def test_a_message_that_is_no_offer_is_an_error(tmp_path: Path) -> None:
    fake(tmp_path, 2)

    def party(link: Link) -> None:
        if link.me == 1:
            link.all_to_all("stock:offer", b'{"for": "", "stocks": [1]}', 1000)
        else:
            claim(link, NumberStock.find(tmp_path, fake_kind(2), 0), Plan(4, ()), RUN)

    with pytest.raises(StockError, match="P1 sent an offer of stocks that cannot be read"):
        run_threads(2, party)


def test_status_says_what_is_left_and_who_took_the_rest(tmp_path: Path) -> None:
    fake(tmp_path, 2)
    claim_fake(tmp_path, 2, Plan(10, (4,)), b"\x12\x34")
    (directory(tmp_path, "0123456789abcdef", 1) / MANIFEST).unlink()
    good, bad = status(tmp_path)
    assert (good.stock, good.party, good.kind) == ("0123456789abcdef", 0, fake_kind(2))
    assert (good.triples_left, good.triples, good.scalars_left, good.scalars) == (30, 40, (8, 3, 8), 4)
    assert [(line.run, line.triples, line.scalars) for line in good.claims] == [("1234", (0, 10), (3,))]
    assert good.claims[0].time.startswith("20")
    assert good.bytes == sum(f.stat().st_size for f in good.path.iterdir())
    assert "manifest.json cannot be used" in bad.problem


def test_what_a_killed_run_left_on_the_disk_goes_with_the_next(tmp_path: Path) -> None:
    fake(tmp_path, 2)
    path = directory(tmp_path, "0123456789abcdef", 0)
    saved = {name: (path / name).read_bytes() for name in (TRIPLES, scalar_name(1))}
    claim_fake(tmp_path, 2, Plan(4, (3,)))
    for name, raw in saved.items():  # as if it had been killed right after the claim
        (path / name).write_bytes(raw)
    claim_fake(tmp_path, 2, Plan(4, ()))
    assert not (path / scalar_name(1)).exists()
    assert not np.fromfile(path / TRIPLES, np.uint8).reshape(-1, 40)[:8, 16:].any()
