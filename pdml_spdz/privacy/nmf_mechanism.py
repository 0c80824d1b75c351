"""PD-NMF as an adversary sees it who knows the victim's own sums. [PDML §Privacy of PD-NMF]"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from operator import mul
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.algorithms.nmf import Summands, SweepSettings, SweepState, pd_nmf_iter
from pdml_spdz.algorithms.rri import Penalties, part
from pdml_spdz.errors import InputError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.primitives.normed_sum import Alone, own_sum
from pdml_spdz.privacy import nmf_runs
from pdml_spdz.privacy.ksdp import digest
from pdml_spdz.privacy.mechanism import Content, Mechanism, Observables
from pdml_spdz.privacy.nmf_runs import Runs, swept
from pdml_spdz.rows.base import RowsLike, as_rows, stacked
from pdml_spdz.transport.base import Clock

STARTS = ("random", "pd")
SEEN = ("T", "den", "num")
ALL, TOPICS, WITH_DEN, WITH_NUM = "pd-nmf", "topics", "topics and den", "topics and num"
NMF_VIEWS = {ALL: SEEN, TOPICS: ("T",), WITH_DEN: ("T", "den"), WITH_NUM: ("T", "num")}
NUMBERS = 1 << 19  # of T, of the runs that are made at once
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
        found = self._runs(X, np.zeros((1, 0, X.shape[1])), seed)
        return {name: value[0] for name, value in found.items()}

    def _runs(self, X: RowsLike, own: Reals, seed: int) -> Content:
        """The same of b runs, each with rows of its own besides X: (b, m, d). One T_0 for all of them, as it does not
        depend on rows.
        """
        T = np.random.default_rng(seed).uniform(size=(self.k, X.shape[1]))
        T /= T.sum(axis=1, keepdims=True)
        size = max(1, NUMBERS // T.size)
        pieces = [self._at_once(X, own[i : i + size], T) for i in range(0, len(own), size)]
        return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}

    def _at_once(self, X: RowsLike, own: Reals, T_0: Reals) -> Content:
        k, d = T_0.shape
        T, seen = np.repeat(T_0[None], len(own), axis=0), {}
        if self.start == "pd":
            nothing = np.zeros((0, d))
            if "topics" not in self._own:
                self._own["topics"] = nmf_runs.own_topics(self.others, nothing[None], k, self.sweeps)[0]
            That = Runs(nothing, nmf_runs.own_topics(X, own, k, self.sweeps), k)
            first = vars(swept(That, self._own["topics"], T, self.sweeps))
            seen, T = {f"init_{name}": value for name, value in first.items()}, first["T"]
        if not self.weighted:
            return seen | vars(swept(Runs(X, own, k), self.others, T, self.sweeps))
        settings = SweepSettings(self.sweeps, 0.0, 1.0, self.penalties, weighted=True)
        found = [_swept((stacked([X, rows]), self.others), T_b, settings) for rows, T_b in zip(own, T, strict=True)]
        return seen | {name: np.array([one[name] for one in found]) for name in SEEN}

    def sample_without(self, X: RowsLike, rng: np.random.Generator) -> Content:
        return self.run(X, int(rng.integers(2**63)))

    def sample_with(self, X: RowsLike, records: RowsLike, rng: np.random.Generator) -> Content:
        return self._runs(X, as_rows(records).dense()[:, None], int(rng.integers(2**63)))

    def observables(self, content: Content, i: int | None, x: Reals) -> Observables:
        return content if i is None else {name: value[i] for name, value in content.items()}

    def statistics(self, seen: Observables, x: Reals) -> dict[str, float]:
        known = self._own["features"]
        found = topic_statistics(seen, x, self._coefficients(seen["T"], x), known)
        if "init_T" in seen:
            first_seen = {name: seen[f"init_{name}"] for name in SEEN}
            first = topic_statistics(first_seen, x, box_coefficients(first_seen["T"], x), known)
            found = {what: found[what] | {f"init {n}": v for n, v in first[what].items()} for what in found}
        return {
            f"{view}/{name}": value
            for view in self.views
            for what in NMF_VIEWS[view]
            for name, value in found[what].items()
        }

    def _coefficients(self, T: Reals, x: Reals) -> Reals:
        """The last ones are kept: statistics and features of a record both need them."""
        last = self._own.get("last")
        if last is None or last[0] is not T or last[1] is not x:
            last = self._own["last"] = T, x, box_coefficients(T, x)
        return np.asarray(last[2])

    def features(self, seen: Observables, x: Reals) -> dict[str, Reals]:
        a = self._coefficients(seen["T"], x)
        by = {"T": np.sort(a), "den": np.sort(a * seen["den"]), "num": np.sort(seen["num"] @ x)}
        return {view: np.concatenate([by[what] for what in NMF_VIEWS[view]]) for view in self.views}


def _swept(tables: tuple[RowsLike, RowsLike], T: Reals, settings: SweepSettings) -> Content:
    """`nmf_runs.swept` of one run where entries are missing: its residuals are its own, nothing is shared with others.

    den : in one number for each topic
    """
    k, n = len(T), tables[0].shape[0]
    rows = part(stacked(tables), k, weighted=True)
    settings = replace(settings, bound=ROOM * (rows.norm() + 1.0))
    rows.fit(T, settings.penalties, sweeps=5)
    if settings.tau > 1:
        T = Joined([rows]).iterate(T, replace(settings, tau=settings.tau - 1))
    parts = [part(table, k, weighted=True) for table in tables]
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
    G, b = (T @ T.T).tolist(), (T @ x).tolist()  # numbers of Python: faster for so few
    u, used = [0.0] * len(b), [t for t, row in enumerate(G) if row[t] > 0]
    for _ in range(sweeps):
        change = 0.0
        for t in used:
            left = b[t] - sum(map(mul, G[t], u))
            before, u[t] = u[t], min(1.0, max(0.0, u[t] + left / G[t][t]))
            change = max(change, abs(u[t] - before))
        if change <= 1e-12:
            break
    return np.array(u)


def topic_statistics(seen: Observables, x: Reals, a: Reals, known: NDArray[np.bool_]) -> dict[str, dict[str, float]]:
    """The paper's statistic and others, by what they need. a : `box_coefficients` of x; known : (d,), features that
    the adversary's rows have

    T: residual, ||x - a T||^2;  coefficients, the sum of a;  best cosine, of x to any topic;
    topic support, the share of x's features in any topic;  new features, of those that the adversary has not
    den: weighted coefficients, a.w^2, w^2 the victim's den  [PDML]
    total weight, sum of w^2;  weighted cosine, mean cosine by w^2
    likelihood, mean log-probability of x's words in the victim's mixture of topics, smoothed
    num: num projection, largest x.num_t/||x||;  num support, share of features of x whose num at the victim is positive
    """
    T, den, num = seen["T"], seen["den"], seen["num"]
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
