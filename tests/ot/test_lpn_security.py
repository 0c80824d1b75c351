"""The costs of attacks on LPN: against a public estimator, and the table of docs/security.md."""

from __future__ import annotations

from fractions import Fraction
from math import comb
from pathlib import Path

import numpy as np
import pytest

from benchmarks import lpn_security
from benchmarks.lpn import algebraic, decoding, locality
from benchmarks.lpn.decoding import Instance
from pdml_spdz.offline.on_demand import LEVELS
from pdml_spdz.ot.lpn import LARGE, ONES, SHORT, SMALL, Code, LpnParameters

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
# The sizes of the papers' tables, and what github.com/1234wangtr/Code_estimators prints for them.
SMALLEST, SMALLER, MIDDLE = Instance(1024, 652, 57), Instance(4096, 1589, 98), Instance(16384, 3482, 198)
NOISY, NOISIER = Instance(1024, 652, 106), Instance(4096, 1589, 172)
FERRET_B10 = Instance(870_400, 65_536, 850)  # emp-ot, which calls it 128 bits


@pytest.mark.parametrize(
    ("at", "gauss", "stern", "statistical", "hybrid", "hybrid_large"),
    [
        (SMALLEST, 111.42, 96.94, 144.08, 78.44, 97.61),
        (SMALLER, 100.27, 86.27, 142.36, 82.16, 93.08),
        (MIDDLE, 101.66, 90.37, 145.62, 88.97, 95.62),
        (NOISY, 194.61, 176.75, 220.51, 115.58, 158.21),
        (NOISIER, 155.00, 137.66, 236.34, 113.69, 132.60),
    ],
)
def test_costs_are_those_of_the_public_estimator(
    at: Instance, gauss: float, stern: float, statistical: float, hybrid: float, hybrid_large: float
) -> None:
    assert decoding.pooled_gauss(at) == pytest.approx(gauss, abs=0.01)
    assert decoding.stern_dumer(at) == pytest.approx(stern, abs=0.01)
    assert decoding.statistical_decoding(at) == pytest.approx(statistical, abs=0.01)
    assert algebraic.hybrid(at, large=False) == pytest.approx(hybrid, abs=0.01)
    assert algebraic.hybrid(at, large=True) == pytest.approx(hybrid_large, abs=0.01)


@pytest.mark.parametrize(
    ("at", "regular"), [(SMALLEST, 76.32), (SMALLER, 78.12), (MIDDLE, 83.94), (NOISY, 113.21), (NOISIER, 109.38)]
)
def test_decoders_of_regular_noise_cost_what_the_public_estimator_says(at: Instance, regular: float) -> None:
    assert decoding.regular_decoding(at) == pytest.approx(regular, abs=0.01)


def test_bjmm_costs_what_the_public_estimator_says() -> None:
    assert decoding.bjmm(SMALLEST) == pytest.approx(94.53, abs=0.01)
    assert decoding.bjmm(NOISY) == pytest.approx(176.70, abs=0.01)


@pytest.mark.parametrize(
    ("at", "large", "once", "twice"),
    [
        (SMALLEST, False, 101.48, 96.85),
        (SMALLER, False, 101.59, 97.44),
        (MIDDLE, False, 105.91, 100.62),
        (NOISY, False, 144.94, 138.34),
        (NOISIER, False, 134.81, 127.63),
        (SMALLEST, True, 111.48, None),  # of AGB 2.0 over large fields it tries too few guesses to gain anything
        (SMALLER, True, 106.07, None),
        (MIDDLE, True, 109.71, None),
        (NOISY, True, 177.67, None),
        (NOISIER, True, 149.80, None),
    ],
)
def test_algebraic_attacks_cost_at_most_what_the_public_estimator_says(
    at: Instance, large: bool, once: float, twice: float | None
) -> None:
    """Less by a bit at the most: all guesses are tried, and either of two rules may say that a degree is enough."""
    made = algebraic.sizes(at, large=large, degrees=4)
    assert once - 1 < algebraic.algebraic(made) < once + 0.01
    if twice:
        assert twice - 1 < algebraic.algebraic_twice(made) < twice + 0.01


@pytest.mark.parametrize(("parameters", "bits"), [(SHORT, 250), (SMALL, 196), (LARGE, 266)], ids=["1", "2", "3"])
def test_substituted_checks_cost_what_a_reader_computed(parameters: LpnParameters, bits: float) -> None:
    """By whole numbers, up to degree 24, in the reading that asked for it (docs/review.md)."""
    made = algebraic.sizes(lpn_security.instance(parameters), large=False)
    assert algebraic.substituted(made) == pytest.approx(bits, abs=1)


def test_monomials_of_substituted_checks_are_counted() -> None:
    at, d = Instance(64, 20, 8), 3
    for large, kinds in ((False, comb), (True, lambda u, j: comb(u + j - 1, j))):
        made, u = algebraic.sizes(at, large=large, degrees=d), 20 if large else 20 + 1 - 8
        assert 2 ** made.fewer[-1][0, 0] == pytest.approx(sum(kinds(u, j) for j in range(1, d + 1)))


