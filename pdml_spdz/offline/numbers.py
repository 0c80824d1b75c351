"""Stocks of the embedded engine: triples, which are the records, and secret scalars with their numbers, the items.

triples.bin       n records: digest, a, b, c
scalar-00000.bin  one secret scalar's VOLE: this party's delta, then for every number what it keeps
                  (`vole.Correlation`); gone once it is claimed
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.numerics import ring
from pdml_spdz.offline.file_stock import FileStock
from pdml_spdz.offline.ledger import Position
from pdml_spdz.offline.material import Plan
from pdml_spdz.offline.stock import Choice, Description
from pdml_spdz.system.files import DIGEST

TRIPLES = "triples.bin"


@dataclass(frozen=True)
class Kind(Description):
    """Which program, d and rank it was made for is no part of it: they say how much is there."""

    vector_bits: int
    scalar_bits: int
    vole: str = "lpn"

    def __str__(self) -> str:
        rings = f"vectors in Z_2^{self.vector_bits}, scalars in Z_2^{self.scalar_bits}"
        return f"{self.M} parties, {rings}" + (", by OT alone" if self.vole == "ot" else "")

    def serves(self, wanted: Kind) -> bool:
        """What was made by OT alone assumes less."""
        return self == wanted or replace(self, vole="lpn") == wanted

    @cached_property
    def triple_size(self) -> int:
        """Bytes of a triple's record."""
        return DIGEST + 3 * self.scalar_bits // 8

    def scalar_size(self, n: int) -> int:
        """Bytes of the file of a scalar with n numbers."""
        return (1 + 2 * n) * 8 * ring.limbs(self.vector_bits)


@dataclass(frozen=True)
class Content:
    """
    triples : their records, without digests
    scalars : the words of the scalars' files, which stay readable when the files are removed
    """

    triples: NDArray[np.uint8]
    scalars: list[NDArray[np.uint64]]


class NumberStock(FileStock[Kind, Plan, Content]):
    """In the manifest the digest of the triples is of their digests, which stay when a used triple is overwritten."""

    description, common = Kind, (TRIPLES,)

    def check_manifest(self) -> None:
        m = self.manifest
        wanted = {TRIPLES: m.records * m.kind.triple_size}
        self.check_files(wanted | {scalar_name(i): m.kind.scalar_size(n) for i, n in enumerate(m.items)})

    @staticmethod
    def item_name(i: int) -> str:
        return scalar_name(i)

    def choose(self, used: Position, plan: Plan) -> Choice | None:
        """The next triples, and the smallest unused scalars that will do."""
        last = used.record + plan.triples
        given = allot(self.manifest.items, used.items, plan.vectors)
        if last > self.manifest.records or len(given) < len(plan.vectors):
            return None
        return Choice((used.record, last), tuple(given[j] for j in range(len(plan.vectors))))

    def lacks(self, used: Position, plan: Plan) -> str:
        missing = []
        if (left := self.manifest.records - used.record) < plan.triples:
            missing.append(f"{plan.triples - max(left, 0)} of {plan.triples} triples")
        given = allot(self.manifest.items, used.items, plan.vectors)
        if short := [n for j, n in enumerate(plan.vectors) if j not in given]:
            missing.append(f"{len(short)} of {len(plan.vectors)} scalars, with at least {max(short)} numbers each")
        return " and ".join(missing)

    def read(self, choice: Choice) -> Content:
        return Content(self._read_triples(*choice.records), [self.map_item(i).view("<u8") for i in choice.items])

    def _read_triples(self, first: int, last: int) -> NDArray[np.uint8]:
        """The records without their digests, which are checked first: each for its record, all against the manifest."""
        if not self.manifest.records:
            return np.empty((0, 0), np.uint8)
        try:
            records = np.memmap(self.path / TRIPLES, np.uint8, "r").reshape(-1, self.manifest.kind.triple_size)
        except (OSError, ValueError) as error:
            raise self.error(f"{TRIPLES} cannot be read ({error})") from None
        sums = records[:, :DIGEST].tobytes()
        if hashlib.blake2b(sums, digest_size=DIGEST).hexdigest() != self.manifest.files[TRIPLES].digest:
            raise self.error(f"{TRIPLES} does not have the digest that the manifest says")
        for i in range(first, last):
            if record_digest(records[i, DIGEST:].tobytes()) != records[i, :DIGEST].tobytes():
                spent = (
                    "was used before, which the ledger does not say" if not records[i, DIGEST:].any() else "is damaged"
                )
                raise self.error(f"triple {i} {spent}")
        return np.array(records[first:last, DIGEST:])

    def scrub(self, first: int, last: int, items: tuple[int, ...]) -> None:
        self.remove_items(items)
        if first < last:
            with suppress(OSError, ValueError):
                file = np.memmap(self.path / TRIPLES, np.uint8, "r+")
                used = file.reshape(-1, self.manifest.kind.triple_size)[first:last, DIGEST:]
                if used.any():
                    used[:] = 0
                    file.flush()


def scalar_name(i: int) -> str:
    return f"scalar-{i:05}.bin"


def record_digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=DIGEST).digest()


def allot(sizes: Sequence[int], used: frozenset[int], wanted: Sequence[int]) -> dict[int, int]:
    """For each wanted size, by its place, an unused scalar that is as small as can be; without those that find none.

    The largest want first: whoever wants less can take whatever it leaves.
    """
    free = sorted((n, i) for i, n in enumerate(sizes) if i not in used)
    given = {}
    for j in sorted(range(len(wanted)), key=lambda j: (-wanted[j], j)):
        k = bisect_left(free, (wanted[j], -1))
        if k < len(free):
            given[j] = free.pop(k)[1]
    return given
