"""Stocks of the embedded engine: triples, which are the records, and secret scalars with their numbers, the items.

triples.bin       n records: digest, a, b, c
scalar-00000.bin  one secret scalar's VOLE: this party's delta, then for every number what it keeps
                  (`vole.Correlation`); gone once it is claimed
"""

from __future__ import annotations

import hashlib
import os
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.numerics import ring
from pdml_spdz.offline.ledger import Position
from pdml_spdz.offline.material import Plan
from pdml_spdz.offline.stock import Choice, Description, Stock
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


class NumberStock(Stock[Kind, Plan, Content]):
    """In the manifest the digest of a scalar is that of its file; that of the triples is of their digests, which stay
    when a used triple is overwritten.
    """

    description = Kind

    def check_manifest(self) -> None:
        m = self.manifest
        wanted = {TRIPLES: m.records * m.kind.triple_size}
        wanted |= {scalar_name(i): m.kind.scalar_size(n) for i, n in enumerate(m.items)}
        if {name: file.bytes for name, file in m.files.items()} != wanted:
            raise ValueError("the files in it are not those of its counts")

    def scalar_path(self, i: int) -> Path:
        return self.path / scalar_name(i)

    def check(self, used: Position) -> None:
        found = {}
        with os.scandir(self.path) as entries:
            for entry in entries:
                with suppress(OSError):
                    found[entry.name] = entry.stat().st_size
        names = [TRIPLES, *(scalar_name(i) for i in range(len(self.manifest.items)) if i not in used.items)]
        for name in names:
            if name not in found:
                # Claimed scalars are removed, so this may well be a ledger from before a claim.
                raise self.error(f"{name} is missing, and the ledger has no claim on it")
            if found[name] != self.manifest.files[name].bytes:
                raise self.error(f"{name} has {found[name]} bytes", f"{self.manifest.files[name].bytes} bytes")

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
        return Content(self._read_triples(*choice.records), [self._map_scalar(i) for i in choice.items])

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

    def _map_scalar(self, i: int) -> NDArray[np.uint64]:
        name = scalar_name(i)
        try:
            words: NDArray[np.uint64] = np.memmap(self.path / name, "<u8", "r")
        except (OSError, ValueError) as error:
            raise self.error(f"{name} cannot be read ({error})") from None
        file = self.manifest.files[name]
        if words.nbytes != file.bytes or hashlib.blake2b(words.data, digest_size=DIGEST).hexdigest() != file.digest:
            raise self.error(f"{name} does not have the digest that the manifest says")
        return words

    def scrub(self, first: int, last: int, items: tuple[int, ...]) -> None:
        for i in items:
            with suppress(OSError):
                self.scalar_path(i).unlink(missing_ok=True)
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
