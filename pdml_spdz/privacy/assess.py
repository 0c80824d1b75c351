"""Before joining: from one party's rows and a stated guess of the others' to a measurement of KSDP; what a party can
see in its own rows, and how large it is in the eyes of a coalition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pdml_spdz.errors import InputError
from pdml_spdz.numerics.linalg import EPS
from pdml_spdz.privacy.ksdp import Experiment, make_plan
from pdml_spdz.privacy.mechanism import Mechanism
from pdml_spdz.privacy.nmf_mechanism import NmfMechanism
from pdml_spdz.privacy.svd_mechanism import VIEWS, SvdMechanism
from pdml_spdz.rows.base import RowsLike, as_rows

ALGORITHMS = ("svd", "pca", "nmf")


@dataclass(frozen=True)
class Question:
    """What is to be measured.

    size : rows of the victim's database in each sample, 0 for half of the rows
    others : rows that stand for the other parties', None for as many rows as the victim's, drawn from its own
    documents : how many records (chosen at random), or which; 0 for all
    """

    algorithm: str
    rank: int
    size: int = 0
    others: RowsLike | None = None
    documents: int | Sequence[int] = 50
    samples: int = 100
    seed: int = 0
    sweeps: int = 20
    start: str = "random"
    weighted: bool = False
    views: tuple[str, ...] = VIEWS
    statistics: tuple[str, ...] = ()


def experiment(X: RowsLike, q: Question, store: Path | None = None) -> tuple[Experiment, list[str]]:
    """The experiment that answers the question, and what it assumes, in words."""
    if q.algorithm not in ALGORITHMS:
        raise InputError(f"the algorithm is {q.algorithm!r}.", f"one of {', '.join(ALGORITHMS)}")
    if q.others is not None and q.others.shape[1] != X.shape[1]:
        raise InputError(f"the others' rows have {q.others.shape[1]} columns.", f"{X.shape[1]}, as the party's own")
    n = X.shape[0]
    size = q.size or n // 2
    rng = np.random.default_rng(np.random.SeedSequence(q.seed, spawn_key=(2**31,)))
    documents = _documents(q.documents, n, rng)
    plan = make_plan(n, documents, size, q.samples, q.seed)
    others = X[np.sort(rng.choice(n, size))] if q.others is None else q.others
    guess = (
        f"{size:,} rows drawn from this party's own stand for the others'"
        if q.others is None
        else f"{others.shape[0]:,} rows that were given stand for the others'"
    )
    assumptions = [
        f"{q.algorithm}, rank {q.rank}; {guess}. The coalition knows them.",
        f"Databases of {size:,} of {n:,} rows; a larger one (fewer colluding parties) usually shows less.",
        f"{len(documents)} records, {q.samples} databases with each and as many without it.",
        "The coalition follows the protocol and knows everything but which rows the victim's database has.",
    ]
    return Experiment(X, plan, _mechanism(q, others, size), q.statistics, store), assumptions


def _documents(wanted: int | Sequence[int], n: int, rng: np.random.Generator) -> list[int]:
    if not isinstance(wanted, int):
        return [int(i) for i in wanted]
    if wanted < 0:
        raise InputError(f"the number of records is {wanted}.", "zero (all) or more")
    return sorted(int(i) for i in rng.choice(n, min(wanted or n, n), replace=False))


def _mechanism(q: Question, others: RowsLike, size: int) -> Mechanism:
    if q.algorithm == "nmf":
        return NmfMechanism(others, q.rank, q.sweeps, q.start, q.weighted)
    return SvdMechanism(others, q.rank, size, q.algorithm == "pca", q.views)


def to_exclude(ksdp: dict[str, Any], *, level: float, epsilon: float | None, views: Sequence[str] = ()) -> list[int]:
    """Records that are distinguishable at this level after Holm's correction, or whose epsilon certainly exceeds the
    given.
    """
    found = set()
    for view in ksdp["views"]:
        if views and view["name"] not in views:
            continue
        for record in view["records"]:
            if record["adjusted"] <= level or (epsilon is not None and record["epsilon_family"] > epsilon):
                found.add(int(record["document"]))
    return sorted(found)


LISTED = 20
DENSE = 2000  # features up to which leverages are computed
HALF = 0.5  # a row that is so much of some direction by itself is told by that direction


@dataclass(frozen=True)
class EffectiveSize:
    """colluding : so many others pool what they see; rows : of those that they cannot take apart, at the worst"""

    colluding: int
    rows: int


def effective_size(rows: Sequence[int], victim: int, coalition: Sequence[int]) -> int:
    """The rows that a coalition cannot tell apart: those of all parties that are not in it. [PDML §Value in Hiding]"""
    M = len(rows)
    if not 0 <= victim < M or victim in coalition or not set(coalition) <= set(range(M)):
        raise InputError(f"the victim is {victim} and the coalition {list(coalition)} of {M} parties.", "others")
    return sum(n for m, n in enumerate(rows) if m not in coalition)


def effective_sizes(rows: Sequence[int], victim: int) -> list[EffectiveSize]:
    """For every number of colluding parties the smallest effective size: the largest others collude."""
    others = sorted((m for m in range(len(rows)) if m != victim), key=lambda m: -rows[m])
    return [EffectiveSize(c, effective_size(rows, victim, others[:c])) for c in range(len(others) + 1)]


@dataclass(frozen=True)
class OwnRisks:
    """empty : features that no row of this party has; few : fewer rows than features, so that S_m is singular

    alone : (row, how many features only it has), the worst first; heavy : (row, leverage) above a half
    """

    rows: int
    d: int
    empty: int
    few: bool
    alone: tuple[tuple[int, int], ...]
    heavy: tuple[tuple[int, float], ...]


def own_risks(X: RowsLike) -> OwnRisks:
    """Local: looks at this party's rows only."""
    rows = as_rows(X)
    present = rows.present()
    users = np.asarray(present.sum(axis=0)).reshape(-1)
    single = np.asarray(present[:, np.flatnonzero(users == 1)].sum(axis=1)).reshape(-1)
    order = np.argsort(-single, kind="stable")[:LISTED]
    heavy: tuple[tuple[int, float], ...] = ()
    n, d = rows.shape
    if d <= DENSE and n > d:
        U, sigma, _ = np.linalg.svd(rows.dense(), full_matrices=False)
        leverage = np.sum(U[:, sigma > n * EPS * sigma[0]] ** 2, axis=1)
        worst = np.argsort(-leverage, kind="stable")[:LISTED]
        heavy = tuple((int(i), float(leverage[i])) for i in worst if leverage[i] > HALF)
    return OwnRisks(
        n, d, int(np.sum(users == 0)), n < d, tuple((int(i), int(single[i])) for i in order if single[i] > 0), heavy
    )
