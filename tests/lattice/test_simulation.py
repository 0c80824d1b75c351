"""What the key holder sees of a response is what a simulator draws who does not know S_m; and what becomes of it when
a part of the protocol is left out.

The holder knows s, e, R and the public polynomials. It sees c1 and the wanted coefficients of c0, before the modulus is
switched, which is more than what travels. Statistics of that, each uniform for the simulator:

    noise       c0 + c1 s less the encoding of the result, over 2^f
    low         the same, mod 2^40
    result      the result less S R, mod 2^w, over 2^w
    c1          c1 less S a, mod q, over q
    difference  c1 less S a of two responses, mod q, over q

The test knows S, which the holder would have to guess: it sees whatever a right guess would be confirmed by.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from pdml_spdz.lattice import ntt
from pdml_spdz.lattice.packing import Packing
from pdml_spdz.lattice.parameters import Parameters
from pdml_spdz.lattice.response import Responder
from pdml_spdz.numerics import ring
from tests.lattice.faults import NEVER, SURE, LittleFlooding, NoFlooding, NoFreshZero, ReusedU, p_values
from tests.lattice.one_pair import Pair, as_integers, centred

PARAMETERS = Parameters(2, Packing(4, 4, 840, 1, 4, 4, 840), w=192, bits=54, N=16384, count=13)


class WithoutFlooding(NoFlooding, Responder): ...


class WithLittleFlooding(LittleFlooding, Responder): ...


class WithoutFreshZero(NoFreshZero, Responder): ...


class WithReusedU(ReusedU, Responder): ...


class WithUnmaskedRest(Responder):
    """Returns coefficients that are not masked: here the second half of the columns is taken not to be wanted."""

    def _mask(self, wanted: NDArray[np.intp]) -> ring.Vector:
        mask = super()._mask(wanted)
        mask.reshape(4, 840, -1)[:, 420:] = 0
        return mask


def view(pair: Pair, kind: type[Responder]) -> dict[str, NDArray[np.float64]]:
    """The statistics of two responses with the same S."""
    p, q = pair.p, pair.p.q
    products, wanted = pair.products()
    responder = kind(p, pair.holder.public)
    seen = [responder.hide(products, wanted)[:2] for _ in range(2)]
    noise, result = pair.noise(*seen[0], wanted)
    # S a, exactly as the other party has it
    of_a = as_integers(ntt.back(products[:, 1].astype(np.float64), p.N, p.primes).reshape(p.count, -1), p)
    c1 = [centred(as_integers(part, p) - of_a, q) for part, _ in seen]
    return {
        "noise": (noise / (1 << p.flooding_bits + 1)).astype(np.float64) + 0.5,
        "low": ((noise % (1 << 40)) / (1 << 40)).astype(np.float64),
        "result": ((result - pair.product()) % (1 << p.w) / (1 << p.w)).astype(np.float64),
        "c1": (c1[0] / q).astype(np.float64) + 0.5,
        "difference": (centred(c1[0] - c1[1], q) / q).astype(np.float64) + 0.5,
    }


@pytest.fixture(scope="module")
def pair() -> Pair:
    return Pair(PARAMETERS, np.full((4, 4), (1 << 54) - 1))  # the largest noise that there can be


def test_a_response_looks_as_a_simulator_would_draw_it(pair: Pair) -> None:
    found = p_values(view(pair, Responder))
    assert min(found.values()) > NEVER, found


@pytest.mark.parametrize(
    ("kind", "shows"),
    [
        (WithoutFlooding, "noise"),
        (WithLittleFlooding, "noise"),
        (WithoutFreshZero, "c1"),
        (WithReusedU, "difference"),
        (WithUnmaskedRest, "result"),
    ],
)
def test_what_is_left_out_is_noticed(pair: Pair, kind: type[Responder], shows: str) -> None:
    assert p_values(view(pair, kind))[shows] < SURE
