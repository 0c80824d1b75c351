"""Who works on pieces of rows: threads of this process, or a cluster by dask.distributed. Both by Dask's graphs.

Sums are added in the order of the pieces, in a tree, whoever comes first: the result is the same to its last bit for
the same pieces.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from pdml_spdz.errors import ClusterError, InputError, PdmlError
from pdml_spdz.rows.pieces import add
from pdml_spdz.rows.reading import Reading

FAN_IN = 4  # sums that are added by one task
REPORTS = 20  # how often a cluster's progress is told in one pass
SENT_EACH = 1 << 16  # bytes of an argument that goes with every task
Progress = Callable[[int, int], None]


class Workers(ABC):
    """progress : called with how many pieces of how many are done"""

    progress: Progress | None = None
    keeps = False  # whether rows stay in the workers' memory between passes

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """function(*arguments), at one of the workers."""
        from dask.delayed import delayed

        return self._computed([delayed(function, pure=False)(*arguments)], 1)[0]

    def total(self, function: Callable[..., Any], pieces: Sequence[Any], own: Sequence[tuple[Any, ...]]) -> Any:
        """The sum of function(piece, *own arguments) over all pieces."""
        from dask.delayed import delayed

        leaf, adder = delayed(self._task(function), pure=False), delayed(_sum, pure=False)
        level = [leaf(piece, *arguments) for piece, arguments in zip(pieces, _shared(own), strict=True)]
        return self._reduced(level, adder)

    def each(
        self, function: Callable[..., Any], pieces: Sequence[Any], own: Sequence[tuple[Any, ...]]
    ) -> Iterator[Any]:
        """function(piece, *own arguments) of each piece in their order; a few at a time."""
        from dask.delayed import delayed

        leaf, own = delayed(self._task(function), pure=False), _shared(own)
        width = 2 * (os.cpu_count() or 1)
        for i in range(0, len(pieces), width):
            tasks = [
                leaf(p, *arguments) for p, arguments in zip(pieces[i : i + width], own[i : i + width], strict=True)
            ]
            yield from self._computed(tasks, len(tasks))

    def _task(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """As a worker calls it."""
        return function

    @abstractmethod
    def _reduced(self, level: list[Any], adder: Any) -> Any: ...

    @abstractmethod
    def _computed(self, tasks: list[Any], leaves: int) -> list[Any]: ...

    def kept(self, function: Callable[..., Any], pieces: Sequence[Any], size: int) -> list[Any] | None:
        """The pieces in the workers' memory, if there is room for them."""
        return None

    def close(self) -> None:
        """Nobody asks for anything any more."""
        return

    def _tell(self, done: int, of: int) -> None:
        if self.progress is not None:
            self.progress(done, of)


