"""The attacks that the fresh encryption of zero and the flooding are there for: they find S where one is left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fpylll import LLL, IntegerMatrix
from numpy.typing import NDArray

from pdml_spdz.lattice import ntt
from pdml_spdz.lattice.response import Responder
from tests.lattice.one_pair import Pair, as_integers
from tests.lattice.test_simulation import PARAMETERS, WithoutFlooding, WithoutFreshZero

EQUATIONS = 6


@pytest.fixture(scope="module")
def pair() -> Pair:
    return Pair(PARAMETERS, np.random.default_rng(3).integers(-(1 << 54) + 1, 1 << 54, (4, 4)))


def in_order(pair: Pair, coefficients: Any) -> NDArray[Any]:
    """S of the 16 coefficients of its polynomial."""
    return np.array(coefficients).reshape(4, 4)[:, ::-1]


def lattice_attack(pair: Pair, c1: NDArray[np.uint16]) -> NDArray[Any]:
    """S from the first coefficients of c1 as it travels, if c1 = S a: a hidden number problem, solved by LLL.

    sum_t S_t a_(i - t) = c1_i q / 2^travel_bits + d_i mod q with |d_i| < q / 2^(travel_bits + 1) and |S_t| < 2^54: a
    short vector of a lattice with 23 dimensions.
    """
    p, q, D = pair.p, pair.p.q, pair.p.packing.D
    a = pair.a()
    rows = [16 + 100 * k for k in range(EQUATIONS)]
    found = [int.from_bytes(c1[i].tobytes(), "little") for i in rows]
    small = q >> (p.travel_bits + 1)
    weight = small >> p.bits
    basis = IntegerMatrix(D + EQUATIONS + 1, D + EQUATIONS + 1)
    for t in range(D):
        basis[t, EQUATIONS + t] = weight
        for k, i in enumerate(rows):
            basis[t, k] = int(a[i - t])
    for k in range(EQUATIONS):
        basis[D + k, k] = q
        basis[D + EQUATIONS, k] = -(found[k] * q >> p.travel_bits)
    basis[D + EQUATIONS, D + EQUATIONS] = small
    LLL.reduction(basis)
    for row in basis:
        if abs(row[D + EQUATIONS]) == small:
            sign = 1 if row[D + EQUATIONS] > 0 else -1
            return in_order(pair, [sign * row[EQUATIONS + t] // weight for t in range(D)])
    return np.zeros((4, 4))


@pytest.mark.parametrize(("kind", "succeeds"), [(WithoutFreshZero, True), (Responder, False)])
def test_without_the_fresh_zero_what_travels_gives_s_exactly(pair: Pair, kind: type[Responder], succeeds: bool) -> None:
    response = kind(pair.p, pair.holder.public).respond(*pair.products())
    assert np.array_equal(lattice_attack(pair, response.c1), pair.S) is succeeds


def test_without_the_fresh_zero_a_division_gives_s(pair: Pair) -> None:
    """Before the modulus is switched nothing but a division by a is needed."""
    p = pair.p
    products, wanted = pair.products()
    c1, _, _ = WithoutFreshZero(p, pair.holder.public).hide(products, wanted)
    values = ntt.forward(c1, p.N, p.primes)
    a = ntt.forward(np.stack([(pair.a() % q).astype(np.float64) for q in p.primes]), p.N, p.primes)
    quotient = [
        ntt.reduce(v * [ntt.balanced(pow(int(x), -1, q), q) for x in of_a], q)
        for v, of_a, q in zip(values, a, p.primes, strict=True)
    ]
    S = as_integers(ntt.back(np.stack(quotient), p.N, p.primes), p)
    assert np.array_equal(in_order(pair, S[:16]), pair.S)
    assert not np.any(S[16:])


@pytest.mark.parametrize(("kind", "succeeds"), [(WithoutFlooding, True), (Responder, False)])
def test_without_flooding_the_noise_gives_s(pair: Pair, kind: type[Responder], succeeds: bool) -> None:
    """The holder knows e, and the noise is S e and a little: least squares find S to many bits."""
    p = pair.p
    products, wanted = pair.products()
    noise, _ = pair.noise(*kind(p, pair.holder.public).hide(products, wanted)[:2], wanted)
    e, D = pair.errors(), p.packing.D
    places = wanted[0][:, None] - np.arange(D)
    matrix = np.where(places >= 0, e[places], -e[places])
    found, *_ = np.linalg.lstsq(matrix, noise.astype(np.float64), rcond=None)
    error = np.abs(in_order(pair, found) - pair.S).max()
    assert (error < 2.0**12) is np.True_ if succeeds else error > 2.0**100
