"""PD-SVD and PD-PCA as an adversary sees them, many databases at a time. [PDML §Privacy and Accuracy of PD-SVD]

Letters: S is the covariance of all rows, the victim's and the others'; V (d, k) its leading eigenvectors, values =
Sigma^2 its leading eigenvalues; n_v, n_a rows of the victim and of the adversary.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pdml_spdz.errors import InputError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.numerics.linalg import fix_signs, orthonormalise
from pdml_spdz.privacy.ksdp import digest
from pdml_spdz.privacy.mechanism import Content, Mechanism, Observables
from pdml_spdz.privacy.rank_one import Eigen, top_after_row
from pdml_spdz.privacy.symmetric import LowRank, OneMore, Symmetric, Whole
from pdml_spdz.rows.base import RowsLike, as_rows

VIEWS = ("pd-svd", "sigma", "transcript")
DENSE = 2000  # above it no eigendecomposition of all of S: warm starts instead
WARM_STEPS, WARM_TOLERANCE = 300, 1e-10


@dataclass(frozen=True)
class _Base:
    """S of a database and the others' rows, less the mean if `centred`; n : rows; mean : (d,)"""

    S: Reals
    n: int
    mean: Reals


@dataclass(frozen=True)
class SvdMechanism(Mechanism):
    """others : the adversary's rows, fixed; it knows them. views : which observers

    pd-svd : V, and Sigma guessed from the adversary's own: (n_v + n_a)/n_a Sigma_A^2
    sigma : V and the true Sigma (SVD that reveals it)
    transcript : c S, which the iterations of PD-SVD show on the span of all V_t; here all of it, the most they can
    """

    others: RowsLike
    k: int
    n_v: int
    centred: bool = False
    views: tuple[str, ...] = VIEWS
    name: str = "svd"
    _own: dict[str, Any] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        unknown = set(self.views) - set(VIEWS)
        if unknown:
            raise InputError(f"the views {sorted(unknown)} are unknown.", f"some of {', '.join(VIEWS)}")
        n_a, d = self.others.shape
        if not 1 <= self.k <= d:
            raise InputError(f"the rank is {self.k} for {d} features.", "from 1 to d")
        base = self._base(self.others)
        values = np.linalg.eigvalsh(base.S)[::-1][: self.k] if d <= DENSE else _warm(base.S, self.k, None)[0]
        scale = (self.n_v + n_a) / n_a
        self._own["estimate"] = scale * np.maximum(values, 0.0)
        self._own["trace"] = scale * float(np.trace(base.S))
        self._own["S"], self._own["t"] = as_rows(self.others).gram(), as_rows(self.others).column_sums()

    def settings(self) -> dict[str, Any]:
        return {
            "name": "pca" if self.centred else "svd",
            "rank": self.k,
            "victim_rows": self.n_v,
            "others": digest(self.others),
            "views": list(self.views),
        }

    def _base(self, X: RowsLike, *, joined: bool = False) -> _Base:
        """Of rows X, with the others' if `joined`."""
        rows = as_rows(X)
        S, t, n = rows.gram(), rows.column_sums(), rows.shape[0]
        if joined:
            S, t, n = S + self._own["S"], t + self._own["t"], n + self.others.shape[0]
        mean = t / n if self.centred else np.zeros(len(t))
        return _Base(S - n * np.outer(mean, mean) if self.centred else S, n, mean)

    def sample_without(self, X: RowsLike, rng: np.random.Generator) -> Content:
        base = self._base(X, joined=True)
        if len(base.S) <= DENSE:
            eigen = Eigen.of(base.S)
            values, V = eigen.values[: self.k], eigen.Q[:, : self.k]
        else:
            values, V = _warm(base.S, self.k, None)
        return self._content(base, fix_signs(V), values)

    def sample_with(self, X: RowsLike, records: RowsLike, rng: np.random.Generator) -> Content:
        """With one more row x: S + x x^T, and less the mean S + n/(n + 1) (x - mean)(x - mean)^T: one rank more."""
        base = self._base(X, joined=True)
        x = as_rows(records).dense()
        more = np.sqrt(base.n / (base.n + 1.0)) * (x - base.mean) if self.centred else x
        if len(base.S) <= DENSE:
            values, V = top_after_row(Eigen.of(base.S), more, self.k)
        else:
            start = _warm(base.S, self.k, None)[1]
            found = [_warm(base.S, self.k, start, row) for row in more]
            values, V = np.array([v for v, _ in found]), np.array([V for _, V in found])
        V = np.array([fix_signs(v) for v in V])
        return self._content(base, V, values)

    def _content(self, base: _Base, V: Reals, values: Reals) -> Content:
        content: Content = {"V": V, "values": values, "n": np.array(base.n), "mean": base.mean}
        if "transcript" in self.views:
            content["S"] = base.S
        return content

    def observables(self, content: Content, i: int | None, x: Reals) -> Observables:
        n, mean = int(content["n"]), content["mean"]
        seen = _SvdObservables(estimate=self._own["estimate"], trace=self._own["trace"])
        base = content.setdefault("whole", Whole(content["S"])) if "S" in content else None
        if i is None:
            nothing = np.zeros(len(x))
            seen.update(V=content["V"], values=content["values"], mean=mean, n=n)
            seen["covariance"] = None if base is None else OneMore(base, nothing)
            seen["low_rank"] = content.setdefault("low_rank", _low_rank(seen))  # the same for all records
            return seen
        more, factor = (x - mean, n / (n + 1.0)) if self.centred else (x, 1.0)
        seen["covariance"] = None if base is None else OneMore(base, more, factor)
        mean = (n * mean + x) / (n + 1) if self.centred else mean
        seen.update(V=content["V"][i], values=content["values"][i], mean=mean, n=n + 1)
        seen["low_rank"] = _low_rank(seen)
        return seen

    def statistics(self, seen: Observables, x: Reals) -> dict[str, float]:
        found: dict[str, float] = {}
        y = x - seen["mean"] if self.centred else x
        for view in self.views:
            found |= {
                f"{view}/{name}": value for name, value in correlation_statistics(_estimate(view, seen), y).items()
            }
            if self.centred:
                found[f"{view}/mean"] = float(seen["mean"] @ x)
        return found

    def features(self, seen: Observables, x: Reals) -> dict[str, Reals]:
        y = x - seen["mean"] if self.centred else x
        share = (seen["V"].T @ y) ** 2 / max(float(y @ y), 1e-300)
        by_view = {"pd-svd": share, "sigma": np.concatenate([share, seen["values"], share * seen["values"]])}
        S = seen["covariance"]
        if S is not None:
            Sy, diagonal = S.times(y), S.diagonal()
            by_view["transcript"] = np.array([y @ Sy, Sy @ Sy, (y * y) @ diagonal]) / diagonal.sum()
        return {view: by_view[view] for view in self.views}