def test_general_attacks_on_ferret_take_what_its_authors_say() -> None:
    general = decoding.bjmm(FERRET_B10.odd()), algebraic.hybrid(FERRET_B10, large=False)
    assert min(general) == pytest.approx(128, abs=1)
    assert locality.locality(FERRET_B10, ONES) < 100  # what they do not count, and why we have more noise


@pytest.mark.parametrize(("parameters", "hybrid", "once", "twice"), [(SMALL, 260, 256, 246), (LARGE, 348, 331, 324)])
def test_levels_cost_what_another_computation_had_up_to_degree_four(
    parameters: LpnParameters, hybrid: float, once: float, twice: float
) -> None:
    at = lpn_security.instance(parameters)
    made = algebraic.sizes(at, large=False, degrees=4)
    assert lpn_security.costs(at)["hybrid"] == pytest.approx(hybrid, abs=1)
    assert algebraic.algebraic(made) == pytest.approx(once, abs=3)
    assert algebraic.algebraic_twice(made) == pytest.approx(twice, abs=3)


@pytest.mark.parametrize("guess", [(1610, 1), (3206, 9), (0, 0)])
def test_hilbert_series_is_exact_where_little_is_left_over(guess: tuple[int, int]) -> None:
    """Level 3: by whole numbers, factors multiplied out. These have up to 50 digits."""
    at, (f, mu), d = lpn_security.instance(LARGE), guess, 8
    b, t, checks = at.block, at.t, at.n - at.k - 1
    left = [comb(f, j) * (b - mu - 1) ** j for j in range(d + 1)]
    right = [comb(t - f, j) * (b - 1) ** j for j in range(d + 1)]
    under = [(-1) ** j * comb(checks + j - 1, j) for j in range(d + 1)]
    exact = [
        sum(left[i] * right[j] * under[m - i - j] for i in range(m + 1) for j in range(m + 1 - i)) for m in range(d + 1)
    ]
    powers = [np.float64(f * (b - mu - 1) ** j + (t - f) * (b - 1) ** j - checks) for j in range(1, d + 1)]
    made = algebraic.coefficients(powers)
    scale = [max(abs(x) for x in exact[: m + 1]) for m in range(d + 1)]
    assert all(abs(Fraction(float(x)) - y) < s * 1e-9 for x, y, s in zip(made, exact, scale, strict=True))


def test_a_part_that_is_found_has_its_rows_and_is_not_smaller_than_one_that_exists() -> None:
    at, places = Instance(4096, 512, 128), Code(512, np.arange(2, dtype=np.uint64)).places(4096)
    found, exists = locality.found_part(places, 512), locality.smallest_part(at, ONES)
    assert exists <= found <= at.k * (at.k / at.n) ** (1 / (ONES - 1))  # better than a random part
    assert locality.rows_of_parts(at, ONES, np.array([float(exists)]))[0] >= exists
    assert locality.rows_of_parts(at, ONES, np.array([exists - 1.0]))[0] < exists - 1


def test_rows_of_parts_bound_what_all_parts_of_a_small_code_have() -> None:
    """Every part of a code with rows of three places; that a mean is below 1 is no proof, so some rows more are allowed
    for: the chance of each of them is a fraction of that of the one before."""
    k, n, ones, s = 16, 120, 3, 8
    rng = np.random.default_rng(0)
    rows = np.array([rng.choice(k, ones, replace=False) for _ in range(n)])
    inside = (np.arange(1 << k)[:, None] >> np.arange(k) & 1).astype(np.bool_)
    parts = inside[inside.sum(axis=1) == s]
    most = max(int(part[rows].all(axis=1).sum()) for part in parts)
    bound = float(locality.rows_of_parts(Instance(n, k, 10), ones, np.array([float(s)]))[0])
    assert n * (s / k) ** ones < most <= bound + 3


def test_level_three_is_ferrets_with_four_times_the_noise() -> None:
    at = lpn_security.instance(LARGE)
    assert (at.n, at.k, at.t) == (FERRET_B10.n, FERRET_B10.k, 4 * FERRET_B10.t)


@pytest.mark.parametrize("parameters", LEVELS)
def test_every_level_has_a_margin_above_128_bits(parameters: LpnParameters) -> None:
    assert min(lpn_security.costs(lpn_security.instance(parameters)).values()) > 128 + 64


def test_the_first_level_is_no_weaker_than_those_above() -> None:
    first, *above = (min(lpn_security.costs(lpn_security.instance(lpn)).values()) for lpn in LEVELS)
    assert first >= min(above)


def test_table_of_the_page_is_what_the_script_prints() -> None:
    page = PAGE.read_text()
    assert lpn_security.written(page) == page


def test_page_says_how_large_the_smallest_parts_are_and_what_guessing_takes() -> None:
    page, found = " ".join(PAGE.read_text().split()), [lpn_security.instance(lpn) for lpn in LEVELS]
    parts = [locality.smallest_part(at, ONES) for at in found]
    for part, at in zip(parts, found, strict=True):
        assert f"{part:,} of {at.k:,}" in page
    alone = " and ".join(f"2^{locality.guesses(at, part):.0f}" for part, at in zip(parts, found, strict=True))
    assert f"guessing alone takes {alone}." in page
    assert f"`ferret_b10` this column would have 2^{int(locality.locality(FERRET_B10, ONES))}:" in page
