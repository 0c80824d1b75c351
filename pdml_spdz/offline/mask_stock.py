"""Stocks of sealed fits: a party's masks up to the first checkpoint, and its shares of their products.

<root>/sealed/stock-<id>/party-<m>/segment-00000.bin   masks, one rounding after the other, then shares of products;
                                                       gone once it is claimed

What multiplies a party's own inputs is no part of it: it is made in the run, as is what later checkpoints take.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.errors import StockError
from pdml_spdz.offline.file_stock import FileStock
from pdml_spdz.offline.ledger import Position
from pdml_spdz.offline.mask_products import Maker, MaskProducts, Segment, SegmentMaterial
from pdml_spdz.offline.new_stock import Wanted, new_stock
from pdml_spdz.offline.stock import Choice, Description, File, directory
from pdml_spdz.programs.precision import SIGMA
from pdml_spdz.programs.sealed_precision import RING
from pdml_spdz.system.files import NewFile
from pdml_spdz.transport.base import Link

FOLDER = "sealed"  # in the directory of all stocks
ONE_FIT = "a sealed fit up to its first checkpoint"  # what a run claims


@dataclass(frozen=True)
class MaskKind(Description):
    """segment : a digest of all roundings and products of one, by which a run knows that it is its own
    numbers : masks and shares in it
    """

    segment: str
    numbers: int

    def __str__(self) -> str:
        return f"{self.M} parties, masks of a sealed fit, {self.numbers:,} numbers"

    @classmethod
    def of(cls, M: int, segment: Segment) -> MaskKind:
        products = [(left.name, right.name) for left, right in segment.ahead]
        said = repr((RING, SIGMA, segment.roundings, products)).encode()
        return cls(M, hashlib.blake2b(said, digest_size=16).hexdigest(), sum(n for n, _ in _sizes(segment)))


class MaskStock(FileStock[MaskKind, str, NDArray[np.uint8]]):
    """Each item is one fit's."""

    description = MaskKind

    def check_manifest(self) -> None:
        self.check_files({self.item_name(i): n for i, n in enumerate(self.manifest.items)})

    @staticmethod
    def item_name(i: int) -> str:
        return f"segment-{i:05}.bin"

    def choose(self, used: Position, plan: str) -> Choice | None:
        free = [i for i in range(len(self.manifest.items)) if i not in used.items]
        return Choice((0, 0), (free[0],)) if free else None

    def lacks(self, used: Position, plan: str) -> str:
        return "" if self.choose(used, plan) else plan

    def read(self, choice: Choice) -> NDArray[np.uint8]:
        return self.map_item(choice.items[0])

    def scrub(self, first: int, last: int, items: tuple[int, ...]) -> None:
        self.remove_items(items)


def make_mask_stock(link: Link, root: Path, segment: Segment, make: Maker, session: bytes) -> MaskStock:
    """A stock (`new_stock`) for one fit: the masks that this party draws, and shares of their products.

    *Reveals:* nothing. *Cost, Ref:* those of the maker.
    """
    size = sum(n * width for n, width in _sizes(segment))
    wanted = Wanted(MaskKind.of(link.M, segment), 0, (size,), size, session)
    root = root / FOLDER
    with new_stock(link, MaskStock, root, wanted) as new:
        name = MaskStock.item_name(0)
        material = MaskProducts([segment], make).ahead()
        with NewFile(new.path / name) as file:
            for numbers, (_, width) in zip([*material.masks, *material.shares], _sizes(segment), strict=True):
                file.write(b"".join(int(x).to_bytes(width, "little") for x in numbers.reshape(-1)))
        new.files[name] = File(file.bytes, file.digest)
    return MaskStock(directory(root, new.id, link.me))


def material_of(raw: NDArray[np.uint8], segment: Segment) -> SegmentMaterial:
    """What `make_mask_stock` has written."""
    sizes = _sizes(segment)
    if raw.nbytes != sum(n * width for n, width in sizes):
        raise StockError(f"masks in {raw.nbytes} bytes.", f"{sum(n * width for n, width in sizes)} bytes")
    data, at, arrays = raw.tobytes(), 0, []
    for n, width in sizes:
        numbers = [int.from_bytes(data[k : k + width], "little") for k in range(at, at + n * width, width)]
        arrays.append(np.array([*numbers, None], object)[:-1])
        at += n * width
    masks, shares = arrays[: len(segment.roundings)], arrays[len(segment.roundings) :]
    shapes = [(left.index.shape[0], right.index.shape[1]) for left, right in segment.ahead]
    return SegmentMaterial(masks, [share.reshape(shape) for share, shape in zip(shares, shapes, strict=True)])


def _sizes(segment: Segment) -> list[tuple[int, int]]:
    """How many numbers there are of each rounding and product, and the bytes of each of them."""
    masks = [(rounding.n, -(-(rounding.bits + SIGMA) // 8)) for rounding in segment.roundings]
    return masks + [(left.index.shape[0] * right.index.shape[1], RING // 8) for left, right in segment.ahead]
