"""Penalties for ML-1M by Hyperband, for the other experiments; and beside a grid of 16 points. [PDML §Experiments]"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import TypeVar

import numpy as np

from benchmarks.experiments import datasets, official
from benchmarks.experiments.cells import Cell, Row
from pdml_spdz.algorithms.nmf import start_by_seed
from pdml_spdz.algorithms.rri import Penalties, part
from pdml_spdz.applications.recommender import (
    Continued,
    Evaluate,
    Search,
    hold_out,
    hyperband,
    pd_nmf_loss,
    sample_penalties,
)
from pdml_spdz.engines.secsum import SecSumEngine
from pdml_spdz.primitives.agree import Agreement
from pdml_spdz.system.files import save_json
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.inprocess import between_threads

LOW, HIGH = 0.01, 100.0  # of each penalty, by logarithm; the same for both
SWEEPS, ETA = 27, 5  # 36 settings for 49 % of the sweeps of 16
APART = 99  # the number of a draw of users that no trial has

R = TypeVar("R")
draw = partial(sample_penalties, low=LOW, high=HIGH)


def between(
    directory: Path, k: int, share: float, M: int, trial: int, ask: Callable[[Callable[[], Evaluate[Penalties]]], R]
) -> R:
    """What `ask` finds between M parties, from a loss by which each setting begins anew."""
    X = datasets.ratings(directory)
    rows, _ = datasets.parties(X.shape[0], share, M, trial)
    split = [hold_out(X[r], datasets.HELD_OUT, 1000 + trial) for r in rows]
    bound = sum(part(known, 1, weighted=True).norm() for known, _ in split)
    most = max(held.nnz for _, held in split)

    def party(link: Link) -> R:
        sec_sum, agree = SecSumEngine(link, b"experiment", "auto").sec_sum, Agreement(link)
        known, held = split[link.me]

        def loss() -> Evaluate[Penalties]:
            go_on = Continued(known, start_by_seed(X.shape[1], k, trial, agree), bound, sec_sum, agree)
            return pd_nmf_loss(go_on, (known, held), datasets.STARS, sec_sum, most=most)

        return ask(loss)

    return between_threads(M, party)[0]


def searched(directory: Path, k: int, share: float, M: int, trial: int) -> Search[Penalties]:
    """By Hyperband."""
    return between(directory, k, share, M, trial, lambda loss: hyperband(draw, loss(), SWEEPS, ETA, seed=trial))


def losses(
    directory: Path, k: int, share: float, M: int, trial: int, points: Sequence[tuple[Penalties, int]]
) -> list[float]:
    """Of settings after so many sweeps; one that comes again, with more, goes on from where it was."""

    def ask(loss: Callable[[], Evaluate[Penalties]]) -> list[float]:
        evaluate = loss()
        return [evaluate(*point) for point in points]

    return between(directory, k, share, M, trial, ask)


def grid() -> list[Penalties]:
    """Two values of each penalty, at the quarters of the range."""
    quarters = np.exp(np.log(LOW) + np.array([0.25, 0.75]) * np.log(HIGH / LOW))
    return [Penalties(*map(float, point)) for point in product(quarters, repeat=4)]


@cache
def tuned(directory: Path, k: int) -> Penalties:
    """What Hyperband finds between three parties with 3 % of the users each, in a draw that no trial has.

    Kept in runs/: it takes as long as several cells of small parties.
    """
    kept = datasets.CACHE / f"penalties-{k}-{official.version(directory, 'ML-1M')}.json"
    if not kept.is_file():
        kept.parent.mkdir(parents=True, exist_ok=True)
        save_json(kept, asdict(searched(directory, k, 0.03, 3, APART).best.configuration))
    return Penalties(**json.loads(kept.read_text(encoding="utf-8")))


def cell(directory: Path, k: int, share: float, M: int, trial: int) -> list[Row]:
    search = searched(directory, k, share, M, trial)
    of_grid = losses(directory, k, share, M, trial, [(point, SWEEPS) for point in grid()])
    best = int(np.argmin(of_grid))
    return [
        _row("Hyperband", search.best.loss, search.cost, search.best.configuration),
        _row("grid of 16", of_grid[best], 16 * SWEEPS, grid()[best]),
    ]


def _row(method: str, loss: float, cost: int, p: Penalties) -> Row:
    penalties = {"alpha": p.alpha, "beta": p.beta, "gamma": p.gamma, "delta": p.delta}
    return {"method": method, "rmse": float(np.sqrt(loss)), "sweeps": cost} | penalties


def cells(directory: Path, *, full: bool) -> list[Cell]:
    share, k, M = (0.1 if full else 0.02), 7, 3
    names = {"data": "ML-1M", "M": M, "party_share": share, "k": k}
    trials = range(10 if full else 5) if official.has(directory, "ML-1M") else []
    return [Cell(names | {"trial": trial}, cell, (directory, k, share, M, trial)) for trial in trials]
