"""What the online phase takes from the offline phase."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from pdml_spdz.ot.triples import Triples
from pdml_spdz.ot.vole import Correlation


@dataclass(frozen=True)
class Plan:
    """The offline material of one execution of a program.

    triples : scalar triples; vectors : for every secret scalar that multiplies vectors, how many numbers it multiplies
    """

    triples: int
    vectors: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.triples} triples and {len(self.vectors)} scalars with {self.numbers} numbers in all"

    @property
    def numbers(self) -> int:
        return sum(self.vectors)

    def repeated(self, times: int) -> Plan:
        """Of so many executions."""
        return Plan(self.triples * times, self.vectors * times)


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
