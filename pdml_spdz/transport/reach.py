"""Before a run: does this party get through to the others, and they to it? No number is sent, no run is touched."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from pdml_spdz.transport.acceptor import Acceptor
from pdml_spdz.transport.certs import Identity
from pdml_spdz.transport.connect import REFUSAL, shown
from pdml_spdz.transport.mutual import REACH, answer_reach, party_of, tls_context

ATTEMPT_SECONDS = 5.0
PAUSE_SECONDS = 1.0


@dataclass(frozen=True)
class Attempt:
    """through : the party is there and shows its pinned certificate; silent : its host says that nobody listens there,
    which is no fault before it has started
    """

    party: int
    through: bool
    silent: bool
    found: str


def attempt(identity: Identity, party: int, host: str, port: int) -> Attempt:
    """One attempt to reach a party that runs `pdml-spdz party`, or `doctor --listen`."""
    context = tls_context(identity, ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols([REACH])
    where = shown(host, port)
    try:
        with (
            socket.create_connection((host, port), timeout=ATTEMPT_SECONDS) as raw,
            context.wrap_socket(raw) as sock,
        ):
            answered = party_of(identity, sock)
            sock.recv(1)  # TLS 1.3: only now do we learn whether our own certificate was accepted
    except ssl.SSLCertVerificationError as error:
        return Attempt(party, False, False, f"{where} shows a certificate that is not pinned ({error.verify_message})")
    except ssl.SSLError as error:
        if REFUSAL.search(error.reason or ""):
            return Attempt(party, False, False, f"{where} does not accept this party's certificate ({error.reason})")
        return Attempt(party, False, False, f"what answers at {where} is no party ({error.reason})")
    except ConnectionRefusedError:
        do = "start `pdml-spdz doctor STUDY --id I --listen` there, or the party itself"
        return Attempt(party, False, True, f"nobody listens at {where} yet: {do}")
    except TimeoutError:
        return Attempt(party, False, False, f"{where} does not answer: the host is down, or a firewall is in between")
    except OSError as error:
        return Attempt(party, False, False, f"{where} cannot be reached ({error.strerror or error})")
    if answered != party:
        return Attempt(party, False, False, f"{where} is answered by P{answered}")
    return Attempt(party, True, False, f"{where} answers, with the pinned certificate")


@contextlib.contextmanager
def answering(identity: Identity, listener: socket.socket, M: int, reached: Callable[[int], None]) -> Iterator[None]:
    """While the block lasts, parties that try get through; `reached` is told whose."""

    def welcome(sock: ssl.SSLSocket) -> None:
        party = party_of(identity, sock)
        answer_reach(sock)
        if party is not None:
            reached(party)

    with Acceptor(listener, tls_context(identity, ssl.PROTOCOL_TLS_SERVER), M, welcome, lambda text: None):
        yield


def try_all(
    identity: Identity,
    addresses: Sequence[tuple[str, int]],
    *,
    listener: socket.socket | None,
    seconds: float,
    reach: bool,
    say: Callable[[str], None],
) -> tuple[list[Attempt], set[int]]:
    """(the last attempt to reach each party, the parties that have reached this one).

    listener : where this party listens meanwhile; None: it does not, and there is one attempt
    """
    others = [p for p in range(len(addresses)) if p != identity.me]
    last: dict[int, Attempt] = {}
    came: set[int] = set()

    def reached(party: int) -> None:
        if party not in came:
            came.add(party)
            say(f"P{party} has reached this party")

    deadline = time.monotonic() + seconds
    with ExitStack() as held:
        if listener is not None:
            held.enter_context(answering(identity, listener, len(addresses), reached))
        while True:
            for party in [p for p in others if reach and not (p in last and last[p].through)]:
                last[party] = attempt(identity, party, *addresses[party])
                if last[party].through and listener is not None:
                    say(f"P{party} is reached: {last[party].found}")
            missing = [p for p in others if (reach and not last[p].through) or (listener and p not in came)]
            if listener is None or not missing or time.monotonic() >= deadline:
                return [last[p] for p in sorted(last)], came
            time.sleep(PAUSE_SECONDS)
