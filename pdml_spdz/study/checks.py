"""A study's settings one by one: each of its type and within its limits, whether from a file or from Python; and what
it may say of the rows before they are factorised, and of how large numbers are: a bound, where it comes from, and how
far below it sums may lie.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from dataclasses import MISSING, Field, fields
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np

from pdml_spdz.errors import StudyError, did_you_mean
from pdml_spdz.programs.precision import COLUMN_BITS, MAX_BITS, MAX_RANGE, MIN_BITS, MIN_RANGE
from pdml_spdz.rows.names import quoted
from pdml_spdz.study.algorithm import Want
from pdml_spdz.study.engines import engines_that

if TYPE_CHECKING:
    from pdml_spdz.study.model import PartyEntry, Study

CENTRES = ("open", "hidden", "none")
SCALES = ("agreed", "secsum")
UNSAID = ("solver", "iterations", "tol")  # None: as the other settings make it
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
LAST_PORT = 65535
FINGERPRINT = re.compile(r"[0-9a-f]{64}")


def usual_value(f: Field[Any]) -> Any:
    """What a field is if nobody sets it."""
    return f.default if f.default_factory is MISSING else f.default_factory()


def settle(settings: Any, where: str) -> None:
    """Give every field of a frozen dataclass its own type, so that equal settings have equal digests."""
    for f in fields(settings):
        object.__setattr__(settings, f.name, typed(f.name, str(f.type), getattr(settings, f.name), where))


def typed(name: str, kind: str, value: Any, where: str) -> Any:
    """A value as the field's type: whole numbers do for floats, numbers do for `bound` and `aggregator`."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    if value is None and name in UNSAID:
        return None
    try:
        if kind == "float" and number:
            return float(value)
        if kind == "str" and number and name in ("bound", "aggregator"):
            return str(int(value) if isinstance(value, Integral) else float(value))
        if kind == "str" and isinstance(value, str):
            return _text(value)
        if kind == "bool" and isinstance(value, bool):
            return value
        if kind in ("int", "int | None") and number and isinstance(value, Integral):
            return int(value)
        if kind == "int | None" and value is None:
            return None
        if kind.startswith("tuple[") and isinstance(value, list | tuple | np.ndarray):
            inner = kind.removeprefix("tuple[").removesuffix(", ...]")
            return tuple(typed(name, inner, v, where) for v in value)
    except (OverflowError, ValueError):  # beyond float64, beyond what Python prints, or half a character
        pass
    if type(value).__name__ == kind and kind[0].isupper():  # one of the tables
        return value
    raise StudyError(f"`{name}` in {where} is {shown(value)}.", f"a value of type {kind}")


def _text(value: str) -> str:
    value.encode()  # UnicodeEncodeError, a ValueError, for what no file can hold
    return str(value)


def shown(value: object) -> str:
    """A value in a message, however long."""
    try:
        text = repr(value)
    except ValueError:
        text = "a number with thousands of digits"
    return text if len(text) <= 100 else f"{text[:97]}..."


def check_values(study: Study, want: Want) -> None:
    """Every number by itself. want(ok, found, wanted) raises unless ok"""
    more = study.solver_spec.columns(1, MAX_FEATURES) - 1  # columns that are opened beside those asked for
    _within(want, "rank", study.rank, 1, MAX_COLUMNS - more if study.on_shares else MAX_RANK)
    want(MIN_MEMORY <= study.memory <= LARGEST, f"`memory` is {study.memory}.", f"GB, at least {MIN_MEMORY}")
    _within(want, "iterations", study.iterations, 1, MAX_ITERATIONS)
    _within(want, "nmf.init_iterations", study.nmf.init_iterations, 1, MAX_ITERATIONS)
    _within(want, "precision.bits", study.precision.bits, MIN_BITS, MAX_BITS)
    if study.precision.range:
        _within(want, "precision.range", study.precision.range, MIN_RANGE, MAX_RANGE)
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
        _check_party(i, party, want)


def check_choice(name: str, value: object, choices: Collection[str]) -> None:
    if value not in choices:
        raise StudyError(f"`{name}` is {shown(value)}.", f"one of {', '.join(choices)}", did_you_mean(value, choices))


def _within(want: Want, name: str, value: int, low: int, high: int) -> None:
    want(low <= value <= high, f"`{name}` is {shown(value)}.", f"{low} to {high}")


def _check_party(i: int, party: PartyEntry, want: Want) -> None:
    for port in (party.port, party.mp_spdz_port):
        want(0 <= port <= LAST_PORT, f"P{i}'s port is {shown(port)}.", "a port from 0 to 65535")
    want(
        party.quota == 0 or usable(party.quota),
        f"P{i}'s quota is {party.quota}.",
        f"a number from {SMALLEST:.0e} to {LARGEST:.0e}, or 0 for none",
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


def check_rows(study: Study, want: Want) -> None:
    """want(ok, found, wanted) raises unless ok"""
    want(study.scale == "agreed" or not study.scales, "`scale` is secsum and `scales` are given.", "one of the two")
    d = study.d or len(study.features)
    for name in ("offsets", "scales"):
        values = getattr(study, name)
        want(all(abs(v) <= LARGEST for v in values), f"`{name}` are not all finite and of a size to use.", "numbers")
        want(not (d and values) or len(values) == d, f"`{name}` are {len(values)} for d = {d}.", "one for each feature")
    want(all(map(usable, study.scales)), "`scales` are not all positive and of a size to use.", "positive numbers")
    _check_names(study, want)


def _check_names(study: Study, want: Want) -> None:
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


def check_bound(study: Study, want: Want) -> None:
    """want(ok, found, wanted) raises unless ok"""
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
