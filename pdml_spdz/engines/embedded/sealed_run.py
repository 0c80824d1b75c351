"""The program sealed_svd on this party's shares: what it reads, what it opens, and what everyone makes of that."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from pdml_spdz.engines.base import OwnRows, SealedCheckpoint
from pdml_spdz.engines.embedded import machine
from pdml_spdz.engines.embedded.matrices import Planner, matrix_names
from pdml_spdz.engines.embedded.matrix_party import MatrixParty
from pdml_spdz.engines.embedded.runner import Session
from pdml_spdz.numerics import ring
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.offline.mask_products import Integers, Maker, MaskProducts, Segment, SegmentMaterial
from pdml_spdz.primitives.agree import Agreement
from pdml_spdz.primitives.sec_sum import MaskedSum
from pdml_spdz.programs.render import Program, render_sealed
from pdml_spdz.programs.sealed_precision import RING, SealedPrecision

OPEN_BITS = 6  # sign, and room above 1, of what is opened


@lru_cache(maxsize=4)
def sealed_plan(precision: SealedPrecision) -> tuple[Program, tuple[Segment, ...]]:
    """The program, and the masks and products that it takes up to each of its gates."""
    program = render_sealed(precision)
    planner = Planner(precision.most_bits)
    machine.execute_with(program, matrix_names(planner))
    bits = planner.segments  # up to the bit of the scale and on to that of the gate, at each checkpoint
    return program, tuple(scale + gate for scale, gate in zip(bits[::2], bits[1::2], strict=False))


def inputs_of(p: SealedPrecision) -> list[tuple[int, int]]:
    """(numbers, bits of each) of what the program inputs or adds up of inputs, in its order: S_m of all parties and
    M - 1 sums of them, the same of t_m for a hidden mean, and for each checkpoint a rotation of each party.
    """
    rows = [(p.d**2, p.f_s + 1)] * (2 * p.M - 1)
    means = [(p.d, p.f_s + 1)] * (2 * p.M - 1) if p.hidden_mean else []
    return rows + means + [(p.columns**2, p.f_a + 1)] * (p.M * len(p.checkpoints))


@dataclass(frozen=True)
class StoredMasks:
    """What a run has claimed of a stock for its first segment; no other run ever has it."""

    stock: str
    material: SegmentMaterial


class SealedRun:
    """One fit of the program sealed_svd, party m's part.

    1. party m inputs S_m / B and, at every checkpoint, a rotation that it has drawn
    2. one bit is opened: whether H is normalised; the run ends if it is not
    3. H is opened; U, Theta <- its leading eigenvectors and eigenvalues; all take those of party 0
    4. U, U / gaps and Theta / gaps go to the program as public numbers; the gate's bit is opened, and V_k if it is 1

    Reveals: at each checkpoint that is reached the bit of 2, the eigenvalues of V^T S V over their sum, to f_open bits,
    and the gate's bit; V_k to f_out bits.
    Cost: rounds: 1 for each product with S, 2 for each step of an inverse root, b / block of these one after the other
    for each orthonormalisation.
    """

    def __init__(
        self,
        sec_sum: MaskedSum,
        precision: SealedPrecision,
        make: Maker,
        bits: int = RING,
        *,
        stored: StoredMasks | None = None,
    ) -> None:
        self.precision, self.link, self._stored = precision, sec_sum.link, stored
        self.program, segments = sealed_plan(precision)
        self._ahead = segments[0].ahead
        self._session = Session()
        self.backend = MatrixParty(
            sec_sum,
            MaskProducts(segments, make, first=stored.material if stored else None),
            self._session,
            bits=bits,
            input_bits=[bits for _, bits in inputs_of(precision)],
            most_bits=precision.most_bits,
            open_bits=max(precision.f_open, precision.f_out) + OPEN_BITS,
        )
        self._session.start(lambda: machine.execute_with(self.program, matrix_names(self.backend)))

    def facts(self) -> dict[str, Any]:
        """What the report says of it."""
        p = self.precision
        derived = {
            "iterations_at_checkpoints": [p.iterations_at(i) for i in range(len(p.checkpoints))],
            "f_out": p.f_out,
            "ring": RING,
            "steps_of_an_inverse_root": len(p.steps_of_rows),
        }
        return {
            "precision": asdict(p) | derived,
            "protocol": "additive shares, products by ring-LWE",
            "program": self.program.name,
            "program_digest": self.program.digest,
            "stock": {
                "id": self._stored.stock if self._stored else None,
                "claimed": {"products": len(self._ahead)},
                "mode": "stock" if self._stored else "on-demand",
            },
        }

    def __call__(
        self, own: OwnRows, V: Reals, shown: Callable[[SealedCheckpoint], None] = lambda seen: None
    ) -> SealedCheckpoint:
        """V : the start, which all have"""
        p = self.precision
        turns = [haar(p.columns, p.f_a).reshape(-1) for _ in p.checkpoints]
        inputs = [*_inputs(own, p.f_s), *turns]
        publics = [int(z) for z in _integers(V.T.reshape(-1), p.f_v)]
        for _ in p.checkpoints:
            seen = self._checkpoint(inputs, publics)
            shown(seen)
            if seen.passed or seen.ritz is None:
                break
            inputs, publics = [], []
        return seen

    def _checkpoint(self, inputs: list[Integers], publics: list[int]) -> SealedCheckpoint:
        p = self.precision
        if not self._session.call(inputs, publics):
            return SealedCheckpoint(None, False, None)
        ritz, publics = self._eigenvectors(self._session.call([], []))
        if not self._session.call([], publics):
            return SealedCheckpoint(ritz, False, None)
        # Each of M parties has dropped half a unit, on the average.
        found = np.array(self._session.call([], []), float) + p.M / 2
        return SealedCheckpoint(ritz, True, found.reshape(p.d, p.rank) * 2.0**-p.f_out)

    def _eigenvectors(self, H: Integers) -> tuple[Reals, list[int]]:
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
        hopeless = int(not gaps[-1] > 2.0**-p.weight_bits)
        weights = 1 / np.maximum(gaps, 2.0**-p.weight_bits)
        numbers = (U, U * weights, weights * theta[: p.rank])
        publics = [int(z) for x in numbers for z in _integers(x.reshape(-1), p.f_u)]
        return theta / theta.sum(), [hopeless, *publics]


def _diagonalise(offer: Reals, h: Reals) -> bool:
    theta, U = offer[0], offer[1:]
    orthonormal = np.abs(U.T @ U - np.eye(len(h))).max() < 1e-9
    return bool(orthonormal and np.abs(U.T @ h @ U - np.diag(theta)).max() < 1e-9)


def _inputs(own: OwnRows, f: int) -> list[Integers]:
    """S_m, and t_m for a hidden mean: then S_m is that around the party's own mean, and (n / n_m) t_m t_m^T exactly."""
    S = _integers(own.S.reshape(-1), f)
    if own.sums is None:
        return [S]
    t, share = _integers(own.sums, f), own.share
    outer = np.multiply.outer(t, t).reshape(-1) * share.numerator // (share.denominator << f)
    return [S + outer, t]


def _integers(x: Reals, f: int) -> Integers:
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
        turn = _integers((Q * np.sign(np.diag(R))).reshape(-1), 60).reshape(n, n)
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
