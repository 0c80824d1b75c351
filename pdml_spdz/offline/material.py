"""What the online phase takes from the offline phase."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from math import inf

from pdml_spdz.ot.triples import Triples
from pdml_spdz.ot.vole import Correlation


@dataclass(frozen=True)
class Plan:
    """Offline material.

    triples : scalar triples; vectors : for every secret scalar that multiplies vectors, how many numbers it multiplies
    """

    triples: int
    vectors: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.triples} triples and {len(self.vectors)} scalars with {self.numbers} numbers in all"

    @cached_property
    def numbers(self) -> int:
        return sum(self.vectors)

    def repeated(self, times: int) -> Plan:
        """Of so many executions."""
        return Plan(self.triples * times, self.vectors * times)

    def __add__(self, other: Plan) -> Plan:
        return Plan(self.triples + other.triples, self.vectors + other.vectors)


@dataclass(frozen=True)
class Lots:
    """What one execution of a program takes, in parts: which it will take is known when it has ended.

    whole : all that it may take, under the same scalars from its begin to its end
    first, further : the same by lots, of which it takes one after another. Every lot has scalars (deltas) of its own:
        what a run has not begun to use is nobody's yet. None: the first is all
    expected : lots that a run is to have before it begins
    piece : as much of `whole` as is to be made at a time; None: more and more
    likely : as much of `whole` as is to be reckoned with
    longest : vector that takes a delta for each of its numbers when it meets scalars; a longer one takes one for each
        scalar: whichever makes fewer for a lot
    fresh : scalars of its own that each part of `whole` has, all with the same numbers: made in one round
    """

    whole: Plan
    first: Plan
    further: Plan | None
    expected: int
    piece: Plan | None
    likely: Plan
    longest: float = inf
    fresh: int = 1

    @classmethod
    def of(cls, plan: Plan) -> Lots:
        """All at once."""
        return cls(plan, plan, None, 1, None, plan)

    @property
    def awaited(self) -> tuple[Plan, ...]:
        """Those that a run is to have before it begins."""
        return (self.first,) + (() if self.further is None else (self.further,) * (self.expected - 1))


class ScalarMaterial(ABC):
    """VOLE for one secret scalar: this party's delta, and numbers under it, each given out once."""

    delta: int

    @property
    @abstractmethod
    def left(self) -> int:
        """How many more it gives out; for whatever comes after them there is another delta."""

    @abstractmethod
    def take(self, n: int) -> Correlation: ...


class Material(ABC):
    """A source of material for one run. used : what was claimed or made so far"""

    mode: str
    identity: str | None = None  # of the stock it comes from
    used: Plan = Plan(0, ())

    def begin(self, lots: Lots) -> None:
        """An execution of a program begins that will take these."""
        self.reserve(lots.whole)

    @abstractmethod
    def reserve(self, plan: Plan) -> None:
        """This is what will be taken next."""

    @abstractmethod
    def triples(self, n: int) -> Triples: ...

    @abstractmethod
    def scalar(self) -> ScalarMaterial:
        """Material for the next secret scalar; no two scalars share a delta."""

    def scalars(self, count: int) -> list[ScalarMaterial]:
        """For the next `count` scalars, which will take the same numbers at the same time."""
        return [self.scalar() for _ in range(count)]
