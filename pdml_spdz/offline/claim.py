"""Claim and burn: a part of a stock that all parties hold becomes one run's material, and nobody's ever again."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pdml_spdz.errors import StockError
from pdml_spdz.offline.ledger import Claim, Ledger, Position, State
from pdml_spdz.offline.material import Plan
from pdml_spdz.offline.stock import MAKE, Choice, Manifest, Stock
from pdml_spdz.ot.prg import digest
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.content import read_object

ATTEMPTS = 12  # at stocks that another run of a party has locked: 5 to 13 seconds in all
PAUSE, LONGEST = 0.02, 1.28  # seconds after the first attempt, doubled after each, and the most
OTHERS_STOCKS = 1 << 20  # bytes of a peer's offer for stocks that this party has not

Offers = Mapping[int, "Offer"]  # by party


@dataclass(frozen=True)
class Offer:
    """A party's stocks, each with what is used of it, and whether another of its runs has one locked."""

    stocks: dict[str, Position]
    busy: bool


@dataclass(frozen=True)
class Agreed:
    """What all parties take: part of a stock, when `used` is what anyone has used of it."""

    stock: Stock
    used: Position
    choice: Choice


@dataclass(frozen=True)
class Burnt:
    """What a claim gave: bytes that are in no other claim. Scalars are as in `Stock.map_scalar`."""

    stock: Stock
    claim: Claim
    triples: Any
    scalars: list[Any]


def burn(link: Link, stocks: Sequence[Stock], plan: Plan, run: bytes) -> Burnt:
    """Claim material for `plan` from a stock that all parties hold.

    1. each party locks its stocks, without waiting for those that another run of it has locked, and sends for each
       the stock's id, the next unused triple and the used scalars, by its ledger; and a digest of run and plan
    2. used at one party is used at all: the largest position and the union of the used scalars count. Of the stocks
       that all parties offer and that still have enough, all take the same: the one that loses least. If there is
       none and one was locked, all pause and begin again
    3. each party checks the files that it is to read, appends the claim to its ledger and syncs it
    4. each party sends a digest of the claim; when all have sent the same, the material may be used, and not before
    5. each party removes what it claimed from its disk

    A party that crashes, is killed or disagrees in between has claimed or not; what it or another has claimed is
    skipped at step 2 next time. So is what a party forgets by going back to an older copy of its ledger, as long as
    one party keeps its own. If ALL parties go back to copies of both the ledger and the files (a snapshot of every
    machine), nothing notices: never copy a stock.

    *Reveals:* to all parties, how much of each stock a party has used, and whether another of its runs is claiming.
    *Cost:* 2 rounds, about 100 bytes for each stock and 4 for each used scalar; two fsyncs; the files are read once.
    *Ref:* -
    """
    for attempt in range(ATTEMPTS):
        with ExitStack() as held:
            ledgers = _lock(held, stocks)
            own = Offer({i: ledger.state.position for i, ledger in ledgers.items()}, len(ledgers) < len(stocks))
            offers = _offer(link, own, stocks, plan, run)
            agreed = _agree(offers, stocks, plan)
            if agreed is not None:
                return _claim(link, ledgers[agreed.stock.id], agreed, run)
        if not any(offer.busy for offer in offers.values()):
            break
        time.sleep(_pause(run, attempt))
    raise _nothing(offers, stocks, plan, link.me)


def check(link: Link, stocks: Sequence[Stock], plan: Plan, run: bytes) -> None:
    """Steps 1 and 2 of `burn` without locks: StockError, at all parties, if no common stock has enough for `plan`."""
    scrub_left(stocks)
    positions = {stock.id: stock.state().position for stock in stocks}
    offers = _offer(link, Offer(positions, busy=False), stocks, plan, run)
    if _agree(offers, stocks, plan) is None:
        raise _nothing(offers, stocks, plan, link.me)


def _lock(held: ExitStack, stocks: Sequence[Stock]) -> dict[str, Ledger]:
    """The ledgers that no other process has locked; what their last claims left behind is removed."""
    ledgers = {}
    for stock in stocks:
        ledger = Ledger.lock(stock.ledger_path, stock.manifest.heading)
        if ledger is None:
            continue
        held.callback(ledger.close)
        ledgers[stock.id] = ledger
        stock.check_sizes(ledger.state.position)
        _scrub_last(stock, ledger.state)
    return ledgers


def scrub_left(stocks: Sequence[Stock]) -> None:
    """Take off the disk what killed runs have claimed and left there, also where too little is left to claim again.

    Every claim begins by scrubbing the one before it, so only the last can have left something. A stock that another
    run has locked is that run's to scrub.
    """
    for stock in stocks:
        if not _left(stock, stock.state()):
            continue
        ledger = Ledger.lock(stock.ledger_path, stock.manifest.heading)
        if ledger is not None:
            try:
                _scrub_last(stock, ledger.state)
            finally:
                ledger.close()


