"""Before joining: from one party's rows and a stated guess of the others' to a measurement of KSDP; what a party can
see in its own rows, and how large it is in the eyes of a coalition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pdml_spdz.errors import InputError
from pdml_spdz.numerics.linalg import EPS
from pdml_spdz.privacy import known
from pdml_spdz.privacy.attacks import Finding
from pdml_spdz.privacy.ksdp import Experiment, Samples, make_plan
from pdml_spdz.privacy.level_mechanism import BY_KRYLOV, BY_POWER, LEVEL_VIEWS, SEALED, SUMS, VECTORS, LevelMechanism
from pdml_spdz.privacy.mechanism import Mechanism
from pdml_spdz.privacy.nmf_mechanism import ALL, NMF_VIEWS, TOPICS, NmfMechanism
from pdml_spdz.privacy.sealed_shows import SealedSettings
from pdml_spdz.privacy.svd_mechanism import VIEWS, SvdMechanism
from pdml_spdz.rows.base import RowsLike, as_rows

UNITS = {"svd": "singular vectors", "pca": "principal components", "nmf": "topics"}
ALGORITHMS = tuple(UNITS)
EVERY_VIEW = (*LEVEL_VIEWS, *NMF_VIEWS)
OF_LEVELS = (VECTORS, SEALED, BY_POWER, BY_KRYLOV, SUMS)
LEVELS_UP_TO = 300  # features up to which all levels are measured if nobody says otherwise: minutes, beyond it hours


@dataclass(frozen=True)
class Question:
    """What is to be measured.

    size : rows of the victim's database in each sample, 0 for half of the rows
    others : rows that stand for the other parties', None for as many rows as the victim's, drawn from its own
    documents : how many records (chosen at random), or which; 0 for all
    views : observers; none for those of the paper, or with `levels` for one of each level, where that takes minutes
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
    views: tuple[str, ...] = ()
    levels: bool = False
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
        f"{size:,} rows drawn from this party's own stand for the other parties'"
        if q.others is None
        else f"{others.shape[0]:,} rows that were given stand for the other parties'"
    )
    assumptions = [
        f"{q.rank} {UNITS[q.algorithm]} of all parties' rows; {guess}.",
        f"This party's data sets are random choices of {size:,} of its {n:,} rows; larger ones usually show less.",
        f"{len(documents)} of the {n:,} records were looked at, each in {q.samples} data sets with it and {q.samples} "
        "without it.",
        "Whoever looks follows the protocol, knows the other parties' rows and the record, and asks whether this party "
        "has it.",
        *(["The mean of all rows is open, as in a run that says nothing else."] if q.algorithm == "pca" else []),
    ]
    return Experiment(X, plan, _mechanism(q, others, size), q.statistics, store), assumptions


def _documents(wanted: int | Sequence[int], n: int, rng: np.random.Generator) -> list[int]:
    if not isinstance(wanted, int):
        return [int(i) for i in wanted]
    if wanted < 0:
        raise InputError(f"the number of records is {wanted}.", "zero (all) or more")
    return sorted(int(i) for i in rng.choice(n, min(wanted or n, n), replace=False))


def _mechanism(q: Question, others: RowsLike, size: int) -> Mechanism:
    d = others.shape[1]
    if q.algorithm == "nmf":
        views = q.views or ((TOPICS, ALL) if q.levels else (ALL,))
        return NmfMechanism(others, q.rank, q.sweeps, q.start, q.weighted, views=views)
    views = q.views or (OF_LEVELS if q.levels and d <= LEVELS_UP_TO and q.rank < d and not q.statistics else VIEWS)
    if set(views) <= set(VIEWS):
        return SvdMechanism(others, q.rank, size, q.algorithm == "pca", views)
    if q.statistics:
        raise InputError(
            f"there are statistics of your own for the views {', '.join(v for v in views if v not in VIEWS)}.",
            f"some of {', '.join(VIEWS)} with them",
        )
    sealed = SealedSettings.usual(q.rank, d)
    return LevelMechanism(others, q.rank, size, sealed, q.algorithm == "pca", views=views)


def share_closed(samples: Samples, mechanism: Mechanism) -> float | None:
    """Of the sealed fits the share that ended without a result; None if there were none."""
    if not isinstance(mechanism, LevelMechanism) or SEALED not in mechanism.views:
        return None
    checkpoints = samples.values[:, samples.names.index(f"{SEALED}/checkpoint")]
    return float(np.mean(checkpoints >= len(mechanism.sealed.checkpoints)))


def by_subtraction(X: RowsLike, planned: Experiment) -> list[Finding]:
    """What all other parties together compute of the mean of all rows, which a PCA opens, without any run."""
    mechanism = planned.mechanism
    if not getattr(mechanism, "centred", False):
        return []
    others = as_rows(mechanism.others)  # type: ignore[attr-defined]
    n = X.shape[0] + others.shape[0]
    mu = (as_rows(X).column_sums() + others.column_sums()) / n
    found = known.mean(known.Known([others], [X]), 1, n, mu)
    needed = "the rows of all other parties, and the open mean"
    return [replace(found, needed=needed, got=found.got.replace(known.whose(1), "this party's"))]


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
