"""Parties that compute the same public thing on different machines go on with the same bytes."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Collection, Iterable

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

        1. each party sends a nonce; 2. the coin is the hash of all of them
        Reveals: the nonces. Cost: one round, 32 bytes a peer. Ref: -
        """
        nonces = {self.link.me: secrets.token_bytes(32)}
        outgoing = dict.fromkeys(self.link.peers, nonces[self.link.me])
        nonces |= {l: bytes(n) for l, n in self.link.exchange_all("coin", outgoing, 32).items()}
        return hashlib.sha256(b"".join(nonces[m] for m in sorted(nonces))).digest()

    def digest(self, what: str, content: bytes) -> str:
        """A digest that all parties have in common, or ProtocolError."""
        own = bytes.fromhex(digest_of(what, content))
        for peer, theirs in self.link.all_to_all(f"digest:{what}", own).items():
            if bytes(theirs) != own:
                raise _differ(f"has another {what}", peer)
        return own.hex()


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
