"""The study: everything the parties must agree on before any of them starts. One TOML file, the same at every party."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from pdml_spdz.errors import StudyError
from pdml_spdz.programs.sealed_precision import MOST_COLUMNS, MOST_FEATURES
from pdml_spdz.study.algorithm import ALGORITHMS, DEFAULT, SUMS, Algorithm, having
from pdml_spdz.study.checks import (
    CENTRES,
    SCALES,
    UNSAID,
    USUAL_RANGE,
    WIDE_RANGE,
    check_bound,
    check_choice,
    check_rows,
    check_values,
    kind_of,
    parse_bound,
    settle,
    shown,
    usual_value,
)
from pdml_spdz.study.engines import ENGINES, engines_that
from pdml_spdz.study.levels import DEFAULT_LEVEL, LEVELS, OPENINGS, Level
from pdml_spdz.study.solvers import SOLVERS, usual_solver

if TYPE_CHECKING:
    from pdml_spdz.algorithms.solver import Solver
    from pdml_spdz.engines.openings.base import Opening
    from pdml_spdz.engines.spec import EngineSpec

NORMALISE = ("fit", "per-column")
ONLINE = ("stream", "per-column")
OFFLINE = ("auto", "stock", "on-demand")
VOLE = ("lpn", "ot")
COLUMNS = ("name", "position")
PROGRAMS = ("projection", "paper")
STARTS = ("secsum", "seed")
INITS = ("pd", "random", "nnsvd", "best_of_M")
W_STARTS = ("zero", "nnls")
OF_SEALED = ("accuracy_goal", "decay", "block")  # settings of reveal sealed
OWN = ("centre", "variance", "nmf")  # settings that only some algorithms have
ENGINE_SETTINGS = ("protocol", "insecure_benchmark")  # which not every engine takes
MAX_PARTIES = 30


@dataclass(frozen=True)
class PartyEntry:
    """One party: where it listens, which certificate it shows, how large its share of the bound is."""

    host: str = "127.0.0.1"
    port: int = 0
    fingerprint: str = ""
    quota: float = 0.0  # ||X_m^T X_m||_F at most; 0: the study's `bound` says it
    mp_spdz_port: int = 0  # where MP-SPDZ listens; 0: any free port

    def __post_init__(self) -> None:
        settle(self, "[[parties]]")
        object.__setattr__(self, "fingerprint", self.fingerprint.replace(":", "").lower())  # one way to write it


@dataclass(frozen=True)
class Timeouts:
    """Seconds. connect: until all have met; round: without a sign of life, and for a message beyond what its bytes take
    at `least_rate`, in bytes a second; work: for a party that says that it is still working."""

    connect: float = 60.0
    round: float = 300.0
    work: float = 3600.0
    least_rate: float = 64_000.0

    def __post_init__(self) -> None:
        settle(self, "[timeouts]")


@dataclass(frozen=True)
class PrecisionSettings:
    """bits : fraction bits of what is opened; range : sums may be 2^-range of the bound (`pdml-spdz precision`).

    A range of 0: 96 for the window, 40 below a bound that is agreed or found.
    """

    bits: int = 31
    range: int = 0

    def __post_init__(self) -> None:
        settle(self, "[precision]")


@dataclass(frozen=True)
class NmfSettings:
    """init : "pd" (PD-NMF-Init), "random", "nnsvd" (by PD-SVD) or "best_of_M" (NOT private);
    w_start : W is zero at first, or fitted to T_0;
    weighted : entries that a sparse file does not store are missing, not zero; objective : reveal ||X - W T||_F^2;
    alpha .. delta : penalties on ||T||_1, ||T||_F^2/2, ||W||_1, ||W||_F^2/2
    """

    init: str = "pd"
    init_iterations: int = 20
    w_start: str = "zero"
    weighted: bool = False
    paper_order: bool = False
    objective: bool = False
    alpha: float = 0.0
    beta: float = 0.0
    gamma: float = 0.0
    delta: float = 0.0

    def __post_init__(self) -> None:
        settle(self, "[nmf]")


@dataclass(frozen=True)
class Study:
    """A study as read from its file; `digest` is what the parties compare first."""

    parties: tuple[PartyEntry, ...]
    rank: int
    algorithm: str = DEFAULT
    solver: str = None  # type: ignore[assignment]  # None: as suits the other settings, also below
    d: int = 0  # 0: whatever the files have, as long as all agree
    features: tuple[str, ...] = ()  # their names, in the order of V; (): party 0's order
    columns: str = "name"  # which column is which: by its name, or by its position
    iterations: int = None  # type: ignore[assignment]
    tol: float = None  # type: ignore[assignment]
    memory: float = 1.0  # GB that what a solver keeps of earlier iterations may take
    engine: str = LEVELS[DEFAULT_LEVEL].engine
    protocol: str = ""  # of MP-SPDZ; "" for its default, or another engine
    program: str = "projection"
    reveal: str = DEFAULT_LEVEL
    normalise: str = "fit"
    online: str = "stream"
    offline: str = "auto"
    vole: str = "lpn"  # embedded: what its pads may rest on besides OT
    bound: str = "auto"
    start: str = "secsum"
    seed: int | None = None
    aggregator: str = "auto"
    insecure_benchmark: bool = False
    centre: str = "open"  # pca: around a mean that all see, or that nobody sees, or around zero
    variance: bool = False  # pca: reveal the explained variance
    offsets: tuple[float, ...] = ()  # one for each feature, taken off every row at its party, before everything
    offset_features: tuple[str, ...] = ()  # names of the offsets; (): they are in the order of V
    scales: tuple[float, ...] = ()  # one for each feature: what is left is divided by it
    scale_features: tuple[str, ...] = ()
    scale: str = "agreed"  # by `scales`, or by what SecSum finds
    accuracy_goal: float = 1e-6  # reveal sealed: of the sine of V's error; V is opened no finer
    decay: float = 0.6  # of lambda_(b+1) / lambda_k: what the number of iterations is meant for
    block: int = 0  # b, the columns that are iterated; 0: twice the rank
    nmf: NmfSettings = field(default_factory=NmfSettings)
    precision: PrecisionSettings = field(default_factory=PrecisionSettings)
    timeouts: Timeouts = field(default_factory=Timeouts)

    def __post_init__(self) -> None:
        settle(self, "the study")
        _validate(self)

    def usual(self, name: str) -> Any:
        """What a setting is for those who do not say."""
        if name == "solver":
            return usual_solver(common_scale=name not in self.spec.idle and self.opening.common_scale)
        if name in UNSAID:
            return getattr(self.solver_spec, name)
        return usual_value(Study.__dataclass_fields__[name])

    @property
    def M(self) -> int:  # noqa: N802
        return len(self.parties)

    @property
    def spec(self) -> Algorithm:
        """What there is to know of the study's algorithm."""
        return ALGORITHMS[self.algorithm]

    @property
    def level(self) -> Level:
        """Of reveal."""
        return LEVELS[self.reveal]

    @property
    def opening(self) -> Opening:
        """How sums become columns that all parties see."""
        return OPENINGS[self.level.opening(self)]

    @property
    def on_shares(self) -> bool:
        """Whether programs run on secret shares."""
        return bool(self.opening.template)

    @property
    def quotas(self) -> list[float] | None:
        """B_m by party, or None if the bound is to come from the data."""
        value = parse_bound(self.bound)
        if value is None and not self.parties[0].quota:
            return None
        return [party.quota or float(value or 0.0) for party in self.parties]

    @property
    def engine_spec(self) -> EngineSpec:
        return ENGINES[self.engine]

    @property
    def solver_spec(self) -> Solver:
        return SOLVERS[self.solver]

    @property
    def bound_kind(self) -> str:
        """Where the bound comes from: "agreed", "window", "exponent" or "secsum"."""
        return kind_of(self)

    @property
    def range(self) -> int:
        """Sums may be as small as 2^-range of the bound."""
        return self.precision.range or (WIDE_RANGE if self.bound_kind == "window" else USUAL_RANGE)

    @property
    def digest(self) -> str:
        return _digest(asdict(self))

    @property
    def problem_digest(self) -> str:
        """Of what determines V_t: a resumed run may have other hosts, time-outs, or more iterations, nothing else."""
        free = {"parties", "timeouts", "iterations", "tol", "memory", "aggregator", "offline", "vole"}
        problem = {k: v for k, v in asdict(self).items() if k not in free}
        return _digest(problem | {"M": self.M, "quotas": [p.quota for p in self.parties]})


