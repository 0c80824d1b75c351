"""The next block of columns to open, from what was shown: new directions, or Ritz vectors that all agree on."""

from __future__ import annotations

import numpy as np

from pdml_spdz.algorithms.shown import TAIL, RitzVectors, Shown, beyond, ritz
from pdml_spdz.errors import ProtocolError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.numerics.linalg import EPS, orthonormalise
from pdml_spdz.primitives.agree import Agreement

ROOM = 2.0**6  # a column may come out so many times as long as expected: engines have room for 2^8


def new_directions(shown: Shown, Y: Reals, errors: Reals, most: int) -> list[int]:
    """Which columns of Y add a direction to the span of Q, the most telling first: a pivoted QR of what they add.

    1. each column over its own noise, so that the same length tells as much of each; taken off Q, twice
    2. the longest of those left, which is then taken off the others
    3. until what is left is no longer than noise: 4 times that of a column, 4 sqrt d deviations. A column of nothing
       but noise has some sqrt d of them, and each earlier pivot, not shorter than it, adds no more than that again
    """
    d = len(Y)
    Z = beyond(shown.Q, Y / errors)
    found: list[int] = []
    limit = 4.0 * np.sqrt(d) / (np.sqrt(d) + TAIL)
    while len(found) < min(most, d - shown.m, Y.shape[1]):
        lengths = np.linalg.norm(Z, axis=0)
        lengths[found] = 0.0
        pivot = int(np.argmax(lengths))
        if not lengths[pivot] > limit:
            break
        found.append(pivot)
        q = Z[:, pivot] / lengths[pivot]
        Z = Z - np.outer(q, q @ Z)
    return found


def block_of(shown: Shown, Y: Reals, errors: Reals, pivots: list[int]) -> tuple[Reals, Reals]:
    """What these columns of Y add to the span of Q, orthonormal; and how many times its noise each of them is long."""
    Z = beyond(shown.Q, (Y / errors)[:, pivots])
    sizes = np.linalg.norm(Z, axis=0)
    V, r = orthonormalise(Z / sizes)
    return orthonormalise(beyond(shown.Q, V))[0], r * sizes


def same(V: Reals, own: Reals, above: Reals, Z: Reals) -> bool:
    """Whether V is what another party made of the same Z: up to rounding, of Z, over what is left of each column."""
    rounding = 8 * len(V) * EPS * np.linalg.norm(Z, axis=0).max() / np.minimum.accumulate(above)
    return V.shape == own.shape and bool(np.all(np.abs(V - own).max(axis=0) <= np.maximum(1e-10, rounding)))


def expected_lengths(shown: Shown, V: Reals, least: float, above: Reals) -> Reals:
    """How long c S V will be, about. least : v.c S v of the last block, its smallest; above : (b,), V over its noise

    Its part in the span of Q is known before it is opened, C^T V; near an invariant space that part is small, and the
    rest is taken for a quarter of `least`. What of v_j is noise, 1/above_j of it, may lie in directions that Q has not
    met, of up to theta_1: there is room for that.
    """
    met = np.maximum(np.linalg.norm(shown.C.T @ V, axis=0), least / 4)
    lengths: Reals = np.maximum(met, shown.largest / (ROOM * above))
    return lengths


def kept_within(memory: float, shown: Shown, b: int, agree: Agreement) -> Shown:
    """Thick restart: where another block would be too much for the memory, half as many Ritz vectors are kept."""
    most = max(int(memory / (16 * len(shown.Q))), 4 * b)
    if shown.m + b <= most:
        return shown
    found = ritz(shown)
    return shown.turned(agreed_vectors(found, found.U[:, : most // 2], agree))


def agreed_vectors(found: RitzVectors, U: Reals, agree: Agreement) -> Reals:
    """Party 0's Ritz vectors: orthonormal, and each one of its own theta; where theta are close, they may be turned."""
    p = U.shape[1]
    tolerance = max(1e-10, 8 * len(U) * EPS)

    def right(theirs: Reals, said: tuple[int, ...]) -> bool:
        if theirs.shape != U.shape or not np.all(np.abs(theirs.T @ theirs - np.eye(p)) <= tolerance):
            return False
        off = found.core @ theirs - theirs * found.theta[:p]
        return bool(np.all(np.abs(off) <= tolerance * np.abs(found.theta).max()))

    return agree.offered(U, (), right)[0]


def ratio(known: Reals, noise: Reals, Y: Reals, errors: Reals) -> tuple[float, float]:
    """A run that goes on has another secret c: how many times as large, by columns whose c S v was known; and how far
    off that may be.

    Least squares: of columns whose entries are off by deviations s_j it is off by 1/sqrt(sum_j ||known_j||^2 / s_j^2).
    An error, sqrt d + 4 deviations, stands for s_j: that of Y, and that of what was known (`noise`), s times as large.
    """
    s = float(np.sum(known * Y)) / max(float(np.sum(known**2)), EPS**8)
    weight = 1.0 / (errors**2 + (s * noise) ** 2)
    size = float(np.sum(weight * np.sum(known**2, axis=0)))
    s = float(np.sum(weight * np.sum(known * Y, axis=0))) / size
    if not s > 0:
        raise ProtocolError("the opened sums do not fit those of the run that is resumed.", "the same rows")
    return s, 4.0 / float(np.sqrt(size))
