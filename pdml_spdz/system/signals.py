"""Signals that ask this process to end: as from the keyboard, never in the middle of what has to be whole."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import ClassVar, TypeAlias

Handler: TypeAlias = "Callable[[int, FrameType | None], object]"

# All that ask a process to end; a hang-up also when a terminal or a connection to a host closes.
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
ONCE = 5.0  # seconds in which several signals are one: keys typed twice, a terminal that closes and asks to end


def stop_on_signals() -> None:
    """As from the keyboard: the other parties are told, and private files go, before this process ends.

    A second signal does not cut that short, unless it comes later than ONCE: then whoever sent it is tired of waiting.
    What whoever started it told it to ignore (nohup) stays ignored.
    """
    began = -ONCE

    def stop(signum: int, frame: FrameType | None) -> None:
        nonlocal began
        if time.monotonic() - began >= ONCE:
            began = time.monotonic()
            # Files that are cut off in the middle complain when they are taken apart.
            sys.unraisablehook = lambda complaint: None
            raise KeyboardInterrupt(*(f"By {signal.Signals(signum).name}.",) * (signum != signal.SIGINT))

    for number in STOPPING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, stop)


def ignore_signals() -> None:
    """Everything is done and said: the exit code stays what it is, while the interpreter takes itself apart."""
    for number in STOPPING:
        signal.signal(number, signal.SIG_IGN)
    # If an interrupt came while a string was executed, which is how dataclasses are made, CPython ends `python -m` by
    # SIGINT in the end, although it was handled. The next string that is executed makes it forget that.
    exec("")  # noqa: S102


class _Deferred:
    """A handler that waits until whatever is `whole` has ended.

    came : signals that wait, of all handlers; None outside
    users : blocks of `deferrable` that have begun and not ended
    """

    came: ClassVar[list[int] | None] = None
    users: ClassVar[int] = 0

    def __init__(self, handler: Handler) -> None:
        self.handler = handler

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        if _Deferred.came is None:
            self.handler(signum, frame)
        else:
            _Deferred.came.append(signum)


@contextmanager
def deferrable() -> Iterator[None]:
    """Inside, in the main thread, `whole` holds signals back; it costs next to nothing then.

    Only handlers in Python are replaced: what the system does by itself leaves nothing of this process to be whole.
    They are put back when the last such block ends, whatever the order, unless another thread ends it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread handles signals
        return
    begun = False
    try:
        with whole():
            for number, handler in _handlers():
                if not isinstance(handler, _Deferred):
                    signal.signal(number, _Deferred(handler))
            _Deferred.users += 1
            begun = True
        yield
    finally:
        # As `whole`, but for its calls: Python handles signals between calls, and none may come before they wait.
        came: list[int] = []
        outer = _Deferred.came
        _Deferred.came = came if outer is None else outer
        _Deferred.users -= begun
        if not _Deferred.users and threading.current_thread() is threading.main_thread():
            for number, handler in _handlers():
                if isinstance(handler, _Deferred):
                    signal.signal(number, handler.handler)
        _Deferred.came = outer
        for late in came:
            signal.raise_signal(late)


def _handlers() -> list[tuple[int, Handler]]:
    found = [(number, signal.getsignal(number)) for number in STOPPING]
    return [(number, handler) for number, handler in found if callable(handler)]


@contextmanager
def whole() -> Iterator[None]:
    """A frame goes out whole or not at all: signals to end that come inside take effect at the end of the block.

    Their handlers raise KeyboardInterrupt wherever the program is. Between a `send` and the note of how much it sent,
    that would leave the farewell to the peers in the middle of a frame of which nobody knows the rest. Only within
    `deferrable`: outside of it they take effect at once.
    """
    if threading.current_thread() is not threading.main_thread() or _Deferred.came is not None:
        yield
        return
    came = _Deferred.came = []
    try:
        yield
    finally:
        _Deferred.came = None
        for late in came:
            signal.raise_signal(late)