def _left(stock: Stock, state: State) -> bool:
    """Whether something of the last claim is still there."""
    if not state.claims:
        return False
    last = state.claims[-1]
    return stock.holds(state.before_last, state.position.triple, last.scalars + last.burnt)


def _scrub_last(stock: Stock, state: State) -> None:
    if state.claims:
        last = state.claims[-1]
        stock.scrub(state.before_last, state.position.triple, last.scalars + last.burnt)


def _offer(link: Link, own: Offer, stocks: Sequence[Stock], plan: Plan, run: bytes) -> dict[int, Offer]:
    """Step 1's message: everyone's offers, by party; of the others' stocks those that are ours too."""
    held = {stock.id: stock.manifest for stock in stocks}
    purpose = digest(b"pdml-stock-plan", run, json.dumps([plan.triples, plan.vectors]).encode()).hex()
    content = {
        "for": purpose,
        "busy": own.busy,
        "stocks": {i: [used.triple, sorted(used.scalars)] for i, used in own.stocks.items()},
    }
    offers, most = {link.me: own}, OTHERS_STOCKS + sum(100 + 8 * len(m.vectors) for m in held.values())
    for peer, raw in link.all_to_all("stock:offer", json.dumps(content).encode(), most).items():
        try:
            theirs = read_object(raw)
            listed = {i: _position(theirs["stocks"][i], held[i]) for i in held.keys() & theirs["stocks"].keys()}
            offers[peer], said = Offer(listed, bool(theirs["busy"])), theirs["for"]
        except (ValueError, KeyError, TypeError, AttributeError):
            raise _differs(peer, "sent an offer of stocks that cannot be read") from None
        if said != purpose:
            raise _differs(peer, "wants a stock for another run or plan")
    return offers


def _position(said: Any, stock: Manifest) -> Position:
    """What a peer says that it has used of a stock that this party has too."""
    triple, scalars = said
    used = Position(int(triple), frozenset(map(int, scalars)))
    if not (0 <= used.triple <= stock.triples and all(0 <= i < len(stock.vectors) for i in used.scalars)):
        raise ValueError("more than there is")
    return used


def _agree(offers: Offers, stocks: Sequence[Stock], plan: Plan) -> Agreed | None:
    """Step 2: a function of what all parties know, so that all parties come to the same."""
    found: list[tuple[tuple[int, int, str], Agreed]] = []
    for stock in stocks:
        used = _used(offers, stock.id)
        choice = used and stock.choose(used, plan)
        if used and choice:
            m = stock.manifest
            numbers = sum(m.vectors[i] for i in choice.scalars)  # spent whole, whatever the plan needs of them
            found.append(((numbers, m.triples - used.triple, stock.id), Agreed(stock, used, choice)))
    return min(found, key=lambda pair: pair[0])[1] if found else None


def _used(offers: Offers, stock: str) -> Position | None:
    """What anyone has used of a stock; None if someone does not offer it."""
    joined = Position()
    for offer in offers.values():
        if stock not in offer.stocks:
            return None
        joined = joined.join(offer.stocks[stock])
    return joined


def _claim(link: Link, ledger: Ledger, agreed: Agreed, run: bytes) -> Burnt:
    """Steps 3 to 5, with the ledger locked."""
    stock, (first, last), scalars = agreed.stock, agreed.choice.triples, agreed.choice.scalars
    before = ledger.state.position
    triples = stock.read_triples(first, last)
    words = [stock.map_scalar(i) for i in scalars]
    burnt = tuple(sorted(agreed.used.scalars - before.scalars))
    now = datetime.now(UTC).isoformat(timespec="seconds")
    claim = Claim(run.hex(), now, (first, last), scalars, burnt)
    ledger.append(claim)
    content = digest(b"pdml-claim", run, stock.id.encode(), json.dumps([first, last, scalars]).encode())
    for peer, theirs in link.all_to_all("stock:claimed", content).items():
        if bytes(theirs) != content:
            raise _differs(peer, f"claimed another part of stock {stock.id}")
    stock.scrub(before.triple, last, scalars + burnt)
    return Burnt(stock, claim, triples, words)


def _pause(run: bytes, attempt: int) -> float:
    """The same at all parties of a run, and another one for another run: two that met will not meet for ever."""
    share = digest(b"pdml-pause", run, bytes([attempt]))[0] / 256
    return min(PAUSE * 2.0**attempt, LONGEST) * (0.5 + share)


def _differs(peer: int, what: str) -> StockError:
    do = "start all parties with the same study file and version"
    return StockError(f"P{peer} {what}.", "all parties to claim the same part of the same stock", do, culprit=peer)


def _nothing(offers: Offers, stocks: Sequence[Stock], plan: Plan, me: int) -> StockError:
    """Every party raises this at the same point, and none has claimed anything."""
    wanted = f"{plan.triples} triples and {len(plan.vectors)} scalars with {plan.numbers} numbers in all"
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
    error = StockError(f"no stock that all parties hold has what the run needs: {found}.", wanted, MAKE)
    error.common = True
    return error
