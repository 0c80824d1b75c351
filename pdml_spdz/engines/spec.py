"""What an engine says of itself: one `EngineSpec` in its own module, and one line in `study/engines.py`.

A spec is asked before there is an engine: by the study's checks, the command line, the offline phase and `doctor`. So
it is cheap to import, and names the functions of a large engine by their module (`later`).
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, log2
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from pdml_spdz.errors import StudyError
from pdml_spdz.programs.precision import FULL_G, MAX_RANGE, Precision
from pdml_spdz.programs.sealed_precision import SealedPrecision, iterations_for
from pdml_spdz.study.levels import OPENINGS
from pdml_spdz.study.sealed_checks import check_sealed_size

if TYPE_CHECKING:
    from pdml_spdz.engines.base import Engine
    from pdml_spdz.engines.openings.base import Layout
    from pdml_spdz.study.algorithm import Shape, Want
    from pdml_spdz.study.model import Study
    from pdml_spdz.transport.base import Link
    from pdml_spdz.transport.certs import Identity


Note: TypeAlias = Callable[[str], None]  # takes what whoever watches should know


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
class OfflinePlan(ABC):
    """What a fit runs on secret shares and takes from the offline phase: derived once from the study, and handed to
    whoever forecasts, makes, claims, uses or reports it. An engine adds what is its own.
    """

    shape: Shape
    layout: Layout

    @property
    @abstractmethod
    def text(self) -> str:
        """What one run takes, and what making it will cost."""

    @property
    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """The same for machines."""


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

    plan : plan(study, shape, home, note), of a fit of this shape
    make_stock : for one run, together with the other parties; returns what is reported of it
    status : what there is below a directory; changes nothing
    ready : EngineError if this machine lacks something that `make_stock` needs; the path is `Context.home`
    """

    plan: Callable[[Study, Shape, Path | None, Note], OfflinePlan]
    make_stock: Callable[[Context, Any], dict[str, Any]]
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
    prepare : prepare(context, shape) when the parties have met, before any number of theirs is sent: an error if what
        their programs are made with is not the same, or if a fit of this shape could not begin (no shape: only the
        first is looked at)
    ready : EngineError if this machine lacks something that a run of the study needs; the paths are `Context.home` and
        `Context.stocks`
    doctor : what this machine has of what the engine needs, for any study
    offline : None if it has no offline phase
    settings : those of a study that no other engine takes
    largest_range : the largest `precision.range` that its numbers have room for
    f_g : fraction bits of public directions that they have room for
    needs_processes : parties cannot be threads of one process
    in_the_clear : every party sees the addends of every other
    imports : modules that its parties will import, and functions that they will call first ("module:function"), for
        one process that does it for all of them
    """

    name: str
    openings: tuple[str, ...]
    help: str
    make: Callable[[Context], Engine]
    check: Callable[[Study, Want], object] = _nothing
    doctor: Callable[[Path | None], Iterable[Diagnosis]] = _nothing
    ready: Callable[[Study, Path | None, Path], object] = _nothing
    prepare: Callable[[Context, Shape | None], object] = _nothing
    offline: OfflinePhase | None = None
    settings: tuple[str, ...] = ()
    largest_range: int = MAX_RANGE
    f_g: int = FULL_G
    needs_processes: bool = False
    in_the_clear: bool = False
    imports: tuple[str, ...] = ()

    @cached_property
    def levels(self) -> tuple[str, ...]:
        """Of reveal: its usual one first."""
        return tuple(dict.fromkeys(OPENINGS[name].level for name in self.openings))

    @cached_property
    def shares(self) -> bool:
        """Whether it can compute on secret shares."""
        return any(OPENINGS[name].template for name in self.openings)

    @cached_property
    def has_window(self) -> bool:
        """Whether it needs no bound: its numbers have room for all ordinary data, and nothing else shows their size."""
        return self.shares and self.largest_range == MAX_RANGE


# ---- what a study says to engines that run programs


def sealed_precision_of(study: Study, d: int) -> SealedPrecision:
    """What the study's public numbers make of a sealed fit of d features."""
    check_sealed_size(d, study.rank)
    return SealedPrecision(
        M=study.M,
        d=d,
        rank=study.rank,
        columns=min(d, study.block or 2 * study.rank),
        goal_bits=ceil(-log2(study.accuracy_goal)),
        iterations=iterations_for(study.accuracy_goal, study.decay),
        decay=study.decay,
        hidden_mean=_hidden_mean(study),
        hidden_ratios=study.ratios == "hidden",
    )


def _hidden_mean(study: Study) -> bool:
    return "centre" in study.spec.own and study.centre == "hidden"


def precision_of(study: Study) -> Precision:
    usual = Precision(
        study.M, study.precision.bits, study.range, f_g=study.engine_spec.f_g, hidden_mean=_hidden_mean(study)
    )
    if not study.spec.vector:
        return usual
    # For any vector and a random g: 1/(g.u) may be larger than between iterates, if the ring has room for it.
    wider = (replace(usual, H=h) for h in range(usual.H, 21))
    return max((p for p in wider if p.vector_bits == usual.vector_bits), key=lambda p: p.H)


def shape_of(study: Study) -> Shape:
    """The largest fit of the study, before there is any data."""
    d = study.d or len(study.features)
    if not d:
        raise StudyError(
            "the study does not say how many features there are.",
            "a number of features: the offline phase needs it before there is any data",
            "set `d` (or `features`) in the study (`init --dim D`), or pass --dim without a study",
        )
    return study.spec.shape(study, d)
