"""What the key holder sees of a response in slots is what a simulator draws who does not know the other's numbers; and
what becomes of it when a part of the protocol is left out. As `test_simulation`, with these statistics of c1 and c0
before the modulus is switched, each uniform for the simulator:

    noise       c0 + c1 s less the encoding of the result, over 2^f
    low         the same, mod 2^40
    result      what is in the slots, less the product, over 2^a
    c1          c1 less sum_k x_k a_k, mod q, over q
    difference  c1 less sum_k x_k a_k of two responses, mod q, over q
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pdml_spdz.lattice import ntt, sampling
from pdml_spdz.lattice.encryption import from_bytes
from pdml_spdz.lattice.ntt import reduce_all
from pdml_spdz.lattice.residues import converted, digits_of, residues
from pdml_spdz.lattice.response import Hiding
from pdml_spdz.lattice.slot_encryption import SlotHolder, SlotResponder
from pdml_spdz.lattice.slot_parameters import SlotParameters
from tests.lattice.faults import NEVER, SURE, LittleFlooding, NoFlooding, NoFreshZero, ReusedU, p_values
from tests.lattice.one_pair import as_integers, centred, whole
from tests.lattice.parties import numbers

BITS = 30
P = SlotParameters.choose(M=2, shapes=[(1, 1, 5000)], w=256, left_bits=BITS, right_bits=BITS)


class WithoutFlooding(NoFlooding, SlotResponder): ...


class WithLittleFlooding(LittleFlooding, SlotResponder): ...


class WithoutFreshZero(NoFreshZero, SlotResponder): ...


class WithReusedU(ReusedU, SlotResponder): ...


class WithUnmaskedSlots(SlotResponder):
    """Also where nothing stands in a slot, everything that travels depends on all of them."""

    def _mask(self) -> Any:
        mask, values = super()._mask()
        values[:, : self._p.N // 2] = 0
        return mask, values


class SlotPair:
    """A holder with x encrypted in N slots, for every t, and the other's factor y: as large as numbers may be."""

    def __init__(self) -> None:
        self.holder = SlotHolder(P)
        rng = np.random.default_rng(2)
        self.x, self.y = (rng.choice([1 - (1 << BITS), (1 << BITS) - 1], P.N).astype(object) for _ in range(2))
        x, y = (np.split(self._polynomial(z), np.cumsum([len(t) for t in P.parts])[:-1]) for z in (self.x, self.y))
        self.products, self.of_a = [], []
        for g, part in enumerate(P.parts):
            c0 = from_bytes(self.holder.encrypt(x[g], g, 1 + g), P.N, P.primes, 0)
            a = sampling.public(self.holder.seed, 1 + g, P.N, P.primes)
            factor = ntt.forward(converted(y[g], part, P.primes)[:, None], P.N, P.primes)[:, 0]
            self.products.append(np.stack([reduce_all(z * factor, P.primes) for z in (c0, a)], axis=1))
            self.of_a.append(as_integers(ntt.back(self.products[g][:, 1:], P.N, P.primes)[:, 0], P))

    def _polynomial(self, z: NDArray[Any]) -> NDArray[np.float64]:
        values = residues(digits_of(numbers(z, 64), 64), P.plain, signed=True)
        return ntt.back(values[:, None], P.N, P.plain)[:, 0]

    def view(self, kind: type[SlotResponder]) -> dict[str, NDArray[np.float64]]:
        """The statistics of two responses with the same y; noise and c1 of the first t, results of all."""
        responder, q, t = kind(P, self.holder.public), P.q, P.t
        seen = [responder.hide(self.products)[0] for _ in range(2)]
        totals, slots = [], []
        for (c1, c0), part in zip(seen[0], P.parts, strict=True):
            c1_s = ntt.back(
                reduce_all(ntt.forward(c1[:, None], P.N, P.primes)[:, 0] * self.holder._secret, P.primes)[:, None],
                P.N,
                P.primes,
            )[:, 0]
            totals.append(as_integers(reduce_all(c1_s + c0, P.primes), P) % q)
            t_g = int(np.prod(np.array(part, object)))
            x = (totals[-1] * t_g + q // 2) // q % t_g
            slots.append(ntt.forward(np.stack([(x % p).astype(np.float64) for p in part])[:, None], P.N, part)[:, 0])
        x = (totals[0] * t + q // 2) // q
        noise = totals[0] - (2 * x * q + t) // (2 * t)
        result = whole(np.concatenate(slots), P.plain) - self.x * self.y
        c1 = [centred(as_integers(each[0][0], P) - self.of_a[0], q) for each in seen]
        return {
            "noise": (noise / (1 << P.flooding_bits + 1)).astype(np.float64) + 0.5,
            "low": ((noise % (1 << 40)) / (1 << 40)).astype(np.float64),
            "result": (result / (1 << P.mask_bits + 1)).astype(np.float64) + 0.5,
            "c1": (c1[0] / q).astype(np.float64) + 0.5,
            "difference": (centred(c1[0] - c1[1], q) / q).astype(np.float64) + 0.5,
        }


@pytest.fixture(scope="module")
def pair() -> SlotPair:
    return SlotPair()


def test_a_response_in_slots_looks_as_a_simulator_would_draw_it(pair: SlotPair) -> None:
    found = p_values(pair.view(SlotResponder))
    assert min(found.values()) > NEVER, found


@pytest.mark.parametrize(
    ("kind", "shows"),
    [
        (WithoutFlooding, "noise"),
        (WithLittleFlooding, "noise"),
        (WithoutFreshZero, "c1"),
        (WithReusedU, "difference"),
        (WithUnmaskedSlots, "result"),
    ],
)
def test_what_is_left_out_of_slots_is_noticed(pair: SlotPair, kind: type[Hiding], shows: str) -> None:
    assert p_values(pair.view(kind))[shows] < SURE
