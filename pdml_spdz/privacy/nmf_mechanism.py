"""PD-NMF as an adversary sees it who knows the victim's own sums. [PDML §Privacy of PD-NMF]"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.algorithms.nmf import Summands, SweepSettings, SweepState, pd_nmf_iter
from pdml_spdz.algorithms.nmf_start import own_topics
from pdml_spdz.algorithms.rri import Penalties, part
from pdml_spdz.errors import InputError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.primitives.normed_sum import Alone, own_sum
from pdml_spdz.privacy.ksdp import digest
from pdml_spdz.privacy.mechanism import Content, Mechanism, Observables
from pdml_spdz.rows.base import RowsLike, as_rows, stacked
from pdml_spdz.transport.base import Clock

STARTS = ("random", "pd")
SEEN = ("T", "den", "num")
ALL, TOPICS, WITH_DEN, WITH_NUM = "pd-nmf", "topics", "topics and den", "topics and num"
NMF_VIEWS = {ALL: SEEN, TOPICS: ("T",), WITH_DEN: ("T", "den"), WITH_NUM: ("T", "num")}
ROOM = 1e6  # numbers that are not encoded need no bound: one that is never met


@dataclass(frozen=True)
class NmfMechanism(Mechanism):
    """others : the adversary's rows, fixed. It knows its own sums and so sees the victim's (M = 2, or M - 1 collude).

    views : pd-nmf, all that is opened; and what T alone, or T with one of the victim's two sums, would tell
    start : "random", or "pd" (PD-NMF-Init, whose sums of the victim are seen too); sweeps : of PD-NMF-Iter, and of Init
    weighted : what a sparse row does not store is missing; then T is not on the simplex
    """

    others: RowsLike
    k: int
    sweeps: int = 20
    start: str = "random"
    weighted: bool = False
    penalties: Penalties = Penalties()  # noqa: RUF009 - frozen
    views: tuple[str, ...] = (ALL,)
    name: str = "nmf"
    _own: dict[str, Any] = field(default_factory=dict, compare=False)  # what only depends on the others' rows

    def __post_init__(self) -> None:
        if self.start not in STARTS:
            raise InputError(f"the start is {self.start!r}.", f"one of {', '.join(STARTS)}")
        if unknown := set(self.views) - set(NMF_VIEWS):
            raise InputError(f"the views {sorted(unknown)} are unknown.", f"some of {', '.join(NMF_VIEWS)}")
        self._own["features"] = as_rows(self.others).column_sums() != 0

    def settings(self) -> dict[str, Any]:
        return {
            "name": "nmf",
            "rank": self.k,
            "others": digest(self.others),
            "penalties": asdict(self.penalties),
            "sweeps": self.sweeps,
            "start": self.start,
            "weighted": self.weighted,
            "views": list(self.views),
        }

    def run(self, X: RowsLike, seed: int) -> Content:
        """T and the victim's num and den of the last sweep (and of Init's), for the victim's rows X."""
        k, d = self.k, X.shape[1]
        T = np.random.default_rng(seed).uniform(size=(k, d))
        T /= T.sum(axis=1, keepdims=True)
        seen: Content = {}
        if self.start == "pd":
            if "topics" not in self._own:
                self._own["topics"] = self._own_topics(self.others)
            first = _swept((self._own_topics(X), self._own["topics"]), T, SweepSettings(self.sweeps, 0.0, 1.0))
            seen, T = {f"init_{name}": value for name, value in first.items()}, first["T"]
        penalties = self.penalties if self.weighted else Penalties()
        return seen | _swept((X, self.others), T, SweepSettings(self.sweeps, 0.0, 1.0, penalties, self.weighted))

    def _own_topics(self, X: RowsLike) -> Reals:
        """That (k, d) of PD-NMF-Init: k rows that stand for X."""
        lengths, T = own_topics(X, self.k, SweepSettings(self.sweeps, 0.0, 1.0))
        return np.asarray(lengths[:, None] * T)

    def sample_without(self, X: RowsLike, rng: np.random.Generator) -> Content:
        return self.run(X, int(rng.integers(2**63)))

    def sample_with(self, X: RowsLike, records: RowsLike, rng: np.random.Generator) -> Content:
        seed = int(rng.integers(2**63))  # one T_0 for all records of this sample, as it does not depend on rows
        found = [self.run(stacked([X, records[[i]]]), seed) for i in range(records.shape[0])]
        return {name: np.array([one[name] for one in found]) for name in found[0]}

    def observables(self, content: Content, i: int | None, x: Reals) -> Observables:
        return content if i is None else {name: value[i] for name, value in content.items()}

    def statistics(self, seen: Observables, x: Reals) -> dict[str, float]:
        found = topic_statistics(seen, x, self._own["features"])
        if "init_T" in seen:
            first = topic_statistics({name: seen[f"init_{name}"] for name in SEEN}, x, self._own["features"])
            found = {what: found[what] | {f"init {n}": v for n, v in first[what].items()} for what in found}
        return {
            f"{view}/{name}": value
            for view in self.views
            for what in NMF_VIEWS[view]
            for name, value in found[what].items()
        }

    def features(self, seen: Observables, x: Reals) -> dict[str, Reals]:
        a = box_coefficients(seen["T"], x)
        by = {"T": np.sort(a), "den": np.sort(a * seen["den"]), "num": np.sort(seen["num"] @ x)}
        return {view: np.concatenate([by[what] for what in NMF_VIEWS[view]]) for view in self.views}


