"""Two samples of a statistic, with and without a record: how far apart are they, and how sure can one be?

Everything works on whole arrays: the last axis is the samples of one arm, the leading ones are records, statistics,
repetitions. Both arms have equally many samples, so that p-values are exact. A learned attacker is a
linear classifier on all that is seen of a record, trained and judged on different samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from pdml_spdz.errors import InputError
from pdml_spdz.numerics.fixedpoint import Reals

Counts: TypeAlias = NDArray[np.int64]
THRESHOLDS = 64  # events that the choice of the best one looks at, for each statistic


def ks_steps(within: Reals, without: Reals) -> Counts:
    """n D of the Kolmogorov-Smirnov statistic D = sup |F_n - G_n|: a whole number, 0 .. n. Ties count once."""
    n = within.shape[-1]
    if without.shape[-1] != n or n == 0:
        raise InputError(f"the arms have {n} and {without.shape[-1]} samples.", "equally many, at least one")
    both = np.concatenate([within, without], axis=-1)
    order = np.argsort(both, axis=-1, kind="stable")
    ordered = np.take_along_axis(both, order, axis=-1)
    height = np.abs(np.cumsum(np.where(order < n, 1, -1), axis=-1))
    # Between equal numbers the distribution functions have not both moved yet.
    ends = np.concatenate([ordered[..., 1:] != ordered[..., :-1], np.ones((*both.shape[:-1], 1), bool)], axis=-1)
    steps: Counts = np.max(np.where(ends, height, 0), axis=-1)
    return steps


@cache
def ks_table(n: int) -> Reals:
    """P(n D >= h) for h = 0 .. n under the null, n samples in each arm, no ties: exact.

    2 sum_i (-1)^(i-1) C(2n, n - i h)/C(2n, n), by reflection. Ref: Gnedenko, Korolyuk, 1951.
    """
    p = np.ones(n + 1)
    middle = special.gammaln(2 * n + 1) - 2 * special.gammaln(n + 1)
    for h in range(1, n + 1):
        i = np.arange(1, n // h + 1)
        ways = special.gammaln(2 * n + 1) - special.gammaln(n - i * h + 1) - special.gammaln(n + i * h + 1)
        p[h] = 2.0 * float(np.sum((-1.0) ** (i - 1) * np.exp(ways - middle)))
    return np.clip(p, 0.0, 1.0)


def ks_p(steps: Counts, n: int) -> Reals:
    """The exact p-value of n D; too large (never too small) where there are ties."""
    return ks_table(n)[steps]


def holm(p: Reals) -> Reals:
    """Adjusted p-values of all tests on the last axis: the smallest level at which Holm's procedure rejects each.

    The family-wise error holds whatever the tests have to do with each other. Ref: Holm, Scand. J. Statist. 1979.
    """
    m = p.shape[-1]
    order = np.argsort(p, axis=-1)
    stepped = np.take_along_axis(p, order, axis=-1) * (m - np.arange(m))
    raised = np.minimum(np.maximum.accumulate(stepped, axis=-1), 1.0)
    adjusted = np.empty_like(p)
    np.put_along_axis(adjusted, order, raised, axis=-1)
    return adjusted


def auc(within: Reals, without: Reals) -> Reals:
    """P(statistic with the record > without) + P(equal)/2: 1/2 if it says nothing."""
    n, m = within.shape[-1], without.shape[-1]
    ranks = stats.rankdata(np.concatenate([within, without], axis=-1), axis=-1)
    area: Reals = (ranks[..., :n].sum(axis=-1) - n * (n + 1) / 2) / (n * m)
    return area


def true_positives(within: Reals, without: Reals, false_positives: float) -> Reals:
    """The share of samples with the record above the lowest threshold that at most so many without it exceed."""
    m = without.shape[-1]
    allowed = int(np.floor(false_positives * m))
    threshold = np.sort(without, axis=-1)[..., m - 1 - allowed, None]
    share: Reals = np.mean(within > threshold, axis=-1)
    return share


@dataclass(frozen=True)
class Chosen:
    """AUC and true positives of the statistic (and its direction) that looked best on other samples. shape: records"""

    auc: Reals
    tpr: dict[float, Reals]


def cross_fitted(within: Reals, without: Reals, rates: tuple[float, ...] = (0.01, 0.001)) -> Chosen:
    """For each record: choose a statistic and a direction on one half of the samples, judge on the other; both ways.

    within, without : (..., statistics, n). Choosing and judging on the same samples would show leakage where there is
    none.
    """
    half = within.shape[-1] // 2
    if half < 1:
        raise InputError(f"there are {within.shape[-1]} samples in an arm.", "at least 2")
    areas, shares = [], []
    for choose, judge in ((slice(0, half), slice(half, 2 * half)), (slice(half, 2 * half), slice(0, half))):
        lean = auc(within[..., choose], without[..., choose]) - 0.5
        best = np.argmax(np.abs(lean), axis=-1)[..., None]
        sign = np.where(np.take_along_axis(lean, best, axis=-1) < 0, -1.0, 1.0)
        a, b = (
            np.take_along_axis(x[..., judge], best[..., None], axis=-2)[..., 0, :] * sign for x in (within, without)
        )
        areas.append(auc(a, b))
        shares.append({rate: true_positives(a, b, rate) for rate in rates})
    return Chosen(np.mean(areas, axis=0), {rate: np.mean([s[rate] for s in shares], axis=0) for rate in rates})


@cache
def clopper_pearson(n: int, level: float) -> tuple[Reals, Reals]:
    """(lower, upper) one-sided bounds of a probability for c = 0 .. n hits, each missed with probability `level`."""
    c = np.arange(n + 1)
    low, high = np.zeros(n + 1), np.ones(n + 1)
    low[1:] = special.betaincinv(c[1:], n - c[1:] + 1, level)
    high[:-1] = special.betaincinv(c[:-1] + 1, n - c[:-1], 1.0 - level)
    return low, high


@dataclass(frozen=True)
class Epsilon:
    """lower, upper : for each record, bounds of ln((P(E) - delta)/Q(E)) for the event E that was chosen.

    Each is wrong with at most the probability that was asked for. The mechanism's own epsilon is at least `lower` (0
    where negative); other events may show more than this one.
    """

    lower: Reals
    upper: Reals


def epsilon_bound(within: Reals, without: Reals, *, delta: float = 0.0, level: float = 0.05) -> Epsilon:
    """What epsilon the mechanism has at least, from one event chosen on the first half of the samples.

    1. on the first half: for every statistic, threshold, side and order of the arms the lower bound of step 2; the
       largest one names an event E and which arm is P and which Q
    2. on the second half: P(E) >= low and Q(E) <= high by Clopper and Pearson, each wrong with probability level/2;
       (epsilon, delta)-DP means P(E) <= e^epsilon Q(E) + delta, so epsilon >= ln((low - delta)/high)

    within, without : (..., statistics, n) -> bounds of shape (...). Ref: Jagielski, Ullman, Oprea, NeurIPS 2020.
    """
    half = within.shape[-1] // 2
    if half < 1:
        raise InputError(f"there are {within.shape[-1]} samples in an arm.", "at least 2")
    arms = within, without
    first = [a[..., :half] for a in arms]
    second = [a[..., half:] for a in arms]
    n = second[0].shape[-1]
    both = np.sort(np.concatenate(first, axis=-1), axis=-1)
    places = np.unique(np.linspace(0, 2 * half - 1, THRESHOLDS).astype(int))
    thresholds = both[..., places]
    # Of so many events the one that looks best in a thin tail is mostly luck: a bound that holds for all of them at
    # once prefers those that are well supported.
    events = 4 * thresholds.shape[-1] * thresholds.shape[-2]
    options = _bounds(_hits(first, thresholds), half, delta, level / events)  # (..., statistics, thresholds, 4)
    flat = options.reshape(*options.shape[:-3], -1)
    best = np.argmax(flat, axis=-1)
    statistic, threshold, which = np.unravel_index(best, options.shape[-3:])
    chosen = [np.take_along_axis(a, statistic[..., None, None], axis=-2)[..., 0, :] for a in second]
    at = np.take_along_axis(thresholds, statistic[..., None, None], axis=-2)[..., 0, :]
    at = np.take_along_axis(at, threshold[..., None], axis=-1)
    hits = _hits([a[..., None, :] for a in chosen], at[..., None, :])
    lower = np.take_along_axis(_bounds(hits, n, delta, level)[..., 0, 0, :], which[..., None], axis=-1)[..., 0]
    upper = np.take_along_axis(_bounds(hits, n, delta, level, upper=True)[..., 0, 0, :], which[..., None], axis=-1)[
        ..., 0
    ]
    return Epsilon(np.maximum(lower, 0.0), upper)


def epsilon_limit(samples: int, *, delta: float = 0.0, level: float = 0.05) -> float:
    """The largest bound that `epsilon_bound` can give with so many samples in each arm: all hits in one, none in the
    other."""
    n = samples - samples // 2
    low, high = clopper_pearson(n, level / 2)
    return float(np.log(max(low[n] - delta, 1e-300)) - np.log(high[0]))


def _hits(arms: list[Reals], thresholds: Reals) -> tuple[Counts, Counts]:
    """How many samples of each arm are at or above each threshold: (..., statistics, thresholds)."""
    found = [np.sum(a[..., None, :] >= thresholds[..., :, None], axis=-1) for a in arms]
    return found[0], found[1]


def _bounds(hits: tuple[Counts, Counts], n: int, delta: float, level: float, *, upper: bool = False) -> Reals:
    """Bounds of ln((P(E) - delta)/Q(E)) for E and its complement, either arm being P: on a new last axis."""
    low, high = clopper_pearson(n, level / 2)
    if upper:
        low, high = high, low
    events = [(hits[i], hits[1 - i]) for i in (0, 1)] + [(n - hits[i], n - hits[1 - i]) for i in (0, 1)]
    with np.errstate(divide="ignore", invalid="ignore"):
        values = [np.log(np.maximum(low[p] - delta, 0.0)) - np.log(high[q]) for p, q in events]
    return np.stack(values, axis=-1)


@dataclass(frozen=True)
class Detectable:
    """What n samples in each arm can show in one of `tests` tests.

    critical : the smallest D that is significant after Holm's first step; nan if none is
    distance : the smallest true sup |F - G| that is found with the given power
    shift : the same as a shift of a normal distribution, in its standard deviations; auc : and as an AUC
    """

    critical: float
    distance: float
    shift: float
    auc: float


def detectable(n: int, tests: int, *, level: float = 0.05, power: float = 0.8) -> Detectable:
    """The smallest effect that this many samples find; conservative, by the largest variance of F_n - G_n."""
    table = ks_table(n)
    significant = np.flatnonzero(table <= level / tests)
    if not len(significant):
        return Detectable(np.nan, np.nan, np.nan, np.nan)
    critical = float(significant[0]) / n
    distance = critical + float(stats.norm.ppf(power)) * float(np.sqrt(0.5 / n))
    if distance >= 1.0:
        return Detectable(critical, np.nan, np.nan, np.nan)
    shift = 2.0 * float(stats.norm.ppf((1.0 + distance) / 2.0))
    return Detectable(critical, distance, shift, float(stats.norm.cdf(shift / np.sqrt(2.0))))


# Of the features' variance, which is 1: a few dozen samples do not carry a full covariance, and features that are
# constant, or functions of others, leave it singular.
RIDGE = 0.1


def direction(within: Reals, without: Reals) -> tuple[Reals, Reals, Reals]:
    """(centre, scale, w): Fisher's discriminant on standardised features, (records, samples, features) in each arm."""
    both = np.concatenate([within, without], axis=-2)
    centre, scale = both.mean(axis=-2, keepdims=True), both.std(axis=-2, keepdims=True)
    scale = np.where(scale > 1e-12 * np.maximum(np.abs(centre), 1e-300), scale, np.inf)
    a, b = (within - centre) / scale, (without - centre) / scale
    mu_a, mu_b = a.mean(axis=-2, keepdims=True), b.mean(axis=-2, keepdims=True)
    rest = np.concatenate([a - mu_a, b - mu_b], axis=-2)
    cov = np.swapaxes(rest, -1, -2) @ rest / rest.shape[-2]
    f = cov.shape[-1]
    w = np.linalg.solve(cov + RIDGE * np.eye(f), np.swapaxes(mu_a - mu_b, -1, -2))[..., 0]
    return centre, scale, w


