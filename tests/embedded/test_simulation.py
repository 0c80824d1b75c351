"""A run can be simulated from its output and the coalition's view; reused or missing randomness is noticed."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from pdml_spdz.engines.embedded import machine
from pdml_spdz.numerics import ring
from pdml_spdz.numerics.fixedpoint import Ring
from pdml_spdz.primitives.masks import Keys
from pdml_spdz.primitives.sec_sum import MaskedSum, unpack
from pdml_spdz.programs.precision import SIGMA, Precision
from pdml_spdz.programs.render import Program, render
from pdml_spdz.transport.base import Link
from tests.dealer import deal
from tests.embedded.helpers import Run, normed_sum, run_program, split, unit

M, D, COLUMNS = 3, 40, 12
P = Precision(M)
LEVEL = 1e-6  # about twenty tests a run
rng = np.random.default_rng(21)

# Sums and addends that are far from random: one honest party has nearly everything.
G = unit(rng, D, COLUMNS)
S = 0.5 * G
XS = np.stack([S + 0.25, -0.25 * np.ones_like(S), np.zeros_like(S)])


class WithoutZeroSharing(MaskedSum):
    """Broken: shares are opened as they are."""

    def __init__(self, link: Link, keys: Keys) -> None:
        super().__init__(link, keys)
        self.masks.words = lambda purpose, call, n, heard, bits=64: np.zeros(n, np.uint64)  # type: ignore[method-assign]
        self.masks.wide = lambda purpose, call, n, heard, bits: [0] * n  # type: ignore[method-assign]


def numbers(data: bytes, size: int) -> list[int]:
    return [int.from_bytes(data[i : i + size], "little") for i in range(0, len(data), size)]


def opened_scalars(run: Run, step: str = "sum:scalars") -> list[int]:
    """What the coalition (anyone) learns from the openings of scalars: the sums of all parties' frames."""
    size, modulus = P.scalar_bits // 8, 1 << P.scalar_bits
    frames = [b"".join(run.wire.payloads(m, (m + 1) % M, step)) for m in range(M)]
    frames = [frame[: len(frame) // size * size] for frame in frames]  # what opens a commitment stands behind
    return [sum(parts) % modulus for parts in zip(*(numbers(f, size) for f in frames), strict=True)]


def fractions(values: list[int], bits: int) -> np.ndarray:
    return np.array([(v >> bits - 64) / 2.0**64 for v in values])


def uniform(x: np.ndarray) -> float:
    return float(stats.kstest(x, "uniform").pvalue)


def opened_words(run: Run) -> Ring:
    """What party 0 sent to party 2 for openings of vectors."""
    frames = run.wire.payloads(0, 2, "sum:open")
    return np.concatenate([unpack(memoryview(f), len(f) // -(-P.open_bits // 8), P.open_bits, 0) for f in frames])


@pytest.fixture(scope="module")
def run() -> Run:
    return normed_sum(XS, G, P)


def test_frames_of_an_honest_party_are_uniform(run: Run) -> None:
    words = np.frombuffer(b"".join(run.wire.payloads(0, 2, "scale")), "<u8") / 2.0**64
    assert uniform(words) > LEVEL
    scalars = np.frombuffer(b"".join(run.wire.payloads(0, 2, "sum:scalars")), "<u8") / 2.0**64
    assert uniform(scalars) > LEVEL
    assert uniform(opened_words(run) / 2.0**P.open_bits) > LEVEL


def test_openings_of_scalars_can_be_simulated_without_the_scalars(run: Run) -> None:
    # Beaver's e and f are uniform in the ring; a truncation opens 2^bits + a + sum of M masks, and is far below it.
    limit = 1 << P.scalar_value_bits + SIGMA + 3
    values = opened_scalars(run)
    masked = [v for v in values if v >= limit]
    truncated = [v for v in values if v < limit]
    assert len(masked) > 2000
    assert len(truncated) > 800
    assert opened_scalars(run, "sum:gate") == [0] * COLUMNS
    assert uniform(fractions(masked, P.scalar_bits)) > LEVEL
    width = P.scalar_value_bits + SIGMA
    real = np.array([v / 2.0**width for v in truncated])
    fake = np.random.default_rng().random((M, len(real))).sum(axis=0)
    assert stats.ks_2samp(real, fake).pvalue > LEVEL


def test_two_runs_on_the_same_input_have_nothing_in_common(run: Run) -> None:
    again = normed_sum(XS, G, P)
    for step in ("scale", "sum:scalars"):
        a, b = (np.frombuffer(b"".join(r.wire.payloads(0, 2, step)), "<u8") for r in (run, again))
        assert uniform((a - b) / 2.0**64) > LEVEL


# ---- broken variants


def linear_program() -> Program:
    """Opens the sum itself: every party's share of it is its own input."""
    text = render("normed_sum", P, D, COLUMNS).text
    head = text[: text.index("s = Matrix(")]
    # The sum has F_IN fraction bits, an output F_IN + F_INV.
    return Program("linear", head + "output(sum_of_inputs(N))\n")


@pytest.mark.parametrize(("make_sum", "hidden"), [(MaskedSum, True), (WithoutZeroSharing, False)])
def test_opening_without_zero_sharing_shows_a_share(make_sum: type[MaskedSum], hidden: bool) -> None:
    run = run_program(linear_program(), XS, G, P, make_sum=make_sum)
    assert (uniform(opened_words(run) / 2.0**P.open_bits) > LEVEL) == hidden


@pytest.mark.parametrize("reuse", [False, True])
def test_delta_that_is_reused_shows_the_difference_of_two_scalars(reuse: bool) -> None:
    # Two parties; both columns are the same, so their inverses c and c' are equal up to rounding.
    precision = Precision(2)
    g = np.repeat(unit(rng, D, 1), 2, axis=1)
    xs = split(0.5 * g, 2, rng)
    xs[:, :, 1] = xs[:, :, 0]
    program = render("normed_sum", precision, D, 2)
    materials = deal(machine.plan(program), precision, reuse_delta=reuse)
    run = run_program(program, xs, g, precision, materials=materials)
    size, modulus = precision.vector_bits // 8, 1 << precision.vector_bits
    (data,) = run.wire.payloads(0, 1, "scale")  # both products, each with b before its numbers
    b = [int.from_bytes(data[i : i + size], "little") for i in (0, (D + 1) * size)]
    own = [c.shares[0] for c in run.shares[1]._scalings]
    difference = (b[0] - b[1] + own[0] - own[1]) % modulus  # c - c', if both were hidden by the same delta
    distance = min(difference, modulus - difference)
    assert (distance <= 4 * precision.M) == reuse


@pytest.mark.parametrize("reuse", [False, True])
def test_mask_that_is_reused_shows_the_difference_of_two_inputs(reuse: bool) -> None:
    # With the same u for both halves of a vector, the difference of its masked halves is that of the halves.
    precision = Precision(2)
    g = unit(rng, D, 1)
    xs = split(0.5 * g, 2, rng)
    program = render("normed_sum", precision, D, 1)
    materials = deal(machine.plan(program), precision, reuse_u=reuse)
    run = run_program(program, xs, g, precision, materials=materials)
    (data,) = run.wire.payloads(0, 1, "scale")
    masked = ring.from_wire(data[precision.vector_bits // 8 :], precision.vector_bits)
    difference = ring.to_ints(ring.sub(masked[: D // 2], masked[D // 2 :]), signed=True)
    halves = np.ldexp(np.array(difference, float), -precision.f_in)
    inputs = xs[0, : D // 2, 0] - xs[0, D // 2 :, 0]
    assert np.allclose(halves, inputs, rtol=0, atol=2.0 ** (1 - precision.f_in)) == reuse
