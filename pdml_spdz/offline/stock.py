"""A stock on the disk: one party's part of material that all parties made together, and what is left of it.

<root>/stock-<id>/party-<m>/manifest.json     what it is: readable by a person
                            ledger.jsonl      what was claimed (`ledger`)
                            triples.bin       n records: digest, a, b, c
                            scalar-00000.bin  one secret scalar's VOLE: this party's delta, then for every number
                                              what it keeps (`vole.Correlation`); gone once it is claimed
"""

from __future__ import annotations

import hashlib
import json
import os
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.errors import StockError
from pdml_spdz.numerics.ring import limbs
from pdml_spdz.offline import ledger
from pdml_spdz.offline.disk import DIGEST
from pdml_spdz.offline.ledger import Heading, Position, State
from pdml_spdz.offline.material import Plan
from pdml_spdz.system.files import parse_json

FORMAT = 6  # 6: numbers from LPN with ten different places in a row, trees with tweaks
MANIFEST, TRIPLES = "manifest.json", "triples.bin"
MAKE = "make one with `pdml-spdz offline make` at all parties, or run with `--offline on-demand`"


@dataclass(frozen=True)
class Kind:
    """What a stock and a run must have in common. Anything else (program, d, rank) is a matter of how much is there."""

    M: int
    vector_bits: int
    scalar_bits: int
    vole: str = "lpn"

    def __str__(self) -> str:
        rings = f"vectors in Z_2^{self.vector_bits}, scalars in Z_2^{self.scalar_bits}"
        return f"{self.M} parties, {rings}" + (", by OT alone" if self.vole == "ot" else "")

    def serves(self, wanted: Kind) -> bool:
        """Whether this one will do: what was made by OT alone assumes less."""
        return self == wanted or replace(self, vole="lpn") == wanted

    @property
    def triple_size(self) -> int:
        """Bytes of a triple's record."""
        return DIGEST + 3 * self.scalar_bits // 8

    def scalar_size(self, n: int) -> int:
        """Bytes of the file of a scalar with n numbers."""
        return (1 + 2 * n) * 8 * limbs(self.vector_bits)


@dataclass(frozen=True)
class File:
    """digest : of its bytes; for the triples, of their digests, which stay when a used triple is overwritten"""

    bytes: int
    digest: str


@dataclass(frozen=True)
class Manifest:
    stock: str
    party: int
    kind: Kind
    triples: int
    vectors: tuple[int, ...]
    created: str
    files: dict[str, File]

    @property
    def heading(self) -> Heading:
        return Heading(self.stock, self.party, self.triples, len(self.vectors))

    def to_json(self) -> str:
        content = {
            "format": FORMAT,
            "stock": self.stock,
            "parties": self.kind.M,
            "party": self.party,
            "vector_bits": self.kind.vector_bits,
            "scalar_bits": self.kind.scalar_bits,
            "vole": self.kind.vole,
            "triples": self.triples,
            "vectors": list(self.vectors),
            "created": self.created,
            "bytes": sum(file.bytes for file in self.files.values()),
            "files": {name: vars(file) for name, file in self.files.items()},
        }
        return json.dumps(content, indent=1) + "\n"

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Manifest:
        M, vector_bits, scalar_bits = (int(content[name]) for name in ("parties", "vector_bits", "scalar_bits"))
        kind = Kind(M, vector_bits, scalar_bits, str(content["vole"]))
        triples, vectors = int(content["triples"]), tuple(int(n) for n in content["vectors"])
        files = {str(name): File(int(f["bytes"]), str(f["digest"])) for name, f in content["files"].items()}
        wanted = {TRIPLES: triples * kind.triple_size}
        wanted |= {scalar_name(i): kind.scalar_size(n) for i, n in enumerate(vectors)}
        if {name: file.bytes for name, file in files.items()} != wanted:
            raise ValueError("the files in it are not those of its counts")
        party = int(content["party"])
        return cls(str(content["stock"]), party, kind, triples, vectors, str(content["created"]), files)


def scalar_name(i: int) -> str:
    return f"scalar-{i:05}.bin"


def directory(root: Path, stock: str, party: int) -> Path:
    return root / f"stock-{stock}" / f"party-{party}"


@dataclass(frozen=True)
class Choice:
    """A part of a stock for a plan: a range of triples, and for the plan's i-th scalar number scalars[i]."""

    triples: tuple[int, int]
    scalars: tuple[int, ...]