class _SvdObservables(dict[str, Any]):
    """What is seen; "S", which may be large, is formed when a statistic asks for it."""

    def __missing__(self, name: str) -> Any:
        if name != "S" or self["covariance"] is None:
            raise KeyError(name)
        self["S"] = self["covariance"].matrix()
        return self["S"]


def _estimate(view: str, seen: Observables) -> Symmetric:
    """What the observer takes for S."""
    if view == "transcript":
        # c is not known: the trace is set to what the adversary's own rows let it expect.
        S: OneMore = seen["covariance"]
        return replace(S, scale=seen["trace"] / S.trace())
    found: Symmetric = seen["low_rank"][view]
    return found


def _low_rank(seen: Observables) -> dict[str, Symmetric]:
    """What those take for S who see V and guess Sigma, or see it."""
    return {"pd-svd": LowRank(seen["V"], seen["estimate"]), "sigma": LowRank(seen["V"], seen["values"])}


def correlation_statistics(S: Symmetric, x: Reals) -> dict[str, float]:
    """The paper's two families, each by max, sum and sum of squares.

    W = |S o x x^T|; D = |S/||S||_F - x x^T/||x|||, and the same with ||x||^2, which makes both terms of size 1.
    Outside of the features of x, W is zero and D is |S|/||S||_F.
    """
    place = np.flatnonzero(x)
    norm, size = float(np.linalg.norm(x)), S.norm()
    block = S.block(place)
    outer = np.outer(x[place], x[place])
    W = np.abs(block * outer)
    found = {"W max": W.max(initial=0.0), "W sum": W.sum(), "W squares": float(np.vdot(W, W))}
    if size == 0 or norm == 0:
        return found | {f"D{p} {how}": 0.0 for p in ("", "2") for how in ("max", "sum", "squares")}
    total, largest = S.outside(place)
    squares = max(0.0, 1.0 - float(np.vdot(block, block)) / size**2)
    for name, by in (("", norm), ("2", norm * norm)):
        D = np.abs(block / size - outer / by)
        found[f"D{name} max"] = max(largest / size, D.max(initial=0.0))
        found[f"D{name} sum"] = total / size + D.sum()
        found[f"D{name} squares"] = squares + float(np.vdot(D, D))
    return {name: float(value) for name, value in found.items()}


def _warm(S: Reals, k: int, start: Reals | None, row: Reals | None = None) -> tuple[Reals, Reals]:
    """(values, V) of S (+ row row^T) by block power iteration from `start`, with some columns to spare."""
    d = len(S)
    if start is None:
        start = np.random.default_rng(0).standard_normal((d, min(d, k + 8)))
    elif start.shape[1] < min(d, k + 8):
        start = np.column_stack([start, np.random.default_rng(0).standard_normal((d, min(d, k + 8) - start.shape[1]))])
    Q = orthonormalise(start)[0]
    for _ in range(WARM_STEPS):
        Y = S @ Q
        if row is not None:
            Y += np.outer(row, row @ Q)
        values, R = np.linalg.eigh(Q.T @ Y)
        values, R = values[::-1], R[:, ::-1]
        ritz, image = Q @ R[:, :k], Y @ R
        if np.linalg.norm(image[:, :k] - ritz * values[:k]) <= WARM_TOLERANCE * values[0]:
            break
        Q = orthonormalise(image)[0]
    return values[:k], ritz
