"""Eigenvectors after one more row: S + x x^T from the eigendecomposition of S, for many x at once.

Ref: Golub, SIAM Review 1973; Bunch, Nielsen, Sorensen, Numer. Math. 1978 (the secular equation).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.numerics.linalg import EPS

Indices = NDArray[np.int64]
STEPS = 100  # at most; ten are usual


@dataclass(frozen=True)
class Eigen:
    """S = Q diag(values) Q^T of shape (d, d), values descending."""

    values: Reals
    Q: Reals

    @classmethod
    def of(cls, S: Reals) -> Eigen:
        values, Q = np.linalg.eigh(S)
        return cls(values[::-1].copy(), np.ascontiguousarray(Q[:, ::-1]))


def top_after_row(base: Eigen, x: Reals, k: int) -> tuple[Reals, Reals]:
    """(values, V) of S + x_j x_j^T for every row x_j of x (m, d): (m, k), descending, and (m, d, k).

    1. z <- Q^T x; the new values are the roots of f(mu) = 1 + sum_i z_i^2/(values_i - mu), one above each value
    2. each root as its distance from the nearest value, so that no digit is lost between close ones
    3. the vector of mu is Q (z_i/(values_i - mu))_i, scaled to length 1

    Where x has nothing along a vector of S (z_i = 0) that vector and its value stay as they are.
    Cost: one product of Q with m k vectors, and O(m k d) for each of some ten steps.
    """
    z = x @ base.Q
    size = np.maximum(np.abs(base.values[0]), np.sum(z * z, axis=1, keepdims=True))
    z = np.where(z * z > (EPS * EPS) * size, z, 0.0)
    found = [_top(base.values, z_j, k) for z_j in z]
    values = np.array([mu for mu, _ in found])
    coefficients = np.array([C for _, C in found])  # (m, d, k)
    m, d, _ = coefficients.shape
    V = base.Q @ coefficients.transpose(1, 0, 2).reshape(d, m * k)
    return values, np.ascontiguousarray(V.reshape(d, m, k).transpose(1, 0, 2))


def _top(values: Reals, z: Reals, k: int) -> tuple[Reals, Reals]:
    """The k largest values after z z^T and their vectors in the basis of Q, (d, k)."""
    d = len(values)
    moving = np.flatnonzero(z)
    if not len(moving):
        return values[:k].copy(), np.eye(d, k)
    # Equal values (to rounding) share what x has along them: only one vector of their space moves, the others stay.
    poles, weights, shares = _merged(values[moving], z[moving])
    count = min(k, len(poles))
    origin, tau = _roots(poles, weights, count)
    mu = poles[origin] + tau
    gaps = (poles[:, None] - poles[origin]) - tau  # (r, count)
    still, C_still = _still(values, z, moving, shares, k)
    C = np.zeros((d, count))
    C[moving] = z[moving, None] / gaps[shares]
    C /= np.linalg.norm(C, axis=0)
    everything = np.concatenate([mu, still])
    order = np.argsort(-everything, kind="stable")[:k]
    return everything[order], np.column_stack([C, C_still])[:, order]


def _merged(values: Reals, z: Reals) -> tuple[Reals, Reals, Indices]:
    """(poles, weights, share): distinct values, the sum of z^2 at each, and which pole each value belongs to."""
    close = values[:-1] - values[1:] <= 4.0 * EPS * max(abs(values[0]), 1e-300)
    share: Indices = np.concatenate([[0], np.cumsum(~close)])
    poles = values[np.concatenate([[True], ~close])]
    return poles, np.bincount(share, z * z).astype(np.float64), share


def _still(values: Reals, z: Reals, moving: Indices, shares: Indices, k: int) -> tuple[Reals, Reals]:
    """Vectors that do not move: those with z = 0, and those orthogonal to z within a space of equal values.

    Of each kind the first k: no more can be among the k largest.
    """
    d = len(values)
    zero = np.flatnonzero(z == 0)[:k]
    unit = np.zeros((d, len(zero)))
    unit[zero, np.arange(len(zero))] = 1.0
    columns, kept = [unit], [values[zero]]
    for group in np.flatnonzero(np.bincount(shares) > 1)[:k]:
        members = moving[shares == group][: k + 1]
        basis = np.linalg.qr(np.column_stack([z[members], np.eye(len(members))]))[0][:, 1 : len(members)]
        block = np.zeros((d, basis.shape[1]))
        block[members] = basis
        columns.append(block)
        kept.append(np.full(basis.shape[1], values[members[0]]))
    return np.concatenate(kept), np.column_stack(columns)


def _roots(poles: Reals, weights: Reals, count: int) -> tuple[Indices, Reals]:
    """(origin, tau) of the `count` largest roots of 1 + sum w_i/(pole_i - mu): mu = pole[origin] + tau.

    Root i lies between pole i and the one above it; the first within sum w of pole 0. f rises from -inf to +inf there.
    """
    i = np.arange(count)
    width = np.where(i == 0, weights.sum(), poles[np.maximum(i - 1, 0)] - poles[i])
    middle = _f(poles, weights, poles[i], width / 2)
    # The nearer end is the origin; from the upper one tau is negative.
    upper = (middle < 0) & (i > 0)
    origin = np.where(upper, i - 1, i)
    low = np.where(upper, -width / 2, np.where(middle < 0, width / 2, 0.0))
    high = np.where(upper, 0.0, np.where(middle < 0, width, width / 2))
    own = weights[i]
    other = np.where(i == 0, 0.0, weights[np.maximum(i - 1, 0)])
    tau = _first_guess(middle, own, other, width, upper, (low, high))
    done = np.zeros(count, bool)
    for _ in range(STEPS):
        f, slope = _f_and_slope(poles, weights, poles[origin], tau)
        low, high = np.where(f < 0, tau, low), np.where(f < 0, high, tau)
        # Newton's step for f times the distances from both poles, which is smooth between them.
        below = np.where(upper, width + tau, tau)
        beyond = np.where(i == 0, 1.0, np.where(upper, -tau, width - tau))
        g = below * beyond * f
        g_slope = (beyond - np.where(i == 0, 0.0, below)) * f + below * beyond * slope
        with np.errstate(divide="ignore", invalid="ignore"):
            step = tau - g / g_slope
        near = np.abs(step - tau) <= 4.0 * EPS * np.abs(tau)
        following = np.where(near | ((step > low) & (step < high)), step, (low + high) / 2)
        tau, done = np.where(done, tau, following), done | near | (high - low <= 4.0 * EPS * np.abs(tau))
        if done.all():
            break
    return origin, tau


def _first_guess(
    middle: Reals, own: Reals, other: Reals, width: Reals, upper: NDArray[np.bool_], bracket: tuple[Reals, Reals]
) -> Reals:
    """tau where f would be zero if all poles but the two neighbours did what they do in the middle of the interval.

    middle : f there; own, other : weights of the pole below and of the one above. With s the distance from the origin,
    c + a/s - b/(width - s) = 0, a and b with the signs of that end.
    """
    c = middle + 2.0 * own / width - np.where(other > 0, 2.0 * other / width, 0.0)
    a, b = np.where(upper, other, -own), np.where(upper, own, -other)
    # c s (width - s) + a (width - s) - b s = 0
    A, B, C = -c, c * width - a - b, a * width
    with np.errstate(divide="ignore", invalid="ignore"):
        q = -0.5 * (B + np.copysign(np.sqrt(np.maximum(B * B - 4.0 * A * C, 0.0)), B))
        roots = np.where(upper, -1.0, 1.0) * np.array([q / A, C / q])
    low, high = bracket
    inside = (roots > low) & (roots < high)
    return np.where(inside[0], roots[0], np.where(inside[1], roots[1], (low + high) / 2))


def _f(poles: Reals, weights: Reals, origin: Reals, tau: Reals) -> Reals:
    return np.asarray(1.0 + np.sum(weights[:, None] / ((poles[:, None] - origin) - tau), axis=0))


def _f_and_slope(poles: Reals, weights: Reals, origin: Reals, tau: Reals) -> tuple[Reals, Reals]:
    part = weights[:, None] / (gap := (poles[:, None] - origin) - tau)
    return 1.0 + part.sum(axis=0), np.sum(part / gap, axis=0)
