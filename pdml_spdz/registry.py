"""Things that have a name and a line in a table: algorithms, engines, readers of files. Others may bring more.

A line says where the thing is defined, and in a sentence what it is; it is imported when somebody asks for it by its
name, and not before. A package that brings one of its own lists it under the same group, for example in its
pyproject.toml:

    [project.entry-points."pdml_spdz.algorithms"]
    median = "my_package.median:MEDIAN"
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import cached_property
from typing import Generic, NamedTuple, TypeVar

from pdml_spdz.errors import StudyError, did_you_mean

T = TypeVar("T")


class Line(NamedTuple):
    """where : "module:attribute"; about : a sentence for a list"""

    where: str
    about: str = ""


class Registry(Generic[T]):
    """Names of one kind of thing, and where each of them is defined."""

    def __init__(self, kind: str, known: dict[str, Line]) -> None:
        self.kind, self._known = kind, known
        self._loaded: dict[str, T] = {}

    @property
    def lines(self) -> dict[str, Line]:
        """Our own."""
        return self._known

    @cached_property
    def _others(self) -> dict[str, Line]:
        from importlib.metadata import entry_points  # looks at every package that is installed

        return {point.name: Line(point.value) for point in entry_points(group=f"pdml_spdz.{self.kind}s")}

    def names(self) -> tuple[str, ...]:
        """Our own, in the order of their lines, then those of other packages."""
        return (*self._known, *(name for name in self._others if name not in self._known))

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())

    def __contains__(self, name: object) -> bool:
        return name in self._known or name in self._others

    def __getitem__(self, name: str) -> T:
        """The thing of that name, imported now if it was not before; StudyError if there is none."""
        if name not in self._loaded:
            module, _, attribute = self._line(name).where.partition(":")
            self._loaded[name] = getattr(importlib.import_module(module), attribute)
        return self._loaded[name]

    def module(self, name: str) -> str:
        """Where the thing of that name is defined."""
        return self._line(name).where.partition(":")[0]

    def _line(self, name: str) -> Line:
        found = self._known.get(name) or self._others.get(name)
        if found is None:
            hint = did_you_mean(name, self.names())
            raise StudyError(f"`{self.kind}` is {name!r}.", f"one of {', '.join(self.names())}", hint)
        return found
