"""Who is named when a party falls silent while others wait, work or leave; and that nothing is lost when one leaves."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable

import pytest

from pdml_spdz.errors import PeerAborted, PeerError
from pdml_spdz.transport.base import ABORT, DATA, FAREWELL, WORKING, Link, header
from pdml_spdz.transport.connection import Connection
from pdml_spdz.transport.patience import Patience
from pdml_spdz.transport.tls import TlsLink
from tests.transport.meshes import HASTY, Outcome, ends, mesh, send, wrapped


def names(outcome: Outcome, party: int) -> None:
    """As who missed it, or as who was told."""
    error = outcome.end().error
    assert isinstance(error, PeerError | PeerAborted)
    assert str(error).startswith(f"P{party} sent nothing for ") or f"it lost another party (P{party})" in str(error)


def next_sum(link: Link) -> None:
    link.all_to_all("next", b"y")


def next_sum_by_the_other(link: Link) -> None:
    link.exchange("next", {2: b"y"}, {})
    link.broadcast("total", None, 2, most=1)


@pytest.mark.parametrize("then", [next_sum, next_sum_by_the_other])
def test_stopped_between_two_sends_of_a_round(then: Callable[[Link], None]) -> None:
    """P0 sent P1 the word of both, and P2 nothing: P1, a round ahead, waits for P2 too, or for P2 alone."""
    own, first, second = ends(3)
    send(own[1], header(DATA, "word", 1, 1) + b"x")

    def ahead(link: Link) -> None:
        link.exchange("word", {}, {0: 1})
        then(link)

    first_to_wait = Outcome(ahead, TlsLink(1, 3, first, patience=HASTY))
    time.sleep(HASTY.round / 2)  # without a link, which would say that P2 is at work
    second_to_wait = Outcome(lambda link: link.exchange("word", {}, {0: 1}), TlsLink(2, 3, second, patience=HASTY))
    names(first_to_wait, 0)
    names(second_to_wait, 0)
    for peer in own.values():
        peer.sock.close()


def test_two_stopped_and_one_that_waits_for_who_waits_for_them() -> None:
    """P0 adds up and misses P1 and P2; P3 waits for P0's sum."""
    aggregator, *stopped, last = ends(4)

    def waiting(link: Link) -> None:
        link.exchange("sum", {0: b"x"}, {})
        link.broadcast("total", None, most=1)

    waits = Outcome(waiting, TlsLink(3, 4, last, patience=HASTY))
    adds_up = Outcome(lambda link: link.exchange("sum", {}, link.each(1)), TlsLink(0, 4, aggregator, patience=HASTY))
    assert "P1, P2 sent nothing for " in str(adds_up.end().error)
    names(waits, 1)
    for peer in (*stopped[0].values(), *stopped[1].values()):
        peer.sock.close()


def test_longer_work_than_agreed_is_laid_to_who_works() -> None:
    """P1 has waited for P0 longer than P0 for P2."""

    def party(link: Link) -> None:
        time.sleep([0.5, 0.0, 4.0][link.me])
        link.exchange("sum", {0: b"x"} if link.me else {}, link.each(1) if link.me == 0 else {})
        link.broadcast("total", b"x" if link.me == 0 else None, most=1)

    adds_up, waits, works = [Outcome(party, link) for link in mesh(3, Patience(0.3, work=2.0))]
    names(adds_up, 2)
    names(waits, 2)
    assert isinstance(works.end().error, PeerAborted)


def test_stopped_party_that_does_not_take_what_two_others_send_it() -> None:
    """It is not waited for on account of what each of them has from the other."""
    own, *others = ends(3)
    patience = Patience(0.4, work=20.0, least_rate=1e9)

    def party(link: Link) -> None:
        link.exchange("sum", {0: bytes(10**7)}, {})

    outcomes = [Outcome(party, TlsLink(m, 3, found, patience=patience)) for m, found in enumerate(others, 1)]
    for outcome in outcomes:
        said = str(outcome.end(within=10).error)  # long before `work` is over
        assert said.startswith("P0 takes what it is sent") or "it lost another party (P0)" in said
    for peer in own.values():
        peer.sock.close()


def test_silent_party_is_named_while_another_works() -> None:
    """P1 waits for P0's total; that P2 is at work, and says so, is no sign of P0."""
    silent, *others = ends(3)
    patience = Patience(0.4, work=1000.0)
    working = TlsLink(2, 3, others[1], patience=patience)
    outcome = Outcome(lambda link: link.broadcast("total", None, most=1), TlsLink(1, 3, others[0], patience=patience))
    names(outcome, 0)
    working.close()
    for peer in silent.values():
        peer.sock.close()


def over_tcp() -> tuple[Connection, Connection]:
    """Both ends of a connection with TLS, the first of which can send far more than the second takes unread."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
        one.connect(listener.getsockname())
        other, _ = listener.accept()
    return Connection(1, (ends_of := wrapped(one, other))[0]), Connection(0, ends_of[1])


def test_last_frame_arrives_although_its_reader_said_that_it_waits() -> None:
    """What a party has not read, or is sent after it has left, must not make its system forget what it has sent."""
    one, other = over_tcp()
    payload = bytes(10**6)
    send(other, header(DATA, "last", 1, 1) + b"x")
    word = header(WORKING, "waiting", 1, 0)
    send(other, word)  # in a record of its own, which nobody reads
    link = TlsLink(0, 2, {1: one}, patience=Patience(0.2))
    outcome = Outcome(lambda link: link.exchange("last", {1: payload}, {1: 1}), link)
    received, paused = bytearray(), False
    while more := other.sock.recv(1 << 16):
        received += more
        if len(received) > 0.9 * len(payload) and not paused:
            paused = True
            time.sleep(0.6)  # its system has the rest, and it would leave
            with contextlib.suppress(OSError):
                send(other, word)
            time.sleep(0.1)
    assert outcome.end().error is None
    assert bytes(received) == header(DATA, "last", 1, len(payload)) + payload
    other.sock.close()


def test_word_to_a_party_that_has_left_does_not_hide_its_last_frame_and_farewell() -> None:
    """P0 waits for P2, and says so to P1, who is a round ahead and has ended the run."""
    own = ends(3)
    from_one = own[1][0]
    send(from_one, header(DATA, "sum", 1, 1) + b"x")
    send(
        from_one, header(DATA, "next", 2, 1) + b"x" + header(ABORT, "abort", 2, FAREWELL.size) + FAREWELL.pack(1, 1, 1)
    )
    from_one.sock.close()
    link = TlsLink(0, 3, own[0], patience=HASTY)

    def late() -> None:
        for _ in range(8):
            time.sleep(HASTY.round / 4)
            send(own[2][0], header(WORKING, "working", 0, 0))
        send(own[2][0], header(DATA, "sum", 1, 1) + b"x")

    threading.Thread(target=late, daemon=True).start()

    def party(link: Link) -> None:
        assert set(link.exchange("sum", {}, {1: 1, 2: 1})) == {1, 2}
        link.exchange("next", {}, {1: 1})
        link.exchange("more", {}, {1: 1})

    error = Outcome(party, link).end().error
    assert isinstance(error, PeerAborted)
    assert "P1 ended the run" in str(error)
    for peer in (own[1][2], *own[2].values()):
        peer.sock.close()
