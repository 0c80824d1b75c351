"""Responders that leave out a part of what hides: to be mixed into any kind of `Hiding`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from pdml_spdz.lattice.response import Hiding, centred
from pdml_spdz.lattice.sampling import Sampler

SURE, NEVER = 1e-12, 1e-7  # p-values: one that shows a fault, and one that an honest run does not go below


class NoFlooding(Hiding):
    def _flooding(self, wanted: NDArray[np.intp]) -> NDArray[np.float64]:
        return np.zeros((self._ring.count, wanted.size))


class LittleFlooding(Hiding):
    """As large as the noise itself: hides some of it."""

    def _flooding(self, wanted: NDArray[np.intp]) -> NDArray[np.float64]:
        bits = self._ring.noise.bit_length() - 4
        return centred(self._source.digits(wanted.size, bits + 1), bits, self._ring.primes)


class NoFreshZero(Hiding):
    def _fresh_zero(self, rows: int) -> Any:
        return np.zeros((rows, self._ring.N)), np.zeros((rows, self._ring.N))


class ReusedU(Hiding):
    def _fresh_zero(self, rows: int) -> Any:
        self.u = getattr(self, "u", self._source.ternary(rows, self._ring.N))
        return self.u, self._source.errors(rows, self._ring.N)


def p_values(found: dict[str, NDArray[np.float64]]) -> dict[str, float]:
    """Two-sample tests against as many numbers of the simulator."""
    rng = np.random.default_rng(int.from_bytes(Sampler().key()[:8], "little"))
    return {name: float(stats.ks_2samp(x, rng.random(4 * len(x))).pvalue) for name, x in found.items()}
