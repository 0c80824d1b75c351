"""One party's side of a program on matrices: masks, openings, products; additive in Z_2^w, up to M - 1 colluding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pdml_spdz.engines.embedded.matrices import Masked, MatrixBackend, SecretNumbers
from pdml_spdz.engines.embedded.runner import Session
from pdml_spdz.offline.mask_products import Integers, MaskPlace, MaskProducts
from pdml_spdz.primitives.sec_sum import MaskedSum
from pdml_spdz.primitives.zero_test import is_one_of
from pdml_spdz.programs.precision import SIGMA


class MatrixParty(MatrixBackend):
    """
    bits : of the ring
    input_bits : of inputs, and sums of them, in the order in which the program has them
    most_bits : of a number that is compared
    open_bits : of an opened number, with its sign
    """

    def __init__(
        self,
        sec_sum: MaskedSum,
        material: MaskProducts,
        session: Session,
        *,
        bits: int,
        input_bits: Sequence[int],
        most_bits: int,
        open_bits: int,
    ) -> None:
        self.sec_sum, self.link, self.material, self.session = sec_sum, sec_sum.link, material, session
        self.me, self.bits, self.modulus = self.link.me, bits, 1 << bits
        self.input_bits, self.most_bits, self.open_bits = input_bits, most_bits, open_bits
        self._roundings = self._inputs = 0

    # ---- in and out

    def read_input(self, party: int, n: int) -> SecretNumbers:
        own: Integers = self.session.next_input(n) if party == self.me else np.zeros(n, object)
        return self._input(own)

    def sum_of_inputs(self, a: SecretNumbers, b: SecretNumbers) -> SecretNumbers:
        return self._input(a.share + b.share)

    def _input(self, own: Integers) -> SecretNumbers:
        """A party's input is its own mask, and nothing of it is public."""
        bits, zeros = self.input_bits[self._inputs], np.zeros(len(own), object)
        self.material.input(own, bits)
        self._inputs += 1
        return SecretNumbers(self, len(own), None, Masked(zeros, own, _all(-self._inputs, len(own)), bits))

    def read_public(self) -> int:
        return self.session.next_public()

    def write(self, numbers: Any) -> None:
        self.session.write(numbers)

    def write_bit(self, bit: int) -> None:
        self.session.write(bit)

    # ---- local

    def combine(self, n: int, compute: Callable[[], Integers]) -> SecretNumbers:
        with self.link.clock("crypto"):
            return SecretNumbers(self, n, compute() % self.modulus)

    # ---- with the others

    def round(self, x: SecretNumbers, bits: int, shift: int) -> SecretNumbers:
        """x / 2^shift for |x| < 2^bits, off by less than M, under a mask that the parties know the products of.

        1. party m has drawn r_m, uniform below 2^(bits + sigma)
        2. open z = x + 2^bits + sum_m r_m modulo 2^w, with w just large enough for it: z does not wrap, and what a
           party that deviates has put above the masks is not opened
        3. E = floor(z / 2^shift) - 2^(bits - shift) is public; party m keeps R_m = -floor(r_m / 2^shift)

        Then x / 2^shift = E + sum_m R_m: z serves the truncation and every product of the truncated number.

        Reveals: z, which hides x up to a distance of 2^(1-sigma). Cost: one round, w/8 bytes a number and peer.
        Ref: Catrina and Saxena, FC 2010; Beaver, CRYPTO 1991.
        """
        r = self.material.mask()
        offset = 1 << bits if self.me == 0 else 0
        z = self._open(x.share + r + offset, opened_bits(bits, self.link.M))
        with self.link.clock("crypto"):
            public, own = (z >> shift) - (1 << bits - shift), -(r >> shift)
        self._roundings += 1
        return SecretNumbers(self, x.n, None, Masked(public, own, _all(self._roundings - 1, x.n)))

    def product(self, a: SecretNumbers, b: SecretNumbers, shape: tuple[int, int, int]) -> SecretNumbers:
        """[a b] = E_a E_b + E_a [R_b] + [R_a] E_b + [R_a R_b], local but for the last, which the parties have made.

        Reveals: nothing. Cost: no round; offline a product of masks. Ref: Beaver, CRYPTO 1991.
        """
        n, i, c = shape
        assert a.masked is not None  # the dry run has refused other factors
        assert b.masked is not None
        made = self.material.product()
        with self.link.clock("crypto"):
            (left, mine), (right, own) = (
                (m.public.reshape(size), m.own.reshape(size)) for m, size in ((a.masked, (n, i)), (b.masked, (i, c)))
            )
            if self.me == 0:
                mine = mine + left
            share = _even_dot(left, own, b.masked.bits) + _even_dot(right.T, mine.T, a.masked.bits).T + made
            return SecretNumbers(self, n * c, (share % self.modulus).reshape(-1))

    def open(self, x: SecretNumbers) -> Integers:
        """Numbers that were rounded to what may be seen of them; signed, of less than `open_bits` bits.

        Reveals: that. Cost: one round, open_bits/8 bytes a number and peer. Ref: -
        """
        bits = 8 * -(-self.open_bits // 8)
        sums = self.sec_sum.wide([z % (1 << bits) for z in x.share], "open", bits)
        half = 1 << bits - 1
        return np.array([(s + half) % (2 * half) - half for s in sums] + [None], object)[:-1]

    def below(self, x: SecretNumbers, shift: int) -> int:
        """Whether 0 <= x < 2^shift, decided at x = 2^shift / (M + 1) or somewhat above.

        1. t <- x / ((M + 1) 2^-shift), rounded down to a power of two, truncated; it is 0 .. M if x is small
        2. whether it is one of these <- is_one_of

        Reveals: the bit. Cost: that of `round` and `is_one_of`.
        """
        fine = shift - self.link.M.bit_length()
        t = self.round(x, self.most_bits, fine)
        return int(is_one_of(self.link, int(t.share[0]), range(self.link.M + 1)))

    def _open(self, share: Integers, bits: int) -> Integers:
        """SecSum of the shares: none is sent without a fresh zero-sharing on top."""
        opened = self.sec_sum.wide([int(z) % (1 << bits) for z in share], "matrix", bits)
        return np.array([*opened, None], object)[:-1]


def opened_bits(bits: int, M: int) -> int:
    """w: room for M masks below 2^(bits + sigma) and for x + 2^bits."""
    return bits + SIGMA + M.bit_length()


def _even_dot(public: Integers, own: Integers, bits: int) -> Integers:
    """public own. Python multiplies by zeros and small integers faster: where `own` is an input, of so many bits, its
    numbers are moved up to one common length, and what that adds is taken off.
    """
    lift = 3 << bits if bits else 0
    product: Integers = public.dot(own + lift)
    return product - lift * public.sum(axis=1, keepdims=True) if bits else product


def _all(source: int, n: int) -> MaskPlace:
    return MaskPlace(source, np.arange(n))
