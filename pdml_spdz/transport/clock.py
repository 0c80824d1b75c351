"""Where a party's time goes: a stack of categories, each second counted once, in the innermost one."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager


class Clock:
    """`with clock("crypto"):` adds the time inside to "crypto" and takes it from the category around it."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._stack: list[tuple[str, bool]] = []
        self._since = self._start = time.perf_counter()

    def _settle(self) -> None:
        now = time.perf_counter()
        if self._stack:
            self.seconds[self._stack[-1][0]] += now - self._since
        self._since = now

    @contextmanager
    def __call__(self, category: str, *, whole: bool = False) -> Iterator[None]:
        """whole : categories inside this one are not told apart from it"""
        self._settle()
        inside = self._stack[-1] if self._stack else ("", False)
        self._stack.append(inside if inside[1] else (category, whole))
        try:
            yield
        finally:
            self._settle()
            self._stack.pop()

    def move(self, seconds: float, source: str, to: str) -> None:
        """Time that was counted in one category, as far as it was, belongs to another."""
        self._settle()
        moved = min(seconds, self.seconds[source])
        self.seconds[source] -= moved
        self.seconds[to] += moved

    @property
    def total(self) -> float:
        return time.perf_counter() - self._start
