"""How long a party waits for another in a round, and what it says when that is over."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pdml_spdz.errors import PeerError
from pdml_spdz.transport.base import stalled
from pdml_spdz.transport.connection import Connection

BEATS = 4  # "still working", or "waiting", so often in the time that the others wait without it
LEAST_BEAT = 0.05


@dataclass(frozen=True)
class Patience:
    """Of a party that waits for others.

    round : seconds for the first byte of a frame, or for another word that its sender is still working, or waiting
    work : seconds for the first byte, however often its sender says either (`round`, if that is more)
    least_rate : bytes a second that a frame comes with, in the mean, once it has begun; `round` seconds come on top
    """

    round: float
    work: float = 3600.0
    least_rate: float = 64_000.0

    @property
    def beat(self) -> float:
        """Seconds after which a party says again that it is working, or waiting."""
        return max(self.round / BEATS, LEAST_BEAT)


def longer(timeout: float) -> float:
    """For whoever may be waiting for one that itself waits for a third."""
    return 1.2 * timeout + 1.0


class Wait:
    """One round's: when who is late.

    direct : a frame of every peer is expected, so that this party itself finds out who is late
    """

    def __init__(
        self,
        patience: Patience,
        step: str,
        expect: Mapping[int, int],
        peers: Mapping[int, Connection],
        *,
        direct: bool,
    ) -> None:
        self.patience, self.step, self.expect, self.direct = patience, step, expect, direct
        self.timeout = patience.round if direct else longer(patience.round)
        self._time_to_say_so = not direct
        self.started = time.monotonic()
        self._outgoing = {party: sum(part.nbytes for part in peer.outbox) for party, peer in peers.items()}

    def late(self, waiting: Sequence[Connection]) -> list[Connection]:
        now = time.monotonic()
        return [peer for peer in waiting if peer.awaited and now > self._deadline(peer)]

    def _deadline(self, peer: Connection) -> float:
        work = self.patience.work if self.direct else longer(self.patience.work)
        last = self.started + max(work, self.timeout)  # for the first byte
        if peer.expected and peer.begun:
            # What has begun may be another sign of work.
            begun = min(max(peer.begun, self.started), last)
            return begun + self.timeout + self.expect[peer.party] / self.patience.least_rate
        # One that waits for others, in a round before this one, says so: whoever says nothing is the one.
        deadline = min(max(self.started, peer.heard) + self.timeout, last)
        if peer.expected:
            return deadline
        return deadline + self._outgoing[peer.party] / self.patience.least_rate

    def verdict(self, waiting: Sequence[Connection]) -> PeerError | None:
        """The error that whoever is late means, unless it is better to wait for a word of who is to blame."""
        late = self.late(waiting)
        if len(late) > 1 and not self._time_to_say_so:
            # One of them may be waiting for another, and about to say so.
            self._time_to_say_so, self.timeout = True, longer(self.timeout)
            return None
        silent = [peer.party for peer in late if peer.expected and not peer.begun]
        if silent:
            return stalled(silent, round(time.monotonic() - self.started, 1), self.step)
        return slow(late[0], self.step, self.patience) if late else None


def slow(peer: Connection, step: str, patience: Patience) -> PeerError:
    what = "sends its message at step" if peer.expected else "takes what it is sent at step"
    return PeerError(
        f"P{peer.party} {what} {step!r} too slowly.",
        f"{patience.least_rate:g} bytes a second, after {patience.round:g} s at the most",
        "look at that party and at the network; agree on a lower `timeouts.least_rate` in the study if it is that slow",
        culprit=peer.party,
    )
