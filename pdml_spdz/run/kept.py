"""What a run has opened before its first iteration, on a party's disk."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.system.files import parse_json, reading, replaced

Numbers = Mapping[str, NDArray[Any]]
# Of what a run has written: what it is, and what to do when it is damaged.
KEPT_NUMBERS = "what this run has written before", "put back a copy of it, or run again without --resume"
MADE_WITH = "made_with"


class KeptNumbers:
    """Numbers that every party has seen, by the names of their files in `directory`.

    A resumed run takes them from there: computed again, they would be rounded anew, and two roundings show more than
    one. A file names, with their digests, those that were there when it was made, for it depends on them.

    names : of files to read, as far as they are there; a run that is not resumed has none
    digests : by name
    """

    def __init__(self, directory: Path, names: Iterable[str] = ()) -> None:
        self._directory, self._numbers = directory, dict[str, Numbers]()
        self.digests: dict[str, str] = {}
        for path in (directory / name for name in names):
            if path.is_file():
                with reading(path, *KEPT_NUMBERS), np.load(path, allow_pickle=False) as archive:
                    self._add(path.name, {name: archive[name] for name in archive})
                    self.made_with(path.name)

    def get(self, name: str) -> Numbers | None:
        return self._numbers.get(name)

    def keep(self, name: str, **arrays: NDArray[Any]) -> None:
        arrays[MADE_WITH] = np.array(json.dumps(self.digests))
        with replaced(self._directory / name, private=True) as temporary, temporary.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
        self._add(name, arrays)

    def made_with(self, name: str) -> dict[str, str]:
        """The digests of what this file depends on."""
        return dict(parse_json(str(self._numbers[name][MADE_WITH])))

    def lost(self, made_with: Mapping[str, str]) -> list[str]:
        """Which of these are no longer there as they were."""
        return [name for name, digest in made_with.items() if self.digests.get(name) != digest]

    def _add(self, name: str, numbers: Numbers) -> None:
        content = hashlib.sha256()
        for key, array in sorted(numbers.items()):
            content.update(f"{key} {array.dtype.str} {array.shape}|".encode() + array.tobytes())
        self._numbers[name], self.digests[name] = numbers, content.hexdigest()
