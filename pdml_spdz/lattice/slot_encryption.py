"""Both sides of products in slots: encryption and decryption of polynomials mod t, and what the other side returns.

    encrypt     c0 = -a s + e + round(q x / t)
    respond     c0 = sum_k x_k c0_k + p0 u + e0 + round(q mask / t),  c1 = sum_k x_k a_k + p1 u + e1,  switched to q'
    decrypt     x = round(t (c0 + c1 s) / q')

as in `encryption` and `response`, but with all coefficients of c0, because each depends on all slots.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.lattice import ntt, sampling
from pdml_spdz.lattice.encryption import PublicKey, RingKey, to_bytes
from pdml_spdz.lattice.ntt import Array, reduce_all
from pdml_spdz.lattice.residues import DIGIT, divided, rescaled, to_ring
from pdml_spdz.lattice.response import Hiding, centred
from pdml_spdz.lattice.sampling import Sampler
from pdml_spdz.lattice.slot_parameters import SlotParameters
from pdml_spdz.numerics import ring


class SlotHolder(RingKey):
    """A key with what it encrypts and decrypts: polynomials mod t."""

    def __init__(self, parameters: SlotParameters, source: Sampler | None = None) -> None:
        super().__init__(parameters, source)
        self._p = parameters

    def encrypt(self, x: Array, group: int, label: int) -> NDArray[np.uint8]:
        """-a s + e + round(q x / t), of coefficients x mod the primes of t."""
        p = self._p
        a = sampling.public(self.seed, label, p.N, p.primes)
        message = self._errors(1)[:, 0] + rescaled(x, p.parts[group], p.primes)
        return to_bytes(self._hidden(a, reduce_all(message, p.primes)), p.primes)

    def decrypt(self, c1: Array, c0: Array, group: int) -> Array:
        """The numbers in the slots of a response, mod the primes of t: round(t (c0 + c1 s) / q')."""
        p, travel = self._p, self._p.travel
        values = reduce_all(ntt.forward(c1[:, None], p.N, travel)[:, 0] * self._secret[: len(travel)], travel)
        total = reduce_all(ntt.back(values[:, None], p.N, travel)[:, 0] + c0, travel)
        return ntt.forward(rescaled(total, travel, p.parts[group])[:, None], p.N, p.parts[group])[:, 0]


class SlotResponder(Hiding):
    """Answers to one key holder. Masks are drawn anew too."""

    def __init__(self, parameters: SlotParameters, key: PublicKey, source: Sampler | None = None) -> None:
        super().__init__(parameters, key, source)
        self._p, self._wanted = parameters, np.arange(parameters.N)[None]

    def respond(self, products: Sequence[Array]) -> tuple[NDArray[np.uint8], ring.Vector]:
        """What travels, and this party's shares: minus the masks.

        products : for each plaintext modulus, transforms (primes, 2, N)
        """
        p = self._p
        travelling, mask = self.hide(products)
        kept = len(p.travel)
        switched = [
            divided(np.concatenate([x[kept:], x[:kept]]), p.primes[kept:], p.travel) if kept < p.count else x
            for pair in travelling
            for x in pair
        ]
        return np.concatenate([to_bytes(x, p.travel) for x in switched]), ring.neg(mask)

    def hide(self, products: Sequence[Array]) -> tuple[list[tuple[Array, Array]], ring.Vector]:
        """c1 and c0 mod q for each plaintext modulus, and the masks mod 2^w."""
        p, out = self._p, []
        mask, values = self._mask()
        first = 0
        for product, part in zip(products, p.parts, strict=True):
            some, first = values[first : first + len(part)], first + len(part)
            encoded = rescaled(ntt.back(some[:, None], p.N, part)[:, 0], part, p.primes)
            c1, c0 = self.rerandomised(product[:, :, None], self._wanted)
            out.append((c1, self.flooded(c0, encoded, self._wanted)))
        return out, mask

    def _mask(self) -> tuple[ring.Vector, Array]:
        """Uniform in [-2^a, 2^a), one for each slot: mod 2^w, and mod every prime of T."""
        p = self._p
        digits = self._source.digits(p.N, p.mask_bits + 1)
        half = ring.from_ints([1 << p.mask_bits], p.w)
        numbers = ring.sub(to_ring(digits[:, : p.w // DIGIT], p.w), half)
        return numbers, reduce_all(centred(digits, p.mask_bits, p.plain), p.plain)
