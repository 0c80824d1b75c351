"""Programs on this package's own shares, as the algorithms see them, and the operations on shares: additive in Z_2^k,
up to M - 1 colluding parties, semi-honest.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from greenlet import getcurrent, greenlet

from pdml_spdz.engines.embedded import machine
from pdml_spdz.engines.embedded.backend import Backend, Truncating
from pdml_spdz.engines.embedded.products import Lazy, Numbers, Outer, Products, Scaling, TripleProduct
from pdml_spdz.engines.embedded.values import Scalars, Wide
from pdml_spdz.engines.openings.base import Execution, Runner, decode
from pdml_spdz.errors import EngineError
from pdml_spdz.numerics import ring
from pdml_spdz.numerics.fixedpoint import Reals, Ring
from pdml_spdz.numerics.ring import Vector
from pdml_spdz.offline.material import Lots, Material
from pdml_spdz.ot.triples import Triples
from pdml_spdz.primitives.sec_sum import MaskedSum
from pdml_spdz.programs.precision import SIGMA, Precision
from pdml_spdz.programs.render import Program


class EmbeddedRunner(Runner):
    """Runs programs in this process. lots : of one execution"""

    def __init__(self, sec_sum: MaskedSum, precision: Precision, bound: float, material: Material, lots: Lots) -> None:
        super().__init__(precision, bound)
        self.sec_sum, self.material, self.lots = sec_sum, material, lots
        self.waiting: set[EmbeddedExecution] = set()

    def start(self, program: Program) -> Execution:
        self.material.begin(self.lots)
        self.waiting.add(execution := EmbeddedExecution(self, program))
        return execution

    def close(self) -> None:
        """Of a greenlet that waits when its thread ends, and of all that it holds, nothing is ever freed."""
        for execution in list(self.waiting):
            execution.finish()


class EmbeddedExecution(Execution):
    """One program on this party's shares."""

    def __init__(self, runner: EmbeddedRunner, program: Program) -> None:
        self.runner, self._session = runner, Session()
        self.shares = Shares(runner.sec_sum, runner.precision, runner.material, self._session)
        self.shares.longest = runner.lots.longest
        self._session.start(lambda: machine.execute(program, self.shares))

    def call(self, x: Reals, publics: Sequence[int], more: Sequence[Reals] = ()) -> Reals:
        """Dropped carries and dither shift the mean by -M/2 and +M/2 units: there is no bias."""
        opened = self._session.call(self._encode(x, more), publics)
        return decode(opened, self.runner.precision, len(x))

    def finish(self) -> None:
        self._session.end()
        self.runner.waiting.discard(self)

    def _encode(self, x: Reals, more: Sequence[Reals]) -> list[ring.Vector]:
        """What a program reads from this party for one output: its vector, column after column, ..., its dither."""
        p = self.runner.precision
        with self.runner.sec_sum.link.clock("crypto"):
            vectors = [(x / self.runner.bound).T.reshape(-1), *more]
            encoded = [ring.from_float(vector, p.f_in, p.vector_bits) for vector in vectors]
            return [*encoded, ring.random_below(x.size, p.drop, p.vector_bits)]


