"""NormedSecSum on shares: the right direction to the promised bit, or nothing at all."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdml_spdz.engines.embedded import machine
from pdml_spdz.engines.embedded.runner import EmbeddedRunner
from pdml_spdz.engines.openings.per_column import PerColumn
from pdml_spdz.errors import RangeExceeded
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.offline.material import Lots
from pdml_spdz.offline.on_demand import OnDemand
from pdml_spdz.primitives.masks import Keys
from pdml_spdz.primitives.sec_sum import MaskedSum
from pdml_spdz.programs.precision import Precision
from pdml_spdz.programs.render import render
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.inprocess import mesh
from tests.embedded.helpers import Wire, normed_sum, rounded, run_program, split, unit
from tests.threads import run_threads

rng = np.random.default_rng(11)


def error_bound(precision: Precision, y: np.ndarray) -> np.ndarray:
    """M + 1 units of the last place (M for dither and carries, one for rounding), what inv's own last place does to y
    (M 2^-f_inv, relative to rho <= 1), inputs rounded by half a unit for each party, and float64 in the comparison.
    """
    M, f_out, f_inv, R = precision.M, precision.f_out, precision.f_inv, precision.R
    inputs = M * 2.0 ** (R - precision.f_in)  # half a unit of f_in each, scaled by at most 2^R, and again in g.s
    return (M + 1) * 2.0**-f_out + np.abs(y) * (M * 2.0**-f_inv + inputs * np.sqrt(len(y)) + 8 * np.finfo(float).eps)


def check(s: Reals, g: Reals, precision: Precision) -> None:
    run = normed_sum(split(s, precision.M, rng), g, precision)
    y = s / np.abs(np.sum(rounded(g) * s, axis=0))
    for found in run.y:
        np.testing.assert_array_equal(found, run.y[0])
    assert np.all(np.abs(run.y[0] - y) <= error_bound(precision, y))
    np.testing.assert_array_equal(np.sign(np.sum(g * run.y[0], axis=0)), np.sign(np.sum(g * s, axis=0)))


@pytest.mark.parametrize("M", [2, 3, 5])
@pytest.mark.parametrize("f_out", [10, 20, 31])
def test_y_is_the_direction_of_the_sum_for_all_kinds_of_sums(M: int, f_out: int) -> None:
    d, precision = 40, Precision(M, f_out)
    g = unit(rng, d, 7)
    s = unit(rng, d, 7)
    s[:, 1] = 0.0
    s[3, 1] = -0.7  # sparse, negative
    s[:, 2] *= 1e-6
    s[:, 3] = g[:, 3]  # along g, of norm 1: the largest rho
    s[:, 4] = -g[:, 4]  # against it
    s[:, 5] = 2.0**-39.9 * g[:, 5]  # rho at the edge of the range
    s[:, 6] = -(2.0**-39.9) * g[:, 6]
    check(s, g, precision)


def test_vector_of_length_one() -> None:
    check(np.array([[0.3, -1e-9]]), np.ones((1, 2)), Precision(3))


def test_small_ring_when_the_range_is_small() -> None:
    precision = Precision(3, 31, 20)
    assert precision.vector_bits == 128
    g = unit(rng, 30, 3)
    check(unit(rng, 30, 3) * [1.0, 0.1, 1e-3], g, precision)


@settings(max_examples=15)
@given(st.integers(1, 12), st.integers(2, 4), st.sampled_from([10, 20, 31]), st.integers(0, 2**32))
def test_y_is_the_direction_of_the_sum_for_random_shapes(d: int, M: int, f_out: int, seed: int) -> None:
    local = np.random.default_rng(seed)
    g = unit(local, d, 4)
    scale = 2.0 ** -local.uniform(0, 25, size=4)
    s = unit(local, d, 4) * scale
    # A g that is nearly orthogonal to s makes 1/(g.u) larger than the head-room: not what is tested here.
    s += g * scale * np.where(np.abs(np.sum(g * s, axis=0)) < scale / 64, 0.5, 0.0)
    s /= np.maximum(1.0, np.linalg.norm(s, axis=0))
    check(s, g, Precision(M, f_out))


@pytest.mark.parametrize("rho", [0.0, 2.0**-44, -(2.0**-44), 2.0**-60])
def test_sum_below_the_range_ends_at_the_gate_with_nothing_opened(rho: float) -> None:
    d, precision = 10, Precision(3)
    g = unit(rng, d, 2)
    s = np.column_stack([g[:, 0], rho * g[:, 1]])  # one column in range, one not
    wire, failures = Wire(), []
    program = render("normed_sum", precision, d, 2)
    links = wire.tap(mesh(3))

    def party(link: Link) -> None:
        sec_sum = MaskedSum(link, Keys.agree(link, b"x"))
        material = OnDemand(link, b"s", precision.vector_bits, precision.scalar_bits)
        runner = EmbeddedRunner(sec_sum, precision, 1.0, material, Lots.of(machine.plan(program)))
        xs = split(s, 3, np.random.default_rng(5))
        with pytest.raises(RangeExceeded, match="too small for the agreed bound and range") as caught:
            PerColumn(runner, program, 2)(xs[link.me], g)
        failures.append(caught.value)

    run_threads(3, party, links)
    assert len(failures) == 3
    assert "sum:scalars" in wire.steps()  # it got as far as the gate
    assert not wire.steps() & {"scale", "sum:open"}  # and no further


def test_orthogonal_direction_is_out_of_range() -> None:
    g = np.array([[1.0], [0.0]])
    with pytest.raises(RangeExceeded):
        normed_sum(np.array([[[0.0], [0.5]], [[0.0], [0.3]]]), g, Precision(2))


def test_rounds_and_bytes_are_those_of_the_plan() -> None:
    precision, d = Precision(3), 50
    run = normed_sum(split(unit(rng, d, 1), 3, rng), unit(rng, d, 1), precision)
    # Truncate rho; two rounds a step and three for Newton's; rho x, truncated, its square with it; the gate's
    # truncation, its products, two by two, a commitment and what it opens; truncate, scale, open.
    assert run.rounds == 1 + 2 * len(precision.inverse_root_steps) + 3 + 2 + (1 + 1 + 2 + 2) + 3
    assert run.rounds <= 110
    (scaled,) = run.wire.payloads(0, 1, "scale")
    (opened,) = run.wire.payloads(0, 1, "sum:open")
    assert len(scaled) == (d + 1) * precision.vector_bits // 8
    assert len(opened) == d * -(-precision.open_bits // 8)


def test_real_offline_phase_gives_the_same_as_the_dealer() -> None:
    precision, d = Precision(2), 30
    g, s = unit(rng, d, 2), unit(rng, d, 2) * 0.5
    xs = split(s, 2, rng)
    program = render("normed_sum", precision, d, 2)

    def party(link: Link) -> np.ndarray:
        sec_sum = MaskedSum(link, Keys.agree(link, b"x"))
        material = OnDemand(link, b"s", precision.vector_bits, precision.scalar_bits)
        runner = EmbeddedRunner(sec_sum, precision, 1.0, material, Lots.of(machine.plan(program)))
        return PerColumn(runner, program, 2)(xs[link.me], g).U

    U = s / np.linalg.norm(s, axis=0)
    noise = (precision.M + 1) * 2.0**-31 * np.sqrt(d)
    for found in run_threads(2, party):
        assert np.linalg.norm(found - U, axis=0).max() <= noise
    dealt = run_program(program, xs, g, precision).y[0]
    assert np.linalg.norm(dealt / np.linalg.norm(dealt, axis=0) - U, axis=0).max() <= noise
