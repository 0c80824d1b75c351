"""What an engine offers to the algorithms, and what it must say of itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol

from pdml_spdz.errors import EngineError
from pdml_spdz.primitives.bound import Bound
from pdml_spdz.primitives.normed_sum import NormedSum, OwnMean, RevealedNorm
from pdml_spdz.primitives.sec_sum import EngineSum
from pdml_spdz.study.engines import engines_that
from pdml_spdz.transport.base import Link


@dataclass(frozen=True)
class Security:
    """model : in words; malicious : holds against parties that deviate; corruptions : how many of M may collude."""

    model: str
    malicious: bool
    corruptions: str


@dataclass(frozen=True)
class Shape:
    """What a fit will ask for: blocks of k columns of length d, at most tau times.

    lengths : public, how long the first sums will be, about and up to one factor, where an earlier run has shown it
    """

    d: int
    k: int
    tau: int
    lengths: tuple[float, ...] = ()


class Engine(Protocol):
    """What a fit asks of an engine: sec_sum and normed_sum on one party's link, and what they reveal."""

    @property
    def name(self) -> str: ...

    @property
    def reveal(self) -> str: ...

    @property
    def insecure(self) -> bool: ...

    @property
    def security(self) -> Security: ...

    @property
    def warnings(self) -> tuple[str, ...]:
        """To be said in the report; there may be more of them when the run ends."""

    @property
    def sec_sum(self) -> EngineSum:
        """SecSum of reals and of integers."""

    def normed_sum(self, bound: Bound, shape: Shape, mean: OwnMean | None = None) -> NormedSum:
        """NormedSecSum for sums within `bound`; takes what it needs from the offline phase.

        mean : what this party knows of the mean of all rows, where that is to be taken off
        """

    def facts(self) -> dict[str, Any]:
        """What the report says of programs, precision and offline material; engines that have none say nothing."""

    def finish(self) -> None:
        """All columns are done: whatever still runs terminates successfully at every party, before a result is used."""

    def observables(self) -> list[str]:
        """What the other parties see of one run's columns, in words."""

    def close(self) -> None:
        """However the run ended, nothing stays behind."""


class EngineBase(ABC):
    """What engines have in common."""

    name: str
    reveal: str
    insecure: bool = False
    security: Security
    warnings: tuple[str, ...] = ()

    def __init__(self, link: Link, sec_sum: EngineSum) -> None:
        self.link, self.sec_sum = link, sec_sum

    @abstractmethod
    def normed_sum(self, bound: Bound, shape: Shape, mean: OwnMean | None = None) -> NormedSum: ...

    @abstractmethod
    def observables(self) -> list[str]: ...

    def warn(self, text: str) -> None:
        """To be said in the report."""
        self.warnings = (*self.warnings, text)

    def facts(self) -> dict[str, Any]:
        return {}

    def finish(self) -> None:
        return None

    def close(self) -> None:
        return None


class SumEngine(EngineBase):
    """An engine that normalises after the sum is known to all: NormedSecSum by way of its SecSum."""

    reveal = "sum"

    def normed_sum(self, bound: Bound, shape: Shape, mean: OwnMean | None = None) -> NormedSum:
        if mean is not None:
            others = engines_that(lambda spec: spec.shares)
            raise EngineError(f"the engine {self.name} cannot hide the mean.", f"the engine {others}")
        return RevealedNorm(self.sec_sum, bound.addend, self.link.M)
