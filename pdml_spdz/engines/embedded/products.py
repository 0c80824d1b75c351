"""Products of secret scalars and vectors by VOLE, and what of them waits for a common round."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

import numpy as np

from pdml_spdz.engines.embedded.values import Scalars
from pdml_spdz.numerics import ring
from pdml_spdz.numerics.fixedpoint import Ring
from pdml_spdz.numerics.ring import Narrow, Vector
from pdml_spdz.offline.material import ScalarMaterial
from pdml_spdz.ot.vole import Correlation
from pdml_spdz.primitives.sec_sum import check_size
from pdml_spdz.transport.base import Link


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

    def above(self, t: int, bits: int) -> Ring:
        """The `bits` bits from bit t on."""
        if self.terms:
            return ring.combine_above(self.terms, self.plus, t, bits)
        return ring.word_above(self.value(), t, bits)


class Scaling:
    """Secret scalars that multiply others, each with its own VOLE material; b = c_m - delta_m of the parties so far.

    When the material has no more numbers, another one of the same scalars takes its place: with other deltas, and so
    another b.
    """

    def __init__(self, c: Scalars, me: int, materials: list[ScalarMaterial]) -> None:
        self.materials = materials
        self.b = {me: [share - m.delta for share, m in zip(c.shares, materials, strict=True)]}
        self._announced = False

    @property
    def left(self) -> int:
        """Numbers that each of them can still multiply."""
        return min(material.left for material in self.materials)

    def announces(self) -> bool:
        """True once: b goes out with the first product."""
        first, self._announced = not self._announced, True
        return first

    def public(self) -> list[int]:
        """b of all parties."""
        return [sum(parts) for parts in zip(*self.b.values(), strict=True)]


class TripleProduct:
    """A scalar times a vector x, before its message goes out: products that do not need each other share a round."""

    def __init__(self, scaling: Scaling, x: Vector, bits: int) -> None:
        self.scaling, self.x, self.bits = scaling, x, bits
        self.opens, self.given = scaling.announces(), self._take()
        self.gathered: list[Narrow] = []
        self.share: Lazy | None = None

    def _take(self) -> Correlation:
        return self.scaling.materials[0].take(len(self.x))

    @property
    def size(self) -> int:
        """Bytes of its part of a message."""
        return (len(self.x) + self.opens * len(self.scaling.materials)) * self.bits // 8

    def outgoing(self, me: int) -> list[Narrow]:
        """b, with the first product, and x less its pad."""
        masked = [ring.sub(self.x, self.given.pad)]
        b = [ring.from_ints(self.scaling.b[me], self.bits)] if self.opens else []
        return [ring.to_wire(part, self.bits) for part in b + masked]

    def incoming(self, l: int, message: memoryview) -> None:
        numbers = ring.from_wire(message, self.bits)
        if self.opens:
            count = len(self.scaling.materials)
            self.scaling.b[l] = ring.to_ints(numbers[:count])
            numbers = numbers[count:]
        self.gathered.append(numbers)

    def add_up(self) -> None:
        """All messages have come: sum_l (x_l - u) delta_m + x_m (delta_m + b) + rest."""
        (material,), (b,) = self.scaling.materials, self.scaling.public()
        terms = ((self.gathered, material.delta), ([self.x], material.delta + b))
        self.share = Lazy(len(self.x), self.bits, terms, (self.given.rest,))


class Outer(TripleProduct):
    """A new scalar, as many times as there are numbers in a vector that stays; each of these has a delta of its own."""

    def _take(self) -> Correlation:
        return Correlation.join([material.take(1) for material in self.scaling.materials])

    def add_up(self) -> None:
        sums = [sum(column) for column in zip(*map(ring.to_ints, self.gathered), strict=True)]
        (own,) = ring.to_ints(self.x[:1])
        rows = zip(sums, self.scaling.materials, self.scaling.public(), ring.to_ints(self.given.rest), strict=True)
        numbers = [((e + own) * m.delta + own * b + rest) % (1 << self.bits) for e, m, b, rest in rows]
        self.share = Lazy(len(numbers), self.bits, (), (ring.from_ints(numbers, self.bits),))


Numbers: TypeAlias = Lazy | TripleProduct  # a share, or a product that may still wait for its round


class Products:
    """The products that wait for the next round."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self._waiting: list[TripleProduct] = []

    def wait(self, product: TripleProduct) -> TripleProduct:
        self._waiting.append(product)
        return product

    def share(self, numbers: Numbers) -> Lazy:
        """This party's share; if they are a product that waits, after the round in which it is sent."""
        if isinstance(numbers, Lazy):
            return numbers
        if numbers.share is None:
            self.send()
        assert numbers.share is not None  # whatever waits has been sent
        return numbers.share

    def send(self) -> None:
        """One round: all that waits, in one message to each peer (steps 1 to 3 of `Shares.scale`)."""
        products, self._waiting = self._waiting, []
        with self.link.clock("crypto"):
            parts = [part for p in products for part in p.outgoing(self.link.me)]
            own = parts[0] if len(parts) == 1 else np.concatenate(parts)  # one vector alone is not copied
        received = self.link.all_to_all("scale", own)
        with self.link.clock("crypto"):
            for l, message in received.items():
                check_size(own.nbytes, message.nbytes, l)
                for p in products:
                    p.incoming(l, message[: p.size])
                    message = message[p.size :]
            for p in products:
                p.add_up()
