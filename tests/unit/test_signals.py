"""Signals that ask to end wait until what has to be whole is, and leave handlers as they were."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from types import FrameType

import pytest

from pdml_spdz.system.signals import STOPPING, deferrable, whole


class Ended(BaseException):
    """What a handler raises."""


def handler(number: int, frame: FrameType | None) -> None:
    raise Ended(number)


@pytest.fixture(autouse=True)
def _handled() -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in STOPPING}
    yield
    for number, old in before.items():
        signal.signal(number, old)


@pytest.mark.parametrize("number", STOPPING)
def test_signal_takes_effect_at_the_end_of_the_block_and_at_once_outside_of_it(number: signal.Signals) -> None:
    done = []

    def frame() -> None:
        with whole():
            with whole():
                signal.raise_signal(number)
                done.append("inner")
            done.append("outer")

    with deferrable():
        with pytest.raises(Ended) as late:
            frame()
        assert late.value.args == (number,)
        assert done == ["inner", "outer"]
        with pytest.raises(Ended):
            signal.raise_signal(number)
        with whole():  # nothing is left of the first
            done.append("next")
    assert done[-1] == "next"


def test_error_inside_does_not_swallow_a_signal() -> None:
    def frame() -> None:
        with deferrable(), whole():
            signal.raise_signal(signal.SIGTERM)
            raise ValueError

    with pytest.raises(Ended):
        frame()


def test_handlers_are_those_from_before() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGQUIT, signal.SIG_IGN)
    with deferrable(), deferrable():
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL  # the system ends the process: nothing to be whole
        assert signal.getsignal(signal.SIGQUIT) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGINT) is not handler
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # as a process does that has said its last word
    assert signal.getsignal(signal.SIGINT) is handler
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN


def test_other_threads_neither_wait_nor_change_anything() -> None:
    found = []

    def other() -> None:
        with deferrable(), whole():
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert found == [handler]


def test_handlers_stay_until_the_last_block_has_ended() -> None:
    first, second = ExitStack(), ExitStack()
    first.enter_context(deferrable())
    second.enter_context(deferrable())
    first.close()
    done = []

    def frame() -> None:
        with whole():
            signal.raise_signal(signal.SIGINT)
            done.append("whole")

    with pytest.raises(Ended):
        frame()
    assert done == ["whole"]
    second.close()
    assert signal.getsignal(signal.SIGINT) is handler
