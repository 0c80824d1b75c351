"""A study's settings one by one: each of its type, whether from a file or from Python."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import MISSING, Field, fields
from numbers import Integral, Real
from typing import Any

import numpy as np

from pdml_spdz.errors import StudyError, did_you_mean

UNSAID = ("solver", "iterations", "tol")  # None: as the other settings make it


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
    if kind == "Categories" or (type(value).__name__ == kind and kind[0].isupper()):  # one of the tables
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


def check_choice(name: str, value: object, choices: Collection[str]) -> None:
    if value not in choices:
        raise StudyError(f"`{name}` is {shown(value)}.", f"one of {', '.join(choices)}", did_you_mean(value, choices))


def want(ok: bool, found: str, wanted: str) -> None:
    if not ok:
        raise StudyError(found, wanted)
