"""A learned attacker: a linear classifier on all that is seen of a record, trained and judged on different samples."""

from __future__ import annotations

import numpy as np

from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.privacy.measures import ks_p, ks_steps

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
