"""Transforms, residues and samples against integers of Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pdml_spdz.lattice import ntt
from pdml_spdz.lattice.encryption import encoded, from_bytes, to_bytes
from pdml_spdz.lattice.residues import carry, digits_of, lifted, modulus, residues, scaled
from pdml_spdz.lattice.sampling import TAIL, Sampler, public
from pdml_spdz.numerics import ring
from tests.lattice.one_pair import centred
from tests.lattice.plain import crt, negacyclic, value_at


@pytest.mark.parametrize("N", [8, 16, 64, 512])
def test_transform_multiplies_polynomials(N: int) -> None:
    rng = np.random.default_rng(N)
    for p in ntt.primes(N, 2):
        a, b = rng.integers(-(p // 2), p // 2, (2, N))
        t = ntt.transform(N, p)
        product = t.back(ntt.reduce(t.forward(a.astype(float)) * t.forward(b.astype(float)), p))
        wanted = np.array(negacyclic([int(x) for x in a], [int(x) for x in b]), object)
        assert not np.any((product.astype(int) - wanted) % p)
        root = int(t.powers[1]) % p
        assert (
            int(t.forward(a.astype(float))[3]) - value_at(a.tolist(), pow(root, int(t.exponents[3]), p), p)
        ) % p == 0


@pytest.mark.parametrize("N", [16384, 32768])
def test_the_largest_sums_stay_exact(N: int) -> None:
    """All residues as large as can be: sums of 32 products come near 2^53."""
    moduli = ntt.primes(N, 3)
    x = np.stack([np.full((1, N), sign * (p // 2), float) for p, sign in zip(moduli, (1, -1, 1), strict=True)])
    values = ntt.forward(x, N, moduli)
    assert np.array_equal(ntt.back(values, N, moduli), x)
    for row, p in zip(values, moduli, strict=True):
        t = ntt.transform(N, p)
        root, c = pow(int(t.powers[1]) % p, int(t.exponents[5]), p), int(x[list(moduli).index(p), 0, 0])
        geometric = c * (pow(root, N, p) - 1) * pow(root - 1, -1, p)
        assert (int(row[0, 5]) - geometric) % p == 0


def test_primes_are_what_exactness_needs() -> None:
    for N in (16384, 32768):
        for p in ntt.primes(N, 33):
            assert p % (2 * N) == 1
            assert all(p % k for k in range(3, int(p**0.5) + 1, 2))
            assert ntt.TERMS * (p // 2 + 1) ** 2 <= 2**53


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 2**192 - 1), min_size=1, max_size=8), st.booleans())
def test_residues_and_back(values: list[int], signed: bool) -> None:
    moduli = ntt.primes(256, 9)
    digits = digits_of(ring.from_ints(values, 192), 192)
    found = residues(digits, moduli, signed=signed)
    numbers = [v - (1 << 192) if signed and v >> 191 else v for v in values]
    assert all((int(found[j, k]) - v) % p == 0 for j, p in enumerate(moduli) for k, v in enumerate(numbers))
    assert np.array_equal(lifted(found, moduli, 192), digits)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 2**320), min_size=1, max_size=8))
def test_modulus_switching_rounds(values: list[int]) -> None:
    moduli = ntt.primes(256, 13)
    q, bits = modulus(moduli), 208
    x = np.array([[ntt.balanced(v, p) for v in values] for p in moduli], float)
    for v, row in zip(values, scaled(x, moduli, bits), strict=True):
        found = int.from_bytes(row.tobytes(), "little")
        error = centred(np.array([(found * q - (v << bits))], object), q << bits)[0]
        assert abs(error) <= q * (0.5 + 2**-19)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 2**96 - 1), min_size=1, max_size=8))
def test_encoding_rounds(values: list[int]) -> None:
    moduli = ntt.primes(256, 8)
    q, w = modulus(moduli), 96
    found = encoded(ring.from_ints(values, w), w, moduli, q)
    for k, v in enumerate(values):
        assert crt([int(x) for x in found[:, k]], moduli) % q == ((q * v << 1) + (1 << w) >> (w + 1)) % q


def test_carry_takes_any_sign() -> None:
    sums = np.array([[-1.0, 0.0, 0.0], [2.0**52, -(2.0**52), 5.0]])
    wanted = [-1 % (1 << 48), (2**52 - (2**52 << 16) + (5 << 32)) % (1 << 48)]
    assert [int.from_bytes(row.tobytes(), "little") for row in carry(sums)] == wanted


def test_bytes_and_back() -> None:
    moduli = ntt.primes(256, 5)
    x = np.stack([np.concatenate([[0, p // 2, -(p // 2), 1, -1], np.arange(251)]) for p in moduli]).astype(float)
    raw = to_bytes(x, moduli)
    assert raw.nbytes == 5 * 256 * 25 // 8
    assert np.array_equal(from_bytes(raw, 256, moduli, 1), x)


def test_samples_have_their_distributions() -> None:
    source = Sampler()
    e = source.errors(200_000).astype(int)
    assert np.abs(e).max() <= TAIL
    x = np.arange(-8, 9)
    weights = np.exp(-(x**2) * np.pi / 64)
    inside = e[np.abs(e) <= 8]
    counts = np.bincount(inside + 8, minlength=17)
    assert stats.chisquare(counts, len(inside) * weights / weights.sum()).pvalue > 1e-7
    assert abs(e.std() - 8 / np.sqrt(2 * np.pi)) < 0.05
    u = source.ternary(100, 3000)
    assert stats.chisquare([np.sum(u == k) for k in (-1, 0, 1)]).pvalue > 1e-7
    moduli = ntt.primes(16384, 2)
    for row, p in zip(public(bytes(32), 5, 16384, moduli), moduli, strict=True):
        assert stats.kstest(row / p + 0.5, "uniform").pvalue > 1e-7
    below = source.digits(10_000, 20)
    assert stats.kstest((below[:, 0] + 65536.0 * below[:, 1]) / 2**20, "uniform").pvalue > 1e-7


def test_public_polynomials_depend_on_seed_and_label_alone() -> None:
    moduli = ntt.primes(16384, 2)
    one = public(bytes(32), 5, 16384, moduli)
    assert np.array_equal(one, public(bytes(32), 5, 16384, moduli))
    assert np.array_equal(one[:1], public(bytes(32), 5, 16384, moduli[:1]))
    for other in (public(bytes(32), 6, 16384, moduli), public(b"\1" * 32, 5, 16384, moduli)):
        assert np.mean(other == one) < 0.001
