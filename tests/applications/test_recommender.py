"""Ratings: errors by hand, planted models found again, joining, and Hyperband between parties."""

from __future__ import annotations

from functools import partial
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp

from pdml_spdz.algorithms.nmf import start_by_seed
from pdml_spdz.algorithms.rri import Penalties
from pdml_spdz.applications import recommender
from pdml_spdz.applications.recommender import Continued, RatingScale, hyperband, pd_nmf_loss, sample_penalties
from pdml_spdz.applications.uplift import local_topics, own_settings, recommender_uplift, topics_error, topics_uplift
from pdml_spdz.engines.secsum import SecSumEngine
from pdml_spdz.errors import InputError
from pdml_spdz.primitives.agree import Agreement
from pdml_spdz.primitives.normed_sum import Alone, own_sum
from tests.threads import run_threads

SCALE = RatingScale(1, 5)
LOW, HIGH = 0.01, 30.0  # of penalties


def ratings(n: int, d: int, seed: int, *, noise: float = 0.7, share: float = 0.35) -> sp.csr_array:
    """Whole stars by n users of two tastes for d items; most are missing."""
    tastes = np.random.default_rng(100).dirichlet(np.ones(d), 2) * d * 0.8
    rng = np.random.default_rng(seed)
    stars = 1 + rng.gamma(1, 1, (n, 2)) @ tastes + noise * rng.normal(size=(n, d))
    stars = np.clip(np.rint(stars), 1, 5)
    return sp.csr_array(np.where(rng.random((n, d)) < share, stars, 0))


def test_predictions_and_rmse_by_hand() -> None:
    W, T = np.array([[1.0, 2.0], [0.0, 9.0]]), np.array([[1.0, 0.5], [1.0, 0.0]])
    held_out = sp.csr_array(np.array([[4.0, 2.0], [4.0, 0.0]]))  # predictions 3, 1 (from 0.5), 5 (from 9)
    predicted = recommender.predict(W, T, np.array([0, 0, 1]), np.array([0, 1, 0]), SCALE)
    assert predicted.tolist() == [3.0, 1.0, 5.0]
    assert recommender.squared_error(W, T, held_out, SCALE).rmse == pytest.approx(1.0)


def test_users_are_fitted_to_what_they_rated() -> None:
    rng = np.random.default_rng(0)
    T, W = rng.uniform(0.2, 1.0, (2, 12)), rng.uniform(1.0, 2.0, (6, 2))
    whole = W @ T
    seen = rng.random(whole.shape) < 0.6
    kept, held_out = sp.csr_array(whole * seen), sp.csr_array(whole * ~seen)
    np.testing.assert_allclose(recommender.fit_users(kept, T), W, atol=1e-4)
    assert recommender.rmse(kept, held_out, T, RatingScale(0, 5)) < 1e-4


@pytest.mark.parametrize("wrong", [0.5, 6.0, np.nan])
def test_ratings_out_of_range_are_refused(wrong: float) -> None:
    table = sp.csr_array(np.array([[3.0, 0.0, 1.0], [0.0, wrong, 5.0]]))
    with pytest.raises(InputError, match=r"1 ratings are out of range: user 1 gives item 1.*\n.*from 1 to 5"):
        recommender.rmse(table, table, np.ones((1, 3)), SCALE)


def test_scale_and_shapes_are_checked() -> None:
    with pytest.raises(InputError, match="lowest < highest"):
        RatingScale(-1, 5)
    with pytest.raises(InputError, match="the same items"):
        recommender.fit_users(sp.csr_array(np.ones((2, 3))), np.ones((1, 4)))
    with pytest.raises(InputError, match="between 0 and 1"):
        recommender.hold_out(sp.csr_array(np.ones((2, 3))), 1.0)


def test_held_out_ratings_are_apart() -> None:
    table = ratings(50, 20, 0)
    kept, out = recommender.hold_out(table, 0.3)
    assert np.array_equal((kept + out).toarray(), table.toarray())
    assert kept.nnz + out.nnz == table.nnz
    assert 0.2 < out.nnz / table.nnz < 0.4


def test_joining_helps_a_party_with_few_users() -> None:
    # Unregularised topics on so few ratings would be no rival: both models have the same penalties.
    penalties = Penalties(beta=1.0, delta=1.0)
    everyone, few = ratings(300, 40, 0), ratings(12, 40, 1)
    T = local_topics(everyone, 3, own_settings(everyone, 100, 1e-5, penalties, True))
    gain = recommender_uplift(*recommender.hold_out(few, 0.3), T, SCALE, penalties)
    assert gain.percent > 5


def test_common_topics_fit_held_out_documents_better() -> None:
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(30, 0.2), 4)
    documents = sp.csr_array(rng.poisson(60 * rng.dirichlet(np.ones(4), 220) @ topics).astype(float))
    T = local_topics(documents[:150], 4, own_settings(documents, 100, 1e-5, None, False))
    gain = topics_uplift(documents[:6], documents[150:], T)
    assert gain.percent > 5
    assert gain.joint == topics_error(documents[150:], T)


