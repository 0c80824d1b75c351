"""One party's part of the program `sealed_svd`, whichever engine runs it: what goes in, and what is made of what comes
out.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np

from pdml_spdz.engines.base import OwnRows, SealedCheckpoint, SealedWatch
from pdml_spdz.engines.openings.sealed import GATE, RESULT, RITZ, SCALE
from pdml_spdz.numerics import ring
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.offline.mask_products import Integers
from pdml_spdz.primitives.agree import Agreement
from pdml_spdz.programs.sealed_precision import SealedPrecision
from pdml_spdz.transport.base import Link


class SealedProgram(ABC):
    """One fit of the program sealed_svd, party m's part.

    bias : by so many units rounding makes an opened number larger, on the average

    1. party m inputs S_m / B and, at every checkpoint, a rotation that it has drawn
    2. one bit is opened: whether H is normalised; the run ends if it is not. With hidden ratios U is found under
       sharing, from H and a direction that the rotations make, and 4 is next
    3. H is opened; U, Theta <- its leading eigenvectors and eigenvalues; all take those of party 0
    4. U, U / gaps and Theta / gaps go to the program as public numbers; the gate's bit is opened, and V_k if it is 1

    Reveals: at each checkpoint that is reached the bit of 2, the eigenvalues of V^T S V over their sum, to f_open bits
    (unless ratios are hidden), and the gate's bit; V_k to f_out bits.
    Cost: rounds: 1 for each product with S, 2 for each step of an inverse root, b / block of these one after the other
    for each orthonormalisation. Hidden ratios: about 7 for each of 15 squarings of a b by b matrix, k + 1 times.
    Ref: docs/security.md. Powers by squaring: Householder 1964, 7.2; 3 x^2 - 2 x^3: McWeeny, Rev. Mod. Phys. 32, 1960.
    """

    bias = 0.0

    def __init__(self, link: Link, precision: SealedPrecision) -> None:
        self.link, self.precision = link, precision

    @abstractmethod
    def _opened(self, inputs: list[Integers], publics: list[int], n: int) -> Sequence[int]:
        """The next n numbers that the program opens, given this party's inputs, and numbers that all have."""

    def __call__(self, own: OwnRows, V: Reals, watch: SealedWatch) -> SealedCheckpoint:
        """V : the start, which all have"""
        p = self.precision
        turns = [haar(p.columns, p.f_a).reshape(-1) for _ in p.checkpoints]
        inputs = [*_inputs(own, p.f_s), *turns]
        publics = [int(z) for z in integers(V.T.reshape(-1), p.f_v)]
        for _ in p.checkpoints:
            seen = self._checkpoint(inputs, publics, watch.opened)
            watch.shown(seen)
            if seen.passed or not seen.normal:
                break
            inputs, publics = [], []
        return seen

    def _checkpoint(
        self, inputs: list[Integers], publics: list[int], opened: Callable[[str], None]
    ) -> SealedCheckpoint:
        p = self.precision
        ritz: Reals | None
        (normal,) = self._opened(inputs, publics, 1)
        opened(SCALE)
        if not normal:
            return SealedCheckpoint(False, None, False, None)
        ritz, publics = None, []
        if not p.hidden_ratios:
            H = self._opened([], [], p.columns * (p.columns + 1) // 2)
            opened(RITZ)
            ritz, publics = self._eigenvectors(H)
        (passed,) = self._opened([], publics, 1)
        opened(GATE)
        if not passed:
            return SealedCheckpoint(True, ritz, False, None)
        opened(RESULT)  # before it is: another party may have it where this one loses its link
        found = np.array(self._opened([], [], p.d * p.rank), float) - self.bias
        return SealedCheckpoint(True, ritz, True, found.reshape(p.d, p.rank) * 2.0**-p.f_out)

    def _eigenvectors(self, H: Sequence[int]) -> tuple[Reals, list[int]]:
        """Ritz values over their sum, and the public numbers that the gate wants: first whether there is no gap."""
        p = self.precision
        h = np.zeros((p.columns, p.columns))
        h[np.triu_indices(p.columns)] = np.array([int(x) for x in H], float) * 2.0**-p.f_open
        h = h + np.triu(h, 1).T
        theta, U = np.linalg.eigh(h)
        own = np.vstack([theta[::-1], U[:, ::-1]])
        agreed, _ = Agreement(self.link).offered(own, (), lambda offer, said: _diagonalise(offer, h))
        theta, U = agreed[0], agreed[1:, : p.rank]
        gaps = theta[: p.rank] - theta[p.rank]
        hopeless = int(not gaps[-1] > p.least_gap)
        weights = 1 / np.maximum(gaps, p.least_gap)
        numbers = (U, U * weights, weights * theta[: p.rank])
        publics = [int(z) for x in numbers for z in integers(x.reshape(-1), p.f_u)]
        return theta / theta.sum(), [hopeless, *publics]


def _diagonalise(offer: Reals, h: Reals) -> bool:
    """Whether these are the eigenvalues of h, the largest first, and its eigenvectors: their order is the result."""
    theta, U = offer[0], offer[1:]
    orthonormal = np.abs(U.T @ U - np.eye(len(h))).max() < 1e-9
    ordered = np.all(np.diff(theta) <= 1e-9)
    return bool(orthonormal and ordered and np.abs(U.T @ h @ U - np.diag(theta)).max() < 1e-9)


def _inputs(own: OwnRows, f: int) -> list[Integers]:
    """S_m, and t_m for a hidden mean: then S_m is that around the party's own mean, and (n / n_m) t_m t_m^T exactly."""
    S = integers(own.S.reshape(-1), f)
    if own.sums is None:
        return [S]
    t, share = integers(own.sums, f), own.share
    outer = np.multiply.outer(t, t).reshape(-1) * share.numerator // (share.denominator << f)
    return [S + outer, t]


def integers(x: Reals, f: int) -> Integers:
    """round(x 2^f), exactly."""
    return np.array([*ring.to_ints(ring.from_float(x, f, 128), signed=True), None], object)[:-1]


def haar(n: int, f: int) -> Integers:
    """A uniformly random rotation (or reflection) that nobody else knows, with f fraction bits, orthogonal to 2^-f.

    1. the product of two Q, each from the sign-corrected QR of Gaussians: together they have more digits than float64
    2. in integers: Q <- Q (3 - Q^T Q) / 2, twice

    Ref: Mezzadri, "How to generate random matrices from the classical compact groups", 2007.
    """
    product = np.array([[int(i == j) << f + 40 for j in range(n)] for i in range(n)], object)
    for _ in range(2):
        Q, R = np.linalg.qr(_gaussians(n * n).reshape(n, n))
        turn = integers((Q * np.sign(np.diag(R))).reshape(-1), 60).reshape(n, n)
        product = product.dot(turn) >> 60
    one = np.array([[3 * int(i == j) << f + 40 for j in range(n)] for i in range(n)], object)
    for _ in range(2):
        product = product.dot(one - (product.T.dot(product) >> f + 40)) >> f + 41
    return product >> 40


def _gaussians(n: int) -> Reals:
    """n standard normal numbers from the operating system's generator, by Box and Muller."""
    raw = np.frombuffer(secrets.token_bytes(16 * n), "<u8").reshape(2, n)
    u, v = ((raw >> np.uint64(11)) + 0.5) * 2.0**-53
    numbers: Reals = np.sqrt(-2.0 * np.log(u)) * np.cos(2.0 * np.pi * v)
    return numbers