def choose_engine(engine: str | None, reveal: str | None, algorithm: str = DEFAULT) -> tuple[str, str]:
    """(engine, reveal) when the user names one of them, both or none: private in the paper's sense by default."""
    sums = ALGORITHMS[algorithm].needs == SUMS
    levels = [name for name in LEVELS.names() if LEVELS[name].shows_sums or not sums]
    if reveal is None:
        known = ENGINES[engine].levels if engine is not None and engine in ENGINES else levels
        reveal = next((name for name in known if name in levels), levels[0])
    return engine or (LEVELS[reveal].engine if reveal in LEVELS else LEVELS[levels[0]].engine), reveal


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def want(ok: bool, found: str, wanted: str) -> None:
    if not ok:
        raise StudyError(found, wanted)


def _validate(study: Study) -> None:
    """Everything that can be seen to be wrong before there is any data."""
    want(2 <= study.M <= MAX_PARTIES, f"the study has {study.M} parties.", f"2 to {MAX_PARTIES} parties")
    spec = study.engine_spec  # StudyError if there is none of that name
    _check_choices(study)
    for name in UNSAID:
        if getattr(study, name) is None:
            object.__setattr__(study, name, study.usual(name))
    check_values(study, want)
    _check_sealed(study)
    _check_engine(study, spec)
    check_rows(study, want)
    _check_own(study)
    study.spec.check(study, want)
    _check_numbers(study)
    _check_parties(study)
    check_bound(study, want)