class Shares(Backend):
    """Party me's shares of one program's variables."""

    def __init__(self, sec_sum: MaskedSum, precision: Precision, material: Material, session: Session) -> None:
        self.sec_sum, self.link, self.precision = sec_sum, sec_sum.link, precision
        self.material, self.session = material, session
        self.me = self.link.me
        self.bits, self.wide = precision.vector_bits, precision.scalar_bits
        self.modulus = 1 << self.wide
        self.products = Products(self.link)
        self.waiting = []
        self._scalings: dict[Scalars, Scaling] = {}

    # ---- in and out

    def read_input(self, party: int, n: int) -> Lazy:
        """The share of the party that inputs is the value, the others' is 0. No communication."""
        return Lazy(n, self.bits, (), (self.session.next_input(n),) if party == self.me else ())

    def read_public(self) -> int:
        return self.session.next_public()

    def write(self, numbers: Any) -> None:
        self.session.write(numbers)

    # ---- vectors

    def add(self, a: Numbers, b: Numbers) -> Lazy:
        a, b = self.products.share(a), self.products.share(b)
        return Lazy(a.n, self.bits, a.terms + b.terms, a.plus + b.plus)

    def add_public(self, a: Numbers, c: int) -> Lazy:
        a = self.products.share(a)
        row = ring.from_ints([c], self.bits)
        return Lazy(a.n, self.bits, a.terms, (*a.plus, row)) if self.me == 0 else a

    def part(self, a: Numbers, base: int, size: int) -> Lazy:
        return Lazy(size, self.bits, (), (self._value(a)[base : base + size],))

    def concat(self, parts: Sequence[Numbers]) -> Lazy:
        whole = np.concatenate([self._value(a) for a in parts])
        return Lazy(len(whole), self.bits, (), (whole,))

    def dot(self, a: Numbers, weights: Sequence[int]) -> int:
        """sum_i weights_i a_i of a share that did not wrap, as a signed integer: the share of a scalar."""
        share = self.products.share(a)
        with self.link.clock("crypto"):
            return ring.dot(share.value(), weights)

    def lift(self, a: Numbers, n: int) -> list[int]:
        return ring.to_ints(self._value(a), signed=True)

    def _value(self, a: Numbers) -> ring.Vector:
        return self.products.share(a).value()

    def narrow(self, a: list[int]) -> Lazy:
        return Lazy(len(a), self.bits, (), (ring.from_ints([z % (1 << self.bits) for z in a], self.bits),))

    def scale(self, c: Scalars, a: Numbers, n: int) -> TripleProduct:
        """[c] times the shared vector [x].

        With VOLE w = u delta + v for every ordered pair (l, m): u and v at l, w and delta at m; l has one u for all m,
        m one delta for all l:

        1. l sends x_l - u to everyone; m sends b_m = c_m - delta_m to everyone, once for each scalar; now
           c = sum_m delta_m + b with b = sum_m b_m public
        2. m adds (x_l - u) delta_m + w, l adds -v; together that is x_l delta_m
        3. everyone adds x_m delta_m and x_m b

        Reveals: nothing; u and delta are one-time pads, u fresh for every vector, delta for every scalar, and another
        one when the numbers of a lot are used up.
        Cost: one round for all products that wait, k/8 bytes a number and peer. Offline: VOLE.
        Ref: Gilboa, CRYPTO 1999; Boyle et al., "Efficient two-round OT extension and silent non-interactive secure
        computation", CCS 2019 (VOLE).
        """
        x = self._value(a)  # first: it may be a product that waits itself
        return self.products.wait(TripleProduct(self._scaling(c, len(x)), x, self.bits))

    def outer(self, c: Scalars, w: Wide) -> TripleProduct:
        """[c] times the numbers of [w], which meets many scalars: as `scale`, with the scalars' and vector's parts
        exchanged. Every number of w has a delta of its own, and c is what u hides, once for each of them.

        Reveals: nothing. Cost: as `scale`; offline as many deltas as w has numbers, however many scalars come.
        """
        x = ring.from_ints([c.shares[0] % (1 << self.bits)] * len(w), self.bits)
        return self.products.wait(Outer(self._scaling(w, 1), x, self.bits))

    def _scaling(self, c: Scalars, n: int) -> Scaling:
        """With n numbers left under each delta. What is left of earlier ones is used no more: c - delta was sent."""
        found = self._scalings.get(c)
        if found is None or found.left < n:
            found = self._scalings[c] = Scaling(c, self.me, self.material.scalars(len(c)))
        return found

    def open_vector(self, a: Numbers, n: int, drop: int) -> Ring:
        """The vector without its low `drop` bits, in `open_bits` bits.

        1. each party drops the low bits of its share: the carries that are lost are a uniform dither of the last bit
        2. SecSum of what is left, in Z_2^open_bits

        Reveals: the vector, rounded down by up to M units of its last place. Cost: one round, open_bits/8 bytes a
        number and peer. Ref: -
        """
        share = self.products.share(a)
        with self.link.clock("crypto"):
            kept = share.above(drop, self.precision.open_bits)
        return self.sec_sum.words(kept, "open", self.precision.open_bits)

    # ---- scalars

    def multiply(self, a: list[int], b: list[int]) -> list[int]:
        """[a] [b], number by number.

        1. with a triple [x], [y], [x y]: open e = a - x and f = b - y
        2. [a b] = [x y] + e [y] + f [x] + e f

        Reveals: nothing; x and y are one-time pads. Cost: one round, 2 w/8 bytes a product and peer; one triple each.
        Ref: Beaver, CRYPTO 1991.
        """
        product = BeaverProduct(self.material.triples(len(a)), a, b)
        return product.shares(self.open_scalars(product.masked), self.me)

    def truncate(self, waiting: Sequence[Truncating]) -> None:
        """[y] = [a / 2^shift] for |a| < 2^bits, off by less than M; and [y^2], where it is wanted.

        1. party m draws r_m, uniform below 2^(bits + sigma); open z = a + 2^bits + sum_m r_m, which does not wrap
        2. party m takes -floor(r_m / 2^shift); party 0 adds floor(z / 2^shift) - 2^(bits - shift)
        3. for squares step 1 opens as well what a product of q = sum_m floor(r_m / 2^shift) with itself takes
           (`multiply`); then [y^2] = p^2 - 2 p [q] + [q^2] with p = y + q, the public number of step 2

        Reveals: z, which hides a up to a distance of 2^(1-sigma). Cost: one round for all that wait, w/8 bytes a number
        and peer, and 2 w/8 and a triple for a square.
        Ref: Catrina and Saxena, FC 2010, with each party's own mask.
        """
        masks = [[secrets.randbits(one.bits + SIGMA) for _ in one.numbers] for one in waiting]
        rests = [[r >> one.shift for r in some] for one, some in zip(waiting, masks, strict=True)]
        masked = [
            x + r + (1 << one.bits if self.me == 0 else 0)
            for one, some in zip(waiting, masks, strict=True)
            for x, r in zip(one.numbers, some, strict=True)
        ]
        factors = [q for one, some in zip(waiting, rests, strict=True) if one.squared for q in some]
        squaring = BeaverProduct(self.material.triples(len(factors)), factors, factors)
        opened = self.open_scalars(masked + squaring.masked)
        z, squares = iter(opened), iter(squaring.shares(opened[len(masked) :], self.me))
        for one, some in zip(waiting, rests, strict=True):
            public = [(next(z) >> one.shift) - (1 << one.bits - one.shift) for _ in some]
            shares = [(p if self.me == 0 else 0) - q for p, q in zip(public, some, strict=True)]
            of_two = [
                (p * p if self.me == 0 else 0) - 2 * p * q + next(squares)
                for p, q in zip(public, some, strict=True)
                if one.squared
            ]
            one.done(shares, of_two)

    def open_scalars(self, a: list[int], *, committed: bool = False) -> list[int]:
        """SecSum of the shares: none is sent without a fresh zero-sharing on top."""
        purpose = "gate" if committed else "scalars"
        return self.sec_sum.wide([x % self.modulus for x in a], purpose, self.wide, committed=committed)

    def random(self, n: int) -> list[int]:
        """Uniform numbers that no coalition knows. No communication."""
        return [secrets.randbits(self.wide) for _ in range(n)]


