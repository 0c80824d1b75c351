"""The study: everything the parties must agree on before any of them starts. One TOML file, the same at every party."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from pdml_spdz.errors import StudyError
from pdml_spdz.study_rows import CENTRES, SCALES, check_rows

ALGORITHMS = ("svd", "pca", "nmf", "normed-sum")
ENGINES = {"embedded": "normed", "mp-spdz": "normed", "secsum": "sum", "plain": "sum"}  # and what each of them reveals
REVEALS = ("normed", "sum")
NORMALISE = ("fit", "per-column")
ONLINE = ("stream", "per-column")
OFFLINE = ("auto", "stock", "on-demand")
VOLE = ("lpn", "ot")
COLUMNS = ("name", "position")
PROGRAMS = ("projection", "paper")
STARTS = ("secsum", "seed")
INITS = ("pd", "random", "nnsvd", "best_of_M")
W_STARTS = ("zero", "nnls")
MAX_PARTIES = 30


@dataclass(frozen=True)
class PartyEntry:
    """One party: where it listens, which certificate it shows, how large its share of the bound is."""

    host: str = "127.0.0.1"
    port: int = 0
    fingerprint: str = ""
    quota: float = 0.0  # ||X_m^T X_m||_F at most; 0: the study's `bound` says it
    mp_spdz_port: int = 0  # where MP-SPDZ listens; 0: any free port


@dataclass(frozen=True)
class Timeouts:
    """Seconds. connect: until all parties have met; round: without a byte from a party we wait for."""

    connect: float = 60.0
    round: float = 300.0


@dataclass(frozen=True)
class PrecisionSettings:
    """bits : fraction bits of what is opened; range : sums may be 2^-range of the bound (`pdml-spdz precision`)."""

    bits: int = 31
    range: int = 40


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


@dataclass(frozen=True)
class Study:
    """A study as read from its file; `digest` is what the parties compare first."""

    parties: tuple[PartyEntry, ...]
    rank: int
    algorithm: str = "svd"
    d: int = 0  # 0: whatever the files have, as long as all agree
    features: tuple[str, ...] = ()  # their names, in the order of V; (): party 0's order
    columns: str = "name"  # which column is which: by its name, or by its position
    iterations: int = 300
    tol: float = 1e-9
    engine: str = "embedded"
    protocol: str = ""  # of MP-SPDZ; "" for its default, or another engine
    program: str = "projection"
    reveal: str = "normed"
    normalise: str = "fit"
    online: str = "stream"
    offline: str = "auto"
    vole: str = "lpn"  # embedded: what its pads may rest on besides OT
    bound: str = "secsum"
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
    nmf: NmfSettings = field(default_factory=NmfSettings)
    precision: PrecisionSettings = field(default_factory=PrecisionSettings)
    timeouts: Timeouts = field(default_factory=Timeouts)

    def __post_init__(self) -> None:
        _validate(self)

    @property
    def M(self) -> int:  # noqa: N802
        return len(self.parties)

    @property
    def quotas(self) -> list[float] | None:
        """B_m by party, or None if the bound is to come from the data."""
        value = parse_bound(self.bound)
        if value is None and not self.parties[0].quota:
            return None
        return [party.quota or float(value or 0.0) for party in self.parties]

    @property
    def digest(self) -> str:
        return _digest(asdict(self))

    @property
    def problem_digest(self) -> str:
        """Of what determines V_t: a resumed run may have other hosts, time-outs, or more iterations, nothing else."""
        free = {"parties", "timeouts", "iterations", "tol", "aggregator", "offline", "vole"}
        problem = {k: v for k, v in asdict(self).items() if k not in free}
        return _digest(problem | {"M": self.M, "quotas": [p.quota for p in self.parties]})


def choose_engine(engine: str | None, reveal: str | None, algorithm: str = "svd") -> tuple[str, str]:
    """(engine, reveal) when the user names one of them, both or none: private in the paper's sense by default."""
    if engine is None:
        engine = "secsum" if reveal == "sum" or algorithm == "nmf" else "embedded"
    return engine, reveal or ENGINES.get(engine, "normed")


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def want(ok: bool, found: str, wanted: str) -> None:
    if not ok:
        raise StudyError(found, wanted)


def _validate(study: Study) -> None:
    """Everything that can be seen to be wrong before there is any data."""
    _check_choices(study)
    shares = ENGINES[study.engine] == "normed"
    _check_engine(study, shares=shares)
    check_rows(study, want, shares=shares)
    _check_nmf(study.nmf)
    _check_numbers(study)
    _check_parties(study)


