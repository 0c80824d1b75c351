"""Coefficients W of rows that are not loaded whole: by pieces, where the rows are.

On threads each piece of W is a file in a private directory that goes with this object; on a cluster it is in the
workers' memory.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.rows.frames import arrow_numbers
from pdml_spdz.rows.workers import ClusterWorkers, Workers
from pdml_spdz.system.files import reading, writing

# function(piece, W, *arguments) -> (W, sum)
PieceWork = Callable[..., tuple[Reals, Any]]


class Coefficients(ABC):
    """W of shape (n, k), zero at first."""

    def __init__(self, workers: Workers, pieces: Sequence[Any], lengths: Sequence[int], k: int) -> None:
        self.workers, self.pieces, self.lengths, self.k = workers, pieces, lengths, k

    @abstractmethod
    def total(self, function: PieceWork, *arguments: Any) -> Any:
        """The sum over all pieces of what function(piece, W, *arguments) returns beside its new W, which is kept."""

    @abstractmethod
    def parts(self) -> Iterator[Reals]:
        """W, piece by piece."""

    @abstractmethod
    def replaced(self, parts: Iterator[Reals]) -> None:
        """Go on from these."""

    def save(self, directory: Path) -> None:
        """One file for each piece, for their owner only."""
        with writing(directory):
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir(mode=0o700, parents=True)
            for i, part in enumerate(self.parts()):
                with _private(directory / f"part-{i:05d}.npy") as file:
                    np.save(file, part)

    def load(self, directory: Path) -> None:
        self.replaced(self._kept(directory / f"part-{i:05d}.npy", n) for i, n in enumerate(self.lengths))

    def _kept(self, path: Path, n: int) -> Reals:
        with reading(path, "the coefficients of a piece, as a checkpoint has them", "run again without --resume"):
            part: Reals = np.load(path, allow_pickle=False)
            if part.shape != (n, self.k) or not np.isfinite(part).all():
                raise ValueError("other numbers")
            return part

    def write_parquet(self, directory: Path, ids: NDArray[Any] | None = None) -> None:
        """For people: W/part-<i>.parquet with a column for each topic, in the order of the files and their rows, and
        one that says whose row it is, where that is known.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        names = [f"topic-{t}" for t in range(self.k)]
        with writing(directory):
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir(mode=0o700, parents=True)
            at = 0
            for i, part in enumerate(self.parts()):
                table = pa.table(list(part.T), names=names)
                if ids is not None:
                    table = table.add_column(0, "id", pa.array(ids[at : at + len(part)].tolist(), pa.string()))
                with _private(directory / f"part-{i:05d}.parquet") as file:
                    pq.write_table(table, file)
                at += len(part)


def read_parquet_parts(directory: Path) -> Reals:
    """(n, k): W as `Coefficients.write_parquet` has written it, whole."""
    import pyarrow.parquet as pq

    tables = [pq.read_table(path) for path in sorted(directory.glob("part-*.parquet"))]
    topics = [name for name in tables[0].column_names if name != "id"]
    return np.concatenate([arrow_numbers(table.select(topics)) for table in tables])


def _private(path: Path) -> Any:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


class FileCoefficients(Coefficients):
    """In files of a private directory."""

    def __init__(self, workers: Workers, pieces: Sequence[Any], lengths: Sequence[int], k: int) -> None:
        super().__init__(workers, pieces, lengths, k)
        place = tempfile.mkdtemp(prefix="pdml-spdz-W-")  # 0700
        weakref.finalize(self, shutil.rmtree, place, ignore_errors=True)  # also at the end of the process
        self._files = [str(Path(place) / f"{i}.npy") for i in range(len(pieces))]
        self.replaced(np.zeros((n, k)) for n in lengths)

    def total(self, function: PieceWork, *arguments: Any) -> Any:
        own = [(path, function, *arguments) for path in self._files]
        return self.workers.total(_updated_file, self.pieces, own)

    def parts(self) -> Iterator[Reals]:
        return (np.load(path) for path in self._files)

    def replaced(self, parts: Iterator[Reals]) -> None:
        for path, part in zip(self._files, parts, strict=True):
            np.save(path, part)


def _updated_file(piece: Any, path: str, function: PieceWork, *arguments: Any) -> Any:
    W, result = function(piece, np.load(path), *arguments)
    np.save(path, W)
    return result


class ClusterCoefficients(Coefficients):
    """In the workers' memory. What a worker that died has held is computed again, from what it was made of."""

    workers: ClusterWorkers

    def __init__(self, workers: Workers, pieces: Sequence[Any], lengths: Sequence[int], k: int) -> None:
        super().__init__(workers, pieces, lengths, k)
        self._held = self.workers.held(np.zeros, [((n, k),) for n in lengths])

    def total(self, function: PieceWork, *arguments: Any) -> Any:
        own = [(W, *arguments) for W in self._held]
        self._held, result = self.workers.total_and_held(function, self.pieces, own)
        return result

    def parts(self) -> Iterator[Reals]:
        return (self.workers.value(W) for W in self._held)

    def replaced(self, parts: Iterator[Reals]) -> None:
        self._held = self.workers.held(np.asarray, [(part,) for part in parts])


def coefficients(workers: Workers, pieces: Sequence[Any], lengths: Sequence[int], k: int) -> Coefficients:
    made: type[Coefficients] = ClusterCoefficients if workers.keeps else FileCoefficients
    return made(workers, pieces, lengths, k)