def _shared(own: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The arguments, with arrays that several tasks have in common sent once."""
    from dask.delayed import delayed

    once: dict[int, Any] = {}
    for x in (x for arguments in own for x in arguments if isinstance(x, np.ndarray) and x.nbytes > SENT_EACH):
        once.setdefault(id(x), delayed(x, pure=False, traverse=False))
    return [tuple(once.get(id(x), x) for x in arguments) for arguments in own]


def _sum(parts: Sequence[Any]) -> Any:
    total = parts[0]
    for part in parts[1:]:
        total = add(total, part)
    return total


def _tree(level: list[Any], adder: Any) -> Any:
    while len(level) > 1:
        level = [adder(level[i : i + FAN_IN]) for i in range(0, len(level), FAN_IN)]
    return level[0]


class ThreadWorkers(Workers):
    """One thread for each core, each with BLAS of its own."""

    def _reduced(self, level: list[Any], adder: Any) -> Any:
        return self._computed([_tree(level, adder)], len(level))[0]

    def _computed(self, tasks: list[Any], leaves: int) -> list[Any]:
        from dask.base import compute

        with threadpool_limits(1), _counting(self._tell, leaves):
            return list(compute(*tasks, scheduler="threads", num_workers=os.cpu_count() or 1))


@contextmanager
def _counting(tell: Progress, leaves: int) -> Iterator[None]:
    from dask.callbacks import Callback

    done = 0

    def one_more(key: Any, *_: Any) -> None:
        nonlocal done
        if not str(key).startswith("_sum"):
            done += 1
            tell(min(done, leaves), leaves)

    with Callback(posttask=one_more):
        yield


class ClusterWorkers(Workers):
    """A scheduler and its workers, elsewhere. What a worker that died was about is done by another."""

    keeps = True

    def __init__(self, client: Any, where: str) -> None:
        self.client, self.where = client, where

    def _task(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return partial(_on_one_thread, function)

    def _reduced(self, level: list[Any], adder: Any) -> Any:
        size = -(-len(level) // REPORTS)
        parts = [_tree(level[i : i + size], adder) for i in range(0, len(level), size)]
        return _sum(self._gathered(parts, len(level)))

    def _computed(self, tasks: list[Any], leaves: int) -> list[Any]:
        return self._gathered(tasks, leaves)

    def _gathered(self, tasks: list[Any], leaves: int) -> list[Any]:
        from distributed import as_completed

        with self._lost():
            futures = self.client.compute(tasks)
            for done, _ in enumerate(as_completed(futures), 1):
                self._tell(done * leaves // len(futures), leaves)
            return [future.result() for future in futures]

    def held(self, function: Callable[..., Any], own: Sequence[tuple[Any, ...]]) -> list[Any]:
        """function(*own arguments), each in the memory of a worker."""
        from dask.delayed import delayed

        with self._lost():
            return list(self.client.persist([delayed(function, pure=False)(*arguments) for arguments in own]))

    def total_and_held(
        self, function: Callable[..., Any], pieces: Sequence[Any], own: Sequence[tuple[Any, ...]]
    ) -> tuple[list[Any], Any]:
        """For functions of two results: the first ones held, and the sum of the second ones."""
        from dask.delayed import delayed

        leaf, adder = delayed(self._task(function), pure=False, nout=2), delayed(_sum, pure=False)
        made = [leaf(piece, *arguments) for piece, arguments in zip(pieces, _shared(own), strict=True)]
        with self._lost():
            *held, total = self.client.persist([*(first for first, _ in made), _tree([s for _, s in made], adder)])
            return held, self.value(total)

    def everywhere(self, function: Callable[[], Any]) -> dict[str, Any]:
        """function() at each worker, by its address."""
        with self._lost():
            return dict(self.client.run(function))

    def value(self, held: Any) -> Any:
        with self._lost():
            return self.client.compute(held).result()

    def kept(self, function: Callable[..., Any], pieces: Sequence[Any], size: int) -> list[Any] | None:
        from dask.delayed import delayed
        from distributed import wait

        with self._lost():
            limits = [w["memory_limit"] or 0 for w in self.client.scheduler_info(n_workers=-1)["workers"].values()]
            if 2 * size > sum(limits):
                return None
            held = self.client.persist([delayed(function, pure=False)(piece) for piece in pieces])
            wait(held)
            return list(held)

    @contextmanager
    def _lost(self) -> Iterator[None]:
        try:
            with self.client.as_current():
                yield
        except PdmlError:
            raise
        except Exception as error:
            if _by_cluster(error):
                raise ClusterError(
                    f"the cluster at {self.where} was lost: {type(error).__name__}.",
                    "workers until the run has ended",
                    "start its scheduler and workers again; `--resume` at all parties goes on from the last finished "
                    "iteration",
                ) from None
            raise

    def close(self) -> None:
        self.client.close(timeout=5)


def _on_one_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    """A cluster has a worker, or a thread of one, for each core: BLAS would start as many again in every task."""
    with threadpool_limits(1):
        return function(*arguments)


def _by_cluster(error: BaseException) -> bool:
    """Whether it is about the cluster, and not about the rows."""
    module = type(error).__module__
    return module.startswith(("distributed", "tornado")) or isinstance(error, OSError | TimeoutError)


def workers_of(reading: Reading) -> Workers:
    """As a party's own options say."""
    try:
        import dask  # noqa: F401
    except ImportError:
        raise InputError(
            "rows that are not loaded whole need the package dask, which is not installed.",
            do="pip install 'dask[array,dataframe]' distributed",
        ) from None
    if not reading.dask:
        return ThreadWorkers()
    from pdml_spdz.rows.cluster import connected  # with dask.distributed

    return connected(reading)