def _swept(tables: tuple[RowsLike, RowsLike], T: Reals, settings: SweepSettings) -> Content:
    """T of PD-NMF-Iter, and the victim's (the first table's) own num and den of the last sweep, den in one number for
    each topic.

    Sums over all rows are the sums of both parties' sums, so all but the last sweep are made on all rows at once.
    """
    k, n, weighted = len(T), tables[0].shape[0], settings.weighted
    rows = part(stacked(tables), k, weighted=weighted)
    settings = replace(settings, bound=ROOM * (rows.norm() + 1.0))
    if weighted:
        rows.fit(T, settings.penalties, sweeps=5)
    if settings.tau > 1:
        T = Joined([rows]).iterate(T, replace(settings, tau=settings.tau - 1))
    parts = [part(table, k, weighted=weighted) for table in tables]
    for p, W in zip(parts, (rows.W[:n], rows.W[n:]), strict=True):
        p.restore(W, T)
    both = Joined(parts)
    T = both.iterate(T, replace(settings, tau=1))
    return {
        "T": T,
        "den": np.array([float(np.sum(both.den[t])) for t in range(k)]),
        "num": np.array([both.num[t] for t in range(k)]),
    }


def box_coefficients(T: Reals, x: Reals, sweeps: int = 500) -> Reals:
    """argmin over u in [0, 1]^k of ||x - u T||^2, by coordinates: exact in the limit, and k is small."""
    G, b = T @ T.T, T @ x
    size = np.diag(G)
    u = np.zeros(len(b))
    for _ in range(sweeps):
        before = u.copy()
        for t in np.flatnonzero(size > 0):
            u[t] = min(1.0, max(0.0, u[t] + (b[t] - G[t] @ u) / size[t]))
        if np.max(np.abs(u - before), initial=0.0) <= 1e-12:
            break
    return u


def topic_statistics(seen: Observables, x: Reals, known: NDArray[np.bool_]) -> dict[str, dict[str, float]]:
    """The paper's statistic and others, by what they need. known : (d,), features that the adversary's rows have

    T: residual, ||x - a T||^2;  coefficients, the sum of a;  best cosine, of x to any topic;
    topic support, the share of x's features in any topic;  new features, of those that the adversary has not
    den: weighted coefficients, a.w^2, a the box-constrained coefficients of x, w^2 the victim's den  [PDML]
    total weight, sum of w^2;  weighted cosine, mean cosine by w^2
    likelihood, mean log-probability of x's words in the victim's mixture of topics, smoothed
    num: num projection, largest x.num_t/||x||;  num support, share of features of x whose num at the victim is positive
    """
    T, den, num = seen["T"], seen["den"], seen["num"]
    a = box_coefficients(T, x)
    norm, weight = max(float(np.linalg.norm(x)), 1e-300), max(float(den.sum()), 1e-300)
    left = x - a @ T
    lengths = np.maximum(np.linalg.norm(T, axis=1), 1e-300)
    cosines = T @ x / (lengths * norm)
    mixture = den @ T / weight
    mixture = 0.99 * mixture / max(float(mixture.sum()), 1e-300) + 0.01 / len(x)
    place = np.flatnonzero(x)
    shown = np.any(T[:, place] > 0, axis=0)
    of_T = {
        "residual": float(left @ left),
        "coefficients": float(a.sum()),
        "best cosine": float(cosines.max()),
        "topic support": _mean(shown),
        "new features": _mean(shown[~known[place]]),
    }
    of_den = {
        "weighted coefficients": float(a @ den),
        "total weight": float(den.sum()),
        "weighted cosine": float(cosines @ den / weight),
        "likelihood": float(x[place] @ np.log(mixture[place]) / max(float(x[place].sum()), 1e-300)),
    }
    # Where no row has a feature, what is left of it for a topic is never positive.
    used = np.any(num[:, place] > 1e-12 * max(float(np.abs(num).max(initial=0.0)), 1e-300), axis=0)
    of_num = {"num projection": float(np.max(num @ x) / norm), "num support": _mean(used)}
    return {"T": of_T, "den": of_den, "num": of_num}


def _mean(found: NDArray[np.bool_]) -> float:
    return float(found.mean()) if len(found) else 0.0


class Joined:
    """Several parties' parts in one process, as one: their sums, without anything in between.

    num, den : the first part's own addends to each topic, of the last sweep
    """

    def __init__(self, parts: Sequence[Summands]) -> None:
        self.parts, self.d = parts, parts[0].d
        self.num: dict[int, Reals] = {}
        self.den: dict[int, Reals] = {}

    def update(self, t: int, T: Reals, p: Penalties) -> tuple[Reals, Reals]:
        addends = [one.update(t, T, p) for one in self.parts]
        self.num[t], self.den[t] = addends[0]
        return np.sum([num for num, _ in addends], axis=0), np.sum([den for _, den in addends], axis=0)

    def moved(self, t: int, before: Reals, T: Reals) -> None:
        for one in self.parts:
            one.moved(t, before, T)

    def iterate(self, T: Reals, settings: SweepSettings) -> Reals:
        """PD-NMF-Iter from T; nothing is sent."""
        return pd_nmf_iter(self, SweepState(T), settings, own_sum, Alone(), clock=Clock()).T
