"""Stocks of all kinds of content as the tests on kills see them: made, claimed, and what of them is on the disk."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pdml_spdz.engines.mp_spdz import directory
from pdml_spdz.engines.mp_spdz import preprocessing as mp_spdz
from pdml_spdz.engines.mp_spdz.preprocessing import Preprocessed, Preprocessing
from pdml_spdz.offline import ledger
from pdml_spdz.offline.claim import burn
from pdml_spdz.offline.from_stock import StockMaterial, claim
from pdml_spdz.offline.mask_products import Integers, MaskPlace, Pair, Rounding, Segment
from pdml_spdz.offline.mask_stock import FOLDER, ONE_FIT, MaskKind, MaskStock, make_mask_stock, material_of
from pdml_spdz.offline.material import Plan
from pdml_spdz.offline.new_stock import New, Wanted, new_stock
from pdml_spdz.offline.numbers import TRIPLES, NumberStock, record_digest, scalar_name
from pdml_spdz.offline.stock import MANIFEST, File, Manifest, Stock, look
from pdml_spdz.offline.stock import directory as part_of
from pdml_spdz.system.files import DIGEST, NewFile, write_file
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.certs import Identity
from tests.mp_spdz_stocks import COMPILED, PARTS, contents, material, write_parts
from tests.stocks import fake, fake_kind

Given = frozenset[Any]  # whatever tells one piece of material from another, the same at all parties


class Content(ABC):
    """
    leaves : a kill at the first of these steps of a claim leaves something of it on the disk
    every : of many kills that are alike for both contents, which are tried
    """

    stock: type[Stock[Any, Any, Any]]
    leaves: tuple[str, ...]
    every = 1

    @abstractmethod
    def root(self, root: Path, m: int) -> Path:
        """Where party m's stocks are."""

    @abstractmethod
    def fill(self, root: Path, M: int, claims: int) -> None:
        """Stocks for so many claims."""

    @abstractmethod
    def claim(self, link: Link, root: Path) -> Given:
        """One run's way to its material."""

    @abstractmethod
    def look_in_vain(self, link: Link, root: Path) -> None:
        """A run that finds too little left, and so claims nothing."""

    @abstractmethod
    def make(self, link: Link, root: Path) -> None:
        """A stock for one claim, with nothing in it, made as a real one is."""

    @abstractmethod
    def left(self, root: Path, m: int) -> int:
        """Bytes on party m's disk that its ledgers say are claimed."""

    def parts(self, root: Path, M: int) -> list[Path]:
        """Of all parties' stocks."""
        return sorted({path for m in range(M) for path in self.root(root, m).glob("stock-*/party-*")})

    def problems(self, root: Path, M: int) -> list[str]:
        roots = {self.root(root, m) for m in range(M)}
        return [part.problem for own in sorted(roots) for part in look(self.stock, own)]


