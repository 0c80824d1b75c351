"""What an engine offers to the algorithms, and what it must say of itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

from pdml_spdz.engines.openings.base import Runner
from pdml_spdz.errors import EngineError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.primitives.sec_sum import EngineSum
from pdml_spdz.programs.sealed_precision import SealedPrecision
from pdml_spdz.transport.base import Link

if TYPE_CHECKING:
    from pdml_spdz.engines.spec import OfflinePlan


@dataclass(frozen=True)
class OwnRows:
    """What a party has for a sealed fit.

    S : its matrix, over the bound; with sums, that of its rows around their own mean
    sums : of its rows, over the root of all rows times the bound, where the mean is taken off under sharing
    share : all rows over its own
    """

    S: Reals
    sums: Reals | None = None
    share: Fraction = Fraction(1)


@dataclass(frozen=True)
class SealedCheckpoint:
    """What a checkpoint of a sealed fit has shown.

    normal : whether S and V^T S V are large enough to be normalised; if not, nothing else was opened
    ritz : Ritz values over their sum, largest first; None if they were not opened
    passed : whether its gate is open; V : then, the result
    """

    normal: bool
    ritz: Reals | None
    passed: bool
    V: Reals | None


@dataclass(frozen=True)
class SealedWatch:
    """Who is told what a sealed fit has shown.

    shown : called at every checkpoint; opened : with each observable, as soon as it may have been seen
    """

    shown: Callable[[SealedCheckpoint], None] = lambda seen: None
    opened: Callable[[str], None] = lambda what: None


@dataclass(frozen=True)
class Security:
    """model : in words; malicious : holds against parties that deviate; corruptions : how many of M may collude."""

    model: str
    malicious: bool
    corruptions: str


class Engine(Protocol):
    """What a fit asks of an engine: sums on one party's link, and programs on secret shares for some openings."""

    @property
    def name(self) -> str: ...

    @property
    def link(self) -> Link: ...

    @property
    def insecure(self) -> bool: ...

    @property
    def security(self) -> Security: ...

    @property
    def warnings(self) -> tuple[str, ...]:
        """To be said in the report; there may be more of them when the run ends."""

    sec_sum: EngineSum  # of reals and of integers

    def warn(self, text: str) -> None:
        """To be said in the report."""

    def programs(self, plan: OfflinePlan, scale: float) -> Runner:
        """What runs the plan's program on secret shares, with what it needs from the offline phase.

        scale : what inputs are divided by
        """

    def sealed(self, precision: SealedPrecision, own: OwnRows, V: Reals, watch: SealedWatch) -> SealedCheckpoint:
        """A sealed fit up to its first open gate, or to its last checkpoint.

        own : this party's matrix, over the bound; for a hidden mean also its sums, over the root of n times the bound
        V : the start, which all have
        """

    def facts(self) -> dict[str, Any]:
        """What the report says of programs, precision and offline material; engines that have none say nothing."""

    def finish(self) -> None:
        """All columns are done: whatever still runs terminates successfully at every party, before a result is used."""

    def close(self) -> None:
        """However the run ended, nothing stays behind."""


class EngineBase:
    """What engines have in common; all there is to one that only adds up."""

    name: str
    insecure: bool = False
    security: Security
    warnings: tuple[str, ...] = ()

    def __init__(self, link: Link, sec_sum: EngineSum) -> None:
        self.link, self.sec_sum = link, sec_sum

    def warn(self, text: str) -> None:
        """To be said in the report."""
        self.warnings = (*self.warnings, text)

    def programs(self, plan: OfflinePlan, scale: float) -> Runner:
        raise EngineError(f"the engine {self.name} has no secret shares to run programs on.", "another engine")

    def sealed(self, precision: SealedPrecision, own: OwnRows, V: Reals, watch: SealedWatch) -> SealedCheckpoint:
        raise EngineError(f"the engine {self.name} has no sealed fits.", "another engine")

    def facts(self) -> dict[str, Any]:
        return {}

    def finish(self) -> None:
        return None

    def close(self) -> None:
        return None
