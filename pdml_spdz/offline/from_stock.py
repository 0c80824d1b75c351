"""Material that a run claims from stocks, lot by lot, and gives out once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.errors import StockError
from pdml_spdz.numerics import ring
from pdml_spdz.offline import claim as claims
from pdml_spdz.offline.ledger import Claim
from pdml_spdz.offline.material import Lots, Material, Plan, ScalarMaterial
from pdml_spdz.offline.numbers import Kind, NumberStock
from pdml_spdz.offline.stock import MAKE
from pdml_spdz.ot.triples import Triples
from pdml_spdz.ot.vole import Correlation
from pdml_spdz.transport.base import Link


class StockMaterial(Material):
    """Material of one run. `begin` claims the first lot, and each of the others when all scalars before are given out;
    whatever is not claimed stays in the stock.

    stocks : this party's, of the run's kind (`NumberStock.find`); run : the identity of the run, for the ledger
    otherwise : makes further lots in the run when the stocks have none; None: that ends the run
    claims : what was claimed so far, of which stock
    """

    mode = "stock"

    def __init__(
        self, link: Link, stocks: Sequence[NumberStock], run: bytes, otherwise: Callable[[], Material] | None = None
    ) -> None:
        for stock in stocks:
            m = stock.manifest
            if (m.party, m.kind.M) != (link.me, link.M):
                raise stock.error(f"it is of party {m.party} of {m.kind.M}", f"one of party {link.me} of {link.M}")
        self._link, self._stocks, self._run, self._otherwise = link, stocks, run, otherwise
        self.claims: list[tuple[str, Claim]] = []
        self._triples, self._given = Triples(0, [], [], []), 0
        self._scalars: deque[Stored] = deque()
        self._further: Plan | None = None  # the lot after this one
        self._made: Material | None = None  # where further lots come from when there is no stock
        self._waiting = 0  # scalars of its last lot that were not given out

    def check(self, *lots: Plan) -> None:
        """StockError, at all parties alike, if common stocks lack what these lots need. Claims nothing."""
        claims.check(self._link, self._stocks, lots, self._run)

    def begin(self, lots: Lots) -> None:
        self._further = lots.further
        self.reserve(lots.first)

    def reserve(self, plan: Plan) -> None:
        """Claim `plan`, unless what was claimed before and not yet used covers it; if it does not, it is lost."""
        sizes = [scalar.left for scalar in self._scalars]
        enough = len(sizes) >= len(plan.vectors) and all(
            n <= size for n, size in zip(plan.vectors, sizes, strict=False)
        )
        if enough and len(self._triples) - self._given >= plan.triples:
            return
        with claims.burn(self._link, self._stocks, plan, self._run) as burnt:
            kind = burnt.stock.manifest.kind
            self._triples, self._given = _triples(burnt.content.triples, kind.scalar_bits), 0
            self._scalars = deque(map(Stored, burnt.content.scalars, plan.vectors, repeat(kind)))
        self.claims.append((burnt.stock.id, burnt.claim))
        self.used += plan
        self.identity = self.identity or burnt.stock.id

    def triples(self, n: int) -> Triples:
        start, last, t = self._given, self._given + n, self._triples
        if last > len(t):
            raise _spent(f"{last - len(t)} triples more than the {len(t)} that were claimed")
        self._given = last
        return t.part(start, last)

    def scalar(self) -> ScalarMaterial:
        return self.scalars(1)[0]

    def scalars(self, count: int) -> list[ScalarMaterial]:
        if not (self._waiting or self._scalars) and self._further:
            self._next(self._further)
        if self._made and self._waiting:
            self._waiting -= count
            return self._made.scalars(count)
        if len(self._scalars) < count:
            raise _spent(f"{count - len(self._scalars)} scalars more than were claimed")
        return [self._scalars.popleft() for _ in range(count)]

    def _next(self, lot: Plan) -> None:
        """Claim a further lot, or have it made."""
        if not self._made:
            try:
                return self.reserve(lot)
            except StockError as error:
                # `common`: raised at all parties alike, so that all of them take the other way.
                if not error.common:
                    raise
                if not self._otherwise:
                    raise _spent("a further lot, which no stock has", f"{MAKE}, and go on with --resume") from error
                self._made, self.mode = self._otherwise(), "mixed"
        self._made.reserve(lot)
        self._waiting = len(lot.vectors)
        self.used += lot
        return None


class Stored(ScalarMaterial):
    """One claimed scalar. words : its file, as `make` writes it; planned : numbers that it was claimed for"""

    def __init__(self, words: NDArray[np.uint64], planned: int, kind: Kind) -> None:
        L = ring.limbs(kind.vector_bits)
        (self.delta,) = ring.to_ints(words[:L].reshape(1, L))
        self._records = words[L:].reshape(-1, 2, L)
        self._planned, self._given = planned, 0

    @property
    def left(self) -> int:
        return self._planned - self._given

    def take(self, n: int) -> Correlation:
        if n > self.left:
            raise _spent(f"{n - self.left} numbers more than the {self._planned} of this scalar that were claimed")
        rows = self._records[self._given : self._given + n]
        self._given += n
        return Correlation(*np.array(rows.transpose(1, 0, 2), order="C"))  # a copy: the file's pages may go


def claim(link: Link, stocks: Sequence[NumberStock], plan: Plan, run: bytes) -> StockMaterial:
    """Material for `plan`, claimed at once. If StockError.common, nothing was claimed and the run may do without."""
    material = StockMaterial(link, stocks, run)
    material.reserve(plan)
    return material


def _triples(records: NDArray[np.uint8], bits: int) -> Triples:
    numbers = ring.to_ints(ring.from_bytes(records.tobytes(), bits))
    return Triples(bits, numbers[0::3], numbers[1::3], numbers[2::3])


def _spent(what: str, do: str = MAKE) -> StockError:
    return StockError(f"the program wants {what}.", "as much as its plan said", do)
