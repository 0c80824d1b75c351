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
        self._stack: list[str] = []
        self._since = self._start = time.perf_counter()

    def _settle(self) -> None:
        now = time.perf_counter()
        if self._stack:
            self.seconds[self._stack[-1]] += now - self._since
        self._since = now

    @contextmanager
    def __call__(self, category: str) -> Iterator[None]:
        self._settle()
        self._stack.append(category)
        try:
            yield
        finally:
            self._settle()
            self._stack.pop()

    @property
    def total(self) -> float:
        return time.perf_counter() - self._start
