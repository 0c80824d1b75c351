"""Claim and burn: a part of a stock that all parties hold becomes one run's material, and nobody's ever again."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from typing import Any, Generic

from pdml_spdz.errors import StockError
from pdml_spdz.offline.ledger import Claim, Ledger, Position
from pdml_spdz.offline.stock import MAKE, Choice, D, P, Stock, T
from pdml_spdz.ot.prg import digest
from pdml_spdz.transport.base import Link, read_object

ATTEMPTS = 12  # at stocks that another run of a party has locked: 5 to 13 seconds in all
PAUSE, LONGEST = 0.02, 1.28  # seconds after the first attempt, doubled after each, and the most
LOCKED = 64  # stocks at a time: a lock is an open file, and a party may have thousands of stocks
OTHERS_STOCKS = 1 << 20  # bytes of a peer's offer for stocks that this party has not

Offers = Mapping[int, "Offer"]  # by party


@dataclass(frozen=True)
class Offer:
    """A party's stocks, each with what is used of it, and whether another of its runs has one locked."""

    stocks: dict[str, Position]
    busy: bool

    def after(self, stock: str, claimed: Position) -> Offer:
        """What it would be."""
        return Offer(self.stocks | {stock: self.stocks[stock].join(claimed)}, self.busy)


@dataclass(frozen=True)
class Burnt(Generic[D, P, T]):
    """What a claim gave: it is in no other claim. content : as `Stock.read` has read it"""

    stock: Stock[D, P, T]
    claim: Claim
    content: T


@contextmanager
def burn(link: Link, stocks: Sequence[Stock[D, P, T]], plan: P, run: bytes) -> Iterator[Burnt[D, P, T]]:
    """Claim material for `plan` from a stock that all parties hold. The block takes it: what it leaves is removed.

    1. each party locks its stocks that have enough for the plan, without waiting for those that another run of it has
       locked, and sends for each its id and what is used of it, by its ledger; the same of stocks with too little left;
       and a digest of run and plan
    2. used at one party is used at all: each party burns what another has used, and syncs that. Of the stocks that all
       parties offer and that still have enough, all take the same: the one that loses least. If there is none and one
       was locked, all pause and begin again
    3. each party checks the files that it is to read, appends the claim to its ledger and syncs it
    4. each party sends a digest of the claim; when all have sent the same, the material may be used, and not before
    5. each party removes what it claimed from the stock, also if step 4 or the block fails

    A party that crashes, is killed or disagrees in between has claimed or not; what it or another has claimed is
    skipped at step 2 next time. So is what a party forgets by going back to an older copy of its ledger, as long as
    one party keeps its own. If ALL parties go back to copies of both the ledger and the files (a snapshot of every
    machine), nothing notices: never copy a stock.

    A run may claim as often as it likes: a few items at a time, those that it never claims stay in the stock.

    *Reveals:* to all parties, how much of each stock a party has used, and whether another of its runs is claiming.
    *Cost:* 2 rounds, about 100 bytes for each stock and 4 for each used item; two fsyncs; the files are read once.
    *Ref:* -
    """
    for attempt in range(ATTEMPTS):
        with ExitStack() as held:
            ledgers, own = _lock(held, stocks, plan)
            offers = _exchange(link, own, stocks, plan, run)
            for stock in stocks:
                _catch_up(stock, ledgers.get(stock.id), offers, run)
            agreed = _agree(offers, stocks, plan)
            if agreed is not None:
                stock, choice = agreed
                with _claimed(link, ledgers[stock.id], stock, choice, run) as burnt:
                    yield burnt
                return
        if not any(offer.busy for offer in offers.values()):
            break
        time.sleep(_pause(run, attempt))
    raise _nothing(offers, stocks, plan, link.me)


def check(link: Link, stocks: Sequence[Stock[D, P, T]], plans: Sequence[P], run: bytes) -> None:
    """Steps 1 and 2 of `burn` for one claim after another, with no lock between them: StockError, at all parties, if
    there is a plan that no common stock has enough for after those before it."""
    own = Offer({stock.id: stock.scrub_left().position for stock in stocks}, busy=False)
    offers: Offers = _exchange(link, own, stocks, plans, run)
    for stock in stocks:
        if _joined(offers, stock.id) != own.stocks[stock.id]:
            with stock.locked() as ledger:
                _catch_up(stock, ledger, offers, run)
    for plan in plans:
        agreed = _agree(offers, stocks, plan)
        if agreed is None:
            raise _nothing(offers, stocks, plan, link.me)
        stock, choice = agreed
        claimed = Position(choice.records[1], frozenset(choice.items))
        offers = {l: offer.after(stock.id, claimed) for l, offer in offers.items()}


def _lock(held: ExitStack, stocks: Sequence[Stock[D, P, T]], plan: P) -> tuple[dict[str, Ledger], Offer]:
    """The ledgers that this run may claim in, until `held` ends; what their last claims left behind is removed.

    A stock with too little left is offered as it is: it can only become less.
    """
    ledgers: dict[str, Ledger] = {}
    used, busy = {}, False
    for stock in stocks:
        position = stock.scrub_left().position
        if stock.choose(position, plan) is None:
            used[stock.id] = position
        elif len(ledgers) < LOCKED:
            ledger = held.enter_context(stock.locked())
            if ledger is None:
                busy = True
                continue
            ledgers[stock.id], used[stock.id] = ledger, ledger.state.position
            stock.check(ledger.state.position)
            stock.scrub_last(ledger)
    return ledgers, Offer(used, busy)


