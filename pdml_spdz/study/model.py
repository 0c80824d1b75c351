"""The study: everything the parties must agree on before any of them starts. One TOML file, the same at every party."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pdml_spdz.registry import Registry
from pdml_spdz.rows.reading import RowSettings
from pdml_spdz.study.algorithm import ALGORITHMS, DEFAULT, SUMS, Algorithm
from pdml_spdz.study.checks import CENTRES, SCALES, USUAL_RANGE, WIDE_RANGE, kind_of, parse_bound, validate
from pdml_spdz.study.engines import ENGINES
from pdml_spdz.study.fields import UNSAID, settle, usual_value, want
from pdml_spdz.study.levels import DEFAULT_LEVEL, LEVELS, OPENINGS, Level
from pdml_spdz.study.solvers import SOLVERS, usual_solver

if TYPE_CHECKING:
    from pdml_spdz.algorithms.solver import Solver
    from pdml_spdz.engines.openings.base import Opening
    from pdml_spdz.engines.spec import EngineSpec

NORMALISE = ("fit", "per-column")
ONLINE = ("stream", "per-column")
RATIOS = ("open", "hidden")
OFFLINE = ("auto", "stock", "on-demand")
VOLE = ("lpn", "ot")
COLUMNS = ("name", "position")
PROGRAMS = ("projection", "paper")
STARTS = ("secsum", "seed")
INITS = ("pd", "random", "nnsvd", "best_of_M")
W_STARTS = ("zero", "nnls")
CHOICES: dict[str, Collection[str]] = {
    "normalise": NORMALISE,
    "online": ONLINE,
    "ratios": RATIOS,
    "offline": OFFLINE,
    "vole": VOLE,
    "columns": COLUMNS,
    "program": PROGRAMS,
    "start": STARTS,
    "centre": CENTRES,
    "scale": SCALES,
}
REGISTERED: dict[str, Registry[Any]] = {"algorithm": ALGORITHMS, "solver": SOLVERS, "reveal": LEVELS}
MAX_PARTIES = 30


@dataclass(frozen=True)
class PartyEntry:
    """One party: where it listens, which certificate it shows, how large its share of the bound is."""

    host: str = "127.0.0.1"  # name or address at which the others reach it
    port: int = 0  # TCP port
    fingerprint: str = ""  # SHA-256 of its certificate, in hexadecimal digits
    quota: float = 0.0  # ||X_m^T X_m||_F at most; 0: the study's `bound` says it
    mp_spdz_port: int = 0  # where MP-SPDZ listens; 0: any free port
    name: str = ""  # of the organisation, for people

    def __post_init__(self) -> None:
        settle(self, "[[parties]]")
        object.__setattr__(self, "fingerprint", self.fingerprint.replace(":", "").lower())  # one way to write it


@dataclass(frozen=True)
class Timeouts:
    """How long a party waits for the others."""

    connect: float = 60.0  # seconds until all have met
    round: float = 300.0  # seconds without a sign of life, and for a message beyond what its bytes take at `least_rate`
    work: float = 3600.0  # seconds for a party that says that it is still working, or waiting
    least_rate: float = 64_000.0  # bytes a second

    def __post_init__(self) -> None:
        settle(self, "[timeouts]")


@dataclass(frozen=True)
class PrecisionSettings:
    """How fine, and how large, the numbers are that are computed with (`pdml-spdz precision` explains them)."""

    bits: int = 31  # fraction bits of what is opened
    range: int = 0  # sums may be 2^-range of the bound; 0: 96 for the window, 40 below a bound that is agreed or found

    def __post_init__(self) -> None:
        settle(self, "[precision]")


@dataclass(frozen=True)
class NmfSettings:
    """Start, missing entries and penalties of a non-negative factorisation."""

    init: str = "pd"  # "pd" (PD-NMF-Init), "random", "nnsvd" (by PD-SVD) or "best_of_M" (NOT private)
    init_iterations: int = 20  # sweeps that finding the start may take
    w_start: str = "zero"  # W is zero at first, or fitted to T_0 ("nnls")
    weighted: bool = False  # what a sparse file does not store, and zeros of a dense one, are missing
    paper_order: bool = False  # clip, then project, as the paper prints it; the objective may then rise
    objective: bool = False  # reveal ||X - W T||_F^2
    alpha: float = 0.0  # penalty on ||T||_1
    beta: float = 0.0  # penalty on ||T||_F^2/2
    gamma: float = 0.0  # penalty on ||W||_1
    delta: float = 0.0  # penalty on ||W||_F^2/2

    def __post_init__(self) -> None:
        settle(self, "[nmf]")


@dataclass(frozen=True)
class Study:
    """A study as read from its file; `digest` is what the parties compare first."""

    parties: tuple[PartyEntry, ...]  # 2 to 30
    rank: int  # k, the number of components or topics
    algorithm: str = DEFAULT  # "svd", "pca", "nmf" or "normed-sum"
    solver: str = None  # type: ignore[assignment]  # None: as suits the other settings, also below
    d: int = 0  # 0: whatever the files have, as long as all agree
    features: tuple[str, ...] = ()  # their names, in the order of V; (): party 0's order
    columns: str = "name"  # which column is which: by its name, or by its position
    iterations: int = None  # type: ignore[assignment]  # at most
    tol: float = None  # type: ignore[assignment]  # when to stop
    memory: float = 1.0  # GB that what a solver keeps of earlier iterations may take
    engine: str = LEVELS[DEFAULT_LEVEL].engine  # what computes the sums
    protocol: str = ""  # of MP-SPDZ; "" for its default, or another engine
    program: str = "projection"  # or "paper": the paper's own (mp-spdz)
    reveal: str = DEFAULT_LEVEL  # what every party sees of the sums: the level
    normalise: str = "fit"  # one secret scale for the fit, or "per-column"
    online: str = "stream"  # all columns of an iteration in one call, or "per-column"
    offline: str = "auto"  # material from a "stock", made "on-demand", or a stock if one fits
    vole: str = "lpn"  # embedded: what its pads may rest on besides OT
    bound: str = "auto"  # how large the sums may be
    start: str = "secsum"  # drawn by all parties together, or by a public "seed"
    seed: int | None = None  # public: it drives nothing that protects a secret
    aggregator: str = "auto"  # the party that adds up, "none", or party 0 with more than five
    insecure_benchmark: bool = False  # accept a timing build of MP-SPDZ. INSECURE
    centre: str = "open"  # pca: around a mean that all see, or that nobody sees, or around zero
    variance: bool = False  # pca: reveal the explained variance
    offsets: tuple[float, ...] = ()  # one for each feature, taken off every row at its party, before everything
    offset_features: tuple[str, ...] = ()  # names of the offsets; (): they are in the order of V
    scales: tuple[float, ...] = ()  # one for each feature: what is left is divided by it
    scale_features: tuple[str, ...] = ()  # names of the scales
    scale: str = "agreed"  # by `scales`, or by what SecSum finds
    accuracy_goal: float = 1e-6  # reveal sealed: of the sine of V's error; V is opened no finer
    decay: float = 0.6  # of lambda_(b+1) / lambda_k: what the number of iterations is meant for
    block: int = 0  # b, the columns that are iterated; 0: twice the rank
    ratios: str = "open"  # of b Ritz values, or "hidden": eigenvectors are found under sharing, at more cost
    rows: RowSettings = field(default_factory=RowSettings)  # what is made of columns and missing values
    nmf: NmfSettings = field(default_factory=NmfSettings)  # of a non-negative factorisation
    precision: PrecisionSettings = field(default_factory=PrecisionSettings)  # of the numbers that are computed with
    timeouts: Timeouts = field(default_factory=Timeouts)  # how long the others are waited for

    def __post_init__(self) -> None:
        settle(self, "the study")
        want(2 <= self.M <= MAX_PARTIES, f"the study has {self.M} parties.", f"2 to {MAX_PARTIES} parties")
        validate(self, REGISTERED | CHOICES)

    def __getstate__(self) -> dict[str, Any]:
        """What the study says; the rest follows from it."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def usual(self, name: str) -> Any:
        """What a setting is for those who do not say."""
        if name == "solver":
            return usual_solver(common_scale=name not in self.spec.idle and self.opening.common_scale)
        if name in UNSAID:
            return getattr(self.solver_spec, name)
        return usual_value(Study.__dataclass_fields__[name])

    @cached_property
    def M(self) -> int:  # noqa: N802
        return len(self.parties)

    @cached_property
    def spec(self) -> Algorithm:
        """What there is to know of the study's algorithm."""
        return ALGORITHMS[self.algorithm]

    @cached_property
    def level(self) -> Level:
        """Of reveal."""
        return LEVELS[self.reveal]

    @cached_property
    def opening(self) -> Opening:
        """How sums become columns that all parties see."""
        return OPENINGS[self.level.opening(self)]

    @cached_property
    def on_shares(self) -> bool:
        """Whether programs run on secret shares."""
        return bool(self.opening.template)

    @cached_property
    def quotas(self) -> list[float] | None:
        """B_m by party, or None if the bound is to come from the data."""
        value = parse_bound(self.bound)
        if value is None and not self.parties[0].quota:
            return None
        return [party.quota or float(value or 0.0) for party in self.parties]

    @cached_property
    def engine_spec(self) -> EngineSpec:
        return ENGINES[self.engine]

    @cached_property
    def solver_spec(self) -> Solver:
        return SOLVERS[self.solver]

    @cached_property
    def bound_kind(self) -> str:
        """Where the bound comes from: "agreed", "window", "exponent" or "secsum"."""
        return kind_of(self)

    @cached_property
    def range(self) -> int:
        """Sums may be as small as 2^-range of the bound."""
        return self.precision.range or (WIDE_RANGE if self.bound_kind == "window" else USUAL_RANGE)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all settings, as reports have it: two parties with the same one have the same study."""
        return _digest(asdict(self))

    @cached_property
    def problem_digest(self) -> str:
        """Of what determines V_t: a resumed run may have other hosts, time-outs, or more iterations, nothing else."""
        free = {"parties", "timeouts", "iterations", "tol", "memory", "aggregator", "offline", "vole"}
        problem = {k: v for k, v in asdict(self).items() if k not in free}
        return _digest(problem | {"M": self.M, "quotas": [p.quota for p in self.parties]})


def choose_engine(engine: str | None, reveal: str | None, algorithm: str = DEFAULT) -> tuple[str, str]:
    """(engine, reveal) when the user names one of them, both or none: private in the paper's sense by default."""
    sums = ALGORITHMS[algorithm].needs == SUMS
    levels = [name for name in LEVELS.lines if LEVELS[name].shows_sums or not sums]  # our own: they go first
    if reveal is None:
        known = ENGINES[engine].levels if engine is not None and engine in ENGINES else levels
        reveal = next((name for name in known if LEVELS[name].shows_sums or not sums), levels[0])
    return engine or (LEVELS[reveal].engine if reveal in LEVELS else LEVELS[levels[0]].engine), reveal


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
