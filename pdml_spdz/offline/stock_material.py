"""Material from a stock: what a run claimed, given out once."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.errors import StockError
from pdml_spdz.numerics import ring
from pdml_spdz.offline import claim as claims
from pdml_spdz.offline.ledger import Claim
from pdml_spdz.offline.material import Material, Plan, ScalarMaterial
from pdml_spdz.offline.numbers import Kind, NumberStock
from pdml_spdz.offline.stock import MAKE
from pdml_spdz.ot.triples import Triples
from pdml_spdz.ot.vole import Correlation
from pdml_spdz.transport.base import Link


class StockMaterial(Material):
    """Material of one run. `reserve` claims it, for one execution at a time or for all of them at once.

    stocks : this party's, of the run's kind (`NumberStock.find`); run : the identity of the run, for the ledger
    claims : what was claimed so far, of which stock
    """

    mode = "stock"

    def __init__(self, link: Link, stocks: Sequence[NumberStock], run: bytes) -> None:
        for stock in stocks:
            m = stock.manifest
            if (m.party, m.kind.M) != (link.me, link.M):
                raise stock.error(f"it is of party {m.party} of {m.kind.M}", f"one of party {link.me} of {link.M}")
        self._link, self._stocks, self._run = link, stocks, run
        self.claims: list[tuple[str, Claim]] = []
        self._triples, self._given = Triples(0, [], [], []), 0
        self._scalars: deque[Stored] = deque()

    def check(self, plan: Plan) -> None:
        """StockError, at all parties alike, if no common stock has enough for `plan`. Claims nothing."""
        claims.check(self._link, self._stocks, plan, self._run)

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
            self._scalars = deque(Stored(words, kind) for words in burnt.content.scalars)
        self.claims.append((burnt.stock.id, burnt.claim))
        self.identity = burnt.stock.id

    def triples(self, n: int) -> Triples:
        start, last, t = self._given, self._given + n, self._triples
        if last > len(t):
            raise _spent(f"{last - len(t)} triples more than the {len(t)} that were claimed")
        self._given = last
        return t.part(start, last)

    def scalar(self) -> ScalarMaterial:
        if not self._scalars:
            raise _spent("one scalar more than were claimed")
        return self._scalars.popleft()


class Stored(ScalarMaterial):
    """One claimed scalar. words : its file, as `make` writes it"""

    def __init__(self, words: NDArray[np.uint64], kind: Kind) -> None:
        L = ring.limbs(kind.vector_bits)
        (self.delta,) = ring.to_ints(words[:L].reshape(1, L))
        self._records = words[L:].reshape(-1, 2, L)
        self._given = 0

    @property
    def left(self) -> int:
        return len(self._records) - self._given

    def take(self, n: int) -> Correlation:
        if n > self.left:
            raise _spent(f"{n - self.left} numbers more than the {len(self._records)} of this scalar that were claimed")
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


def _spent(what: str) -> StockError:
    return StockError(f"the program wants {what}.", "as much as its plan said", MAKE)
