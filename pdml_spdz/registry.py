"""Things that have a name and a line here: algorithms and engines. Others may bring more, as entry points.

A line says where the thing is defined; it is imported when somebody asks for it by its name, and not before. A package
that brings one of its own lists it under the same group, for example in its pyproject.toml:

    [project.entry-points."pdml_spdz.algorithms"]
    median = "my_package.median:MEDIAN"
"""

from __future__ import annotations

import importlib
from functools import cached_property
from importlib.metadata import entry_points
from typing import Generic, TypeVar

from pdml_spdz.errors import StudyError, did_you_mean

T = TypeVar("T")


class Registry(Generic[T]):
    """Names of one kind of thing, and where each of them is defined ("module:attribute")."""

    def __init__(self, kind: str, known: dict[str, str]) -> None:
        self.kind, self._known = kind, known
        self._loaded: dict[str, T] = {}

    @cached_property
    def _others(self) -> dict[str, str]:
        return {point.name: point.value for point in entry_points(group=f"pdml_spdz.{self.kind}s")}

    def names(self) -> tuple[str, ...]:
        """Our own, in the order of their lines, then those of other packages."""
        return (*self._known, *(name for name in self._others if name not in self._known))

    def __contains__(self, name: object) -> bool:
        return name in self._known or name in self._others

    def __getitem__(self, name: str) -> T:
        """The thing of that name, imported now if it was not before; StudyError if there is none."""
        if name not in self._loaded:
            module, _, attribute = self._where(name).partition(":")
            self._loaded[name] = getattr(importlib.import_module(module), attribute)
        return self._loaded[name]

    def _where(self, name: str) -> str:
        found = self._known.get(name) or self._others.get(name)
        if found is None:
            hint = did_you_mean(name, self.names())
            raise StudyError(f"`{self.kind}` is {name!r}.", f"one of {', '.join(self.names())}", hint)
        return found
