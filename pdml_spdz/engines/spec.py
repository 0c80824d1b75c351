"""What an engine says of itself: one `EngineSpec` in its own module, and one line in `study/engines.py`.

A spec is asked before there is an engine: by the study's checks, the command line, the offline phase and `doctor`. So
it is cheap to import, and names the functions of a large engine by their module (`later`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdml_spdz.programs.precision import FULL_G, MAX_RANGE
from pdml_spdz.study.levels import OPENINGS

if TYPE_CHECKING:
    from pdml_spdz.engines.base import Engine
    from pdml_spdz.study.algorithm import Want
    from pdml_spdz.study.model import Study
    from pdml_spdz.transport.base import Link
    from pdml_spdz.transport.certs import Identity


def _nothing(*_: object) -> tuple[()]:
    return ()


@dataclass(frozen=True)
class Context:
    """What an engine of one party is made from.

    session : the public identity of the run
    stocks : where this party's offline stocks are
    directory : this party's results
    home : where the engine's own programs are installed, if the user has said so
    notify : takes events, for whoever watches the run
    """

    study: Study
    link: Link
    session: bytes
    identity: Identity
    stocks: Path
    directory: Path
    home: Path | None
    notify: Callable[[dict[str, Any]], None]

    def note(self, text: str) -> None:
        self.notify({"event": "note", "text": text})


@dataclass(frozen=True)
class OfflinePlan:
    """What one run takes from the offline phase, and what making it will cost. facts : the same for machines"""

    text: str
    facts: dict[str, Any]


@dataclass(frozen=True)
class Stocks:
    """The stocks below a directory: a table for people, and the same for machines, one entry for each row."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    facts: Sequence[dict[str, Any]]
    title: str | None = None


@dataclass(frozen=True)
class OfflinePhase:
    """Material that depends on no data, made ahead of a run.

    plan : of one run of the study; the path is `Context.home`
    make_stock : together with the other parties; returns what is reported of it
    status : what there is below a directory; changes nothing
    ready : as `EngineSpec.ready`, of what `make_stock` needs
    """

    plan: Callable[[Study, Path | None], OfflinePlan]
    make_stock: Callable[[Context], dict[str, Any]]
    status: Callable[[Path], Stocks]
    ready: Callable[[Study, Path | None], object] = _nothing


@dataclass(frozen=True)
class Diagnosis:
    """level : "ok", "note" (works without) or "problem" (will fail)."""

    level: str
    what: str
    found: str


def later(module: str, name: str) -> Callable[..., Any]:
    """A function of that module, which is imported when the function is called."""

    def call(*arguments: Any) -> Any:
        return getattr(importlib.import_module(module), name)(*arguments)

    return call


@dataclass(frozen=True)
class EngineSpec:
    """
    openings : that it can do; the first says what it reveals unless a study says otherwise
    help : what it is, in a few words
    make : the engine of one party
    check : want(ok, found, wanted) raises unless ok; what a study may not say with this engine
    ready : EngineError if this machine lacks something that a run of the study needs; the path is `Context.home`
    doctor : what this machine has of what the engine needs, for any study
    offline : None if it has no offline phase
    settings : those of a study that no other engine takes
    largest_range : the largest `precision.range` that its numbers have room for
    f_g : fraction bits of public directions that they have room for
    needs_processes : parties cannot be threads of one process
    in_the_clear : every party sees the addends of every other
    """

    name: str
    openings: tuple[str, ...]
    help: str
    make: Callable[[Context], Engine]
    check: Callable[[Study, Want], object] = _nothing
    ready: Callable[[Study, Path | None], object] = _nothing
    doctor: Callable[[Path | None], Iterable[Diagnosis]] = _nothing
    offline: OfflinePhase | None = None
    settings: tuple[str, ...] = ()
    largest_range: int = MAX_RANGE
    f_g: int = FULL_G
    needs_processes: bool = False
    in_the_clear: bool = False

    @property
    def levels(self) -> tuple[str, ...]:
        """Of reveal: its usual one first."""
        return tuple(dict.fromkeys(OPENINGS[name].level for name in self.openings))

    @property
    def shares(self) -> bool:
        """Whether it can compute on secret shares."""
        return any(OPENINGS[name].template for name in self.openings)

    @property
    def has_window(self) -> bool:
        """Whether it needs no bound: its numbers have room for all ordinary data, and nothing else shows their size."""
        return self.shares and self.largest_range == MAX_RANGE
