"""From samples to a verdict: the paper's number, and per record what can honestly be said."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.privacy import measures
from pdml_spdz.privacy.ksdp import Samples
from pdml_spdz.privacy.mechanism import USER

LEARNED = "learned attacker"
RATES = (0.01, 0.001)


@dataclass(frozen=True)
class Record:
    """One record. p : smallest of its statistics; adjusted : the same after Holm, over all records and statistics

    statistic, ks : the statistic with that p, and its sup |F - G|
    auc, tpr : of the statistic that looked best on the other half of the samples (tpr: by false positive rate)
    p_by_statistic : p of each
    epsilon, epsilon_upper : bounds for one event, each wrong with probability 5 %; epsilon_family : lower bound that
    holds for all records together
    """

    document: int
    p: float
    adjusted: float
    statistic: str
    ks: float
    auc: float
    tpr: dict[str, float]
    epsilon: float
    epsilon_upper: float
    epsilon_family: float
    p_by_statistic: dict[str, float]


@dataclass(frozen=True)
class ByStatistics:
    """What an observer can tell by some statistics only: as of the whole `Observer`, which has more of them."""

    pi: float
    mean_min_p: float
    sd_min_p: float
    by_chance: float
    flagged: tuple[int, ...]


@dataclass(frozen=True)
class Observer:
    """What one kind of observer can tell. statistics : their names, the learned attacker last

    pi : the smallest p; passes : pi >= the wanted one, the paper's definition
    mean_min_p, sd_min_p : over records, the paper's table; by_chance : what it would be without any leakage if the
    statistics had nothing to do with each other
    flagged : records whose adjusted p is below the level, the family-wise error being at most that
    """

    name: str
    statistics: tuple[str, ...]
    constant: tuple[str, ...]
    samples: int
    pi: float
    wanted_pi: float
    mean_min_p: float
    sd_min_p: float
    by_chance: float
    level: float
    delta: float
    flagged: tuple[int, ...]
    detectable: measures.Detectable
    tpr_resolved: dict[str, bool]
    records: tuple[Record, ...]

    @property
    def passes(self) -> bool:
        return self.pi >= self.wanted_pi

    def by(self, names: Collection[str]) -> ByStatistics:
        """By these statistics alone; Holm's correction is over them alone, too."""
        p = np.array([[r.p_by_statistic[name] for name in self.statistics if name in names] for r in self.records])
        smallest, adjusted = p.min(axis=1), measures.holm(p.reshape(1, -1)).reshape(p.shape).min(axis=1)
        told = tuple(r.document for r, a in zip(self.records, adjusted, strict=True) if a <= self.level)
        return ByStatistics(float(smallest.min()), *_mean_and_sd(smallest), 1.0 / (p.shape[1] + 1), told)

    def to_json(self) -> dict[str, Any]:
        content: dict[str, Any] = _finite(asdict(self) | {"passes": self.passes})
        return content


def views(samples: Samples) -> list[str]:
    """In their order; a user's own statistics are a view of their own."""
    return list(dict.fromkeys(name.split("/", 1)[0] for name in samples.names))


def judge(
    samples: Samples, documents: Sequence[int], *, pi: float = 0.05, level: float = 0.05, delta: float = 0.0
) -> list[Observer]:
    """A verdict for each view."""
    return [_view(samples, view, documents, pi, level, delta) for view in views(samples)]


def p_values(values: Reals, features: Reals | None) -> tuple[Reals, Reals]:
    """(p, D), (documents, statistics), the learned attacker last if there are features.

    values : (documents, statistics, 2, samples); features : (documents, 2, samples, features)
    """
    steps = measures.ks_steps(values[:, :, 0], values[:, :, 1])
    p, D = measures.ks_p(steps, values.shape[-1]), steps / values.shape[-1]
    if features is None:
        return p, D
    p_learned, D_learned = measures.cross_fitted_p(features[:, 0], features[:, 1])
    return np.column_stack([p, p_learned]), np.column_stack([D, D_learned])