def _check_choices(study: Study) -> None:
    choices: Iterable[str]
    for name, choices in (
        ("algorithm", ALGORITHMS),
        ("engine", ENGINES),
        ("reveal", REVEALS),
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
        value = getattr(study, name)
        want(value in choices, f"`{name}` is {value!r}.", f"one of {', '.join(choices)}")
    want(
        ENGINES[study.engine] == study.reveal,
        f"`engine` is {study.engine!r} and `reveal` is {study.reveal!r}.",
        "embedded or mp-spdz with normed, secsum or plain with sum",
    )


def _check_engine(study: Study, *, shares: bool) -> None:
    """shares : the engine computes on secret shares"""
    want(
        study.online == "stream" or study.normalise == "per-column" or not shares,
        "`online` is per-column and `normalise` is fit.",
        'normalise = "per-column" with it: one scale for a fit is one stream of columns',
    )
    for name, usual in (("normalise", "fit"), ("online", "stream")):
        want(
            shares or getattr(study, name) == usual,
            f"`{name}` is {getattr(study, name)!r} with engine {study.engine!r}.",
            f"{usual!r}: that engine does not normalise",
        )
    want(
        shares or study.offline != "stock",
        f"`offline` is stock with engine {study.engine!r}.",
        "the engine embedded or mp-spdz: this one has no offline phase",
    )
    want(
        study.engine == "mp-spdz" or not (study.protocol or study.insecure_benchmark),
        f"`protocol` is {study.protocol!r} and `insecure_benchmark` {study.insecure_benchmark} with engine "
        f"{study.engine!r}.",
        "the engine mp-spdz with them",
    )
    want(
        study.program == "projection" or (shares and (study.normalise == "per-column" or study.algorithm != "svd")),
        f"`program` is {study.program!r} with engine {study.engine!r} and normalise = {study.normalise!r}.",
        'normalise = "per-column": the paper\'s program normalises each column by itself',
    )
    want(
        study.algorithm != "nmf" or not shares,
        f"`engine` is {study.engine!r} for nmf.",
        "secsum (or plain): PD-NMF needs sums, not directions",
    )


def _check_nmf(nmf: NmfSettings) -> None:
    for name, choices in (("init", INITS), ("w_start", W_STARTS)):
        value = getattr(nmf, name)
        want(value in choices, f"`nmf.{name}` is {value!r}.", f"one of {', '.join(choices)}")
    for name in ("alpha", "beta", "gamma", "delta"):
        value = getattr(nmf, name)
        want(0 <= value < float("inf"), f"`nmf.{name}` is {value}.", "zero or a positive number")
    want(nmf.init_iterations >= 1, f"`nmf.init_iterations` is {nmf.init_iterations}.", "at least 1")


def _check_numbers(study: Study) -> None:
    want(2 <= study.M <= MAX_PARTIES, f"the study has {study.M} parties.", f"2 to {MAX_PARTIES} parties")
    want(
        study.algorithm != "normed-sum" or not study.bound.startswith("rows:"),
        f"`bound` is {study.bound!r} for a normed-sum.",
        "a number (the largest norm of any party's vector) or secsum",
    )
    want(study.rank >= 1, f"`rank` is {study.rank}.", "at least 1")
    want(study.iterations >= 1, f"`iterations` is {study.iterations}.", "at least 1")
    want(study.tol >= 0, f"`tol` is {study.tol}.", "zero or more")
    want(study.d >= 0, f"`d` is {study.d}.", "the number of features, or 0 to take it from the files")
    want(not study.d or study.rank <= study.d, f"`rank` is {study.rank} and `d` is {study.d}.", "a rank of at most d")
    want(
        not (study.d and study.features) or len(study.features) == study.d,
        f"`d` is {study.d} and `features` has {len(study.features)} names.",
        "as many names as d, or only one of the two",
    )
    want(
        (study.start == "seed") == (study.seed is not None), "`start` and `seed` disagree.", 'start = "seed" and a seed'
    )
    want(study.seed is None or study.seed >= 0, f"`seed` is {study.seed}.", "zero or a positive number")
    for name in ("connect", "round"):
        seconds = getattr(study.timeouts, name)
        want(0 < seconds < float("inf"), f"`timeouts.{name}` is {seconds}.", "a positive number of seconds")


def _check_parties(study: Study) -> None:
    for i, party in enumerate(study.parties):
        for port in (party.port, party.mp_spdz_port):
            want(0 <= port <= 65535, f"P{i}'s port is {port}.", "a port from 0 to 65535")
        want(0 <= party.quota < float("inf"), f"P{i}'s quota is {party.quota}.", "a positive number")
    named = study.aggregator in ("auto", "none") or (study.aggregator.isdigit() and int(study.aggregator) < study.M)
    want(named, f"`aggregator` is {study.aggregator!r}.", "auto, none, or a party's number")
    quota = parse_bound(study.bound)
    some = [p.quota > 0 for p in study.parties]
    want(
        quota is not None or all(some) or not any(some),
        "some parties have a quota, others have none, and `bound` is secsum.",
        "a quota for every party, or a `bound` that holds for the others",
    )


def parse_bound(bound: str) -> float | None:
    """The quota that `bound` gives to every party: B_m itself, or N R^2 for "rows:R,N"; None for "secsum"."""
    if bound == "secsum":
        return None
    text = bound.removeprefix("rows:")
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    wanted = 2 if bound.startswith("rows:") else 1
    if len(numbers) != wanted or not all(0 < x < float("inf") for x in numbers):
        raise StudyError(
            f"`bound` is {bound!r}.",
            "a number (the largest ||X_m^T X_m||_F of any party), rows:R,N (no row longer than R, no party with "
            "more than N rows), or secsum",
        )
    return numbers[0] if wanted == 1 else numbers[1] * numbers[0] ** 2
