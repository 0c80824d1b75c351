"""The operations on shares: additive in Z_2^k, up to M - 1 colluding parties, semi-honest."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from pdml_spdz import ring
from pdml_spdz.engines.embedded.backend import Backend
from pdml_spdz.engines.embedded.session import Session
from pdml_spdz.engines.embedded.values import Scalars
from pdml_spdz.fixedpoint import Ring
from pdml_spdz.offline.material import Correlation, Material, ScalarMaterial
from pdml_spdz.precision import SIGMA, Precision
from pdml_spdz.primitives.sec_sum import MaskedSum, check_size
from pdml_spdz.ring import Vector
from pdml_spdz.transport.base import Buffer


@dataclass(frozen=True)
class Lazy:
    """A share of n numbers that is a sum not yet added up: c_j (a_j1 + a_j2 + ...) + p_1 + p_2 + ...

    Carries cost more than sums; a product, its dither and its offset are added up in one pass when the value is wanted.
    """

    n: int
    bits: int
    terms: tuple[ring.Term, ...]
    plus: tuple[Vector, ...]

    def value(self) -> Vector:
        if self.terms:
            return ring.combine(self.terms, self.plus)
        whole = any(len(p) == self.n for p in self.plus)  # single rows alone have to be spread out
        return reduce(ring.add, self.plus if whole else (ring.zeros(self.n, self.bits), *self.plus))

    def above(self, t: int) -> Ring:
        """The 64 bits from bit t on."""
        return ring.combine_above(self.terms, self.plus, t) if self.terms else ring.word_above(self.value(), t)


class Product:
    """A scalar times a vector, before its message goes out: products that do not need each other share a round."""

    def __init__(self, scaling: Scaling, x: Vector, given: Correlation, send: Callable[[], None]) -> None:
        self.scaling, self.x, self.given, self._send = scaling, x, given, send
        self.share: Lazy | None = None

    def __getattr__(self, name: str) -> Any:
        """As the share itself, once someone asks for it."""
        if self.share is None:
            self._send()
        return getattr(self.share, name)


class Scaling:
    """One secret scalar that multiplies vectors: its VOLE material, and b = c_m - delta_m of the parties so far."""

    def __init__(self, c: Scalars, me: int, material: ScalarMaterial) -> None:
        self.c, self.material = c, material  # c is kept: it is found again by its identity
        self.b = {me: c.shares[0] - material.delta}


class Shares(Backend):
    """Party me's shares of one program's variables."""

    def __init__(self, sec_sum: MaskedSum, precision: Precision, material: Material, session: Session) -> None:
        self.sec_sum, self.link, self.precision = sec_sum, sec_sum.link, precision
        self.material, self.session = material, session
        self.me = self.link.me
        self.bits, self.wide = precision.vector_bits, precision.scalar_bits
        self.modulus = 1 << self.wide
        self._scalings: dict[int, Scaling] = {}
        self._waiting: list[Product] = []

    # ---- in and out

    def read_input(self, party: int, n: int) -> Lazy:
        """The share of the party that gives in is the value, the others' is 0. No communication."""
        return Lazy(n, self.bits, (), (self.session.next_input(n),) if party == self.me else ())

    def read_public(self) -> int:
        return self.session.next_public()

    def write(self, numbers: Any) -> None:
        self.session.write(numbers)

    # ---- vectors

    def add(self, a: Lazy, b: Lazy) -> Lazy:
        return Lazy(a.n, self.bits, a.terms + b.terms, a.plus + b.plus)

    def add_public(self, a: Lazy, c: int) -> Lazy:
        row = ring.from_ints([c], self.bits)
        return Lazy(a.n, self.bits, a.terms, (*a.plus, row)) if self.me == 0 else a

    def part(self, a: Lazy, base: int, size: int) -> Lazy:
        return Lazy(size, self.bits, (), (a.value()[base : base + size],))

    def concat(self, parts: Sequence[Lazy]) -> Lazy:
        whole = np.concatenate([a.value() for a in parts])
        return Lazy(len(whole), self.bits, (), (whole,))

    def dot(self, a: Lazy, weights: Sequence[int]) -> int:
        """sum_i weights_i a_i of a share that did not wrap, as a signed integer: the share of a scalar."""
        with self.link.clock("crypto"):
            return ring.dot(a.value(), weights)

    def lift(self, a: Lazy, n: int) -> list[int]:
        return ring.to_ints(a.value(), signed=True)

    def narrow(self, a: list[int]) -> Lazy:
        return Lazy(len(a), self.bits, (), (ring.from_ints([z % (1 << self.bits) for z in a], self.bits),))

    def scale(self, c: Scalars, a: Lazy, n: int) -> Product:
        """[c] times the shared vector [x].

        With VOLE w = u delta + v for every ordered pair (l, m): u and v at l, w at m, and m's delta, one for all l:

        1. l sends x_l - u to m; m sends b_m = c_m - delta_m to everyone, once for each scalar; now
           c = sum_m delta_m + b with b = sum_m b_m public
        2. m adds (x_l - u) delta_m + w, l adds -v; together that is x_l delta_m
        3. everyone adds x_m delta_m and x_m b

        Reveals: nothing; u and delta are one-time pads, u fresh for every vector and pair, delta for every scalar.
        Cost: one round for all products that wait, k/8 bytes a number and peer. Offline: VOLE.
        Ref: Gilboa, CRYPTO 1999; Boyle et al., "Efficient two-round OT extension and silent non-interactive secure
        computation", CCS 2019 (VOLE).
        """
        scaling = self._scaling(c)
        x = a.value()  # first: it may be a product that waits itself
        product = Product(scaling, x, scaling.material.take(n), self._send_products)
        self._waiting.append(product)
        return product

    def _send_products(self) -> None:
        """Steps 1 to 3 for all products that wait, in one message to each peer."""
        products, self._waiting = self._waiting, []
        # b of a scalar goes with its first product: theirs have come only if ours has gone.
        first = {id(p.scaling): p for p in reversed(products) if len(p.scaling.b) == 1}
        with self.link.clock("crypto"):
            outgoing = {l: self._scale_message(products, first, l) for l in self.link.peers}
        received = self.link.exchange("scale", outgoing, self.link.peers)
        size = self.bits // 8
        gathered = [[p.x] for p in products]
        for l, message in received.items():
            check_size(size * (len(first) + sum(len(p.x) for p in products)), message.nbytes, l)
            for p, parts in zip(products, gathered, strict=True):
                if first.get(id(p.scaling)) is p:
                    p.scaling.b[l] = int.from_bytes(message[:size], "little")
                    message = message[size:]
                parts.append(ring.from_bytes(message[: len(p.x) * size], self.bits))
                message = message[len(p.x) * size :]
        for p, parts in zip(products, gathered, strict=True):
            terms = ((parts, p.scaling.material.delta), ([p.x], sum(p.scaling.b.values())))
            p.share = Lazy(len(p.x), self.bits, terms, (p.given.rest,))

    def _scaling(self, c: Scalars) -> Scaling:
        if id(c) not in self._scalings:
            self._scalings[id(c)] = Scaling(c, self.me, self.material.scalar())
        return self._scalings[id(c)]

    def _scale_message(self, products: list[Product], first: dict[int, Product], l: int) -> Buffer:
        parts: list[bytes] = []
        for p in products:
            masked = ring.sub(p.x, p.given.pads[l])
            if len(products) == 1 and not first:  # the usual case, without a copy
                return masked
            if first.get(id(p.scaling)) is p:
                parts.append((p.scaling.b[self.me] % (1 << self.bits)).to_bytes(self.bits // 8, "little"))
            parts.append(masked.tobytes())
        return b"".join(parts)

    def open_vector(self, a: Lazy, n: int, drop: int) -> Ring:
        """The vector without its low `drop` bits, in `open_bits` bits.

        1. each party drops the low bits of its share: the carries that are lost are a uniform dither of the last bit
        2. SecSum of what is left, in Z_2^open_bits

        Reveals: the vector, rounded down by up to M units of its last place. Cost: one round, open_bits/8 bytes a
        number and peer. Ref: -
        """
        with self.link.clock("crypto"):
            kept = a.above(drop)
        return self.sec_sum.words(kept, "open", self.precision.open_bits)

    # ---- scalars

    def multiply(self, a: list[int], b: list[int]) -> list[int]:
        """[a] [b], number by number.

        1. with a triple [x], [y], [x y]: open e = a - x and f = b - y
        2. [a b] = [x y] + e [y] + f [x] + e f

        Reveals: nothing; x and y are one-time pads. Cost: one round, 2 w/8 bytes a product and peer; one triple each.
        Ref: Beaver, CRYPTO 1991.
        """
        t = self.material.triples(len(a))
        masked = [p - x for p, x in zip(a, t.a, strict=True)] + [q - y for q, y in zip(b, t.b, strict=True)]
        opened = self.open_scalars(masked)
        e, f = opened[: len(a)], opened[len(a) :]
        products = [xy + e_i * y + f_i * x for x, y, xy, e_i, f_i in zip(t.a, t.b, t.c, e, f, strict=True)]
        if self.me == 0:
            products = [z + e_i * f_i for z, e_i, f_i in zip(products, e, f, strict=True)]
        return products

    def truncate(self, a: list[int], bits: int, shift: int) -> list[int]:
        """[a / 2^shift] for |a| < 2^bits, off by less than M.

        1. party m draws r_m, uniform below 2^(bits + sigma); open z = a + 2^bits + sum_m r_m, which does not wrap
        2. party m takes -floor(r_m / 2^shift); party 0 adds floor(z / 2^shift) - 2^(bits - shift)

        Reveals: z, which hides a up to a distance of 2^(1-sigma). Cost: one round, w/8 bytes a number and
        peer.
        Ref: Catrina and Saxena, FC 2010, with each party's own mask.
        """
        masks = [secrets.randbits(bits + SIGMA) for _ in a]
        offset = 1 << bits if self.me == 0 else 0
        z = self.open_scalars([x + offset + r for x, r in zip(a, masks, strict=True)])
        shares = [-(r >> shift) for r in masks]
        if self.me == 0:
            shares = [share + (z_i >> shift) - (1 << bits - shift) for share, z_i in zip(shares, z, strict=True)]
        return shares

    def open_scalars(self, a: list[int]) -> list[int]:
        """SecSum of the shares: none is sent without a fresh zero-sharing on top."""
        return self.sec_sum.wide([x % self.modulus for x in a], "scalars", self.wide)

    def random(self, n: int) -> list[int]:
        """Uniform numbers that no coalition knows. No communication."""
        return [secrets.randbits(self.wide) for _ in range(n)]