def _exchange(
    link: Link, own: Offer, stocks: Sequence[Stock[D, P, T]], plan: P | Sequence[P], run: bytes
) -> dict[int, Offer]:
    """Step 1's message: everyone's offers, by party; of the others' stocks those that are ours too."""
    held = {stock.id: stock.manifest for stock in stocks}
    purpose = digest(b"pdml-stock-plan", run, json.dumps(plan, default=vars).encode()).hex()
    content = {
        "for": purpose,
        "busy": own.busy,
        "stocks": {i: [used.record, sorted(used.items)] for i, used in own.stocks.items()},
    }
    offers, most = {link.me: own}, OTHERS_STOCKS + sum(100 + 8 * len(m.items) for m in held.values())
    for peer, raw in link.all_to_all("stock:offer", json.dumps(content).encode(), most).items():
        try:
            theirs = read_object(raw)
            listed = {i: _position(theirs["stocks"][i]) for i in held.keys() & theirs["stocks"].keys()}
            offers[peer], said = Offer(listed, bool(theirs["busy"])), theirs["for"]
        except (ValueError, KeyError, TypeError, AttributeError):
            raise _differs(peer, "sent an offer of stocks that cannot be read") from None
        if said != purpose:
            raise _differs(peer, "wants a stock for another run or plan")
        for i, used in listed.items():
            if not (0 <= used.record <= held[i].records and all(0 <= j < len(held[i].items) for j in used.items)):
                raise _differs(peer, f"has used what is not in stock {i}")
    return offers


def _position(said: Any) -> Position:
    record, items = said
    return Position(int(record), frozenset(map(int, items)))


def _catch_up(stock: Stock[D, P, T], ledger: Ledger | None, offers: Offers, run: bytes) -> None:
    """Step 2: what another party has used is burnt here as well, also in a stock that this run does not take."""
    if ledger is None:
        return
    before = ledger.state.position
    after = before.join(_joined(offers, stock.id))
    if after != before:
        stock.scrub_last(ledger)  # another run may have claimed and been killed a moment ago
        try:
            ledger.append(_line(run, (after.record, after.record), burnt=tuple(sorted(after.items - before.items))))
        except ValueError as error:
            raise stock.error(f"another party has used what is not in it: {error}") from None
        stock.scrub_last(ledger)


def _line(run: bytes, records: tuple[int, int], items: tuple[int, ...] = (), burnt: tuple[int, ...] = ()) -> Claim:
    return Claim(run.hex(), datetime.now(UTC).isoformat(timespec="seconds"), records, items, burnt)


def _agree(offers: Offers, stocks: Sequence[Stock[D, P, T]], plan: P) -> tuple[Stock[D, P, T], Choice] | None:
    """Step 2: a function of what all parties know, so that all parties come to the same."""
    found = {}
    for stock in stocks:
        used = _used(offers, stock.id)
        choice = used and stock.choose(used, plan)
        if used and choice:
            m = stock.manifest
            whole = sum(m.items[i] for i in choice.items)  # spent whole, whatever the plan needs of them
            found[whole, m.records - used.record, stock.id] = stock, choice
    return found[min(found)] if found else None


def _used(offers: Offers, stock: str) -> Position | None:
    """What anyone has used of a stock; None if someone does not offer it."""
    return _joined(offers, stock) if all(stock in offer.stocks for offer in offers.values()) else None


def _joined(offers: Offers, stock: str) -> Position:
    return reduce(Position.join, (offer.stocks.get(stock, Position()) for offer in offers.values()))


@contextmanager
def _claimed(link: Link, ledger: Ledger, stock: Stock[D, P, T], choice: Choice, run: bytes) -> Iterator[Burnt[D, P, T]]:
    """Steps 3 to 5, with the ledger locked."""
    content = stock.read(choice)
    claim = _line(run, choice.records, choice.items)
    ledger.append(claim)
    try:
        said = digest(b"pdml-claim", run, stock.id.encode(), json.dumps([choice.records, choice.items]).encode())
        for peer, theirs in link.all_to_all("stock:claimed", said).items():
            if bytes(theirs) != said:
                raise _differs(peer, f"claimed another part of stock {stock.id}")
        yield Burnt(stock, claim, content)
    finally:
        stock.scrub_last(ledger)


def _pause(run: bytes, attempt: int) -> float:
    """The same at all parties of a run, and another one for another run: two that met will not meet for ever."""
    share = digest(b"pdml-pause", run, bytes([attempt]))[0] / 256
    return min(PAUSE * 2.0**attempt, LONGEST) * (0.5 + share)


def _differs(peer: int, what: str) -> StockError:
    do = "start all parties with the same study file and version"
    return StockError(f"P{peer} {what}.", "all parties to claim the same part of the same stock", do, culprit=peer)


def _nothing(offers: Offers, stocks: Sequence[Stock[D, P, T]], plan: P, me: int) -> StockError:
    """Every party raises this at the same point, and none has claimed anything."""
    reasons = []
    for stock in stocks:
        without = [l for l, offer in offers.items() if stock.id not in offer.stocks]
        used = _used(offers, stock.id)
        if used is not None:
            reasons.append(f"stock {stock.id} lacks {stock.lacks(used, plan)}")
        elif me in without:
            reasons.append(f"stock {stock.id} is in use by another run of this party")
        else:
            reasons.append(f"stock {stock.id} is not there or in use at " + ", ".join(f"P{l}" for l in without))
    found = "; ".join(reasons) or "this party has none of this kind"
    error = StockError(f"no stock that all parties hold has what the run needs: {found}.", str(plan), MAKE)
    error.common = True
    return error
