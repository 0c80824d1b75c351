"""Calibration: what the measures say of mechanisms whose leakage is known exactly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import optimize, stats

from pdml_spdz.errors import InputError
from pdml_spdz.privacy import measures
from pdml_spdz.privacy.ksdp import Samples
from pdml_spdz.privacy.verdict import judge, p_values

REPETITIONS = 1000


def within_binomial(hits: int, trials: int, p: float) -> bool:
    """Whether so many hits are inside the central 99.9 % of the binomial distribution."""
    low, high = stats.binom.interval(0.999, trials, p)
    return bool(low <= hits <= high)


@pytest.mark.parametrize("n", [1, 2, 7, 50])
def test_p_values_are_scipys_exact_ones(n: int) -> None:
    rng = np.random.default_rng(n)
    a, b = rng.normal(size=(2, 30, n))
    b += np.linspace(0, 3, 30)[:, None]
    steps = measures.ks_steps(a, b)
    for x, y, s, p in zip(a, b, steps, measures.ks_p(steps, n), strict=True):
        reference = stats.ks_2samp(x, y, method="exact")
        assert s / n == pytest.approx(reference.statistic, abs=1e-15)
        assert p == pytest.approx(reference.pvalue, rel=1e-9, abs=1e-12)


@given(hnp.arrays(np.float64, (2, 12), elements=st.integers(0, 4).map(float)))
@settings(max_examples=60, deadline=None)
def test_ties_are_counted_as_scipy_counts_them(arms: np.ndarray) -> None:
    steps = int(measures.ks_steps(arms[0], arms[1]))
    assert steps / 12 == pytest.approx(stats.ks_2samp(arms[0], arms[1], method="asymp").statistic, abs=1e-15)


def test_p_values_have_the_exact_null_distribution() -> None:
    # A mechanism that ignores x: n D has the probabilities that the table says, number by number.
    rng, n = np.random.default_rng(0), 40
    steps = measures.ks_steps(rng.normal(size=(20_000, n)), rng.normal(size=(20_000, n)))
    table = measures.ks_table(n)
    expected = 20_000 * -np.diff(np.append(table, 0.0))
    found = np.bincount(steps, minlength=n + 1).astype(float)
    rare = expected < 5
    observed = np.append(found[~rare], found[rare].sum())
    assert stats.chisquare(observed, np.append(expected[~rare], expected[rare].sum())).pvalue > 1e-3


def test_learned_attacker_has_valid_p_values_where_there_is_nothing_to_learn() -> None:
    rng, n, f = np.random.default_rng(1), 40, 10
    p, _ = measures.cross_fitted_p(rng.normal(size=(3000, n, f)), rng.normal(size=(3000, n, f)))
    for level in (0.5, 0.2, 0.05, 0.01):
        attainable = measures.ks_table(n // 2)
        each = attainable[attainable <= level / 2].max(initial=0.0)
        assert np.sum(p <= level) <= stats.binom.ppf(0.9995, 3000, 1 - (1 - each) ** 2)  # two halves, each exact


def test_learned_attacker_finds_what_no_single_feature_shows() -> None:
    rng, n = np.random.default_rng(2), 200
    common = rng.normal(size=(2, n, 1)) * 10
    features = np.concatenate([common, common + rng.normal(size=(2, n, 1))], axis=-1)[:, None]
    features[0, ..., 1] += 2.0  # hidden behind a common part ten times as large
    p, _ = measures.cross_fitted_p(features[0], features[1])
    single = measures.ks_p(measures.ks_steps(features[0, ..., 1], features[1, ..., 1]), n)
    assert p[0] < 1e-9 < single[0]


def test_family_wise_error_is_what_it_should_be_over_a_thousand_repetitions() -> None:
    rng, n, documents, statistics = np.random.default_rng(3), 50, 10, 7
    tests = documents * statistics
    rejected = 0
    for _ in range(REPETITIONS // 100):  # in blocks, for memory
        values = rng.normal(size=(100, tests, 2, n))
        p = measures.ks_p(measures.ks_steps(values[:, :, 0], values[:, :, 1]), n)
        rejected += int(np.sum(measures.holm(p).min(axis=-1) <= 0.05))
    table = measures.ks_table(n)
    attainable = table[table <= 0.05 / tests].max()  # p-values are discrete: the level that can be had
    exact = 1 - (1 - attainable) ** tests
    assert within_binomial(rejected, REPETITIONS, exact)
    assert rejected <= stats.binom.ppf(0.9995, REPETITIONS, 0.05)


def test_family_wise_error_reaches_five_percent_where_the_level_is_attainable() -> None:
    # 1, 2, ... tests of n samples: take the number whose share of 5 % is nearest to an attainable p.
    rng, n = np.random.default_rng(4), 60
    table = measures.ks_table(n)
    tests = max(range(20, 60), key=lambda m: m * table[table <= 0.05 / m].max())
    rejected = 0
    for _ in range(REPETITIONS // 100):
        values = rng.normal(size=(100, tests, 2, n))
        p = measures.ks_p(measures.ks_steps(values[:, :, 0], values[:, :, 1]), n)
        rejected += int(np.sum(measures.holm(p).min(axis=-1) <= 0.05))
    assert within_binomial(rejected, REPETITIONS, 0.05)


def test_family_wise_error_holds_for_records_that_share_databases_and_with_the_learned_attacker() -> None:
    # A mechanism that ignores x, as `judge` tests it: records of a repetition have most of their noise in common.
    rng, n, documents, statistics = np.random.default_rng(12), 40, 5, 3
    common = rng.normal(size=(REPETITIONS, 1, statistics, 2, n))
    values = common + 0.5 * rng.normal(size=(REPETITIONS, documents, statistics, 2, n))
    flat = values.reshape(-1, statistics, 2, n)
    p, _ = p_values(flat, np.moveaxis(flat, 1, -1))
    tests = p.reshape(REPETITIONS, -1)
    assert tests.shape[1] == documents * (statistics + 1)
    rejected = int(np.sum(measures.holm(tests).min(axis=-1) <= 0.05))
    assert rejected <= stats.binom.ppf(0.9995, REPETITIONS, 0.05)


@given(hnp.arrays(np.float64, st.integers(1, 20), elements=st.floats(0, 1)))
@settings(max_examples=60, deadline=None)
def test_holm_rejects_what_its_definition_rejects(p: np.ndarray) -> None:
    adjusted = measures.holm(p)
    order, m = np.argsort(p, kind="stable"), len(p)
    for level in (0.01, 0.05, 0.5):
        rejected = np.zeros(m, bool)
        for i, j in enumerate(order):
            if p[j] * (m - i) > level:
                break
            rejected[j] = True
        assert np.array_equal(adjusted <= level, rejected)


def test_epsilon_interval_covers_zero_where_x_is_ignored() -> None:
    rng = np.random.default_rng(5)
    found = measures.epsilon_bound(*rng.normal(size=(2, REPETITIONS, 7, 200)))
    assert np.sum(found.lower > 0) <= stats.binom.ppf(0.9995, REPETITIONS, 0.05)
    assert np.sum(found.upper < 0) <= stats.binom.ppf(0.9995, REPETITIONS, 0.05)


def gaussian_delta(epsilon: float, shift: float) -> float:
    """The smallest delta of N(0, 1) against N(shift, 1) at this epsilon. Ref: Balle, Wang, ICML 2018."""
    a, b = shift / 2 - epsilon / shift, -shift / 2 - epsilon / shift
    return float(stats.norm.cdf(a) - np.exp(epsilon) * stats.norm.cdf(b))


def randomised_response(rng: np.random.Generator, shape: tuple[int, ...], epsilon: float) -> list[np.ndarray]:
    keep = np.exp(epsilon) / (1 + np.exp(epsilon))
    return [(rng.random(shape) < p).astype(float) for p in (keep, 1 - keep)]


@pytest.mark.parametrize("kind", ["laplace", "response", "gaussian"])
@pytest.mark.parametrize("n", [200, 4000])
def test_epsilon_bound_is_below_the_truth_and_above_half_of_it_with_enough_samples(kind: str, n: int) -> None:
    rng, runs, delta = np.random.default_rng(6), 200, 0.0
    shape, epsilon = (runs, 2, n), 1.5
    if kind == "laplace":
        arms = [rng.laplace(size=shape), rng.laplace(size=shape) + epsilon]
    elif kind == "response":
        arms = randomised_response(rng, shape, epsilon)
    else:
        delta, shift = 0.01, 0.8
        epsilon = float(optimize.brentq(lambda e: gaussian_delta(e, shift) - delta, 0.1, 10))
        arms = [rng.normal(size=shape), rng.normal(size=shape) + shift]
    for arm in arms:
        arm[:, 1] = rng.normal(size=(runs, n))  # a statistic that says nothing: choosing it or not must cost nothing
    found = measures.epsilon_bound(arms[0], arms[1], delta=delta)
    assert np.sum(found.lower > epsilon) <= stats.binom.ppf(0.9995, runs, 0.05)
    if n == 4000:
        assert np.mean(found.lower > epsilon / 2) > 0.9


@pytest.mark.parametrize("hits", [0, 3, 10])
def test_clopper_pearson_is_scipys(hits: int) -> None:
    low, high = measures.clopper_pearson(10, 0.025)
    reference = stats.binomtest(hits, 10).proportion_ci(0.95, "exact")
    assert (low[hits], high[hits]) == (pytest.approx(reference.low), pytest.approx(reference.high))


def test_auc_and_true_positives_are_those_of_the_definition() -> None:
    rng = np.random.default_rng(7)
    a, b = np.round(rng.normal(0.5, size=(3, 60)), 1), np.round(rng.normal(size=(3, 60)), 1)
    for x, y, area in zip(a, b, measures.auc(a, b), strict=True):
        wins = np.mean((x[:, None] > y) + 0.5 * (x[:, None] == y))
        assert area == pytest.approx(wins)
    share = measures.true_positives(a, b, 0.1)
    for x, y, s in zip(a, b, share, strict=True):
        thresholds = [t for t in np.unique(y) if np.mean(y > t) <= 0.1]
        assert s == pytest.approx(np.mean(x > min(thresholds)))


def test_cross_fitted_auc_is_a_half_where_there_is_nothing() -> None:
    # The best of 20 statistics on the same samples would look good by chance.
    rng = np.random.default_rng(8)
    found = measures.cross_fitted(*rng.normal(size=(2, 500, 20, 40)))
    assert abs(found.auc.mean() - 0.5) < 4 * found.auc.std() / np.sqrt(500)


def test_detectable_effect_is_detected_with_the_power_it_says() -> None:
    rng, n, tests = np.random.default_rng(9), 100, 40
    least = measures.detectable(n, tests)
    a, b = rng.normal(size=(2, 2000, n))
    p = measures.ks_p(measures.ks_steps(a + least.shift, b), n)
    assert np.mean(p <= 0.05 / tests) >= 0.8  # conservative
    assert np.isnan(measures.detectable(4, 1000).critical)  # so few samples can show nothing


def test_publishing_x_is_flagged_with_certainty() -> None:
    rng = np.random.default_rng(10)
    values = rng.normal(size=(20, 3, 2, 20))
    values[:, 1, 0], values[:, 1, 1] = 1.0, 0.0  # "is x there?", answered
    (view,) = judge(Samples(("v/a", "v/b", "v/c"), values), range(20))
    assert view.flagged == tuple(range(20))
    assert not view.passes
    assert {record.statistic for record in view.records} == {"b"}
    assert all(record.auc == 1.0 and record.tpr["0.01"] == 1.0 for record in view.records)
    # The half that judges has 10 hits of 10 and 0 of 10: bounds q and 1 - q with q^10 = 0.05/2 (Clopper, Pearson).
    q = (0.05 / 2) ** (1 / 10)
    assert all(record.epsilon == pytest.approx(np.log(q / (1 - q))) for record in view.records)


def test_constant_statistics_say_nothing_and_are_named() -> None:
    values = np.random.default_rng(11).normal(size=(4, 2, 2, 10))
    values[:, 1] = 7.0
    (view,) = judge(Samples(("v/a", "v/b"), values), range(4))
    assert view.constant == ("b",)
    p, _ = p_values(values, None)
    assert np.all(p[:, 1] == 1.0)


def test_unequal_arms_are_refused() -> None:
    with pytest.raises(InputError, match="equally many"):
        measures.ks_steps(np.zeros(3), np.zeros(4))
