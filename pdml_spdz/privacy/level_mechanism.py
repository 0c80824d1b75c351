"""One fit of all rows as observers of each level see it: `sum` and `normed` by either solver, `sealed`, and V_k alone.

The same databases and the same V_0 for all of them, so that levels can be compared record by record.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import repeat
from typing import Any

import numpy as np

from pdml_spdz.algorithms import krylov
from pdml_spdz.algorithms.svd import POWER
from pdml_spdz.errors import InputError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.numerics.linalg import fix_signs, orthonormalise
from pdml_spdz.privacy import run_shows, sealed_shows
from pdml_spdz.privacy.ksdp import digest
from pdml_spdz.privacy.mechanism import Content, Mechanism, Observables
from pdml_spdz.privacy.rank_one import Eigen, top_after_row
from pdml_spdz.privacy.row_spaces import Projected, projected
from pdml_spdz.privacy.run_shows import Fit
from pdml_spdz.privacy.sealed_shows import SealedSettings
from pdml_spdz.privacy.svd_mechanism import correlation_statistics
from pdml_spdz.privacy.symmetric import LowRank, OneMore, Symmetric, Whole
from pdml_spdz.rows.base import RowsLike, as_rows
from pdml_spdz.study import levels

BLOCKS = 16  # of the Krylov space that a fit is made in: more than krylov ever needed here
BLUR = 16  # exponents that the blur of a scale spreads over
VECTORS, SIGMA, EVERYTHING = "pd-svd", "sigma", "transcript"
BY_POWER, BY_KRYLOV, SUMS = f"{POWER.name} transcript", f"{krylov.KRYLOV.name} transcript", "sums"
SEALED, SEALED_LESS = "sealed run", "sealed run, no ratios"
LEVEL_VIEWS = (VECTORS, SIGMA, EVERYTHING, BY_POWER, BY_KRYLOV, SUMS, SEALED, SEALED_LESS)


@dataclass(frozen=True)
class _Database:
    """S of the victim's rows and the others', less the mean if centred; n rows; mean; S_A, the others' part"""

    S: Reals
    n: int
    mean: Reals
    largest: float  # of the parties' traces: what a blurred exponent is of


@dataclass(frozen=True)
class _Run:
    """What one fit shows. S : all of it; low : by view, what observers take for S; facts : by view, what else is seen

    mean : open, where means are taken off
    """

    S: Symmetric
    low: dict[str, LowRank]
    facts: dict[str, Reals]
    mean: Reals
    V: Reals


@dataclass(frozen=True)
class _Views:
    """low, facts : as in `_Run`, of some views"""

    low: dict[str, LowRank]
    facts: dict[str, Reals]


