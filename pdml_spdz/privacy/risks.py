"""What a party can see in its own rows before it joins, and how large it is in the eyes of a coalition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pdml_spdz.errors import InputError
from pdml_spdz.numerics.linalg import EPS
from pdml_spdz.rows.base import RowsLike, as_rows

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
