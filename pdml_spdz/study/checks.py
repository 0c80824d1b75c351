"""What a study may say: of each number by itself, of settings that go together, of the rows before they are
factorised, and of how large numbers are: a bound, where it comes from, and how far below it sums may lie.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING

from pdml_spdz.errors import LONGEST_NAME, StudyError, did_you_mean
from pdml_spdz.programs.precision import COLUMN_BITS, MAX_BITS, MAX_RANGE, MIN_BITS, MIN_RANGE
from pdml_spdz.rows.names import quoted
from pdml_spdz.rows.reading import MEAN, REFUSE
from pdml_spdz.study.algorithm import having
from pdml_spdz.study.engines import engines_that
from pdml_spdz.study.fields import UNSAID, check_choice, shown, want
from pdml_spdz.study.sealed_checks import check_sealed

if TYPE_CHECKING:
    from pdml_spdz.engines.spec import EngineSpec
    from pdml_spdz.study.model import PartyEntry, Study

CENTRES = ("open", "hidden", "none")
SCALES = ("agreed", "secsum")
MAX_ITERATIONS = 10**6  # at a millisecond each, a quarter of an hour of nothing but rounds
MAX_RANK = 10**6
MIN_MEMORY = 1e-3  # GB
MAX_COLUMNS = 1 << COLUMN_BITS  # on secret shares: what the number format has room for
MAX_FEATURES = 10**9  # 8 GB for each vector
MAX_SEED = 2**63 - 1  # TOML's largest integer
MAX_SECONDS = 10**6  # the operating system counts milliseconds in 32 bits
# Bounds and quotas, and what they are divided by: products of two of their roots, and the smallest sum that a range
# allows for, are neither infinite nor denormal.
SMALLEST, LARGEST = 2.0**-900, 2.0**900
SMALLEST_SCALE = 1e-120  # rows over it have squares, of which the largest over the smallest is finite
LAST_PORT = 65535
FINGERPRINT = re.compile(r"[0-9a-f]{64}")
OWN = ("centre", "variance", "nmf")  # settings that only some algorithms have
ENGINE_SETTINGS = ("protocol", "insecure_benchmark")  # which not every engine takes


def validate(study: Study, choices: Mapping[str, Collection[str]]) -> None:
    """Everything that can be seen to be wrong before there is any data; what is not said becomes what is usual.

    choices : of settings that are one of some words
    """
    spec = study.engine_spec  # StudyError if there is none of that name
    for name, words in choices.items():
        if getattr(study, name) is not None:
            check_choice(name, getattr(study, name), words)
    for name in UNSAID:
        if getattr(study, name) is None:
            object.__setattr__(study, name, study.usual(name))
    _check_values(study)
    check_sealed(study)
    _check_engine(study, spec)
    _check_rows(study)
    _check_missing(study)
    _check_own(study)
    study.spec.check(study, want)
    _check_numbers(study)
    _check_parties(study)
    _check_bound(study)


def _check_engine(study: Study, spec: EngineSpec) -> None:
    opening = study.opening
    want(
        study.online == "stream" or study.normalise == "per-column" or not study.on_shares,
        "`online` is per-column and `normalise` is fit.",
        'normalise = "per-column" with it: one scale for a fit is one stream of columns',
    )
    for name, usual in (("online", "stream"), ("normalise", "fit"), ("program", "projection")):
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
        settings = ("reveal", "normalise", "program", "centre", *(["ratios"] if study.level.sealed else []))
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


def _check_missing(study: Study) -> None:
    setting = study.rows.missing
    want(
        not study.spec.vector or setting == REFUSE,
        f"`rows.missing` is {setting!r} for {study.algorithm}.",
        f"{REFUSE!r}: a vector has no other rows to go by",
    )
    want(
        setting != MEAN or study.centre != "hidden",
        f"`rows.missing` is {MEAN!r} and `centre` is hidden.",
        "another of the two: the mean that is filled in is seen by every party",
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


def _check_values(study: Study) -> None:
    """Every number by itself."""
    more = study.solver_spec.columns(1, MAX_FEATURES) - 1  # columns that are opened beside those asked for
    _within("rank", study.rank, 1, MAX_COLUMNS - more if study.on_shares else MAX_RANK)
    want(MIN_MEMORY <= study.memory <= LARGEST, f"`memory` is {study.memory}.", f"GB, at least {MIN_MEMORY}")
    _within("iterations", study.iterations, 1, MAX_ITERATIONS)
    _within("nmf.init_iterations", study.nmf.init_iterations, 1, MAX_ITERATIONS)
    _within("precision.bits", study.precision.bits, MIN_BITS, MAX_BITS)
    if study.precision.range:
        _within("precision.range", study.precision.range, MIN_RANGE, MAX_RANGE)
    want(0 <= study.tol < 1, f"`tol` is {study.tol}.", "zero or more, and below 1: no sine is above it")
    d = f"the number of features, at most {MAX_FEATURES:,}, or 0 to take it from the files"
    want(0 <= study.d <= MAX_FEATURES, f"`d` is {shown(study.d)}.", d)
    seed = study.seed is None or 0 <= study.seed <= MAX_SEED
    want(seed, f"`seed` is {shown(study.seed)}.", "zero or a positive number below 2^63")
    for name in ("connect", "round", "work"):
        seconds, most = getattr(study.timeouts, name), f"a positive number of seconds, at most {MAX_SECONDS:,}"
        want(0 < seconds <= MAX_SECONDS, f"`timeouts.{name}` is {seconds}.", most)
    rate = study.timeouts.least_rate
    want(1 <= rate <= LARGEST, f"`timeouts.least_rate` is {rate}.", "a number of bytes a second, at least 1")
    for name in ("alpha", "beta", "gamma", "delta"):
        value = getattr(study.nmf, name)
        want(0 <= value <= LARGEST, f"`nmf.{name}` is {value}.", f"zero or a positive number, at most {LARGEST:.0e}")
    for i, party in enumerate(study.parties):
        _check_party(i, party)


def _within(name: str, value: int, low: int, high: int) -> None:
    want(low <= value <= high, f"`{name}` is {shown(value)}.", f"{low} to {high}")


def _check_party(i: int, party: PartyEntry) -> None:
    for port in (party.port, party.mp_spdz_port):
        want(0 <= port <= LAST_PORT, f"P{i}'s port is {shown(port)}.", "a port from 0 to 65535")
    want(
        party.quota == 0 or usable(party.quota),
        f"P{i}'s quota is {party.quota}.",
        f"a number from {SMALLEST:.0e} to {LARGEST:.0e}, or 0 for none",
    )
    want(
        len(party.name) <= LONGEST_NAME and party.name.isprintable(),
        f"P{i}'s name is {shown(party.name)}.",
        f"at most {LONGEST_NAME} printable characters",
    )
    want(is_host(party.host), f"P{i}'s host is {shown(party.host)}.", "a host's name or address")
    want(
        not party.fingerprint or FINGERPRINT.fullmatch(party.fingerprint) is not None,
        f"P{i}'s fingerprint is {shown(party.fingerprint)}.",
        "64 hexadecimal digits, as `pdml-spdz certs show --json` prints them",
    )


def usable(bound: float) -> bool:
    """Whether a number may be a bound: not so large or so small that arithmetic with it fails."""
    return SMALLEST <= bound <= LARGEST


def is_host(host: str) -> bool:
    try:
        host.encode("idna")  # what the system's resolver is asked for
    except UnicodeError:
        return False
    return bool(host) and all(c.isprintable() and not c.isspace() for c in host)


def _check_rows(study: Study) -> None:
    want(study.scale == "agreed" or not study.scales, "`scale` is secsum and `scales` are given.", "one of the two")
    d = study.d or len(study.features)
    for name in ("offsets", "scales"):
        values = getattr(study, name)
        want(all(abs(v) <= LARGEST for v in values), f"`{name}` are not all finite and of a size to use.", "numbers")
        want(not (d and values) or len(values) == d, f"`{name}` are {len(values)} for d = {d}.", "one for each feature")
    want(
        all(SMALLEST_SCALE <= v <= 1.0 / SMALLEST_SCALE for v in study.scales),
        "`scales` are not all positive and of a size to use.",
        f"positive numbers between {SMALLEST_SCALE:g} and {1.0 / SMALLEST_SCALE:g}, of which float64 has squares",
    )
    _check_names(study)


def _check_names(study: Study) -> None:
    """Names that the study lists are names, and those of offsets and scales are the same."""
    for name, values in (("offset_features", study.offsets), ("scale_features", study.scales)):
        listed = getattr(study, name)
        want(
            not listed or len(listed) == len(values),
            f"`{name}` has {len(listed)} names for {len(values)} numbers.",
            "as many",
        )
        differ = sorted(set(listed) ^ set(study.features)) if listed and study.features else []
        want(not differ, f"`{name}` and `features` differ in {quoted(differ)}.", "the same names, in any order")
    for name in ("features", "offset_features", "scale_features"):
        listed = getattr(study, name)
        want(len(set(listed)) == len(listed), f"`{name}` has a name twice.", "distinct names")
        want(all(n.strip() for n in listed), f"`{name}` has a name that is empty.", "a name for each feature")


BOUNDS = ("auto", "window", "exponent", "secsum")  # or a number, or rows:R,N
WIDE_RANGE, USUAL_RANGE = 96, 40  # bits: of the window, which suits all ordinary data, and below a bound that is known
EXPONENT_RANGE = 30  # at least: a blurred exponent may be 16 too large, and a sum is smaller than the bound by itself


def kind_of(study: Study) -> str:
    """Where the bound comes from: "agreed", "window", "exponent" or "secsum"."""
    if study.quotas is not None:
        return "agreed"
    if study.bound != "auto":
        return study.bound
    if study.opening.shows_norms:
        return "secsum"
    return "window" if study.engine_spec.has_window and not study.level.sealed else "exponent"


def _check_bound(study: Study) -> None:
    some = [p.quota > 0 for p in study.parties]
    want(
        parse_bound(study.bound) is not None or all(some) or not any(some),
        f"some parties have a quota, others have none, and `bound` is {study.bound}.",
        "a quota for every party, or a `bound` that holds for the others",
    )
    spec = study.engine_spec
    if study.bound_kind == "window" and not (spec.has_window and study.on_shares):
        wide = engines_that(lambda e: e.has_window)
        narrow = engines_that(lambda e: e.shares and not e.has_window)
        raise StudyError(
            f"`bound` is window with engine {study.engine!r} and reveal {study.reveal!r}.",
            f"the engine {wide} with it; exponent with {narrow}; secsum with reveal sum, which shows the norms anyway",
        )
    want(
        study.bound_kind != "exponent" or study.range >= EXPONENT_RANGE,
        f"`precision.range` is {study.range} and `bound` is {study.bound}, which a blurred exponent finds.",
        f"at least {EXPONENT_RANGE}, or a bound that the parties agree on",
    )
    most = spec.largest_range
    want(study.range <= most, f"`precision.range` is {study.range} with engine {study.engine!r}.", f"at most {most}")


def parse_bound(bound: str) -> float | None:
    """The quota that `bound` gives to every party: B_m itself, or N R^2 for "rows:R,N"; None if it gives none."""
    if bound in BOUNDS:
        return None
    text = bound.removeprefix("rows:")
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    wanted = 2 if bound.startswith("rows:") else 1
    value = math.prod((*numbers[: wanted - 1], *numbers))  # never an OverflowError, as a power is
    if len(numbers) != wanted or not all(0 < x < math.inf for x in numbers) or not usable(value):
        raise StudyError(
            f"`bound` is {shown(bound)}.",
            "a number (the largest ||X_m^T X_m||_F of any party), rows:R,N (no row longer than R, no party with "
            f"more than N rows), or one of {', '.join(BOUNDS)}; numbers and N R^2 from {SMALLEST:.0e} to {LARGEST:.0e}",
            did_you_mean(bound, BOUNDS),
        )
    return value