@dataclass(frozen=True)
class LevelMechanism(Mechanism):
    """others : the adversary's rows, fixed; it knows them. Samples hold statistics, not what they were made of.

    pd-svd : V_k, Sigma guessed from the adversary's own rows
    sigma : V_k and Sigma
    transcript : all of c S, the most that iterations can show
    power transcript, krylov transcript : c S as far as 300 iterations of power, or krylov's, determine it
    sums : the same as by krylov, and the factor (`--reveal sum`)
    sealed run : V_k to the bits of the goal, the ratios of b Ritz values, the gate's checkpoint, a blurred exponent;
    "no ratios" : the same without them
    views : which of them are looked at

    Where a view's observers see the mean (pca) they see it at every level.
    """

    others: RowsLike
    k: int
    n_v: int
    sealed: SealedSettings
    centred: bool = False
    M: int = 2
    views: tuple[str, ...] = LEVEL_VIEWS
    name: str = "levels"
    _own: dict[str, Any] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        n_a, d = self.others.shape
        if not 1 <= self.k < self.sealed.columns <= d:
            raise InputError(
                f"the rank is {self.k}, with {self.sealed.columns} columns and {d} features.", "k < b <= d"
            )
        if unknown := set(self.views) - set(LEVEL_VIEWS):
            raise InputError(f"the views {sorted(unknown)} are unknown.", f"some of {', '.join(LEVEL_VIEWS)}")
        rows = as_rows(self.others)
        self._own["S"], self._own["t"] = rows.gram(), rows.column_sums()
        mean = self._own["t"] / n_a
        S_A = self._own["S"] - n_a * np.outer(mean, mean) if self.centred else self._own["S"]
        self._own["around"], self._own["share"] = S_A, (self.n_v + n_a) / n_a
        values = np.linalg.eigvalsh(S_A)[::-1]
        self._own["estimate"] = self._own["share"] * np.maximum(values[: self.k], 0.0)
        self._own["trace"] = self._own["share"] * float(np.trace(S_A))

    def settings(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "rank": self.k,
            "victim_rows": self.n_v,
            "others": digest(self.others),
            "around_mean": self.centred,
            levels.SEALED.name: asdict(self.sealed),
            "views": list(self.views),
        }

    def sample_without(self, X: RowsLike, rng: np.random.Generator) -> Content:
        database = self._database(X)
        (run,) = self._runs(database, np.zeros((1, len(database.S))), rng)
        content: Content = {"mean": run.mean, "V": run.V}
        if EVERYTHING in self.views:
            content["S"] = database.S
        for view, found in run.low.items():
            content[f"{view}/V"], content[f"{view}/values"] = found.V, found.values
        return content | {f"{view}/facts": facts for view, facts in run.facts.items()}

    def sample_with(self, X: RowsLike, records: RowsLike, rng: np.random.Generator) -> Content:
        """With one more row x: S + x x^T, and less the mean S + n/(n + 1) (x - mean)(x - mean)^T."""
        database = self._database(X)
        rows = as_rows(records).dense()
        more = np.sqrt(database.n / (database.n + 1.0)) * (rows - database.mean) if self.centred else rows
        whole, found = Whole(database.S), []
        for x, extra, run in zip(rows, more, self._runs(database, more, rng), strict=True):
            seen = self._seen(run, OneMore(whole, extra), (database.n * database.mean + x) / (database.n + 1))
            found.append((self._statistics(seen, x), self._features(seen, x)))
        values, features = [v for v, _ in found], [f for _, f in found]
        content: Content = {"names": np.array(list(values[0])), "values": np.array([list(v.values()) for v in values])}
        return content | {f"features/{view}": np.array([f[view] for f in features]) for view in self.views}

    def observables(self, content: Content, i: int | None, x: Reals) -> Observables:
        """With a record, its statistics as they are; without, what was seen."""
        if i is not None:
            features = {view: content[f"features/{view}"][i] for view in self.views}
            return {"statistics": dict(zip(content["names"], content["values"][i], strict=True)), "features": features}
        if "run" not in content:
            low = {name.rpartition("/")[0] for name in content if name.endswith("/values")}
            content["run"] = _Run(
                OneMore(Whole(content.get("S", np.zeros((0, 0)))), np.zeros(len(x))),
                {view: LowRank(content[f"{view}/V"], content[f"{view}/values"], True) for view in low},
                {view: content[f"{view}/facts"] for view in self.views},
                content["mean"],
                content["V"],
            )
        seen = content["run"]
        return {"statistics": self._statistics(seen, x), "features": self._features(seen, x)}

    def statistics(self, seen: Observables, x: Reals) -> dict[str, float]:
        return {str(name): float(value) for name, value in seen["statistics"].items()}

    def features(self, seen: Observables, x: Reals) -> dict[str, Reals]:
        found: dict[str, Reals] = seen["features"]
        return found

    def _database(self, X: RowsLike) -> _Database:
        rows = as_rows(X)
        S_v, n_a = rows.gram(), self.others.shape[0]
        S, t, n = S_v + self._own["S"], rows.column_sums() + self._own["t"], rows.shape[0] + n_a
        mean = t / n if self.centred else np.zeros(len(t))
        largest = max(float(np.trace(S_v)), float(np.trace(self._own["S"])))
        return _Database(S - n * np.outer(mean, mean) if self.centred else S, n, mean, largest)

    def _runs(self, base: _Database, more: Reals, rng: np.random.Generator) -> Iterator[_Run]:
        """A fit for each row more, all from the same V_0, and with the same blur."""
        d = len(base.S)
        V_0 = orthonormalise(rng.standard_normal((d, krylov.block_size(self.k, d))))[0]
        start = orthonormalise(rng.standard_normal((d, self.sealed.columns)))[0]
        exponent = float(np.ceil(np.log2(base.largest)) + rng.integers(BLUR))
        eigen = Eigen.of(base.S)
        eigen = Eigen(np.maximum(eigen.values, 0.0), eigen.Q)
        top = zip(*top_after_row(eigen, more, self.k), strict=True)
        fits: Iterator[_Views] = repeat(_Views({}, {}))
        if {SEALED, SEALED_LESS} & set(self.views):
            fits = self._sealed(eigen, more, start, exponent, rng.spawn(1)[0])
        shown: Iterator[_Views] = repeat(_Views({}, {}))
        if {BY_POWER, BY_KRYLOV, SUMS} & set(self.views):
            shown = self._by_solvers(base, V_0, more, rng)
        for (values, V), by_solvers, sealed in zip(top, shown, fits, strict=False):
            V = fix_signs(V)
            low = {VECTORS: LowRank(V, self._own["estimate"], True), SIGMA: LowRank(V, values, True)}
            facts = {VECTORS: np.zeros(0), SIGMA: values, EVERYTHING: np.zeros(0)}
            low, facts = low | by_solvers.low | sealed.low, facts | by_solvers.facts | sealed.facts
            yield _Run(OneMore(Whole(base.S), np.zeros(d)), low, facts, base.mean, V)

    def _sealed(
        self, eigen: Eigen, more: Reals, start: Reals, exponent: float, rng: np.random.Generator
    ) -> Iterator[_Views]:
        """All that a sealed run opens, for each row more."""
        k, p = self.k, self.sealed.precision(self.M, len(eigen.Q), self.k)
        for fit in sealed_shows.sealed(eigen, more, start, p):
            V = np.zeros((p.d, k)) if fit.V is None else sealed_shows.opened(fix_signs(fit.V), p, rng)
            ratios = fit.ratios[:k] / fit.ratios[:k].sum()
            low = {
                SEALED: LowRank(V, self._own["estimate"].sum() * ratios, True),
                SEALED_LESS: LowRank(V, self._own["estimate"], True),
            }
            less = np.array([float(fit.checkpoint), exponent])
            yield _Views(low, {SEALED_LESS: less, SEALED: np.concatenate([less, fit.ratios, fit.first])})

    def _by_solvers(self, base: _Database, V_0: Reals, more: Reals, rng: np.random.Generator) -> Iterator[_Views]:
        """What the columns of power and of krylov show, for each row more."""
        d, b, about = *V_0.shape, 0
        for space in projected(base.S, self._own["around"], V_0, more, BLOCKS):
            # The first by the solver itself; of rows that differ in one, it takes about as long with the others. Where
            # it opened anything twice, it makes all of them.
            if about:
                fit = run_shows.like_krylov(space.A, self.k, d, self.M, about)
            else:
                fit = run_shows.by_krylov(space.A, self.k, d, self.M, rng)
                about = fit.iterations if fit.B.shape[1] == b * fit.iterations else 0
            yield self._by_both(space, fit)

    def _by_both(self, space: Projected, by_krylov: Fit) -> _Views:
        Phi, A, k = space.Phi, space.A, self.k
        theta, U = np.linalg.eigh(A)
        theta, U = np.maximum(theta[::-1], 0.0), U[:, ::-1]
        low, facts = {}, {}
        for view, fit in ((BY_POWER, run_shows.by_power(theta, U, k)), (BY_KRYLOV, by_krylov)):
            values, E = run_shows.least_consistent(A, fit.B)
            # c is not known: what the span shows has the trace that the adversary's own rows have there.
            expected = self._own["share"] * float(np.vdot(fit.B, space.part @ fit.B))
            scale = expected / float(np.vdot(fit.B, A @ fit.B))
            low[view] = LowRank(Phi @ E, scale * values, True)
            facts[view] = np.array([float(fit.iterations), float(fit.B.shape[1])])
        facts[SUMS] = np.concatenate([facts[BY_KRYLOV], [1.0 / scale], theta[:k]])
        return _Views(low, facts)

    def _seen(self, run: _Run, S: OneMore, mean: Reals) -> _Run:
        return _Run(S, run.low, run.facts, mean if self.centred else run.mean, run.V)

    def _statistics(self, seen: _Run, x: Reals) -> dict[str, float]:
        y = x - seen.mean if self.centred else x
        found: dict[str, float] = {}
        by_krylov = correlation_statistics(seen.low[BY_KRYLOV], y) if {BY_KRYLOV, SUMS} & set(self.views) else {}
        for view in self.views:
            if view in (BY_KRYLOV, SUMS):
                values = by_krylov if view == BY_KRYLOV else _rescaled(by_krylov, seen.facts[SUMS][2])
            else:
                S = _scaled(seen.S, self._own["trace"]) if view == EVERYTHING else seen.low[view]
                values = correlation_statistics(S, y)
            found |= {f"{view}/{name}": value for name, value in values.items()}
            if self.centred:
                found[f"{view}/mean"] = float(seen.mean @ x)
            if view in (BY_KRYLOV, SUMS):
                found[f"{view}/iterations"] = float(seen.facts[view][0])
            if view in (SEALED, SEALED_LESS):
                found[f"{view}/checkpoint"], found[f"{view}/exponent"] = (float(f) for f in seen.facts[view][:2])
        return found

    def _features(self, seen: _Run, x: Reals) -> dict[str, Reals]:
        y = x - seen.mean if self.centred else x
        size = max(float(y @ y), 1e-300)
        found: dict[str, Reals] = {}
        for view in self.views:
            facts = seen.facts[view]
            if view == EVERYTHING:
                S = seen.S
                assert isinstance(S, OneMore)
                Sy, diagonal = S.times(y), S.diagonal()
                found[view] = np.array([y @ Sy, Sy @ Sy, (y * y) @ diagonal]) / diagonal.sum()
                continue
            low = seen.low[BY_KRYLOV if view == SUMS else view]
            along = low.V.T @ y
            if view in (BY_POWER, BY_KRYLOV, SUMS):
                Sy, total = low.values * along, low.values.sum()
                diagonal = ((low.V[np.flatnonzero(y)] ** 2) @ low.values) @ y[np.flatnonzero(y)] ** 2
                found[view] = np.append(np.array([along @ Sy, Sy @ Sy, diagonal]) / total, facts)
            else:
                share = along**2 / size
                known = facts if view != SEALED else facts[2:]
                found[view] = np.concatenate(
                    [share, facts, share * known[: self.k] if len(known) >= self.k else share[:0]]
                )
        return found


def _rescaled(by_krylov: dict[str, float], factor: float) -> dict[str, float]:
    """Statistics of c S of krylov where the factor is known: D has none in it."""
    powers = {"W max": 1, "W sum": 1, "W squares": 2}
    return {name: value * factor ** powers.get(name, 0) for name, value in by_krylov.items()}


def _scaled(S: Symmetric, trace: float) -> Symmetric:
    """c is not known: the trace is set to what the adversary's own rows let it expect."""
    assert isinstance(S, OneMore)
    return OneMore(S.base, S.x, S.factor, trace / S.trace())
