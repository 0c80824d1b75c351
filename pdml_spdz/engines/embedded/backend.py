"""What the machine asks of the party it runs for; and the backend that only counts, for the offline phase's plan."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, TypeAlias

from pdml_spdz.offline.material import Plan

if TYPE_CHECKING:
    from pdml_spdz.engines.embedded.values import Scalars, Wide

Share: TypeAlias = Any  # limbs of shape (n, L); the counting backend has none


@dataclass(eq=False)
class Truncating:
    """Shares of numbers of at most `bits` bits, whose lowest `shift` are to be dropped.

    squared : whether the squares of what is left are wanted, too, from the same round
    shares, squares : the results, when it waits no longer
    """

    numbers: list[int]
    bits: int
    shift: int
    squared: bool = False
    waits: bool = True
    shares: list[int] = field(default_factory=list)
    squares: list[int] = field(default_factory=list)

    def done(self, shares: list[int], squares: list[int]) -> None:
        self.shares, self.squares, self.waits = shares, squares, False


class Backend(ABC):
    """Party `me`'s shares: local operations, and those that need the other parties."""

    me: int
    modulus: int  # of scalars
    longest: float = inf  # vector that takes a delta for each of its numbers when it meets scalars
    waiting: list[Truncating]

    def wait(self, truncating: Truncating) -> Truncating:
        self.waiting.append(truncating)
        return truncating

    @abstractmethod
    def read_input(self, party: int, n: int) -> Share:
        """Shares of a vector that `party` inputs."""

    @abstractmethod
    def read_public(self) -> int: ...

    @abstractmethod
    def write(self, numbers: Any) -> None: ...

    # ---- vectors

    @abstractmethod
    def add(self, a: Share, b: Share) -> Share: ...

    @abstractmethod
    def add_public(self, a: Share, c: int) -> Share: ...

    @abstractmethod
    def part(self, a: Share, base: int, size: int) -> Share: ...

    @abstractmethod
    def concat(self, parts: Sequence[Share]) -> Share: ...

    @abstractmethod
    def dot(self, a: Share, weights: Sequence[int]) -> int: ...

    @abstractmethod
    def lift(self, a: Share, n: int) -> list[int]:
        """Shares of scalars from those of a vector that did not wrap."""

    @abstractmethod
    def narrow(self, a: list[int]) -> Share:
        """Shares of a vector from those of scalars: the ring of vectors divides theirs."""

    @abstractmethod
    def scale(self, c: Scalars, a: Share, n: int) -> Share:
        """May wait for other products: all of them go out in one round when one of them is wanted."""

    @abstractmethod
    def outer(self, c: Scalars, w: Wide) -> Share:
        """c times the numbers of w, which will meet more scalars; may wait as well."""

    @abstractmethod
    def open_vector(self, a: Share, n: int, drop: int) -> Any: ...

    # ---- scalars

    @abstractmethod
    def multiply(self, a: list[int], b: list[int]) -> list[int]: ...

    @abstractmethod
    def truncate(self, waiting: Sequence[Truncating]) -> None:
        """Fill in the results of all that wait, in one round."""

    def settle(self) -> None:
        """Truncations that do not need each other share a round: they wait until one of them is wanted."""
        waiting, self.waiting = self.waiting, []
        if waiting:
            self.truncate(waiting)

    @abstractmethod
    def open_scalars(self, a: list[int], *, committed: bool = False) -> list[int]: ...

    @abstractmethod
    def random(self, n: int) -> list[int]: ...


@dataclass(frozen=True)
class Truncation:
    """n numbers of at most `bits` bits, of which the lowest `shift` are dropped."""

    n: int
    bits: int
    shift: int


@dataclass
class Counting(Backend):
    """A dry run: every operation is counted, nothing is computed."""

    me: int = 0
    modulus: int = 2
    longest: float = inf
    triples: int = 0
    waiting: list[Truncating] = field(default_factory=list)
    scaled: dict[tuple[Scalars, int], int] = field(default_factory=dict)  # by scalar, and its number in a vector
    truncated: list[list[Truncation]] = field(default_factory=lambda: [[]])  # by output

    @property
    def plan(self) -> Plan:
        return Plan(self.triples, tuple(self.scaled.values()))

    def read_input(self, party: int, n: int) -> Share:
        return None

    def read_public(self) -> int:
        return 0

    def write(self, numbers: Any) -> None:
        self.truncated.append([])

    def add(self, a: Share, b: Share) -> Share:
        return None

    def add_public(self, a: Share, c: int) -> Share:
        return None

    def part(self, a: Share, base: int, size: int) -> Share:
        return None

    def concat(self, parts: Sequence[Share]) -> Share:
        return None

    def dot(self, a: Share, weights: Sequence[int]) -> int:
        return 0

    def lift(self, a: Share, n: int) -> list[int]:
        return [0] * n

    def narrow(self, a: list[int]) -> Share:
        return None

    def scale(self, c: Scalars, a: Share, n: int) -> Share:
        self.scaled[c, 0] = self.scaled.get((c, 0), 0) + n

    def outer(self, c: Scalars, w: Wide) -> Share:
        for j in range(len(w)):
            self.scaled[w, j] = self.scaled.get((w, j), 0) + 1

    def open_vector(self, a: Share, n: int, drop: int) -> Any:
        return None

    def multiply(self, a: list[int], b: list[int]) -> list[int]:
        self.triples += len(a)
        return [0] * len(a)

    def wait(self, truncating: Truncating) -> Truncating:
        self.truncated[-1].append(Truncation(len(truncating.numbers), truncating.bits, truncating.shift))
        return super().wait(truncating)

    def truncate(self, waiting: Sequence[Truncating]) -> None:
        for one in waiting:
            one.done(one.numbers, one.numbers)
            self.triples += len(one.numbers) * one.squared

    def open_scalars(self, a: list[int], *, committed: bool = False) -> list[int]:
        return [0] * len(a)

    def random(self, n: int) -> list[int]:
        return [0] * n
