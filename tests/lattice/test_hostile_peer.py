"""What a peer may send instead of what it should: errors that name it, and nothing of this party's matrix in return."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pdml_spdz.errors import MismatchError, PdmlError, ProtocolError
from pdml_spdz.lattice import cost
from pdml_spdz.lattice.encryption import CiphertextSet, KeyHolder, to_bytes
from pdml_spdz.lattice.parameters import InsecureParameters
from pdml_spdz.lattice.product import ENCRYPTED, KEYS, RETURNED, share_product
from pdml_spdz.numerics import ring
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.inprocess import mesh
from tests.transport.meshes import Outcome

P = InsecureParameters.choose(M=2, n=3, i=3, c=3, w=64, bits=20)
OTHER = InsecureParameters.choose(M=2, n=3, i=3, c=3, w=64, bits=21)
SIZE = cost.ciphertext_bytes(P.N, P.count)
R = ring.random(9, 64).reshape(3, 3, 1)
UNIT = CiphertextSet(0, 0)
S = np.arange(9).reshape(3, 3)


def keys(p: InsecureParameters = P) -> bytes:
    holder = KeyHolder(p)
    return p.digest + holder.seed + to_bytes(holder.public.p0, p.primes).tobytes()


def ciphertexts() -> bytes:
    return b"".join(raw.tobytes() for raw in KeyHolder(P).encrypt(R[None], UNIT))


def out_of_range(raw: bytes) -> bytes:
    return raw[:-SIZE] + b"\xff" * SIZE


def sends(*messages: tuple[str, bytes | None], to: int = 0) -> Callable[[Link], None]:
    """A peer that sends these messages, or nothing in a step, and takes whatever comes."""

    def party(link: Link) -> None:
        for step, message in messages:
            link.exchange(step, {} if message is None else {to: message}, {to: 1 << 30})

    return party


@pytest.mark.parametrize(
    ("messages", "error", "words"),
    [
        ([(KEYS, keys(OTHER))], MismatchError, "P1 has other parameters"),
        ([(KEYS, bytes(len(keys())))], MismatchError, "P1 has other parameters"),
        ([(KEYS, keys()[:-1])], ProtocolError, "P1 has a message of"),
        ([(KEYS, b"")], MismatchError, "P1 has other parameters"),
        ([(KEYS, keys() + b"x")], ProtocolError, "P1 has a message of"),
        ([(KEYS, out_of_range(keys()))], ProtocolError, "P1 sent a coefficient that is not below its prime"),
        ([(KEYS, keys()), (ENCRYPTED, ciphertexts()[:-1])], ProtocolError, "P1 has a message of"),
        ([(KEYS, keys()), (ENCRYPTED, out_of_range(ciphertexts()))], ProtocolError, "P1 sent a coefficient"),
        ([(KEYS, keys()), (RETURNED, b"")], ProtocolError, "P1 is at step"),
        ([(KEYS, keys()), (ENCRYPTED, ciphertexts()), (RETURNED, b"abc")], ProtocolError, "P1 has a message of"),
    ],
)  # fmt: skip
def test_a_wrong_message_is_an_error_that_names_its_sender(
    messages: list[tuple[str, bytes]], error: type[PdmlError], words: str
) -> None:
    links = mesh(2, timeout=10.0)
    peer = Outcome(sends(*messages), links[1])
    honest = Outcome(lambda link: share_product(link, S, R, P), links[0]).end()
    assert isinstance(honest.error, error)
    assert words in str(honest.error)
    assert honest.error.culprit == 1
    peer.end()
    # Responses, the only messages that depend on S, leave only when all ciphertexts were right.
    response = links[0].traffic.sent.get(1, 0) > len(keys()) + len(ciphertexts()) + 200
    assert response is (messages[-1] == (RETURNED, b"abc"))


def test_the_message_of_an_error_has_nothing_of_the_numbers() -> None:
    links = mesh(2, timeout=10.0)
    Outcome(sends((KEYS, keys()), (ENCRYPTED, out_of_range(ciphertexts()))), links[1])
    secret = np.full((3, 3), 765432)
    honest = Outcome(lambda link: share_product(link, secret, R, P), links[0]).end()
    assert "765432" not in str(honest.error)
