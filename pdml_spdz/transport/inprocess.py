"""The same rounds between threads of one process: for tests of protocols, with no sockets and no keys."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from pdml_spdz.errors import SECONDARY
from pdml_spdz.transport.base import ABORT, DATA, Frame, Link, abort_payload, lost, stalled

_Queue = queue.SimpleQueue  # of Frame | None; None: the sender has closed its end


A = TypeVar("A")


class InProcessLink(Link):
    """One end of a mesh of queues; make all M ends with `mesh(M)`.

    working : by party, whether its thread is neither waiting for another nor at its end; shared by all ends
    work : how long a party is waited for while one is working
    """

    def __init__(
        self,
        me: int,
        queues: list[list[_Queue[Frame | None]]],
        *,
        timeout: float,
        work: float = 0.0,
        working: dict[int, bool] | None = None,
    ) -> None:
        super().__init__(me, len(queues), timeout=timeout)
        self._queues, self._work, self._working = queues, work, {} if working is None else working
        self._closed = False

    def _round(
        self, step: str, sequence: int, payloads: Mapping[int, memoryview], expect: Mapping[int, int]
    ) -> dict[int, memoryview]:
        for peer, data in payloads.items():
            # A copy, as a network would make: the sender may overwrite its buffer at once.
            self._queues[self.me][peer].put(Frame(DATA, step, sequence, memoryview(bytes(data))))
        return {peer: self._receive(peer, step, sequence) for peer in expect}

    def _receive(self, peer: int, step: str, sequence: int) -> memoryview:
        started, self._working[self.me] = time.monotonic(), False
        with self.clock("wait"):
            while True:
                try:
                    frame = self._queues[peer][self.me].get(timeout=self.timeout)
                    break
                except queue.Empty:
                    if not any(self._working.values()) or time.monotonic() - started > self._work:
                        raise stalled([peer], self.timeout, step) from None
        self._working[self.me] = True
        if frame is None:
            raise lost(peer)
        return self.check(frame, peer, step, sequence)

    def abort(self, error: BaseException) -> None:
        payload = memoryview(abort_payload(error, self.me))
        for peer in self.peers:
            self._queues[self.me][peer].put(Frame(ABORT, "abort", self._sequence, payload))

    def close(self) -> None:
        if not self._closed:
            self._closed, self._working[self.me] = True, False
            for peer in self.peers:
                self._queues[self.me][peer].put(None)


def mesh(M: int, *, timeout: float = 30.0, work: float = 0.0) -> list[InProcessLink]:
    """M connected ends, one for each party's thread."""
    queues: list[list[_Queue[Frame | None]]] = [[_Queue() for _ in range(M)] for _ in range(M)]
    working = dict.fromkeys(range(M), True)
    return [InProcessLink(m, queues, timeout=timeout, work=work, working=working) for m in range(M)]


def between_threads(M: int, party: Callable[[Link], A], links: Sequence[Link] | None = None) -> list[A]:
    """party(link) in M threads at once; what each returned, or the error of whoever failed of itself."""
    links = links or mesh(M)
    results: dict[int, A] = {}
    errors: list[BaseException] = []

    def go(link: Link) -> None:
        try:
            with link:
                results[link.me] = party(link)
        except BaseException as error:  # noqa: BLE001 - raised again below, in the caller's thread
            errors.append(error)

    threads = [threading.Thread(target=go, args=(link,), name=f"P{link.me}", daemon=True) for link in links]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise min(errors, key=lambda error: isinstance(error, SECONDARY))
    return [results[m] for m in range(M)]