class OfNumbers(Content):
    stock, leaves = NumberStock, ("send stock:claimed", "receive stock:claimed", "unlink")
    PLAN, ID = Plan(2, (1, 1)), "0123456789abcdef"

    def root(self, root: Path, m: int) -> Path:
        return root

    def fill(self, root: Path, M: int, claims: int) -> None:
        fake(root, M, Plan(claims * self.PLAN.triples, (1,) * (claims * len(self.PLAN.vectors))), self.ID)

    def claim(self, link: Link, root: Path) -> Given:
        """By what is in the files, not by what the ledger says."""
        material = claim(link, NumberStock.find(root, fake_kind(link.M), link.me), self.PLAN, b"run")
        scalars = {("scalar", material.scalar().delta) for _ in self.PLAN.vectors}
        return frozenset(scalars | {("triple", a) for a in material.triples(self.PLAN.triples).a})

    def look_in_vain(self, link: Link, root: Path) -> None:
        StockMaterial(link, NumberStock.find(root, fake_kind(link.M), link.me), b"next").check(self.PLAN)

    def make(self, link: Link, root: Path) -> None:
        kind = fake_kind(link.M)
        with new_stock(link, NumberStock, root, Wanted(kind, self.PLAN.triples, self.PLAN.vectors)) as new:
            link.all_to_all("material", b"")
            with NewFile(new.path / TRIPLES) as file:
                contents = [bytes([i + 1]) * 24 for i in range(self.PLAN.triples)]
                checks = [record_digest(content) for content in contents]
                records = b"".join(check + content for check, content in zip(checks, contents, strict=True))
                file.write(records, digested=b"".join(checks))
            new.files[TRIPLES] = File(file.bytes, file.digest)
            for i, n in enumerate(self.PLAN.vectors):
                with NewFile(new.path / scalar_name(i)) as file:
                    file.write(i.to_bytes(8, "little") * (kind.scalar_size(n) // 8))
                new.files[scalar_name(i)] = File(file.bytes, file.digest)

    def left(self, root: Path, m: int) -> int:
        total = 0
        for path in root.glob(f"stock-*/party-{m}"):
            stock = NumberStock(path)
            used = stock.state().position
            total += sum(stock.item_path(i).stat().st_size for i in used.items if stock.item_path(i).exists())
            records = (stock.path / TRIPLES).read_bytes()
            size = stock.manifest.kind.triple_size
            total += sum(any(records[i * size + DIGEST : (i + 1) * size]) for i in range(used.record))
        return total


class OfPreprocessing(Content):
    """Each party has its own root: one is free to clear away the directories of runs that have ended."""

    stock, leaves = Preprocessing, ("send stock:claimed", "receive stock:claimed", "rename")
    every = 5  # its claims take longer

    def root(self, root: Path, m: int) -> Path:
        return root / f"P{m}"

    def kind(self, M: int) -> Preprocessed:
        return Preprocessed.of(COMPILED, M, "semi")

    def fill(self, root: Path, M: int, claims: int) -> None:
        for i in range(claims):
            for m in range(M):
                path = part_of(self.root(root, m), f"{i:016x}", m)
                path.mkdir(parents=True)
                write_parts(new := New(f"{i:016x}", path))
                manifest = Manifest(new.id, m, self.kind(M), 0, mp_spdz.ITEMS, "2026-01-01", new.files)
                ledger.create(path / ledger.FILE, manifest.heading)
                write_file(path / MANIFEST, manifest.to_json().encode())

    def claim(self, link: Link, root: Path) -> Given:
        """As an execution does it: its directory goes with it."""
        own = self.root(root, link.me)
        stocks = mp_spdz.fitting(link, own, self.kind(link.M), b"run")
        run = directory.create(COMPILED, Identity(link.me, Path("/none"), {}), [], parent=own)
        try:
            stock = mp_spdz.take(link, stocks, b"run", run.data).stock
            given = {path.parent.name: path.read_bytes() for path in run.data.glob("*/Triples")}
            assert given == {part: material(stock, part) for part in PARTS}
            return frozenset(given.values())
        finally:
            run.remove()

    def look_in_vain(self, link: Link, root: Path) -> None:
        mp_spdz.fitting(link, self.root(root, link.me), self.kind(link.M), b"next")

    def make(self, link: Link, root: Path) -> None:
        wanted = Wanted(self.kind(link.M), 0, mp_spdz.ITEMS)
        with new_stock(link, Preprocessing, self.root(root, link.me), wanted) as new:
            write_parts(new)
        directory.sweep(self.root(root, link.me))  # as `directory.create` does, in which the offline program runs

    def left(self, root: Path, m: int) -> int:
        own = self.root(root, m)
        stocks = [Preprocessing(path) for path in own.glob("stock-*/party-*")]
        claimed = {stock.id.encode() for stock in stocks if stock.state().claims}
        return sum(len(raw) for raw in contents([own]) if raw.split()[0] in claimed)


class OfMasks(Content):
    stock, leaves = MaskStock, ("send stock:claimed", "receive stock:claimed", "unlink")
    every = 5  # it is claimed as numbers are
    SEGMENT = Segment([Rounding(3, 8, 2)], [(MaskPlace(0, np.array([[0]])), MaskPlace(0, np.array([[1, 2]])))])
    ID = "0123456789abcdef"

    def root(self, root: Path, m: int) -> Path:
        return root / FOLDER

    def kind(self, M: int) -> MaskKind:
        return MaskKind.of(M, self.SEGMENT)

    def fill(self, root: Path, M: int, claims: int) -> None:
        size = 3 * 11 + 2 * 32
        for m in range(M):
            path = part_of(root / FOLDER, self.ID, m)
            path.mkdir(parents=True)
            files = {}
            for i in range(claims):
                raw = bytes([i + 1]) * size
                (path / MaskStock.item_name(i)).write_bytes(raw)
                files[MaskStock.item_name(i)] = File(size, record_digest(raw).hex())
            manifest = Manifest(self.ID, m, self.kind(M), 0, (size,) * claims, "2026-01-01", files)
            ledger.create(path / ledger.FILE, manifest.heading)
            write_file(path / MANIFEST, manifest.to_json().encode())

    def claim(self, link: Link, root: Path) -> Given:
        """By what is in the files."""
        with burn(link, MaskStock.find(root / FOLDER, self.kind(link.M), link.me), ONE_FIT, b"run") as burnt:
            found = material_of(burnt.content, self.SEGMENT)
        return frozenset({("mask", int(found.masks[0][0])), ("share", int(found.shares[0][0, 0]))})

    def look_in_vain(self, link: Link, root: Path) -> None:
        with burn(link, MaskStock.find(root / FOLDER, self.kind(link.M), link.me), ONE_FIT, b"next"):
            raise AssertionError("claimed")

    def make(self, link: Link, root: Path) -> None:
        def products(pairs: Sequence[Pair]) -> list[Integers]:
            link.all_to_all("material", b"")
            return [np.zeros((len(pair.left), pair.right.shape[1]), object) for pair in pairs]

        make_mask_stock(link, root, self.SEGMENT, products, b"session")

    def left(self, root: Path, m: int) -> int:
        total = 0
        for path in (root / FOLDER).glob(f"stock-*/party-{m}"):
            stock = MaskStock(path)
            used = [stock.item_path(i) for i in stock.state().position.items]
            total += sum(item.stat().st_size for item in used if item.exists())
        return total


CONTENTS = {"numbers": OfNumbers(), "preprocessing": OfPreprocessing(), "masks": OfMasks()}


def clear(root: Path) -> None:
    for path in root.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


Files = dict[Path, tuple[int, bytes | None]]  # by path: its mode, and what is in it; None is a directory


def copied(root: Path) -> Files:
    """Everything below `root`."""
    found = {path: path.stat().st_mode for path in sorted(root.rglob("*"))}
    return {path: (mode, None if path.is_dir() else path.read_bytes()) for path, mode in found.items()}


def put_back(root: Path, files: Files) -> None:
    """These and nothing else below `root`."""
    clear(root)
    for path, (mode, content) in files.items():
        path.mkdir() if content is None else path.write_bytes(content)
        path.chmod(mode)