def test_schedule_is_that_of_the_paper() -> None:
    tried: list[tuple[float, int]] = []

    def evaluate(x: float, resource: int) -> float:
        tried.append((x, resource))
        return x

    search = hyperband(lambda rng: float(rng.random()), evaluate, 81, 3)
    # Li et al., JMLR 2018, table 1 (R = 81, eta = 3): numbers of configurations, by bracket.
    table = [[81, 27, 9, 3, 1], [34, 11, 3, 1], [15, 5, 1], [8, 2], [5]]
    wanted = [81 // 3 ** (len(row) - 1 - i) for row in table for i, count in enumerate(row) for _ in range(count)]
    assert [resource for _, resource in tried] == wanted
    assert search.best.loss == min(x for x, _ in tried)
    # Those that are kept have had a third of it before.
    again = sum(count * 81 // 3 ** (len(row) - i) for row in table for i, count in enumerate(row) if i > 0)
    assert search.cost == sum(resource for _, resource in tried) - again


def test_survivors_are_the_best_and_nan_never_is() -> None:
    search = hyperband(lambda rng: float(rng.random()), lambda x, r: x if x > 0.2 else float("nan"), 9, 3)
    first = [trial for trial in search.trials if trial.resource == 1]
    second = [trial for trial in search.trials if trial.resource == 3][:3]
    assert [t.loss for t in second] == sorted(t.loss for t in first if t.loss == t.loss)[:3]
    assert search.best.loss > 0.2


def test_nothing_to_spend_is_refused() -> None:
    with pytest.raises(InputError, match="max_resource is 0"):
        hyperband(lambda rng: 0, lambda c, r: 0.0, 0)


def pd_nmf(kept: sp.csr_array, k: int, sec_sum=own_sum, agree=None) -> Continued:
    """PD-NMF of a party's ratings, from the same start every time; alone by default."""
    agree = agree or Alone()
    return Continued(kept, start_by_seed(kept.shape[1], k, 1, agree), 1e6, sec_sum, agree)


draw = partial(sample_penalties, low=LOW, high=HIGH)


def test_parties_choose_the_same_penalties_as_one_with_all_ratings() -> None:
    table = ratings(40, 15, 0)
    kept, out = recommender.hold_out(table, 0.25)
    rows = [slice(0, 10), slice(10, 40)]

    def party(link):
        sec_sum, own = SecSumEngine(link, b"test", "auto").sec_sum, rows[link.me]
        run = pd_nmf(kept[own], 3, sec_sum, Agreement(link))
        return hyperband(draw, pd_nmf_loss(run, (kept[own], out[own]), SCALE, sec_sum, most=1000), 3, 3)

    pooled = hyperband(draw, pd_nmf_loss(pd_nmf(kept, 3), (kept, out), SCALE, own_sum, most=1000), 3, 3)
    searches = run_threads(2, party)
    assert searches[0] == searches[1]  # bit for bit
    assert searches[0].best.configuration == pooled.best.configuration
    losses = [[t.loss for t in search.trials] for search in (searches[0], pooled)]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-6)


def test_a_setting_that_is_kept_goes_on_from_where_it_was() -> None:
    kept, _ = recommender.hold_out(ratings(20, 15, 0), 0.25)
    go_on, penalties = pd_nmf(kept, 3), Penalties(beta=1.0, delta=1.0)
    pieces = [go_on(penalties, sweeps) for sweeps in (1, 3, 9)]
    np.testing.assert_array_equal(pieces[-1], pd_nmf(kept, 3)(penalties, 9))
    assert not np.array_equal(pieces[0], pieces[1])
    np.testing.assert_array_equal(go_on(penalties, 9), pieces[-1])


def test_hyperband_is_no_worse_than_a_grid_at_half_the_cost() -> None:
    """Over one range, by logarithm: 17 draws at 48 % of the sweeps, against two values of each of four penalties."""
    quarters = np.exp(np.log(LOW) + np.array([0.25, 0.75]) * np.log(HIGH / LOW))
    found, grid = [], []
    for seed in range(5):
        kept, out = recommender.hold_out(ratings(40, 20, seed), 0.25, seed)
        evaluate = pd_nmf_loss(pd_nmf(kept, 5), (kept, out), SCALE, own_sum, most=10_000)
        search = hyperband(draw, evaluate, 9, 3, seed=seed)
        assert search.cost <= 0.5 * 16 * 9
        found.append(search.best.loss)
        grid.append(min(evaluate(Penalties(*map(float, p)), 9) for p in product(quarters, repeat=4)))
    assert np.mean(found) <= np.mean(grid), (found, grid)