def _view(samples: Samples, name: str, documents: Sequence[int], pi: float, level: float, delta: float) -> Observer:
    chosen = [i for i, full in enumerate(samples.names) if full.split("/", 1)[0] == name]
    values = samples.values[:, chosen]
    features = _features(samples, name, values)
    statistics = [samples.names[i].split("/", 1)[1] for i in chosen] + [LEARNED] * (features is not None)
    p, D = p_values(values, features)
    adjusted = measures.holm(p.reshape(1, -1)).reshape(p.shape)
    records = _records(documents, statistics, (p, D, adjusted), values, features, level, delta)
    smallest, n = p.min(axis=1), values.shape[-1]
    return Observer(
        name=name,
        statistics=tuple(statistics),
        constant=tuple(s for s, v in zip(statistics, np.moveaxis(values, 1, 0), strict=False) if _constant(v)),
        samples=n,
        pi=float(smallest.min()),
        wanted_pi=pi,
        mean_min_p=_mean_and_sd(smallest)[0],
        sd_min_p=_mean_and_sd(smallest)[1],
        by_chance=1.0 / (p.shape[1] + 1),
        level=level,
        delta=delta,
        flagged=tuple(record.document for record in records if record.adjusted <= level),
        detectable=measures.detectable(n, p.size, level=level),
        tpr_resolved={f"{rate:g}": (n // 2) * rate >= 1 for rate in RATES},
        records=records,
    )


def _mean_and_sd(p: Reals) -> tuple[float, float]:
    return float(p.mean()), float(p.std(ddof=1)) if len(p) > 1 else float("nan")


def _constant(values: Reals) -> bool:
    """Of each record on its own: (documents, 2, samples)"""
    return bool(np.ptp(values, axis=(1, 2)).max() == 0)


def _records(
    documents: Sequence[int],
    statistics: list[str],
    tests: tuple[Reals, Reals, Reals],
    values: Reals,
    features: Reals | None,
    level: float,
    delta: float,
) -> tuple[Record, ...]:
    """tests : p, D and adjusted p, each (documents, statistics)"""
    p, D, adjusted = tests
    # The learned scores are for judging on the second half only; this one judges on both.
    told = measures.cross_fitted(values[:, :, 0], values[:, :, 1], RATES)
    scored = values if features is None else _with_scores(values, features)
    arms = scored[:, :, 0], scored[:, :, 1]
    single = measures.epsilon_bound(*arms, delta=delta, level=level)
    family = measures.epsilon_bound(*arms, delta=delta, level=level / len(p))
    return tuple(
        Record(
            document=int(documents[i]),
            p=float(p[i].min()),
            adjusted=float(adjusted[i].min()),
            statistic=statistics[int(p[i].argmin())],
            ks=float(D[i, int(p[i].argmin())]),
            auc=float(told.auc[i]),
            tpr={f"{rate:g}": float(share[i]) for rate, share in told.tpr.items()},
            epsilon=float(single.lower[i]),
            epsilon_upper=float(single.upper[i]),
            epsilon_family=float(family.lower[i]),
            p_by_statistic={name: float(value) for name, value in zip(statistics, p[i], strict=True)},
        )
        for i in range(len(p))
    )


def _features(samples: Samples, view: str, values: Reals) -> Reals | None:
    """What the learned attacker of a view gets: its statistics, and what the mechanism adds."""
    if view == USER or view not in samples.features:
        return None
    return np.concatenate([np.moveaxis(values, 1, -1), samples.features[view]], axis=-1)


def _with_scores(values: Reals, features: Reals) -> Reals:
    a, b = measures.trained_on_first_half(features[:, 0], features[:, 1])
    return np.concatenate([values, np.stack([a, b], axis=1)[:, None]], axis=1)


def _finite(content: Any) -> Any:
    """JSON has no infinity and no NaN: None instead."""
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    if isinstance(content, float) and not np.isfinite(content):
        return None
    return content