class BeaverProduct:
    """[a] [b], number by number: what has to be opened, and the shares that follow from it."""

    def __init__(self, t: Triples, a: list[int], b: list[int]) -> None:
        self._t = t
        self.masked = [p - x for p, x in zip(a, t.a, strict=True)] + [q - y for q, y in zip(b, t.b, strict=True)]

    def shares(self, opened: list[int], me: int) -> list[int]:
        t, n = self._t, len(self._t)
        e, f = opened[:n], opened[n:]
        products = [xy + e_i * y + f_i * x for x, y, xy, e_i, f_i in zip(t.a, t.b, t.c, e, f, strict=True)]
        if me == 0:
            products = [z + e_i * f_i for z, e_i, f_i in zip(products, e, f, strict=True)]
        return products


class Session:
    """Queues between a caller and a running program that takes inputs and gives outputs while it runs.

    The two take turns in one thread: the program runs until it wants an input that is not there yet.
    """

    def __init__(self) -> None:
        self._inputs: deque[Vector] = deque()
        self._publics: deque[int] = deque()
        self._outputs: deque[Any] = deque()
        self._program: greenlet | None = None

    def start(self, run: Callable[[], None]) -> None:
        """`run` executes the program on a backend that reads and writes here."""
        self._program = greenlet(run)

    def end(self) -> None:
        """The program ends where it waits: it holds nothing but memory."""
        if self._program is not None and not self._program.dead:
            self._program.throw()

    def call(self, inputs: Sequence[Vector], publics: Sequence[int]) -> Any:
        """Hand over what the program asks for next and return what it then puts out."""
        self._inputs.extend(inputs)
        self._publics.extend(publics)
        if self._outputs:  # the program has put out more at once than the last call has taken
            return self._outputs.popleft()
        if self._program is None or self._program.dead:
            raise EngineError("the program has ended.", "one call for each of its iterations")
        self._program.switch()
        if not self._outputs:
            raise EngineError("the program wants more input than it was given.", "the inputs of one iteration")
        return self._outputs.popleft()

    # ---- the program's side

    def next_input(self, n: int) -> Vector:
        while not self._inputs:
            self._wait()
        x = self._inputs.popleft()
        if len(x) != n:
            raise EngineError(f"the program wants a vector of {n} numbers.", f"one of {len(x)}")
        return x

    def next_public(self) -> int:
        while True:
            try:
                return self._publics.popleft()
            except IndexError:
                self._wait()

    def write(self, numbers: Any) -> None:
        self._outputs.append(numbers)

    def _wait(self) -> None:
        parent = getcurrent().parent
        assert parent is not None  # programs run in greenlets of their own
        parent.switch()
