"""What the online phase takes from the offline phase, and the source that makes it during the run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

from pdml_spdz import ring
from pdml_spdz.errors import EngineError
from pdml_spdz.ot import extension, triples, vole
from pdml_spdz.ot.triples import Triples
from pdml_spdz.ot.vole import Extended
from pdml_spdz.ring import Vector
from pdml_spdz.transport.base import Link

GROUP = 256  # scalars whose delta is set up at a time: bounds the memory, 12 kB of keys for each and peer
LEAST = 512  # numbers made at a time: fewer cost as much
BLOCK = 1 << 16  # numbers made at a time: large enough for speed, small enough for memory and for stopping early


@dataclass(frozen=True)
class Plan:
    """The offline material of one execution of a program.

    triples : scalar triples; vectors : for every secret scalar that multiplies vectors, how many numbers it multiplies
    """

    triples: int
    vectors: tuple[int, ...]

    @property
    def numbers(self) -> int:
        return sum(self.vectors)

    def repeated(self, times: int) -> Plan:
        """Of so many executions."""
        return Plan(self.triples * times, self.vectors * times)


@dataclass(frozen=True)
class Correlation:
    """n numbers of VOLE with every peer, w = u delta + v in both directions, as the online phase uses them.

    pad : u; rest : the sum over l of w from l less v towards l
    """

    pad: Vector
    rest: Vector

    @classmethod
    def of(cls, made: Extended) -> Correlation:
        return cls(made.u, reduce(ring.add, (ring.sub(made.w[l], made.v[l]) for l in made.v)))

    def part(self, base: int, size: int) -> Correlation:
        cut = slice(base, base + size)
        return Correlation(self.pad[cut], self.rest[cut])


class ScalarMaterial(ABC):
    """VOLE for one secret scalar: this party's delta, and numbers under it, each given out once."""

    delta: int

    @abstractmethod
    def take(self, n: int) -> Correlation: ...


class Material(ABC):
    """A source of material for one run."""

    mode: str
    identity: str | None = None  # of the stock it comes from

    @abstractmethod
    def reserve(self, plan: Plan) -> None:
        """Called before each execution of a program, with what it will take."""

    @abstractmethod
    def triples(self, n: int) -> Triples: ...

    @abstractmethod
    def scalar(self) -> ScalarMaterial:
        """Material for the next secret scalar; no two scalars share a delta."""

    def scalars(self, count: int) -> list[ScalarMaterial]:
        """For the next `count` scalars, which will take the same numbers at the same time."""
        return [self.scalar() for _ in range(count)]


class OnDemand(Material):
    """Material made in the run, by all parties together, as the plan foresees it."""

    mode = "on-demand"

    def __init__(self, link: Link, session: bytes, vector_bits: int, scalar_bits: int, *, block: int = BLOCK) -> None:
        self._link, self._vector_bits, self._scalar_bits, self._block = link, vector_bits, scalar_bits, block
        with link.offline():
            self._ots = extension.set_up(link, session)
        self._ends: Iterator[vole.Ends] = iter(())
        self._planned: Iterator[int] = iter(())
        self._triples, self._used = Triples(scalar_bits, [], [], []), 0

    def reserve(self, plan: Plan) -> None:
        link = self._link
        with link.offline():
            self._triples, self._used = triples.make(link, self._ots, plan.triples, self._scalar_bits), 0
        self._ends = self._set_up(len(plan.vectors))
        self._planned = iter(plan.vectors)

    def _set_up(self, count: int) -> Iterator[vole.Ends]:
        """Fresh deltas, some at a time: their keys take memory, and a run may stop early."""
        for first in range(0, count, GROUP):
            with self._link.offline():
                some = vole.set_up(self._link, self._ots, self._vector_bits, count=min(GROUP, count - first))
            yield from some

    def triples(self, n: int) -> Triples:
        start, self._used = self._used, self._used + n
        t = self._triples
        if self._used > len(t):
            raise EngineError(f"the program wants {self._used} triples.", f"the {len(t)} of its plan")
        return t.part(start, self._used)

    def scalar(self) -> ScalarMaterial:
        return self.scalars(1)[0]

    def scalars(self, count: int) -> list[ScalarMaterial]:
        together: list[_Extended] = []
        for _ in range(count):
            ends = next(self._ends, None)
            if ends is None:
                raise EngineError("the program multiplies vectors by more scalars than its plan has.")
            together.append(_Extended(self._link, ends, next(self._planned), self._block, together))
        return list(together)


class _Extended(ScalarMaterial):
    """together : this one and those that are extended with it, in one round"""

    def __init__(self, link: Link, ends: vole.Ends, planned: int, block: int, together: Sequence[_Extended]) -> None:
        self._link, self._left, self._block, self._together = link, planned, block, together
        self._ends: vole.Ends | None = ends
        self.delta = ends.delta
        self._made: Correlation | None = None
        self._given = self._size = 0

    def take(self, n: int) -> Correlation:
        if self._ends is None:
            raise EngineError("the program multiplies more numbers by a scalar than its plan has.")
        if self._made is None or self._size - self._given < n:
            # What is left of a block is less than a vector: it is given up, not pieced together. Blocks grow, so that
            # a run that stops early has not made much more than it used.
            size = max(n, min(self._left, self._block // n * n, max(2 * self._size, 8 * n, LEAST // n * n)))
            with self._link.offline():
                self._extend_all(size)
        assert self._made is not None
        part = self._made.part(self._given, n)
        self._given += n
        if self._left <= 0 and self._given == self._size:
            self._made = self._ends = None  # nothing is left: a program may have thousands of scalars, one vector each
        return part

    def _extend_all(self, size: int) -> None:
        """A block for all that go together, some in each round: their messages are held at once."""
        step = max(1, self._block // (4 * size))
        for first in range(0, len(self._together), step):
            some = self._together[first : first + step]
            ends = [one._ends for one in some if one._ends is not None]
            for one, extended in zip(some, vole.extend_all(self._link, ends, size), strict=True):
                one._made, one._size, one._given = Correlation.of(extended), size, 0
                one._left -= size
