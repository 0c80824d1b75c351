"""Parties that compute the same public thing on different machines go on with the same bytes."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping

import numpy as np

from pdml_spdz.errors import ProtocolError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.numerics.linalg import sine
from pdml_spdz.transport.base import Link

Check = Callable[[Reals, tuple[int, ...]], bool]


class Agreement:
    """One party's numbers become everyone's.

    1. party 0 sends V and its verdict (a few integers, such as "stop")
    2. each other party compares V with its own, column by column, and ends the run if they differ by more than
    rounding explains
    3. all go on with party 0's bytes

    Reveals: nothing that the parties do not compute themselves. Cost: one round, 8 d k bytes from party 0 to each.
    Ref: linear algebra libraries differ in the last bit from machine to machine; the digest at the end must not.
    """

    def __init__(self, link: Link) -> None:
        self.link = link

    def __call__(self, V: Reals, verdict: tuple[int, ...], tolerance: Reals) -> tuple[Reals, tuple[int, ...]]:
        head = np.array([*V.shape, *verdict], "<i8")
        own = head.tobytes() + V.tobytes()
        data = self.link.broadcast("agree", own if self.link.me == 0 else None, most=len(own))
        if data.nbytes != len(own):
            raise _differ("computed another basis from the same sums", 0)
        rows, columns, *said = (int(x) for x in np.frombuffer(data[: head.nbytes], "<i8"))
        agreed: Reals = np.frombuffer(data[head.nbytes :], "<f8").reshape(V.shape).copy()
        # NaN must not pass: `not all(<=)`.
        if (rows, columns) != V.shape or not np.all(np.abs(agreed - V).max(axis=0) <= tolerance):
            raise _differ("computed another basis from the same sums", 0)
        return agreed, tuple(said)

    def subspace(self, V: Reals, tolerance: float) -> Reals:
        """Party 0's basis of a subspace that all have, each in a basis of its own.

        As for V itself, but eigenvectors of nearly equal eigenvalues may differ by a rotation.
        """
        data = self.link.broadcast("subspace", V.tobytes() if self.link.me == 0 else None, most=V.nbytes)
        if data.nbytes != V.nbytes:
            raise _differ("has a message of another length", 0)
        agreed: Reals = np.frombuffer(data, "<f8").reshape(V.shape).copy()
        small = np.all(np.abs(agreed) <= 2.0)  # NaN, and what has no finite square, must not pass
        orthonormal = small and np.abs(agreed.T @ agreed - np.eye(V.shape[1])).max() <= tolerance
        if not (orthonormal and sine(V, agreed) <= np.sqrt(V.shape[1]) * tolerance):
            raise _differ("computed another subspace from the same sums", 0)
        return agreed

    def offered(
        self, array: Reals, choice: tuple[int, ...], right: Check, *, columns: int = 0
    ) -> tuple[Reals, tuple[int, ...]]:
        """Party 0's matrix and choice (a few integers), where others may be as right: all go on with them.

        columns : that the matrix may have, and integers that the choice may have more, if not as many as this party's

        1. party 0 sends both
        2. each other party ends the run unless right(matrix, choice)

        Reveals: nothing that the parties do not compute themselves. Cost: one round. Ref: -
        """
        head = np.array([len(choice), *array.shape, *choice], "<i8")
        own = head.tobytes() + array.tobytes()
        most = len(own) + 8 * columns * (1 + len(array))
        data = self.link.broadcast("offer", own if self.link.me == 0 else None, most=most)
        words = data.nbytes // 8
        n, *shape = (int(x) for x in np.frombuffer(data[: 8 * min(words, 3)], "<i8")) if words >= 3 else (-1, 0, 0)
        if n < 0 or min(shape) < 0 or data.nbytes != 8 * (3 + n + shape[0] * shape[1]):
            raise _differ("has a broken message", 0)
        said = tuple(int(x) for x in np.frombuffer(data[24 : 24 + 8 * n], "<i8"))
        offer: Reals = np.frombuffer(data[24 + 8 * n :], "<f8").reshape(shape).copy()
        if self.link.me != 0 and not (np.all(np.isfinite(offer)) and right(offer, said)):
            raise _differ("chose another basis from the same sums", 0)
        return offer, said

    def coin(self) -> bytes:
        """32 bytes that are the same at every party and that no party of those who follow the protocol chose.

        1. each party sends a nonce; 2. the coin is the hash of all that was heard
        Reveals: the nonces. Cost: one round, 32 bytes a peer. Ref: -
        """
        self.link.all_to_all("coin", secrets.token_bytes(32))
        return hashlib.sha256(b"coin|" + self.link.heard).digest()

    def digest(self, what: str, content: bytes) -> str:
        """A digest that all parties have in common, or ProtocolError.

        1. each party sends the digest of this content, and of all that it has heard up to here
        2. the run ends unless both are the same everywhere

        Reveals: the digest of a public value. Cost: one round, 64 bytes a peer. Ref: -
        """
        own, heard = bytes.fromhex(digest_of(what, content)), self.link.heard
        said = {peer: bytes(data) for peer, data in self.link.all_to_all(f"digest:{what}", own + heard).items()}
        check_heard(self.link.me, heard, {peer: theirs[len(own) :] for peer, theirs in said.items()})
        for peer, theirs in said.items():
            if theirs != own + heard:
                raise _differ(f"has another {what}", peer)
        return own.hex()


def check_heard(me: int, own: bytes, others: Mapping[int, bytes]) -> None:
    """The run ends where a peer has heard other things than this party: one of all parties has said both."""
    for peer, theirs in others.items():
        if theirs != own:
            raise ProtocolError(
                f"P{me} and P{peer} have not heard the same in this run.",
                "parties that say the same to all others",
                f"a party deviates: P{peer}, or a third one that sent P{me} and P{peer} different numbers. Compare the "
                "logs of all parties; no result of this run is to be trusted",
                culprit=peer,
            )


def digest_of(what: str, content: bytes) -> str:
    """As in `Agreement.digest`, and as reports have it of results."""
    return hashlib.sha256(what.encode() + b"|" + content).hexdigest()


def check_verdict(said: Iterable[int], possible: Iterable[Collection[int]]) -> None:
    """Party 0's verdict is one that rounding may have made of this party's.

    possible : for each of its integers
    """
    if not all(number in allowed for number, allowed in zip(said, possible, strict=True)):
        raise _differ("came to another verdict", 0)


def _differ(what: str, peer: int) -> ProtocolError:
    return ProtocolError(
        f"P{peer} {what} than this party.",
        "results that are equal up to rounding",
        "check that all parties run the same version; if they do, report this with both logs",
        culprit=peer,
    )
