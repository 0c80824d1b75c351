"""Single vectors within a subspace: Rayleigh-Ritz on the last S V, and how well it tells them apart; and how long
the columns of S V are, up to one factor, where only their directions were opened.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.algorithms.shown import Shown
from pdml_spdz.algorithms.shown import ritz as of_shown
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.numerics.linalg import EPS, orthonormalise, qr_tolerance
from pdml_spdz.primitives.normed_sum import NormedColumns

SEEN = 2.0**-6  # of the length of S V: noise below which S of a direction shows something
KEPT = "SV", "core", "noise", "doubt", "V"


@dataclass(frozen=True)
class Product:
    """What an iteration has shown of S: public, and all that Rayleigh-Ritz needs.

    SV : (d, k), S V up to one positive factor
    core : (k, k), V^T S V up to the same factor
    noise : (k,), how far (in l2) each column of SV may be off, relative to its length
    doubt : (k, r), a square root of the covariance of the lengths' logarithms; r = 0 where they are known
    exact : the factor is 1
    V : (d, k), with which the next S V is compared
    """

    SV: Reals
    core: Reals
    noise: Reals
    doubt: Reals
    exact: bool
    V: Reals

    @property
    def errors(self) -> Reals:
        """How far each column of SV may be off, its length too."""
        relative = np.hypot(np.minimum(self.noise, 1.0), np.linalg.norm(self.doubt, axis=1))
        errors: Reals = relative * np.linalg.norm(self.SV, axis=0)
        return errors

    def of(self, columns: NDArray[np.bool_]) -> Product:
        """Some of the columns."""
        picked = replace(self, SV=self.SV[:, columns], V=self.V[:, columns], core=self.core[np.ix_(columns, columns)])
        return replace(picked, noise=self.noise[columns], doubt=self.doubt[columns])

    def arrays(self) -> dict[str, Reals]:
        """For a checkpoint."""
        return {name: getattr(self, name) for name in KEPT} | {"exact": np.array([self.exact])}

    @classmethod
    def restored(cls, arrays: dict[str, Any]) -> Product:
        """Of what `arrays` gave; KeyError if something is missing."""
        return cls(**{name: arrays[name] for name in KEPT}, exact=bool(arrays["exact"][0]))


@dataclass(frozen=True)
class Ritz:
    """Rayleigh-Ritz of a product: eigenvalues (k,), largest first, and eigenvectors Q (k, k) of its core.

    tilt : (k,), by how much (a sine) noise may move each vector
    pairs : (k, k), by how much it may turn vectors i and j among themselves; 1: they are not told apart
    mixing : (k, k), the same by what the subspace has not converged yet, which further iterations mend
    residual : (k,), how long S w - value w may be outside of the span
    """

    values: Reals
    Q: Reals
    tilt: Reals
    pairs: Reals
    mixing: Reals
    residual: Reals


def product_of(V: Reals, columns: NormedColumns, before: Product | None) -> Product:
    """What is known after a call with V. before : of the call before, if there was one"""
    if columns.scaled is not None:
        none = np.zeros((V.shape[1], 0))
        return Product(columns.scaled, V.T @ columns.scaled, columns.noise, none, columns.norms is not None, V)
    found = lengths_by_symmetry(V, columns, before)
    SV = columns.U * np.exp(found.x)
    # S_m V is rounded relative to the longest of its columns.
    noise = columns.noise + len(V) * EPS * np.exp(found.x.max() - found.x)
    return Product(SV, V.T @ SV, noise, found.doubt, False, V)


def ritz(product: Product) -> Ritz:
    """Eigenvectors of the core, and what may be wrong with them.

    With V^T S V = core + E the vectors i and j are turned among themselves by (E_ij + E_ji)/2 over the gap of their
    values. E has three parts: noise of SV; lengths of its columns that are a little off (`doubt`), which matters as far
    as V is not made of eigenvectors; and what the parts of S w_i and S w_j outside the span couple in second order.
    """
    values, Q = np.linalg.eigh((product.core + product.core.T) / 2)
    values, Q = values[::-1], Q[:, ::-1]
    sizes, lengths = np.abs(values), np.linalg.norm(product.SV, axis=0)
    noise = np.sqrt((Q**2).T @ (np.minimum(product.noise, 1.0) * lengths) ** 2)  # of S w_i, in l2
    turned = np.add.outer(noise, noise) / 2 * share(len(product.SV))
    turned += np.add.outer(sizes, sizes) / 2 * _off_by(Q, product.doubt)
    residual = np.linalg.norm((product.SV - product.V @ product.core) @ Q, axis=0)  # outside of the span of V
    tiny = np.finfo(np.float64).tiny
    second = np.outer(residual, residual) / np.maximum(np.maximum.outer(sizes, sizes), tiny)
    tilt = np.minimum(1.0, noise / np.maximum(sizes, tiny))
    return Ritz(values, Q, tilt, _angles(turned, values), _angles(second, values), residual + noise)


@dataclass(frozen=True)
class Next:
    """value : what the first eigenvalue beyond those of V is at most, as S V has it; doubt : of it, over the largest"""

    value: float = np.inf
    doubt: float = np.inf


def beyond(product: Product, before: Product | None, known: Next) -> Next:
    """By Rayleigh-Ritz on V and Z, the directions by which it left that of the call before: what is left of those that
    were not asked for. S Z is a difference, with noise over how far V moved: `known` stays where that is all there is.

    As krylov's theta_(k+1), it is no bound where the start has missed a direction.
    """
    if before is None:
        return known
    V, W = product.V, before.V
    along, back = V.T @ before.SV, product.SV.T @ W  # equal, but for the factors of the two calls
    factor = 1.0 if product.exact else float(np.sum(along * back) / np.sum(along**2))
    before, known = replace(before, SV=before.SV * factor), replace(known, value=known.value * factor)
    left = W - V @ (V.T @ W)
    squares, turns = np.linalg.eigh(left.T @ left)
    Y = turns / np.sqrt(np.maximum(squares, EPS**2))
    X = V.T @ W @ Y
    errors = np.hypot(*(np.linalg.norm(p.errors[:, None] * Z, axis=0) for p, Z in ((before, Y), (product, X))))
    seen = (errors <= SEEN * np.linalg.norm(product.SV)) & (squares > SEEN**4 * squares[-1])
    seen[-1] = True
    shown = Shown(V, product.SV, np.diag(product.errors))
    shown = shown.with_block((left @ Y)[:, seen], (before.SV @ Y - product.SV @ X)[:, seen], errors[seen])
    found, k = of_shown(shown), V.shape[1]
    theta, u, noise = found.theta[k], found.U[:, k], float(found.noise[k])
    rest = float(np.linalg.norm(shown.C @ u - shown.Q @ u * theta))
    doubt = (rest + noise) / max(float(found.theta[0]), EPS**16)
    return known if noise > rest and doubt > known.doubt else Next(float(theta) + rest + noise, doubt)


def _off_by(Q: Reals, doubt: Reals) -> Reals:
    """The deviation of (Q^T D Q)_ij for all i and j, where D is the diagonal matrix of what lengths are off by."""
    return np.stack([np.linalg.norm(doubt.T @ (Q * q[:, None]), axis=0) for q in Q.T])


def _angles(coupling: Reals, values: Reals) -> Reals:
    """By how much a coupling turns each pair of vectors: itself over the gap of their values, which it may have opened
    by as much; 1 at most."""
    gaps = np.abs(np.subtract.outer(values, values)) - coupling
    angles: Reals = np.where(coupling < gaps, coupling / np.where(gaps > 0, gaps, 1.0), 1.0)
    np.fill_diagonal(angles, 0.0)
    return angles


def ritz_basis(product: Product, found: Ritz) -> tuple[Reals, float]:
    """A basis of the span of S V whose columns are the best approximations of eigenvectors.

    Second, how far apart two correct computations of that span may be.

    The columns of a block power iteration converge one by one, each with the gap to the next; their span converges
    with the gap behind the last. V^T S V is small and known to all, and its eigenvectors put the columns right.
    """
    Y = product.SV @ found.Q
    norms = np.linalg.norm(Y, axis=0)
    basis, r = orthonormalise(Y / np.where(norms > 0, norms, 1.0))
    return basis, float(qr_tolerance(r, len(Y)).max())


def groups(pairs: Reals, limit: float) -> list[list[int]]:
    """Columns that are turned among themselves by more than `limit`; a column that belongs to none is left out."""
    # scipy's connected_components, without the half of scipy that it imports
    joined, free = (pairs > limit) | (pairs > limit).T, np.ones(len(pairs), np.bool_)
    found = []
    for first in range(len(pairs)):
        members, new = [], [first] if free[first] else []
        free[first] = False
        while new:
            members.append(i := new.pop())
            near = np.flatnonzero(joined[i] & free)
            free[near] = False
            new.extend(near.tolist())
        if len(members) > 1:
            found.append(sorted(members))
    return found


WIDE = 40.0  # before anything is known: a deviation of ln n_i; an engine's sums are within 2^-40 to 2^-96 of its bound
SHOWS = 8.0  # a number this many times its error has the right sign, and its logarithm a small error


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


def lengths_by_symmetry(V: Reals, columns: NormedColumns, before: Product | None) -> Lengths:
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


def _carried_on(V: Reals, columns: NormedColumns, before: Product | None) -> tuple[Reals, Reals, Reals]:
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


def _solve(pairs: Equations, expected: Reals, spread: Reals, before: Product | None) -> Lengths:
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
