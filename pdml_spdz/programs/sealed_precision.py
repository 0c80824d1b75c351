"""The bit budget of a sealed fit: every width from a few public choices, and every sum of them checked.

All quantities are relative to the public bound B: tr S/B <= 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, log, log2, sqrt

from pdml_spdz.errors import StudyError
from pdml_spdz.programs.precision import SIGMA

RING = 256
SEALED_PROGRAM = "sealed_svd"
GROWTH = log2(2.25)  # bits by which a growing step lengthens a short direction
MOST_FEATURES = 1024
MOST_COLUMNS = 64  # their Ritz values add up to at most 8 ||S||_F


@dataclass(frozen=True)
class SealedPrecision:
    """M, d : parties, features
    rank, columns : k and b
    goal_bits : the gate wants a sine below 2^-goal_bits
    iterations : up to the first checkpoint; twice and four times as many up to the next ones
    powers : products with S between two polar steps
    reach : directions down to 2^-reach of ||S||_F keep their length
    scale : ||S||_F may be 2^-scale of the bound
    hidden_mean : the mean of all rows is taken off under sharing
    """

    M: int
    d: int
    rank: int
    columns: int
    goal_bits: int = 20
    iterations: int = 36
    powers: int = 4
    reach: int = 6
    scale: int = 28
    hidden_mean: bool = False

    f_s: int = 60
    f_v: int = 72
    f_a: int = 80
    f_p: int = 52
    f_u: int = 40
    f_open: int = 40
    weight_bits: int = 12

    def __post_init__(self) -> None:
        for name, value, low, high in (
            ("parties", self.M, 2, 30),
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
        """Polar steps up to each."""
        first = -(-self.iterations // self.powers)
        return [first, first, 2 * first]

    @property
    def f_r(self) -> int:
        """Residuals: 16 bits finer than the goal."""
        return self.goal_bits + 16

    @property
    def f_out(self) -> int:
        """V_k is opened no finer than it is known: its last place, with M dropped carries, is a quarter of the goal."""
        return self.goal_bits + 2 + ceil(log2(sqrt(self.d * self.M / 6) + 1))

    @property
    def grow(self) -> int:
        return ceil(self.powers * self.reach / GROWTH)

    @property
    def grow_scale(self) -> int:
        return ceil(self.scale / GROWTH)

    @property
    def grow_trace(self) -> int:
        """tr V^T c S V over 8: c theta_1 is at least 1/sqrt(d)."""
        return ceil((log2(self.d) / 2 + 4) / 2 / GROWTH)

    polish, polish_last = 2, 6

    @property
    def p_bits(self) -> int:
        """No inverse root is larger, whatever the data are."""
        return ceil(GROWTH * max(self.grow, self.grow_scale) + log2(1.5) * self.polish_last)

    @property
    def margin_bits(self) -> int:
        """The gate's error is raised by 2^-that of what it allows: rounding must not make it negative."""
        return 3 + self.M.bit_length()

    @property
    def most_bits(self) -> int:
        """The largest number that is truncated: sigma bits of mask above it, M masks and their offset."""
        return RING - SIGMA - self.M.bit_length() - 2

    def budget(self) -> Iterator[tuple[str, int, int, str]]:
        """(line, bits used, bits there are, why) for every width that must not overflow."""
        most, grow = self.most_bits, self.grow_trace
        yield "S V", self.f_s + self.f_v + 2, most, "exact before it is truncated"
        yield "c S V", self.f_v + self.p_bits + self.f_p + 2, most, "the scale has up to 2^p_bits"
        yield "inverse root", self.f_p + self.p_bits + self.f_a + 6, most, "a polar step, before truncation"
        yield "square, cube", 2 * self.f_a + 10, most, "a polar step, before truncation"
        noise = 2 * max(self.powers * self.reach, self.scale) + 16
        yield "rounding of a polar step", noise, self.f_a, "it grows as directions do, from the first step on"
        yield (
            "columns",
            self.powers * self.reach + self.goal_bits + 16,
            self.f_v,
            "what is left of the weakest direction",
        )
        image = self.f_v + self.f_u + self.weight_bits + 2 * grow + 12
        yield "residuals", image, most, "with the largest weight"
        largest = 2 * (self.f_r + self.weight_bits + 2 * grow + 12) + self.goal_bits + ceil(log2(self.d * self.rank))
        yield "the gate's error", largest, most, "squares of residuals"


def iterations_for(goal: float, decay: float) -> int:
    """T with decay^T <= goal / 64: what is left, then, of a start that has 1/64 of every direction."""
    return ceil(log(64.0 / goal) / -log(decay))
