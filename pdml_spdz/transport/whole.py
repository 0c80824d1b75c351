"""A frame goes out whole or not at all, whatever signal comes in between."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pdml_spdz.system.process import STOPPING


@contextmanager
def whole() -> Iterator[None]:
    """Signals to end that come inside take effect at the end of the block.

    Their handlers raise KeyboardInterrupt wherever the program is. Between a `send` and the note of how much it sent,
    that would leave the farewell to the peers in the middle of a frame of which nobody knows the rest.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread handles signals
        return
    came: list[int] = []
    handlers = {number: signal.signal(number, lambda signum, _: came.append(signum)) for number in STOPPING}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for late in came:
            signal.raise_signal(late)
