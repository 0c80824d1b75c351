"""Stocks of MP-SPDZ's offline material: bound to one compiled program, good for one execution.

<stocks>/mp-spdz/stock-<id>/party-<m>/Player-Data/    as MP-SPDZ wrote it: the only item of the stock; the manifest has
                                                      a digest of every file, which a protocol without MACs has not

MP-SPDZ reads its files from the start in every run and does not remember what it used when a run fails: the same
material would then hide two different numbers, whose difference is no secret any more. So a stock is used at most
once, whatever happens: it is claimed (`offline.claim`), and moved into the run's own directory, before a virtual
machine starts; and that directory is deleted afterwards, however the run ended: by the run, or by the next one.
"""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from pdml_spdz.engines.mp_spdz import directory
from pdml_spdz.engines.mp_spdz.compiler import Compiled
from pdml_spdz.engines.mp_spdz.directory import DATA
from pdml_spdz.errors import StockError
from pdml_spdz.offline import claim
from pdml_spdz.offline.ledger import Position
from pdml_spdz.offline.stock import Choice, Description, File, Manifest, Stock, StockPart, file_sizes
from pdml_spdz.system.files import DIGEST, writing
from pdml_spdz.transport.base import Link

ITEMS = (1,)  # of a stock: its Player-Data
EXECUTION = "one execution of the program"
REMEDY = "make one with `pdml-spdz offline make`, or pass --offline on-demand"


@dataclass(frozen=True)
class Preprocessed(Description):
    """bytecode : digest of the compiled program; counts : as the compiler says"""

    protocol: str
    program: str
    bytecode: str
    domain: str
    counts: dict[str, Any]

    @classmethod
    def of(cls, compiled: Compiled, M: int, protocol: str) -> Preprocessed:
        return cls(M, protocol, compiled.name, compiled.digest, compiled.domain, asdict(compiled.counts))

    def serves(self, wanted: Preprocessed) -> bool:
        """The rest follows from these."""
        own = (self.M, self.protocol, self.bytecode)
        return own == (wanted.M, wanted.protocol, wanted.bytecode)


def file_of(path: Path) -> File:
    """What a manifest says of a file."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=DIGEST)).hexdigest()
    return File(path.stat().st_size, digest)


class Preprocessing(Stock[Preprocessed, str, Path]):
    """The plan is always EXECUTION. What the numbers in the files are is for MP-SPDZ to check."""

    description = Preprocessed

    @property
    def data(self) -> Path:
        return self.path / DATA

    def check_manifest(self) -> None:
        if (self.manifest.records, self.manifest.items) != (0, ITEMS):
            raise ValueError("it is not the material of one execution")
        files = [Path(name) for name in self.manifest.files]
        if not files or any(len(file.parts) != 3 or file.parts[0] != DATA or ".." in file.parts for file in files):
            raise ValueError("it has no digests of the material's files")

    def check(self, used: Position) -> None:
        if used.items:
            return
        if not self.data.is_dir():
            raise self.error(f"{DATA} is missing, and the ledger has no claim on it")
        there = file_sizes(self.data)
        wanted = {Path(name).relative_to(DATA).as_posix(): file.bytes for name, file in self.manifest.files.items()}
        for name in sorted(there.keys() ^ wanted.keys()):
            raise self.error(f"{DATA}/{name} is {'not one of its files' if name in there else 'missing'}")
        for name, size in wanted.items():
            if there[name] != size:
                raise self.error(f"{DATA}/{name} has {there[name]:,} bytes", f"{size:,} bytes, as it was made")

    def choose(self, used: Position, plan: str) -> Choice | None:
        return None if used.items else Choice((0, 0), (0,))

    def lacks(self, used: Position, plan: str) -> str:
        return "material: a run has claimed it" if used.items else ""

    def read(self, choice: Choice) -> Path:
        for name, file in self.manifest.files.items():
            if file_of(self.path / name) != file:
                raise self.error(f"{name} is damaged: its digest is not the one it was made with")
        return self.data

    def scrub(self, first: int, last: int, items: tuple[int, ...]) -> None:
        if items:
            shutil.rmtree(self.data, ignore_errors=True)


def fitting(link: Link, root: Path, wanted: Preprocessed, run: bytes, remedy: str = REMEDY) -> list[Preprocessing]:
    """Party me's stocks for a program, of which one is unused at every party; StockError at all parties if none is.

    What killed runs have left of any stock is taken off the disk. remedy : what to do where there is none
    """
    directory.sweep(root)
    Preprocessing.tidy(root, link.me)
    stocks = Preprocessing.find(root, wanted, link.me)
    try:
        claim.check(link, stocks, [EXECUTION], run)
    except StockError as error:
        if not error.common:
            raise
        none = StockError("there is no unused stock for this program that all parties have.", do=remedy)
        none.common = True
        raise none from None
    return stocks


def take(link: Link, stocks: list[Preprocessing], run: bytes, into: Path) -> Manifest[Preprocessed]:
    """Burn a stock that all parties have and move its material to `into`, on the same disk; returns what it was."""
    with claim.burn(link, stocks, EXECUTION, run) as burnt, writing(into, "free some room"):
        for part in burnt.content.iterdir():
            part.rename(into / part.name)
    return burnt.stock.manifest


def facts(part: StockPart[Preprocessing]) -> dict[str, Any]:
    """What is said of a stock to machines. bytes : of its material, when it was made"""
    m = part.content.manifest if part.content else None
    about = asdict(m.kind) if m else dict.fromkeys(field.name for field in fields(Preprocessed))
    return {
        "id": part.name,
        "party": part.party,
        "parties": about.pop("M"),
        **about,
        "created": m.created if m else None,
        "bytes": m.bytes if m else part.bytes,
        "problem": part.problem,
        "claims": [{"run": claim.run, "time": claim.time} for claim in part.claims],
    }
