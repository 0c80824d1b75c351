"""How many openings do krylov and power need for the same vectors, and what do they cost?

    PDML_DATA=DIR python -m benchmarks.bench_krylov [--engine embedded] [--power] [name ...]

Data sets: digits, breast cancer; of DIR Songs, News, Blogs, standardised, and 20NG, TF-IDF of 10^4 terms. k = 7, three
parties as threads of this process; krylov to a bound of 1e-7, and with --power block power iteration too, with as many
iterations as take its sine to what krylov was asked for.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import svds
from sklearn.datasets import load_breast_cancer, load_digits

from benchmarks.experiments import datasets, official
from benchmarks.parties import save
from pdml_spdz.algorithms import krylov
from pdml_spdz.algorithms.krylov_state import KrylovState
from pdml_spdz.algorithms.shown import ritz
from pdml_spdz.algorithms.solver import Fitting, SvdSettings, start_by_seed
from pdml_spdz.local.joint import local_study
from pdml_spdz.local.threads import run_in_threads
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.numerics.linalg import orthonormalise, sine
from pdml_spdz.primitives.normed_sum import Alone, own_directions
from pdml_spdz.rows.base import RowsLike
from pdml_spdz.transport.base import Clock

M, K, TERMS, DOCUMENTS, SEED = 3, 7, 10_000, 8_000, 1
GOAL = 1e-7  # of the sine: krylov's bound of it, and power's own
MOST = {"digits": 14, "Songs": 14, "News": 14, "Blogs": 20, "20NG": 24}  # openings wanted


def standardised(X: Reals) -> Reals:
    return np.asarray((X - X.mean(axis=0)) / X.std(axis=0))


def tf_idf(directory: Path) -> RowsLike:
    found = datasets.corpus(directory, "20NG", TERMS, DOCUMENTS)
    counts = np.array([np.bincount(words[words >= 0], minlength=found.d) for words in found.documents])
    weights = np.log(len(counts) / np.count_nonzero(counts, axis=0))
    X = sp.csr_array(counts * weights)
    return sp.csr_array(X / sp.linalg.norm(X, axis=1)[:, None])


def tables(directory: Path) -> Iterator[tuple[str, Callable[[], RowsLike]]]:
    yield "digits", lambda: load_digits().data.astype(np.float64)
    yield "breast cancer", lambda: standardised(load_breast_cancer().data)
    for name in ("Songs", "News", "Blogs"):
        if official.has(directory, name):
            yield name, lambda name=name: standardised(datasets.regression_table(directory, name)[0])  # type: ignore[misc]
    if official.has(directory, "20NG"):
        yield "20NG", lambda: tf_idf(directory)


def exact(X: RowsLike) -> Reals:
    if X.shape[1] == TERMS:  # too many for all eigenvectors
        return np.asarray(svds(X, K, tol=1e-12)[2][::-1].T)
    return np.asarray(np.linalg.eigh(X.T @ X)[1][:, ::-1][:, :K])


def iterations_of_power(X: RowsLike, goal: float = GOAL, most: int = 5_000) -> int:
    """How many take power's sine to the goal, from the start that a run has: counted on all rows together, with the
    exact vectors at hand. A run cannot know it; its own rule (the change of V) stops sooner or later.
    """
    W, V = exact(X), start_by_seed(X.shape[1], K, SEED, Alone())
    for t in range(1, most):
        V = orthonormalise(np.asarray(X.T @ (X @ V)))[0]
        if sine(W, V) <= goal:
            return t
    raise ValueError(f"power's sine is above {goal} after {most} iterations")


@dataclass(frozen=True)
class Pooled:
    """S of all rows together."""

    X: RowsLike

    def times(self, V: Reals) -> Reals:
        return np.asarray(self.X.T @ (self.X @ V))


def openings_of_krylov(X: RowsLike, goal: float = GOAL) -> int:
    """The same for krylov, which goes on until its bound, too, is below the goal."""
    d, states = X.shape[1], list[KrylovState]()
    start = krylov.start(start_by_seed(d, krylov.block_size(K, d), SEED, Alone()))
    fitting = Fitting(Pooled(X), own_directions, Alone(), Clock(), states.append)
    krylov.pd_krylov(fitting, start, SvdSettings(K, krylov.KRYLOV.iterations, goal))
    W = exact(X)
    vectors = ((state.t, state.shown.Q @ ritz(state.shown).U[:, :K]) for state in states)
    return next(t for t, V in vectors if sine(W, V) <= goal)


def run(X: RowsLike, solver: str, engine: str, iterations: int = 0) -> dict[str, Any]:
    """krylov stops by its bound, power after `iterations_of_power`; or both after so many."""
    n = X.shape[0]
    parts = [X[i * n // M : (i + 1) * n // M] for i in range(M)]
    iterations = iterations or (iterations_of_power(X) if solver == "power" else 0)
    stop = {"iterations": iterations, "tol": 0.0} if iterations else {"tol": GOAL}
    study = local_study(M, rank=K, engine=engine, solver=solver, start="seed", seed=SEED, **stop)
    began = time.perf_counter()
    done = run_in_threads(parts, study)
    seconds, report = time.perf_counter() - began, done.report
    bound = report.get("sine_bound") or {"span": math.nan}
    return {
        "openings": report["iterations"],
        "converged": report["converged"],
        "bound": bound["span"],
        "sine": sine(exact(X), done.V),
        "seconds": seconds,
        "offline and loop": report["seconds"]["loop"],  # material is made in the loop
        "loop": report["seconds"]["loop"] - report["seconds"].get("offline", 0.0),
        "sent_MB": report["bytes_sent"] / 1e6,
        "offline_MB": report["offline"]["bytes_sent"] / 1e6,
        "offline_numbers": (report.get("stock") or {}).get("claimed", {}).get("numbers", 0),
    }


WANTED = {"sent_MB": 10, "offline_numbers": 20, "offline_MB": 3, "loop": 5, "offline and loop": 3}  # of Songs


def compared(name: str, krylov: dict[str, Any], power: dict[str, Any]) -> str:
    """How many times as much power takes, where krylov is as accurate."""
    if not krylov["sine"] <= power["sine"]:
        return f"{name}: krylov is less accurate than power"
    ratios = {what: power[what] / krylov[what] for what in WANTED if krylov[what]}
    words = [f"{what} {found:.1f}" + f" (wanted {WANTED[what]})" * (name == "Songs") for what, found in ratios.items()]
    return f"{name}: power / krylov: {', '.join(words)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--engine", default="embedded")
    parser.add_argument("--power", action="store_true")
    given = parser.parse_args()
    found: dict[str, Any] = {}
    for name, make in tables(Path(os.environ.get("PDML_DATA", "data"))):
        if given.names and name not in given.names:
            continue
        X = make()
        for solver in ("krylov", *(["power"] if given.power else [])):
            found[f"{name}, {solver}"] = row = run(X, solver, given.engine)
            wanted = f" (at most {MOST[name]})" if solver == "krylov" and name in MOST else ""
            sine, offline = f"bound {row['bound']:.1e}, sine {row['sine']:.1e}", f"{row['offline_MB']:.2f} MB offline"
            print(
                f"{name:14} {X.shape[0]} x {X.shape[1]}, {solver:6}: {row['openings']:4} openings{wanted}, {sine}, "
                f"{row['seconds']:.1f} s (loop {row['loop']:.2f}, with offline {row['offline and loop']:.2f}), "
                f"{row['sent_MB']:.2f} MB online, {offline}, {row['offline_numbers']:,} numbers",
                flush=True,
            )
        if given.power:
            print(compared(name, *(found[f"{name}, {solver}"] for solver in ("krylov", "power"))), flush=True)
    save("krylov", {"engine": given.engine, "k": K, "M": M, "found": found})


if __name__ == "__main__":
    main()
