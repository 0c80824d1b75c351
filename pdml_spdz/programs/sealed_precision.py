"""The bit budget of a sealed fit: every width from a few public choices, and every sum of them checked.

All quantities are relative to the public bound B: tr S/B <= 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import acosh, ceil, cos, cosh, log, log2, pi, sqrt

from pdml_spdz.errors import StudyError
from pdml_spdz.programs.precision import SIGMA
from pdml_spdz.programs.steps import COEFFICIENT_BITS, INVERSE_ROOT, RECIPROCAL, Step, largest_factor
from pdml_spdz.programs.steps import steps as fewest_steps

Steps = tuple[Step, ...]
RING = 256
SEALED_PROGRAM = "sealed_svd"
MOST_FEATURES = 1024
MOST_PARTIES = 15  # the bits of a norm have no room for more carries
MOST_COLUMNS = 64

POWERS = 4  # degree of the polynomial between two orthonormalisations
FIRST = 5  # and of the first one, which is a power
REACH = 6
# By which rows that are made orthonormal may have become shorter: the polynomial has the leading coefficient 1, and
# takes the k-th direction, its roots being below 0.99 of it, to at least 2^-8 of its fourth power.
GROW_BITS = POWERS * REACH + 8
STEPS_OF_ROWS = fewest_steps(INVERSE_ROOT, GROW_BITS, 48)


@dataclass(frozen=True)
class SealedPrecision:
    """M, d : parties, features
    rank, columns : k and b
    goal_bits : the gate wants a sine below 2^-goal_bits
    iterations : products with S up to the first checkpoint; twice and four times as many up to the next ones
    decay : lambda_(b+1) / lambda_k that the polynomials are meant for
    block : columns that are made orthonormal together, about
    scale : ||S||_F may be 2^-scale of the bound
    hidden_mean : the mean of all rows is taken off under sharing
    hidden_ratios : eigenvectors of H are found under sharing, and H is not opened
    """

    M: int
    d: int
    rank: int
    columns: int
    goal_bits: int = 20
    iterations: int = 17
    decay: float = 0.6
    block: int = 2
    scale: int = 32
    hidden_mean: bool = False
    hidden_ratios: bool = False

    f_s: int = 84
    f_c: int = 52
    f_v: int = 72
    f_a: int = 74
    f_p: int = 46
    f_t: int = 56
    f_u: int = 40
    f_q: int = 50
    f_root: int = 16
    f_open: int = 40
    weight_bits: int = 12
    normal_bits: int = 43
    relative_gap_bits: int = 12
    polishing: int = 2
    step_bits: int = COEFFICIENT_BITS

    def __post_init__(self) -> None:
        for name, value, low, high in (
            ("parties", self.M, 2, MOST_PARTIES),
            ("columns", self.columns, self.rank + 1, min(self.d, MOST_COLUMNS)),
            ("bits of the accuracy goal", self.goal_bits, 4, 24),
            ("iterations", self.iterations, 1, 10**5),
        ):
            if not low <= value <= high:
                raise StudyError(f"sealed: {name}: {value}.", f"{low} to {high}")
        for line, used, room, _ in self.budget():
            if used > room:
                raise StudyError(f"the bit budget does not add up: {line} needs {used} bits of {room}.")

    @property
    def checkpoints(self) -> list[int]:
        """Orthonormalisations up to each."""
        return checkpoints(self.iterations)

    def iterations_at(self, checkpoint: int) -> int:
        """Products with S up to that checkpoint, from 0."""
        return FIRST + (sum(self.checkpoints[: checkpoint + 1]) - 1) * POWERS

    @property
    def blocks(self) -> list[int]:
        """Columns that are made orthonormal together: about `block`, but the k-th alone. Together they are mixed."""
        before, after = self.rank - 1, self.columns - self.rank
        return [*_even(before, -(-before // self.block)), 1, *_even(after, max(1, after // self.block))]

    @property
    def first(self) -> int:
        return FIRST

    @property
    def roots(self) -> list[int]:
        """Of the polynomial, over v_k^T C v_k, with f_root bits."""
        return [
            round(self.decay * (1 + cos((2 * i + 1) * pi / (2 * POWERS))) / 2 * 2**self.f_root) for i in range(POWERS)
        ]

    @property
    def f_r(self) -> int:
        """Residuals: 16 bits finer than the goal."""
        return self.goal_bits + 16

    @property
    def f_x(self) -> int:
        """X: finer by the largest weight."""
        return self.f_r + self.weight_bits + 4

    @property
    def f_out(self) -> int:
        """V_k is opened no finer than it is known: its last place, with M dropped carries, is a quarter of the goal."""
        return self.goal_bits + 2 + ceil(log2(sqrt(self.d * self.M / 6) + 1))

    @property
    def trace_bits(self) -> int:
        """Each of the columns adds at most 1."""
        return max(3, ceil(log2(self.columns)))

    @property
    def trace_reach(self) -> int:
        """Its root: C theta_1 is at least 1/sqrt(d)."""
        return ceil((log2(self.d) / 2 + self.trace_bits) / 2) + 1

    @property
    def steps_of_scale(self) -> Steps:
        return fewest_steps(INVERSE_ROOT, self.scale, self.normal_bits + 5)

    @property
    def steps_of_rows(self) -> Steps:
        return STEPS_OF_ROWS

    @property
    def steps_of_trace(self) -> Steps:
        """By 10 bits better: H is opened, and its trace must not say how large it was."""
        return fewest_steps(INVERSE_ROOT, self.trace_reach, self.normal_bits + 15)

    @property
    def p_bits(self) -> int:
        """No inverse root is larger, whatever the data are."""
        others = (self.steps_of_lengths, self.steps_of_what_is_left, self.steps_of_last_square)
        return ceil(max(map(largest_factor, (self.steps_of_rows, self.steps_of_scale, *others))))

    @property
    def t_bits(self) -> int:
        """The same for the trace."""
        return ceil(largest_factor(self.steps_of_trace))

    @property
    def w_bits(self) -> int:
        """Of 8 / trace, once a bit has said that the steps have reached it: from 2^-(trace_reach + 1) they do not."""
        return 2 * (self.trace_reach + 1) + 3 - self.trace_bits

    # Of what takes the place of opening H

    @property
    def squarings(self) -> int:
        """b eigenvalues, each at most 1 - 2^-relative_gap_bits of the largest, to leave e = 2^-7.5 of it.

        Polishing leaves 3 e^2 of e, so that after two of them 27 e^4 is below 2^-25.
        """
        return self.relative_gap_bits + ceil(log2((log2(self.columns) + 7.5) * log(2)))

    @property
    def steps_of_what_is_left(self) -> Steps:
        """A k-th eigenvalue that the gate lets pass is at least as large as its gap."""
        return fewest_steps(RECIPROCAL, self.gap_reach, 2)

    @property
    def steps_of_squares(self) -> Steps:
        """Of b eigenvalues whose sum is at least 3/4."""
        return fewest_steps(RECIPROCAL, self._square_reach, 2)

    @property
    def steps_of_last_square(self) -> Steps:
        return fewest_steps(RECIPROCAL, self._square_reach, 40)

    @property
    def _square_reach(self) -> int:
        return ceil(log2(self.columns / 0.75**2))

    @property
    def gap_reach(self) -> int:
        """Of the trace: twice the smallest gap of ratios that are open, for larger weights take more bits."""
        return self.weight_bits + 1

    @property
    def steps_of_gap(self) -> Steps:
        return fewest_steps(INVERSE_ROOT, self.gap_reach, 40)

    @property
    def steps_of_lengths(self) -> Steps:
        """Of a random direction 2^-20 are left along an eigenvector, but for k times in a million."""
        return fewest_steps(INVERSE_ROOT, 20, 40)

    @property
    def least_gap(self) -> float:
        """Below the k-th Ritz value, where their sum is 8, that the gate lets pass."""
        return 2.0 ** (3 - self.gap_reach if self.hidden_ratios else -self.weight_bits)

    @property
    def norm_bits(self) -> int:
        """Of the gate's largest weight, 1 / gap where the trace is 8."""
        return ceil(largest_factor(self.steps_of_gap)) - 3 if self.hidden_ratios else self.weight_bits

    @property
    def most_bits(self) -> int:
        """The largest number that is truncated: sigma bits of mask above it, M masks and their offset."""
        return RING - SIGMA - self.M.bit_length() - 2

    def budget(self) -> Iterator[tuple[str, int, int, str]]:
        """(line, bits used, bits there are, why) for every width that must not overflow."""
        most, weight = self.most_bits, self.norm_bits + self.w_bits
        yield "norm of S", 2 * self.f_s + 2, most, "exact before it is truncated"
        yield "C V", self.f_c + self.f_v + self.f_root + 2, most, "with a root of the polynomial"
        yield "inverse root", self.f_p + self.p_bits + self.f_a + self.step_bits + 2, most, "a step, before truncation"
        yield "square, cube", 2 * self.f_a + 2 * self.step_bits + 2, most, "a step, before truncation"
        yield "projection", 2 * self.f_v + 3, most, "exact before it is truncated"
        noise = 2 * max(GROW_BITS, self.scale) + 10
        yield "rounding of a step", noise, self.f_a, "it grows as rows do, from the first step on"
        # Eigenvalues that are 0 become negative by carries of up to M in each of n terms, and grow with every step.
        yield "carries of a step", self.M * max(self.blocks), 48, "beyond, eigenvalues that are 0 diverge"
        yield "columns", GROW_BITS + self.goal_bits + 16, self.f_v, "what is left of the weakest direction"
        # The least gap is 2^-weight_bits of an eighth of the trace, which is at least 1/sqrt(d); d errors add up to
        # sqrt(d), and carries of M parties, which are not zero on the average, to M / 2 times that where d is large.
        fine = self.goal_bits + self.weight_bits + 3 + ceil(log2(self.d)) + 3 + ceil(log2(self.M))
        yield "C", fine, self.f_c, "its rounding, over the smallest gap"
        yield "S", fine + self.scale, self.f_s, "the same"
        yield "rotation", self.f_t + self.f_a + 2 * self.t_bits + 6, most, "times the trace's inverse"
        yield "H", 2 * self.f_a + self.trace_bits + 2, most, "before it is truncated to what is opened"
        yield "X, images", self.f_v + self.f_q + weight + 12, most, "with the largest weight"
        yield "residuals", self.f_x + self.f_u + weight + 13, most, "with the largest weight"
        largest = 2 * (self.f_r + weight + 13) + ceil(log2(self.d * self.rank))
        yield "the gate's error", largest, most, "squares of residuals"


def _even(n: int, parts: int) -> list[int]:
    """n in so many parts that differ by at most one."""
    return [n // parts + (i < n % parts) for i in range(parts)]


def checkpoints(iterations: int) -> list[int]:
    """Orthonormalisations up to each checkpoint, where there are so many products with S up to the first."""
    first = 1 + max(0, -(-(iterations - FIRST) // POWERS))
    return [first, first, 2 * first]


def iterations_for(goal: float, decay: float) -> int:
    """T after which goal / 64 is left of what the block does not hold: a start has at least 1/64 of every direction.

    Of lambda_(b+1) <= decay lambda_k the first FIRST products leave decay^FIRST, and each polynomial of degree n after
    that 1 / T_n(2 / decay - 1), with Chebyshev's T_n.
    """
    each = log(cosh(POWERS * acosh(2 / decay - 1)))
    left = log(64.0 / goal) + FIRST * log(decay)
    return FIRST + POWERS * max(0, ceil(left / each))