def scores(features: Reals, trained: tuple[Reals, Reals, Reals]) -> Reals:
    """(records, samples)"""
    centre, scale, w = trained
    return np.asarray(np.einsum("...sf,...f->...s", (features - centre) / scale, w))


def cross_fitted_p(within: Reals, without: Reals) -> tuple[Reals, Reals]:
    """(p, D) for each record: trained on one half of the samples, tested on the other, both ways; twice the smaller p.

    Given the classifier, samples that it has not seen are exchangeable between the arms under the null, so each half's
    p-value is exact, and twice the smaller of two is never too small.
    """
    half = within.shape[-2] // 2
    tests = []
    for train, judge in ((slice(0, half), slice(half, 2 * half)), (slice(half, 2 * half), slice(0, half))):
        trained = direction(within[..., train, :], without[..., train, :])
        steps = ks_steps(scores(within[..., judge, :], trained), scores(without[..., judge, :], trained))
        tests.append((ks_p(steps, half), steps / half))
    p = np.minimum(1.0, 2.0 * np.minimum(tests[0][0], tests[1][0]))
    return p, np.maximum(tests[0][1], tests[1][1])


def trained_on_first_half(within: Reals, without: Reals) -> tuple[Reals, Reals]:
    """Scores of all samples by a classifier that only saw the first half: for measures that judge on the second."""
    half = within.shape[-2] // 2
    trained = direction(within[..., :half, :], without[..., :half, :])
    return scores(within, trained), scores(without, trained)
