"""Stocks whose items are files, each of them used whole and removed when it is claimed."""

from __future__ import annotations

import hashlib
import os
from abc import abstractmethod
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Generic

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.offline.ledger import Position
from pdml_spdz.offline.stock import D, P, Stock, T
from pdml_spdz.system.files import DIGEST


class FileStock(Stock[D, P, T], Generic[D, P, T]):
    """In the manifest the digest of an item is that of its file."""

    common: tuple[str, ...] = ()  # files that are there from its making to its end

    @staticmethod
    @abstractmethod
    def item_name(i: int) -> str: ...

    def item_path(self, i: int) -> Path:
        return self.path / self.item_name(i)

    def check(self, used: Position) -> None:
        found = {}
        with os.scandir(self.path) as entries:
            for entry in entries:
                with suppress(OSError):
                    found[entry.name] = entry.stat().st_size
        names = [*self.common, *(self.item_name(i) for i in range(len(self.manifest.items)) if i not in used.items)]
        for name in names:
            if name not in found:
                # Claimed items are removed, so this may well be a ledger from before a claim.
                raise self.error(f"{name} is missing, and the ledger has no claim on it")
            if found[name] != self.manifest.files[name].bytes:
                raise self.error(f"{name} has {found[name]} bytes", f"{self.manifest.files[name].bytes} bytes")

    def check_files(self, wanted: dict[str, int]) -> None:
        """ValueError unless the manifest has these files, with so many bytes."""
        if {name: file.bytes for name, file in self.manifest.files.items()} != wanted:
            raise ValueError("the files in it are not those of its counts")

    def map_item(self, i: int) -> NDArray[np.uint8]:
        """Its bytes, checked; they stay readable when the file is removed."""
        name = self.item_name(i)
        try:
            raw: NDArray[np.uint8] = np.memmap(self.path / name, np.uint8, "r")
        except (OSError, ValueError) as error:
            raise self.error(f"{name} cannot be read ({error})") from None
        file = self.manifest.files[name]
        if raw.nbytes != file.bytes or hashlib.blake2b(raw.data, digest_size=DIGEST).hexdigest() != file.digest:
            raise self.error(f"{name} does not have the digest that the manifest says")
        return raw

    def remove_items(self, items: Iterable[int]) -> None:
        for i in items:
            with suppress(OSError):
                self.item_path(i).unlink(missing_ok=True)
