"""How long the columns of S V are, up to one factor, where only their directions were opened."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.numerics.linalg import EPS
from pdml_spdz.primitives.normed_sum import NormedColumns

WIDE = 40.0  # before anything is known: a deviation of ln n_i; an engine's sums are within 2^-40 to 2^-96 of its bound
SHOWS = 8.0  # a number this many times its error has the right sign, and its logarithm a small error


@dataclass(frozen=True)
class Call:
    """What was found of an earlier call: V, S V (up to a factor), its noise, and the doubt of its lengths."""

    V: Reals
    SV: Reals
    noise: Reals
    doubt: Reals


@dataclass(frozen=True)
class Lengths:
    """x : (k,), ln n up to a constant; doubt : (k, k - 1), a square root of its covariance."""

    x: Reals
    doubt: Reals


@dataclass(frozen=True)
class Equations:
    """Differences x_i - x_j = value, each with its deviation."""

    i: NDArray[np.int64]
    j: NDArray[np.int64]
    value: Reals
    deviation: Reals


def lengths_by_symmetry(V: Reals, columns: NormedColumns, before: Call | None) -> Lengths:
    """n with S v_i = n_i u_i, up to one factor, from the directions u_i alone.

    1. S is symmetric: n_j (v_i.u_j) = n_i (v_j.u_i), which gives ln n_i - ln n_j for every pair i, j
    2. and the same between v_i and w_i, the v_i of the call before: n_i (w_i.u_i) = v_i.S w_i
    3. least squares over all of them, each weighted by the noise of what it is made of
    4. where only one side of a pair shows, n_i/n_j is at least what the noise of the other side leaves; pairs for which
       it came out smaller are put there, and 3 is done again

    Step 2 carries the ratios on when V has come so near to singular vectors that step 1 shows nothing. Where nothing
    shows anything, with a V drawn at random, S is a multiple of the identity up to the noise, and all n_i are equal.
    """
    expected, spread, error = _carried_on(V, columns, before)
    H = V.T @ columns.U
    shows = np.abs(H) > SHOWS * error
    i, j = np.nonzero(np.triu(shows & shows.T & (H * H.T > 0), 1))
    pairs = Equations(i, j, np.log(H[i, j] / H[j, i]), np.hypot(error[j] / H[i, j], error[i] / H[j, i]))
    found = _solve(pairs, expected, spread, before)
    i, j = np.nonzero(shows & ~shows.T)
    least = np.log(np.abs(H[i, j]) / (SHOWS * error[i]))
    short = found.x[i] - found.x[j] < least
    if not np.any(short):
        return found
    i, j, value = (
        np.concatenate(both) for both in ((pairs.i, i[short]), (pairs.j, j[short]), (pairs.value, least[short] + 1))
    )
    deviation = np.concatenate([pairs.deviation, np.ones(int(short.sum()))])
    return _solve(Equations(i, j, value, deviation), expected, spread, before)


def _carried_on(V: Reals, columns: NormedColumns, before: Call | None) -> tuple[Reals, Reals, Reals]:
    """Step 2: ln n_i by the call before, the deviation that this step adds, and the error of products with u_i."""
    d, k = V.shape
    if before is None:
        return np.zeros(k), np.full(k, WIDE), along(columns.noise, d)
    lengths = np.linalg.norm(before.SV, axis=0)
    back, error_before = np.sum(V * before.SV, axis=0) / lengths, along(before.noise, d)
    # Products with S_m are rounded relative to the longest column.
    error = along(columns.noise + d * EPS * lengths.max() / lengths, d)
    there = np.sum(before.V * columns.U, axis=0)
    shows = (there > SHOWS * error) & (back > SHOWS * error_before)
    there, back = np.where(shows, there, 1.0), np.where(shows, back, 1.0)
    deviation = np.sqrt((error / there) ** 2 + (error_before / back) ** 2 + EPS**2)
    return np.log(lengths * back / there), np.where(shows, deviation, WIDE), error


def _solve(pairs: Equations, expected: Reals, spread: Reals, before: Call | None) -> Lengths:
    """Least squares for z, with x = Z z, beside the z of the call before and a common factor, which are dropped."""
    k = len(expected)
    Z = _centred(k)
    zeros = np.zeros((len(pairs.i), k))
    of_pairs = (Z[pairs.i] - Z[pairs.j]) / pairs.deviation[:, None]
    if before is None:
        A = np.vstack([of_pairs, Z / WIDE])
        b = np.concatenate([pairs.value / pairs.deviation, np.zeros(k)])
    else:
        old = Z.T @ np.log(np.linalg.norm(before.SV, axis=0))
        steps = np.hstack([-Z, -np.ones((k, 1)), Z]) / spread[:, None]
        weight = np.linalg.inv(Z.T @ before.doubt)
        known = np.hstack([weight, np.zeros((k - 1, k))])
        A = np.vstack([known, steps, np.hstack([zeros, of_pairs])])
        b = np.concatenate([weight @ old, (expected - Z @ old) / spread, pairs.value / pairs.deviation])
    Q, R = np.linalg.qr(A)
    doubt = Z @ np.linalg.inv(R[R.shape[1] - k + 1 :, R.shape[1] - k + 1 :])
    return Lengths(doubt @ (Q.T @ b)[R.shape[1] - k + 1 :], doubt)


def _centred(k: int) -> Reals:
    """An orthonormal basis (k, k - 1) of the vectors whose mean is zero: Helmert's, along 1, ..., 1, -i, 0, ..., 0"""
    i = np.arange(1, k)
    H = np.tril(np.ones((k - 1, k)))
    H[i - 1, i] = -i
    basis: Reals = (H / np.sqrt(i * (i + 1))[:, None]).T
    return basis


def along(noise: Reals, d: int) -> Reals:
    """Noise of independent entries along one direction that does not depend on them: four deviations of it."""
    part: Reals = np.minimum(noise, 1.0) * share(d)
    return part


def share(d: int) -> float:
    return min(1.0, 4.0 / float(np.sqrt(d)))
