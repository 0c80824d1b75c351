"""Runs a rendered .mpc program by giving it the names it uses, with MP-SPDZ's meaning.

The subset: sint, cint, Array, Matrix, MemValue, for_range, if_, break_loop, public_input, runtime_error_if, and a few
of Python's own.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from math import inf
from types import CodeType
from typing import Any

from pdml_spdz.engines.embedded import values
from pdml_spdz.engines.embedded.backend import Backend, Counting, Truncation
from pdml_spdz.engines.embedded.values import Clear, Scalars, Vector, Wide, concat, unsupported
from pdml_spdz.errors import EngineError, PdmlError, RangeExceeded
from pdml_spdz.offline.material import Plan
from pdml_spdz.programs.render import Program


class SintType:
    """The name `sint` in a program."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def __call__(self, value: int = 0, size: int = 1) -> Scalars:
        return Scalars(self._backend, [value if self._backend.me == 0 else 0] * size)

    def get_input_from(self, player: int, size: int = 1) -> Vector:
        return Vector(self._backend, self._backend.read_input(player, size), size, exact=True)

    def get_random(self, size: int = 1) -> Scalars:
        return Scalars(self._backend, self._backend.random(size))

    concat = staticmethod(concat)


class CintType:
    """The name `cint` in a program."""


class Flush:
    """cfix(0) in a program, which it writes to make MP-SPDZ hand over what it holds back. Here nothing is."""

    def __init__(self, value: int) -> None:
        if value != 0:
            unsupported("a fixed-point number")

    def binary_output(self) -> None:
        return None


class ArrayOf:
    """Array(n, sint) or Array(n, cint): memory that loops may write to."""

    def __init__(self, n: int, kind: SintType | CintType) -> None:
        self.n, self.kind = n, kind
        self._whole: Any = None  # a vector, as assigned
        self._items: list[Any] = [0] * n

    def assign_vector(self, value: Any) -> None:
        if len(value) != self.n:
            unsupported(f"assigning {len(value)} numbers to an array of {self.n}")
        self._whole = value if isinstance(value, Vector) else None
        if isinstance(value, Wide):
            self._whole = value
        elif isinstance(value, Scalars):
            self._items = [value.get_vector(i, 1) for i in range(self.n)]
        elif isinstance(value, Clear):
            self._items = list(value)

    def assign_all(self, value: int) -> None:
        if isinstance(self.kind, SintType):
            self._items = [self.kind(value) for _ in range(self.n)]
        else:
            self._items = [value] * self.n

    def get_vector(self, base: int = 0, size: int | None = None) -> Any:
        if self._whole is not None:
            whole = self._whole
        else:
            whole = Clear(self._items) if isinstance(self.kind, CintType) else concat(self._items)
        return whole if base == 0 and size is None else whole.get_vector(base, size)

    def __getitem__(self, i: int) -> Any:
        return self._items[i] if self._whole is None else self._whole.get_vector(i, 1).lifted()

    def __setitem__(self, i: int, value: Any) -> None:
        self._items[i] = value


class MatrixOf:
    """Matrix(rows, columns, sint or cint): arrays one after the other."""

    def __init__(self, rows: int, columns: int, kind: SintType | CintType) -> None:
        self.columns = columns
        self._rows = [ArrayOf(columns, kind) for _ in range(rows)]

    def __getitem__(self, i: int) -> ArrayOf:
        return self._rows[i]

    def assign_vector(self, value: Any) -> None:
        for i, row in enumerate(self._rows):
            row.assign_vector(value.get_vector(i * self.columns, self.columns))

    def get_vector(self) -> Any:
        return concat(row.get_vector() for row in self._rows)


class MemValue:
    """A variable that loops may write to."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def read(self) -> Any:
        return self._value

    def write(self, value: Any) -> None:
        self._value = value


def for_range(start: int, stop: int | None = None) -> Callable[[Callable[[int], None]], None]:
    """@for_range(n): run the function below for 0, ..., n - 1."""
    indices = range(start) if stop is None else range(start, stop)

    def loop(body: Callable[[int], None]) -> None:
        with suppress(_Break):
            for i in indices:
                body(i)

    return loop


class _Break(Exception):
    """On its way from break_loop to the loop."""


def break_loop() -> None:
    raise _Break


def if_(condition: int) -> Callable[[Callable[[], None]], None]:
    """@if_(c): run the function below if the public number c is not zero."""

    def branch(body: Callable[[], None]) -> None:
        if condition:
            body()

    return branch


def runtime_error_if(condition: bool, message: str) -> None:
    if condition:
        raise RangeExceeded(
            f"{message}; nothing that depends on it was opened.",
            "sums whose size lies between the bound and 2^-R times it",
            "agree on a smaller --bound, a larger --range, or a rank below the rank of the rows; with a hidden mean on "
            "an --offset near it",
        )


def names(backend: Backend) -> dict[str, Any]:
    """Everything a program may use."""
    python: Sequence[Any] = (range, len, sum, min, max, enumerate)
    return {
        "__builtins__": {f.__name__: f for f in python},
        "sint": SintType(backend),
        "cint": CintType(),
        "cfix": Flush,
        "Array": ArrayOf,
        "Matrix": MatrixOf,
        "MemValue": MemValue,
        "for_range": for_range,
        "if_": if_,
        "break_loop": break_loop,
        "public_input": backend.read_public,
        "runtime_error_if": runtime_error_if,
    }


def execute(program: Program, backend: Backend) -> None:
    """Run the program to its end on this party's shares."""
    execute_with(program, names(backend))


def execute_with(program: Program, known: dict[str, Any]) -> None:
    """Run the program to its end with the names that it may use."""
    where, offered = f"{program.name}.mpc", sorted(name for name in known if not name.startswith("_"))
    try:
        exec(_compiled(program.text, where), known)  # noqa: S102 - rendered by us, compared by digest
    except PdmlError:
        raise
    except (NameError, TypeError, AttributeError, SyntaxError, ImportError) as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == where]
        line = error.lineno if isinstance(error, SyntaxError) else (lines[-1] if lines else 0)
        text = program.text.splitlines()[(line or 1) - 1].strip()
        raise EngineError(
            f"{where}, line {line}: {error} ({text!r}).",
            f"the embedded engine's part of the language: {', '.join(offered)}",
            "run this program on the engine mp-spdz",
        ) from error


@lru_cache(maxsize=8)
def _compiled(text: str, where: str) -> CodeType:
    return compile(text, where, "exec")


def plan(program: Program, longest: float = inf) -> Plan:
    """What the program takes from the offline phase, by a dry run. longest : as a backend has it"""
    return _counted(program, longest).plan


def truncations(program: Program) -> list[list[Truncation]]:
    """The truncations before each of the program's outputs, by a dry run."""
    return _counted(program).truncated[:-1]


def _counted(program: Program, longest: float = inf) -> Counting:
    return _count(program, min(longest, values.OUTER))


@lru_cache(maxsize=8)
def _count(program: Program, longest: float) -> Counting:
    """longest : all that a count depends on besides the program"""
    counting = Counting(longest=longest)
    execute(program, counting)
    return counting
