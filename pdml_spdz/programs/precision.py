"""The bit budget of NormedSecSum: one value that derives every width from a few choices and checks each sum.

All quantities are relative to the public bound B: s/B has norm at most 1, rho = g.s/B lies in [2^-R, 1].
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import ceil, log2

from pdml_spdz.errors import StudyError
from pdml_spdz.programs.steps import COEFFICIENT_BITS, FLOOR_BITS, INVERSE_ROOT, RECIPROCAL, Step, largest_factor, steps

SIGMA = 80  # statistical security of masks, in bits
# Fraction bits of the public direction g. Any vector near V_0 would do, as long as rho = g.S V_0 stays positive: with
# all of float64's bits it does whatever the rows are, with 20 it does within the range that MP-SPDZ has room for.
F_G, FULL_G = 20, 52
OUT_BITS = (10, 20, 31)
MIN_BITS, MAX_BITS = 4, 31  # of the output
MARGIN = 26
COLUMN_BITS = 12  # c is COLUMNS / rho: up to 4096 columns
BELOW_BITS = 12  # rho may be below zero by the least one of the range over 2^12, and harms nothing
MIN_RANGE, MAX_RANGE = 4, 96  # a window for all ordinary data; a wider one would take a ring of 256 bits

MAX_VECTOR_BITS, MAX_SCALAR_BITS = 224, 512


@dataclass(frozen=True)
class Precision:
    """M : parties
    f_out : fraction bits of the output
    R : range of rho
    G : guard bits
    H : head-room of 1/(g.u)
    f_g : fraction bits of g
    hidden_mean : whether scalars have room for what a hidden mean makes of them
    """

    M: int
    f_out: int = 31
    R: int = 40
    G: int = 16
    H: int = 13
    f_g: int = F_G
    hidden_mean: bool = True

    def __post_init__(self) -> None:
        for name, value, low, high in (
            ("--bits", self.f_out, MIN_BITS, MAX_BITS),
            ("--range", self.R, MIN_RANGE, MAX_RANGE),
            ("guard", self.G, 8, 32),
            ("head-room", self.H, 4, 24),
            ("parties", self.M, 2, 30),
            ("f_g", self.f_g, 8, FULL_G),
        ):
            if not low <= value <= high:
                raise StudyError(f"{name} is {value}.", f"{low} to {high}")
        for line, used, room, _ in self.budget():
            if used > room:
                raise StudyError(f"the bit budget does not add up: {line} needs {used} bits of {room}.")

    @cached_property
    def f_in(self) -> int:
        """Inputs: so fine that the norm cannot be read off the grid that they leave in the output."""
        return self.f_out + self.R + self.G

    @cached_property
    def f_inv(self) -> int:
        """The scalar that multiplies the vector: its error, which grows with rho, stays G bits below the output."""
        return self.f_out + self.G

    @cached_property
    def f_rho(self) -> int:
        """rho as it comes from g.s, without truncation."""
        return self.f_in + self.f_g

    @cached_property
    def f_t(self) -> int:
        """t = rho x, from rho to 1: relative to the smallest rho, 6 bits finer than inv has to be. (Newton's step, for
        which t is near 1, takes it to f_x bits.)"""
        return self.R + self.f_inv + 6

    @cached_property
    def f_x(self) -> int:
        """x, from 1 to 1/rho: 8 bits finer than inv has to be, for the roundings of all steps, where it is smallest."""
        return self.f_inv + 8 + FLOOR_BITS

    @cached_property
    def half(self) -> int:
        """|1 - t| is below 2^-half when Newton's step comes, which takes it below 2^-(f_inv + 8)."""
        return (self.f_inv + 8) // 2 + 1

    @cached_property
    def f_y(self) -> int:
        """y, which is t to fewer bits: off by less than M units, it leaves an error of t below 2^-(half + 1)."""
        return self.half + 1 + self.M.bit_length()

    @cached_property
    def f_h(self) -> int:
        return COEFFICIENT_BITS

    @cached_property
    def x_bits(self) -> int:
        """x stays below 2^x_bits, but for rounding, whatever rho >= 0 is: it is largest for rho = 0, where steps have
        their largest factors. A rho far below zero would overflow the masks before the gate: `positive_at_first` sees
        to it that there is none. Converting x to f_in bits may still take M ||g||_1 / 2 units off; what is not lower
        than -2^-(R + BELOW_BITS) makes the factors larger by rounding only.
        """
        largest = largest_factor(self.reciprocal_steps) + 1, largest_factor(self.inverse_root_steps) + log2(1.5)
        return ceil(max(largest))

    @cached_property
    def drop(self) -> int:
        """Bits of y below the last one of the output: dithered and never opened."""
        return self.f_in + self.f_inv - self.f_out

    @cached_property
    def vector_bits(self) -> int:
        """The ring of vectors: y is never truncated, so it holds a sign, H and all fraction bits; rho fits too."""
        return _whole(32, max(1 + self.H + self.f_in + self.f_inv, 2 + self.f_rho, self.x_bits + 1 + self.f_inv))

    @cached_property
    def open_bits(self) -> int:
        """What is opened of a number of y: sign, H, f_out and, where the ring has room, the carries of M tails."""
        return min(1 + self.H + self.f_out + self.M.bit_length() + 1, self.vector_bits - self.drop)

    @cached_property
    def scalar_value_bits(self) -> int:
        """The largest scalar that is truncated, with its sign: x h, where h has 2 f_y + f_h fraction bits, and 2 h has
        f_x in Newton's step; t h, where |t| is about 1 at most; rho x, as the gate sees it; g.s; and what a hidden mean
        makes of them.
        """
        h = 2 * self.f_y + self.f_h
        of_x, of_t = self.x_bits + self.f_x + max(h, self.f_x + 1), self.f_t + max(h, self.f_x) + 1
        return 1 + max(of_x, of_t, self.f_rho + 1, *(self.mean_bits if self.hidden_mean else ()))

    @cached_property
    def mean_bits(self) -> tuple[int, int]:
        """What a hidden mean adds to rho, t.v times g.t, both at most 1; and c t, with c at most 2^R for a column."""
        return self.f_in + self.f_rho + 1, self.R + COLUMN_BITS + self.f_inv + self.f_in

    @cached_property
    def scalar_bits(self) -> int:
        """The ring of scalars: a value, sigma bits of mask above it, and room for the sum of M masks."""
        return _whole(64, self.scalar_value_bits + SIGMA + self.M.bit_length() + 2)

    @cached_property
    def margin_bits(self) -> int:
        """What rounding may have made of rho, with a hidden mean, is input 2^that times as large, so that some of its
        bits are left. Of dense rows with up to 10^9 features that is below 1; the gate has room for 2^10.
        """
        return min(self.R, MARGIN)

    @cached_property
    def reciprocal_steps(self) -> list[Step]:
        """Coefficients of the steps after which |1 - rho x| is below 2^-(half + 1) for every rho in [2^-R, 1]."""
        return list(steps(RECIPROCAL, self.R, self.half + 1))

    @cached_property
    def inverse_root_steps(self) -> list[Step]:
        """The same for x = 1/|rho|."""
        return list(steps(INVERSE_ROOT, self.R, self.half + 1))

    def budget(self) -> Iterator[tuple[str, int, int, str]]:
        """(line, bits used, bits there are, why) for every width that must not overflow."""
        yield "y in the vector ring", 1 + self.H + self.f_in + self.f_inv, self.vector_bits, "y is never truncated"
        yield "rho in the vector ring", 2 + self.f_rho, self.vector_bits, "g.s is exact before it becomes a scalar"
        yield "inv in the vector ring", 1 + self.x_bits + self.f_inv, self.vector_bits, "inv is reduced to that ring"
        yield (
            "masked scalar",
            self.scalar_value_bits + SIGMA + self.M.bit_length() + 2,
            self.scalar_bits,
            "value + offset + M masks must not wrap",
        )
        if self.hidden_mean:
            of_rho, scaled = self.mean_bits
            yield "mean in rho", of_rho + 1, self.scalar_value_bits, "hidden centring: t.v times g.t, before truncation"
            yield "scaled mean", scaled + 1, self.scalar_value_bits, "hidden centring: c t, before truncation to f_inv"
        yield "opened number", 1 + self.H + self.f_out, self.open_bits, "sign, head-room, fraction"
        yield "vector ring", self.vector_bits, MAX_VECTOR_BITS, "the widest in which shares, VOLE and LPN are tested"
        yield "scalar ring", self.scalar_bits, MAX_SCALAR_BITS, "the widest in which triples are tested"

    def explain(self) -> str:
        """The budget in words."""
        lines = [
            f"output            f_out = {self.f_out} fraction bits, opened in {self.open_bits} bits a number",
            f"range             R = {self.R}: rho = g.s/B may be as small as 2^-{self.R}; smaller ends at the gate",
            f"guard             G = {self.G} bits between what is computed and what is opened",
            f"input             f_in = f_out + R + G = {self.f_in} fraction bits",
            f"inverse           f_inv = f_out + G = {self.f_inv} fraction bits",
            f"scalars           f_t = R + f_inv + 6 = {self.f_t} (rho x), "
            f"f_x = f_inv + {8 + FLOOR_BITS} = {self.f_x} (x) fraction, "
            f"values up to {self.scalar_value_bits} bits, masks {SIGMA} bits wider, ring Z_2^{self.scalar_bits}",
            f"vectors           ring Z_2^{self.vector_bits}, {self.drop} bits of y dithered and not opened",
            f"1/rho             {len(self.reciprocal_steps)} steps of degree three, and Newton's",
            f"1/|rho|           {len(self.inverse_root_steps)} steps of degree three, and Newton's",
            f"steps             see rho x to f_y = {self.f_y} fraction bits",
            "",
        ]
        lines += [f"{used:4} of {room:4} bits  {line}: {why}" for line, used, room, why in self.budget()]
        return "\n".join(lines)


def _whole(word: int, bits: int) -> int:
    return word * -(-bits // word)