def _check_choices(study: Study) -> None:
    choices: Iterable[str]
    for name, choices in (
        ("algorithm", ALGORITHMS.names()),
        ("solver", SOLVERS.names()),
        ("reveal", LEVELS.names()),
        ("normalise", NORMALISE),
        ("online", ONLINE),
        ("offline", OFFLINE),
        ("vole", VOLE),
        ("columns", COLUMNS),
        ("program", PROGRAMS),
        ("start", STARTS),
        ("centre", CENTRES),
        ("scale", SCALES),
    ):
        if getattr(study, name) is not None:
            check_choice(name, getattr(study, name), choices)


def _check_engine(study: Study, spec: EngineSpec) -> None:
    opening = study.opening
    want(
        study.online == "stream" or study.normalise == "per-column" or not study.on_shares,
        "`online` is per-column and `normalise` is fit.",
        'normalise = "per-column" with it: one scale for a fit is one stream of columns',
    )
    for name, usual in (("normalise", "fit"), ("online", "stream"), ("program", "projection")):
        want(
            study.on_shares or getattr(study, name) == usual,
            f"`{name}` is {getattr(study, name)!r} with reveal = {study.reveal!r}.",
            f"{usual!r}: sums that all parties see are not normalised",
        )
    want(
        study.program == "projection" or study.normalise == "per-column" or study.spec.vector,
        f"`program` is {study.program!r} with normalise = {study.normalise!r}.",
        'normalise = "per-column": the paper\'s program normalises each column by itself',
    )
    if opening.name not in spec.openings:
        settings = ("reveal", "normalise", "program", "centre")
        others = engines_that(lambda e: opening.name in e.openings)
        raise StudyError(
            f"`engine` is {study.engine!r}, which has no opening {opening.name!r}: "
            f"{', '.join(f'{name} {getattr(study, name)!r}' for name in settings)}.",
            f"the engine {others} for it; of {study.engine}: {', '.join(spec.openings)}",
        )
    want(
        opening.common_scale or not study.solver_spec.common_scale,
        f"`solver` is {study.solver!r}, and each column is normalised by itself ({opening.name}).",
        "another solver, or normalise fit and program projection: it needs one scale for all columns of a fit",
    )
    if study.offline == "stock" and not (spec.offline and study.on_shares):
        others = engines_that(lambda e: e.offline is not None)
        found = f"`offline` is stock with engine {study.engine!r} and reveal {study.reveal!r}."
        raise StudyError(found, f"the engine {others}, on secret shares: sums have no offline phase")
    others_own = {name: getattr(study, name) for name in ENGINE_SETTINGS if name not in spec.settings}
    if any(others_own.values()):
        engines = engines_that(lambda e: set(others_own) <= set(e.settings))
        values = " and ".join(f"`{name}` is {value!r}" for name, value in others_own.items())
        raise StudyError(f"{values} with engine {study.engine!r}.", f"the engine {engines} with them")
    spec.check(study, want)


