"""Making a stock of the embedded engine: all parties together, before any data exists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pdml_spdz.errors import StockError
from pdml_spdz.numerics import ring
from pdml_spdz.offline.material import Plan
from pdml_spdz.offline.new_stock import NONCE, Wanted, new_stock
from pdml_spdz.offline.numbers import TRIPLES, Kind, NumberStock, record_digest, scalar_name
from pdml_spdz.offline.on_demand import GROUP, LEVELS, Supply, kappa_for, levels, piece_for, pieces
from pdml_spdz.offline.stock import File, directory
from pdml_spdz.ot import extension, silent, triples, vole
from pdml_spdz.ot.prg import digest
from pdml_spdz.system.files import NewFile
from pdml_spdz.transport.base import HEADER, Link

Progress = Callable[[int, int, int], None]  # triples and numbers made, of how many, bytes sent


def make(
    link: Link, root: Path, plan: Plan, kind: Kind, session: bytes, progress: Progress | None = None
) -> NumberStock:
    """Make a stock (`new_stock`) with the triples and numbers of `plan`.

    1. base OTs and their extension (`extension.set_up`)
    2. triples (`triples.make`); for each scalar fresh deltas (`vole.set_up`) and its numbers piece by piece
       (`Supply`), all written as they come

    session : a public value of this meeting, as for `extension.set_up`; progress : called after each block

    *Reveals:* nothing but the counts. *Cost:* `forecast`. *Ref:* as for the three makers.
    """
    if kind.M != link.M:
        raise StockError(f"a stock for {kind.M} parties was asked for, and {link.M} have met.", "as many as there are")
    wanted = Wanted(kind, plan.triples, plan.vectors, forecast(plan, kind).disk, session)
    with new_stock(link, NumberStock, root, wanted) as new:
        session = digest(b"pdml-stock-ot", session, new.id.encode())
        new.files.update(_write_material(link, new.path, plan, kind, session, _Meter(link, plan, progress)))
    return NumberStock(directory(root, new.id, link.me))


class _Meter:
    def __init__(self, link: Link, plan: Plan, progress: Progress | None) -> None:
        self._link, self._progress = link, progress
        self._done, self._total = 0, plan.triples + plan.numbers
        self.add(0)

    def add(self, n: int) -> None:
        self._done += n
        if self._progress:
            self._progress(self._done, self._total, sum(self._link.traffic.sent.values()))


def _write_material(link: Link, new: Path, plan: Plan, kind: Kind, session: bytes, meter: _Meter) -> dict[str, File]:
    ots = extension.set_up(link, session)
    files = {}
    with NewFile(new / TRIPLES) as file:
        for n in pieces(plan.triples, _batch(kind)):
            _write_triples(file, triples.make(link, ots, n, kind.scalar_bits))
            meter.add(n)
    files[TRIPLES] = File(file.bytes, file.digest)
    for first in range(0, len(plan.vectors), GROUP):
        sizes = plan.vectors[first : first + GROUP]
        set_up = vole.set_up(link, ots, kind.vector_bits, count=len(sizes), kappa=kappa_for(sizes))
        for i, ends in enumerate(set_up, first):
            with NewFile(new / scalar_name(i)) as file:
                n = plan.vectors[i]
                supply = Supply(link, ots, ends, n, lpn=kind.vole == "lpn", whole=True)
                _write_scalar(file, supply, n, kind, meter)
            files[scalar_name(i)] = File(file.bytes, file.digest)
    return files


def _write_triples(file: NewFile, made: triples.Triples) -> None:
    contents = [ring.from_ints(numbers, made.bits).tobytes() for numbers in zip(made.a, made.b, made.c, strict=True)]
    checks = [record_digest(content) for content in contents]
    records = b"".join(check + content for check, content in zip(checks, contents, strict=True))
    file.write(records, digested=b"".join(checks))


def _write_scalar(file: NewFile, supply: Supply, n: int, kind: Kind, meter: _Meter) -> None:
    """The delta, then for every number u and what is left of the VOLEs (`Correlation`)."""
    file.write(ring.from_ints([supply.delta], kind.vector_bits).tobytes())
    for size in pieces(n, piece_for(kind.M)):
        made = supply.take(size)
        records = np.stack([made.pad, made.rest], axis=1)
        file.write(records.tobytes())
        meter.add(size)


def _batch(kind: Kind) -> int:
    """Triples at a time."""
    return max(32, triples.BATCH // (kind.M - 1))


@dataclass(frozen=True)
class Forecast:
    """For one party, on average.

    disk : bytes written; sent : bytes to all peers; seconds : on one core, with a fast network
    """

    disk: int
    sent: int
    seconds: float


# Measured on one core (Xeon at 2.8 GHz) at 192 and 512 bits, seconds for each peer.
SET_UP, PER_TRIPLE, PER_SCALAR, PER_NUMBER, PER_LPN_NUMBER = 0.02, 5e-4, 2e-2, 2e-5, 6e-7


def forecast(plan: Plan, kind: Kind) -> Forecast:
    """What `make` will take: disk and traffic exactly (but for manifest, ledger and TLS), the time roughly."""
    peers = kind.M - 1
    disk = plan.triples * kind.triple_size + sum(kind.scalar_size(n) for n in plan.vectors)
    # Of the two ends of a pair one sends more in the set-up: a party is one end as often as the other, on average.
    sent = _frames(2 * NONCE, 16) + sum(_frames(*sizes) for sizes in extension.set_up_sizes()) // 2
    for n in pieces(plan.triples, _batch(kind)):
        sent += _frames(extension.message_size(n * kind.scalar_bits), triples.message_size(n, kind.scalar_bits))
    by_ot = by_lpn = 0
    for first in range(0, len(plan.vectors), GROUP):
        sizes = plan.vectors[first : first + GROUP]
        digits = vole.Digits(kind.vector_bits, kappa_for(sizes))
        n = len(sizes) * len(digits) * digits.kappa
        sent += _frames(extension.message_size(n), 32 * n)
        for n in sizes:
            top = levels(n, n) if kind.vole == "lpn" else 0
            counts = [*(lpn.secret for lpn in LEVELS[:top]), n]  # each made with the help of the one before
            if not top:
                sent += _frames(*(digits.message_size(size) for size in pieces(n, piece_for(kind.M))))
            for lpn, by, count in zip(LEVELS, (counts[0], 0, 0), counts[1:], strict=False):
                messages = silent.message_sizes(count, kind.vector_bits, lpn, first=by, kappa=digits.kappa)
                sent += _frames(*messages)
            by_ot, by_lpn = by_ot + counts[0], by_lpn + sum(counts[1:])
    wide = (kind.scalar_bits / 512) ** 2, (kind.vector_bits / 192) ** 2
    seconds = SET_UP + plan.triples * PER_TRIPLE * wide[0] + by_lpn * PER_LPN_NUMBER
    seconds += (len(plan.vectors) * PER_SCALAR + by_ot * PER_NUMBER) * wide[1]
    return Forecast(disk, peers * sent, peers * seconds)


def _frames(*sizes: int) -> int:
    return sum(HEADER.size + size for size in sizes)