class Stock:
    """One party's part of a stock. Its files are checked when they are read (`claim`), its names and sizes here."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            content = parse_json((path / MANIFEST).read_text(encoding="utf-8"))
            version = content["format"]
            if version == FORMAT:
                self.manifest = Manifest.from_json(content)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise self.error(f"its {MANIFEST} cannot be used ({error!r})") from None
        if version != FORMAT:
            raise self.error(f"it has format {version}", f"format {FORMAT}, which this version makes and reads")
        m = self.manifest
        if (path.parent.name, path.name) != (f"stock-{m.stock}", f"party-{m.party}"):
            raise self.error(f"it is stock {m.stock} of party {m.party}", "the directory that it was made in")

    @property
    def id(self) -> str:
        return self.manifest.stock

    @property
    def ledger_path(self) -> Path:
        return self.path / ledger.FILE

    def scalar_path(self, i: int) -> Path:
        return self.path / scalar_name(i)

    def state(self) -> State:
        """What the ledger says now; StockError if it is damaged or a file that should still be there is not."""
        state = ledger.read(self.ledger_path, self.manifest.heading)
        while True:
            try:
                self.check_sizes(state.position)
            except StockError:
                later = ledger.read(self.ledger_path, self.manifest.heading)
                if later == state:
                    raise
                state = later  # claimed meanwhile by another run
            else:
                return state

    def check_sizes(self, used: Position) -> None:
        found = {}
        with os.scandir(self.path) as entries:
            for entry in entries:
                with suppress(OSError):
                    found[entry.name] = entry.stat().st_size
        names = [TRIPLES, *(scalar_name(i) for i in range(len(self.manifest.vectors)) if i not in used.scalars)]
        for name in names:
            if name not in found:
                # Claimed scalars are removed, so this may well be a ledger from before a claim.
                raise self.error(f"{name} is missing, and the ledger has no claim on it")
            if found[name] != self.manifest.files[name].bytes:
                raise self.error(f"{name} has {found[name]} bytes", f"{self.manifest.files[name].bytes} bytes")

    def choose(self, used: Position, plan: Plan) -> Choice | None:
        """What a plan takes if `used` is used up: the next triples, the smallest unused scalars that will do."""
        last = used.triple + plan.triples
        given = allot(self.manifest.vectors, used.scalars, plan.vectors)
        if last > self.manifest.triples or len(given) < len(plan.vectors):
            return None
        return Choice((used.triple, last), tuple(given[j] for j in range(len(plan.vectors))))

    def lacks(self, used: Position, plan: Plan) -> str:
        """What is missing for a plan, in words; empty if it fits."""
        parts = []
        if (left := self.manifest.triples - used.triple) < plan.triples:
            parts.append(f"{plan.triples - max(left, 0)} of {plan.triples} triples")
        given = allot(self.manifest.vectors, used.scalars, plan.vectors)
        if short := [n for j, n in enumerate(plan.vectors) if j not in given]:
            parts.append(f"{len(short)} of {len(plan.vectors)} scalars, with at least {max(short)} numbers each")
        return " and ".join(parts)

    def scrub(self, first: int, last: int, scalars: Sequence[int]) -> None:
        """Take what was used off the disk, as far as the disk allows: triples `first` to before `last`, whole scalars.

        Nothing depends on it: the ledger is what forbids reuse. What a file system has copied elsewhere stays there.
        """
        for i in scalars:
            with suppress(OSError):
                self.scalar_path(i).unlink(missing_ok=True)
        if first < last:
            with suppress(OSError, ValueError):
                file = np.memmap(self.path / TRIPLES, np.uint8, "r+")
                file.reshape(-1, self.manifest.kind.triple_size)[first:last, DIGEST:] = 0
                file.flush()

    def holds(self, first: int, last: int, scalars: Sequence[int]) -> bool:
        """Whether anything of what `scrub` would take off is on the disk."""
        if any(self.scalar_path(i).exists() for i in scalars):
            return True
        with suppress(OSError, ValueError):
            file = np.memmap(self.path / TRIPLES, np.uint8, "r")
            return bool(file.reshape(-1, self.manifest.kind.triple_size)[first:last, DIGEST:].any())
        return False

    def read_triples(self, first: int, last: int) -> NDArray[np.uint8]:
        """The records without their digests, which are checked first: each for its record, all against the manifest."""
        if not self.manifest.triples:
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

    def map_scalar(self, i: int) -> NDArray[np.uint64]:
        """The words of a scalar's file, checked against its digest; they stay readable when the file is removed."""
        name = scalar_name(i)
        try:
            words: NDArray[np.uint64] = np.memmap(self.path / name, "<u8", "r")
        except (OSError, ValueError) as error:
            raise self.error(f"{name} cannot be read ({error})") from None
        file = self.manifest.files[name]
        if words.nbytes != file.bytes or hashlib.blake2b(words.data, digest_size=DIGEST).hexdigest() != file.digest:
            raise self.error(f"{name} does not have the digest that the manifest says")
        return words

    def error(self, found: str, wanted: str = "the files as `pdml-spdz offline make` wrote them") -> StockError:
        do = f"remove {self.path} (the other parties' parts are of no use without it) and make a new stock"
        return StockError(f"{self.path}: {found}.", wanted, do)


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


def find(root: Path, kind: Kind, me: int, plan: Plan | None = None) -> list[Stock]:
    """This party's stocks of one kind in `root`; with a plan, those that have enough left for it by its own ledger.

    A damaged one is an error, not skipped: it would be taken for one that was never made.
    """
    stocks = [Stock(path) for path in sorted(root.glob(f"stock-*/party-{me}"))]
    stocks = [stock for stock in stocks if stock.manifest.kind.serves(kind)]
    positions = [stock.state().position for stock in stocks]
    if plan is None:
        return stocks
    return [stock for stock, used in zip(stocks, positions, strict=True) if stock.choose(used, plan) is not None]
