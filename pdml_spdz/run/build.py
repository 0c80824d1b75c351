"""What two builds must have in common to compute together: constants of wire format, sharing, OT, LPN and precision.

Nobody keeps a list. Every module below that says a word on the wire, or decides how long it is, is read: its constants
(names in capitals) and the defaults of its dataclasses. A constant that only makes one party faster counts too: parties
with different ones were never tried together.
"""

from __future__ import annotations

import hashlib
import importlib
import pkgutil
import re
import struct
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from datetime import tzinfo
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

NUMBERS = ("numerics.fixedpoint", "numerics.ring", "programs.precision", "fits.limits", "study.bound")
MACHINE = "engines.mp_spdz.compiler"  # what else is there says where this machine has its files
OWNERS = (*NUMBERS, "transport", "primitives", "ot", "offline", "engines", "engines.embedded", MACHINE, "algorithms")
CONSTANT = re.compile(r"[A-Z][A-Z0-9_]+")


def digest() -> str:
    """Of all parameters, to be compared between parties."""
    return hashlib.sha256(repr(sorted(parameters().items())).encode()).hexdigest()


def parameters() -> dict[str, str]:
    """Every constant by its full name."""
    return {name: value for module in _modules() for name, value in _constants(module)}


def _modules() -> Iterator[ModuleType]:
    for owner in OWNERS:
        module = importlib.import_module(f"pdml_spdz.{owner}")
        yield module
        for found in pkgutil.iter_modules(getattr(module, "__path__", [])):
            yield importlib.import_module(f"{module.__name__}.{found.name}")


def _constants(module: ModuleType) -> Iterator[tuple[str, str]]:
    for name, value in vars(module).items():
        full = f"{module.__name__}.{name}"
        if isinstance(value, type):
            if is_dataclass(value) and value.__module__ == module.__name__:
                defaults = {f.name: f.default for f in fields(value) if f.default is not MISSING}
                yield from ((f"{full}.{k}", _words(v)) for k, v in defaults.items())
        elif CONSTANT.fullmatch(name):
            yield full, _words(value)


def _words(value: Any) -> str:
    """The same words for the same value in every process: never an address."""
    if value is None or isinstance(value, bool | int | float | str | bytes | tzinfo):
        return repr(value)
    if isinstance(value, type | FunctionType):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, np.generic):
        return repr(value.item())
    if isinstance(value, struct.Struct):
        return value.format
    if isinstance(value, np.dtype):
        return value.str
    if isinstance(value, re.Pattern):
        return repr(value.pattern)
    if isinstance(value, tuple | list):
        return f"({', '.join(map(_words, value))})"
    if isinstance(value, dict):
        return f"({', '.join(sorted(f'{_words(k)}: {_words(v)}' for k, v in value.items()))})"
    if isinstance(value, set | frozenset):
        return f"({', '.join(sorted(map(_words, value)))})"
    if is_dataclass(value):
        return f"{type(value).__name__}({', '.join(_words(getattr(value, f.name)) for f in fields(value))})"
    raise TypeError(f"a constant of type {type(value).__name__}: say in build.py what its value is")
