"""Single vectors within a subspace: Rayleigh-Ritz on the last S V, and how well it tells them apart."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import helmert
from scipy.sparse.csgraph import connected_components

from pdml_spdz.fixedpoint import Reals
from pdml_spdz.linalg import EPS, orthonormalise, qr_tolerance
from pdml_spdz.primitives.normed_sum import NormedColumns

WIDE = 40.0  # natural logarithms of norms of one call are at most this far apart: an engine's range is 2^-40, or 2^-96
SHOWS = 8.0  # a number this many times its error has the right sign, and its logarithm a small one


@dataclass(frozen=True)
class Product:
    """What an iteration has shown of S: public, and all that Rayleigh-Ritz needs.

    SV : (d, k), S V up to one positive factor
    T : (k, k), V^T S V up to the same factor
    noise : (k,), how far (in l2) each column of SV may be off, relative to its length
    doubt : (k,), how far that length may be off, relative to the others: one deviation
    exact : the factor is 1
    V : (d, k), where the lengths of the next S V are to be found with it
    """

    SV: Reals
    T: Reals
    noise: Reals
    doubt: Reals
    exact: bool
    V: Reals | None = None

    def of(self, columns: NDArray[np.bool_]) -> Product:
        """Some of the columns."""
        picked = replace(self, SV=self.SV[:, columns], T=self.T[np.ix_(columns, columns)])
        return replace(picked, noise=self.noise[columns], doubt=self.doubt[columns], V=None)

    def arrays(self) -> dict[str, Reals]:
        """For a checkpoint."""
        named: dict[str, Any] = {name: getattr(self, name) for name in ("SV", "T", "noise", "doubt", "V")}
        return {name: array for name, array in named.items() if array is not None} | {"exact": np.array([self.exact])}

    @classmethod
    def restored(cls, arrays: dict[str, Any]) -> Product:
        """Of what `arrays` gave; KeyError if something is missing."""
        needed = {name: arrays[name] for name in ("SV", "T", "noise", "doubt")}
        return cls(**needed, exact=bool(arrays["exact"][0]), V=arrays.get("V"))


@dataclass(frozen=True)
class Ritz:
    """Rayleigh-Ritz of a product: eigenvalues (k,), largest first, and eigenvectors Q (k, k) of its T.

    tilt : (k,), by how much (a sine) noise may move each vector
    pairs : (k, k), by how much it may turn vectors i and j among themselves; 1: they are not told apart
    mixing : (k, k), the same by what the subspace has not converged yet, which further iterations mend
    """

    values: Reals
    Q: Reals
    tilt: Reals
    pairs: Reals
    mixing: Reals


def product_of(V: Reals, columns: NormedColumns, before: Product | None) -> Product:
    """What is known after a call with V. before : of the call before, if there was one"""
    if columns.scaled is not None:
        none = np.zeros(V.shape[1])
        return Product(columns.scaled, V.T @ columns.scaled, columns.noise, none, columns.norms is not None)
    lengths, doubt = lengths_by_symmetry(V, columns, before)
    SV = columns.U * lengths
    # S_m V is rounded relative to the longest of its columns.
    noise = columns.noise + len(V) * EPS * lengths.max() / lengths
    return Product(SV, V.T @ SV, noise, doubt, False, V)


def lengths_by_symmetry(V: Reals, columns: NormedColumns, before: Product | None) -> tuple[Reals, Reals]:
    """n with S v_i = n_i u_i, up to one factor, from the directions u_i alone; and the deviation of each ln n_i.

    1. S is symmetric: n_j (v_i.u_j) = n_i (v_j.u_i), which gives ln n_i - ln n_j for every pair i, j
    2. and the same between v_i and v_i of the call before (w_i, of length m_i): n_i (w_i.u_i) = m_i (v_i.S w_i)/|S w_i|
    3. least squares over all of them, each weighted by the noise of what it is made of

    Step 2 carries the ratios on when V has come so near to singular vectors that step 1 shows nothing. Where neither
    shows anything, with a V drawn at random, S is a multiple of the identity up to the noise, and all n_i are equal.
    """
    k, error = V.shape[1], along(columns.noise, len(V))
    H = V.T @ columns.U
    i, j = np.triu_indices(k, 1)
    both = (np.abs(H) > SHOWS * error) & (np.abs(H.T) > SHOWS * error[:, None])
    kept = both[i, j] & (H[i, j] * H[j, i] > 0)
    i, j = i[kept], j[kept]
    deviation = np.hypot(error[j] / H[i, j], error[i] / H[j, i])
    rows = np.zeros((len(i), k))
    rows[np.arange(len(i)), i], rows[np.arange(len(i)), j] = 1 / deviation, -1 / deviation
    expected, spread = _carried_on(V, columns.U, error, before)
    # x = ln n without its mean, and the mean, which says nothing, by itself.
    Z = np.hstack([helmert(k).T, np.ones((k, 1))]) if k > 1 else np.ones((1, 1))
    A = np.vstack([rows @ Z, Z / spread[:, None]])
    b = np.concatenate([np.log(H[i, j] / H[j, i]) / deviation, expected / spread])
    Q, R = np.linalg.qr(A)
    inverse = np.linalg.inv(R)
    x = Z[:, :-1] @ (inverse @ (Q.T @ b))[:-1]
    doubt: Reals = np.linalg.norm(Z[:, :-1] @ inverse[:-1], axis=1)
    return np.exp(x), np.minimum(doubt, WIDE)


def _carried_on(V: Reals, U: Reals, error: Reals, before: Product | None) -> tuple[Reals, Reals]:
    """Step 2: what ln n_i should be by the call before, and the deviation of that."""
    k = V.shape[1]
    if before is None or before.V is None:
        return np.zeros(k), np.full(k, WIDE)
    lengths = np.linalg.norm(before.SV, axis=0)
    there = np.sum(before.V * U, axis=0)
    back = np.sum(V * before.SV, axis=0) / lengths
    error_before = along(before.noise, len(V))
    shows = (there > SHOWS * error) & (back > SHOWS * error_before)
    there, back = np.where(shows, there, 1.0), np.where(shows, back, 1.0)
    deviation = np.sqrt(before.doubt**2 + (error / there) ** 2 + (error_before / back) ** 2 + EPS**2)
    return np.log(lengths * back / there), np.where(shows, np.minimum(deviation, WIDE), WIDE)


def along(noise: Reals, d: int) -> Reals:
    """Noise of independent entries along one direction that does not depend on them: four deviations of it."""
    part: Reals = np.minimum(noise, 1.0) * _share(d)
    return part


def _share(d: int) -> float:
    return min(1.0, 4.0 / float(np.sqrt(d)))


def ritz(product: Product) -> Ritz:
    """Eigenvectors of T, and what may be wrong with them.

    With V^T S V = T + E the vectors i and j are turned among themselves by (E_ij + E_ji)/2 over the gap of their
    values. E has three parts: noise of SV; lengths of its columns that are a little off (`doubt`), which matters as far
    as V is not made of eigenvectors; and what the residuals r_i = S w_i - theta_i w_i couple in second order.
    """
    values, Q = np.linalg.eigh((product.T + product.T.T) / 2)
    values, Q = values[::-1], Q[:, ::-1]
    gram, sizes = product.SV.T @ product.SV, np.abs(values)
    noise = np.sqrt((Q**2).T @ (np.minimum(product.noise, 1.0) ** 2 * np.diag(gram)))  # of S w_i, in l2
    turned = np.add.outer(noise, noise) / 2 * _share(len(product.SV))
    lengths = np.add.outer(sizes, sizes) / 2 * np.sqrt((Q**2 * product.doubt[:, None] ** 2).T @ Q**2)
    residual = np.sqrt(np.maximum(np.sum(Q * (gram @ Q), axis=0) - values**2, 0.0))
    tiny = np.finfo(np.float64).tiny
    second = np.outer(residual, residual) / np.maximum(np.maximum.outer(sizes, sizes), tiny)
    tilt = np.minimum(1.0, noise / np.maximum(sizes, tiny))
    return Ritz(values, Q, tilt, _angles(turned + lengths, values), _angles(second, values))


def _angles(coupling: Reals, values: Reals) -> Reals:
    """By how much a coupling turns each pair of vectors: itself over the gap of their values, 1 at most."""
    gaps = np.abs(np.subtract.outer(values, values))
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
    count, label = connected_components(pairs > limit, directed=False)
    found = [np.flatnonzero(label == n).tolist() for n in range(count)]
    return [members for members in found if len(members) > 1]