def _check_sealed(study: Study) -> None:
    if not study.level.sealed:
        for name in OF_SEALED:
            value = getattr(study, name)
            sealed = " or ".join(level for level in LEVELS.names() if LEVELS[level].sealed)
            want(
                value == study.usual(name),
                f"`{name}` is {value} with reveal {study.reveal!r}.",
                f"reveal {sealed} with it",
            )
        return
    found = f"`reveal` is {study.reveal!r}"
    want(study.spec.needs != SUMS and not study.spec.vector, f"{found} for {study.algorithm}.", "svd or pca")
    for name in ("normalise", "online", "program"):
        value, usual = getattr(study, name), study.usual(name)
        want(value == usual, f"{found} and `{name}` is {value!r}.", f"{usual!r}: nothing is opened on the way")
    want(not study.variance, f"{found} and `variance` is true.", "no variance: with V it shows the scale of the rows")
    want(
        study.bound_kind in ("agreed", "exponent"),
        f"{found} and `bound` is {study.bound!r}.",
        "auto or exponent, or a bound that the parties agree on: numbers have room for 2^28 below it",
    )
    want(2.0**-24 <= study.accuracy_goal <= 0.05, f"`accuracy_goal` is {study.accuracy_goal}.", "from 6e-8 to 0.05")
    want(0.01 <= study.decay <= 0.99, f"`decay` is {study.decay}.", "from 0.01 to 0.99")
    most = MOST_COLUMNS
    want(
        study.block == 0 or study.rank < study.block <= most,
        f"`block` is {study.block} and `rank` is {study.rank}.",
        f"more than the rank, at most {most}, or 0 for twice the rank",
    )
    want(study.rank < most, f"`rank` is {study.rank} with reveal {study.reveal!r}.", f"at most {most - 1}")
    if d := study.d or len(study.features):
        check_sealed_size(d, study.rank)


def check_sealed_size(d: int, rank: int) -> None:
    """d beyond what is practical is refused, not tried."""
    want(
        d <= MOST_FEATURES,
        f"d is {d} with a sealed fit; a party would send some {8e-6 * d * d:,.0f} GB.",
        f"at most {MOST_FEATURES} features",
    )
    want(
        d > rank,
        f"`rank` is {rank} and d is {d}.",
        "a rank below d: the gate of a sealed fit looks at the gap beyond V",
    )


def _check_own(study: Study) -> None:
    """Settings of another algorithm are as they usually are."""
    for f in fields(study):
        value = getattr(study, f.name)
        if f.name not in OWN or f.name in study.spec.own or value == study.usual(f.name):
            continue
        found = f"settings of [{f.name}] are given" if is_dataclass(value) else f"`{f.name}` is {value!r}"
        raise StudyError(f"{found} for {study.algorithm}.", f"the algorithm {having(f.name)} with that")


def _check_numbers(study: Study) -> None:
    want(not study.d or study.rank <= study.d, f"`rank` is {study.rank} and `d` is {study.d}.", "a rank of at most d")
    want(
        not (study.d and study.features) or len(study.features) == study.d,
        f"`d` is {study.d} and `features` has {len(study.features)} names.",
        "as many names as d, or only one of the two",
    )
    want(
        (study.start == "seed") == (study.seed is not None), "`start` and `seed` disagree.", 'start = "seed" and a seed'
    )


def _check_parties(study: Study) -> None:
    for name in ("port", "mp_spdz_port"):
        taken = [(p.host, getattr(p, name)) for p in study.parties if getattr(p, name)]
        want(len(set(taken)) == len(taken), f"two parties have the same host and {name}.", "an address for each party")
    named = study.aggregator in ("auto", "none", *map(str, range(study.M)))
    want(named, f"`aggregator` is {shown(study.aggregator)}.", "auto, none, or a party's number")
