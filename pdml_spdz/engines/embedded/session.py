"""One execution of a program that takes inputs and gives outputs while it runs.

The program and its caller take turns in one thread: the program runs until it wants an input that is not there yet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from greenlet import getcurrent, greenlet

from pdml_spdz.errors import EngineError
from pdml_spdz.numerics.ring import Vector


class Session:
    """Queues between a caller and a running program."""

    def __init__(self) -> None:
        self._inputs: deque[Vector] = deque()
        self._publics: deque[int] = deque()
        self._outputs: deque[Any] = deque()
        self._program: greenlet | None = None

    def start(self, run: Callable[[], None]) -> None:
        """`run` executes the program on a backend that reads and writes here."""
        self._program = greenlet(run)

    def call(self, inputs: Sequence[Vector], publics: Sequence[int]) -> Any:
        """Hand over what the program asks for next and return what it then puts out."""
        self._inputs.extend(inputs)
        self._publics.extend(publics)
        if self._program is None or self._program.dead:
            raise EngineError("the program has ended.", "one call for each of its iterations")
        self._program.switch()
        if not self._outputs:
            raise EngineError("the program wants more input than it was given.", "the inputs of one iteration")
        return self._outputs.popleft()

    # ---- the program's side

    def next_input(self, n: int) -> Vector:
        while not self._inputs:
            self._wait()
        x = self._inputs.popleft()
        if len(x) != n:
            raise EngineError(f"the program wants a vector of {n} numbers.", f"one of {len(x)}")
        return x

    def next_public(self) -> int:
        while not self._publics:
            self._wait()
        return self._publics.popleft()

    def write(self, numbers: Any) -> None:
        self._outputs.append(numbers)

    def _wait(self) -> None:
        parent = getcurrent().parent
        assert parent is not None  # programs run in greenlets of their own
        parent.switch()
