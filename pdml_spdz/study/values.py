"""A study's settings one by one: each of its type and within its limits, whether from a file or from Python."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import fields
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np

from pdml_spdz.errors import StudyError, did_you_mean
from pdml_spdz.programs.precision import COLUMN_BITS, MAX_BITS, MAX_RANGE, MIN_BITS, MIN_RANGE
from pdml_spdz.study.algorithm import Want

if TYPE_CHECKING:
    from pdml_spdz.study.model import PartyEntry, Study

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
FINGERPRINT = re.compile(r"[0-9a-f]{64}")


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
    for name in ("connect", "round"):
        seconds, most = getattr(study.timeouts, name), f"a positive number of seconds, at most {MAX_SECONDS:,}"
        want(0 < seconds <= MAX_SECONDS, f"`timeouts.{name}` is {seconds}.", most)
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
        want(0 <= port <= 65535, f"P{i}'s port is {shown(port)}.", "a port from 0 to 65535")
    want(
        party.quota == 0 or usable(party.quota),
        f"P{i}'s quota is {party.quota}.",
        f"a number from {SMALLEST:.0e} to {LARGEST:.0e}, or 0 for none",
    )
    want(_is_host(party.host), f"P{i}'s host is {shown(party.host)}.", "a host's name or address")
    want(
        not party.fingerprint or FINGERPRINT.fullmatch(party.fingerprint) is not None,
        f"P{i}'s fingerprint is {shown(party.fingerprint)}.",
        "64 hexadecimal digits, as `pdml-spdz certs show --json` prints them",
    )


def usable(bound: float) -> bool:
    """Whether a number may be a bound: not so large or so small that arithmetic with it fails."""
    return SMALLEST <= bound <= LARGEST


def _is_host(host: str) -> bool:
    try:
        host.encode("idna")  # what the system's resolver is asked for
    except UnicodeError:
        return False
    return bool(host) and all(c.isprintable() and not c.isspace() for c in host)
