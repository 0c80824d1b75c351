"""The largest of the parties' integers, moved up by a common secret number, and nothing else about them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from pdml_spdz.errors import ProtocolError, QuotaError
from pdml_spdz.ot import group
from pdml_spdz.primitives import proof
from pdml_spdz.transport.base import Link

Ciphertext = tuple[bytes, bytes]  # (k G, b G + k P) encrypts b under the common key P


def largest(link: Link, own: int, low: int, high: int, *, shift: int = 0, width: int = 1) -> int:
    """max_m own_m + (sum_m shift_m mod width), for integers own_m in [low, high) and shift_m in [0, width).

    1. party m draws a secret key x_m and sends x_m G, with a proof that it knows x_m; the common key is
       P = sum_m x_m G
    2. one party after the other turns the encrypted vector (1, 0, .., 0) of `width` bits by its shift and encrypts it
       anew: T has its 1 where b = sum_m shift_m mod width says
    3. for j = 1 .. high - low + width - 2 party m sends a fresh encryption of whether own_m - low + b >= j: a sum of
       elements of T; the ciphertexts of all parties add up to C_j, an encryption of how many parties reach j
    4. party m sends r_mj C_j + (a fresh encryption of 0) for random r_mj; these add up to D_j = (A_j, B_j)
    5. party m sends x_m A_j, with a proof that all are of that x_m; B_j - sum_m x_m A_j is the group's identity exactly
       if nobody reaches j, otherwise it is a random point

    Reveals: the result. As long as one party keeps its shift to itself b is uniform for all others, M - 1 colluding
    ones included, and r_mj of any one party hides how many reach j. Semi-honest; decisional Diffie-Hellman in
    ristretto255.
    Cost: M + 4 rounds; for 272 values of j about 45 kB a peer and 2,000 multiplications of a point; 272 more
    for the proof, and 544 to check each peer's.
    Ref: ElGamal, CRYPTO 1984; Brandt, "Efficient cryptographic protocol design based on distributed ElGamal", ICISC
    2005 (the zero test by a random multiple). Without the proofs the last to send could choose its key so that it alone
    decrypts every party's exponent, and its share so that any result comes out. Steps 2 to 4 have no proofs: a party
    that sends other ciphertexts there has all parties decrypt others' exponents and the shift.
    """
    if not (low <= own < high and 0 <= shift < width):
        raise QuotaError(f"{own} is not between {low} and {high - 1}.", "a smaller number")
    keys = CommonKey(link)
    turned = keys.turned(shift, width)
    marks = keys.marks(own - low, turned, high - low + width - 1)
    return low + keys.count(marks)


class CommonKey:
    """Party me's part of a common key P, fresh for each use. what : it is for, in the names of steps"""

    def __init__(self, link: Link, what: str = "largest") -> None:
        self._link, self._x, self._what = link, group.random_scalar(), what
        self._one = group.base_times(group.scalar(1))
        self._keys = {l: X for l, (X,) in self._proven("key", [self._one]).items()}
        self._P = group.added([*self._keys.values()])

    def turned(self, shift: int, width: int) -> list[Ciphertext]:
        """Step 2. The first vector is the same for all: nobody needs to send it."""
        if width == 1:
            return [self._plain(1)]
        T = [self._plain(int(i == 0)) for i in range(width)]
        for root in range(self._link.M):
            own = None
            if root == self._link.me:
                own = b"".join(point for i in range(width) for point in self._anew(T[i - shift]))
            sent = self._link.broadcast("largest:turn", own, root, most=2 * width * group.SIZE)
            points = self.points(sent, 2 * width, root)
            T = list(zip(points[::2], points[1::2], strict=True))
        return T

    def marks(self, value: int, T: Sequence[Ciphertext], length: int) -> list[Ciphertext]:
        """Step 3: encryptions of whether value + b >= j."""
        reach = [T[-1]]  # from the end: b >= width - 1, b >= width - 2, ..., b >= 1
        for c in reversed(T[1:-1]):
            reach.append((group.add(reach[-1][0], c[0]), group.add(reach[-1][1], c[1])))
        zero, one, at_least = self._plain(0), self._plain(1), [*reversed(reach)]
        width = len(T)
        return [
            self._anew(one if j <= value else at_least[j - value - 1] if j < value + width else zero)
            for j in range(1, length)
        ]

    def count(self, marks: Sequence[Ciphertext]) -> int:
        """Steps 4 and 5. Marks are ones up to the result and zeros beyond; a point that is not zero is a one."""
        counts = self.sum("marks", marks)
        return sum(self.nonzero(self.sum("masked", [self.times(c) for c in counts])))

    def nonzero(self, masked: Sequence[Ciphertext]) -> list[bool]:
        """Decrypt: whether each is anything but zero. Nobody may know of what it is a multiple."""
        opened = self._proven("shares", [A for A, _ in masked]).values()
        return [group.added(column) != B for (_, B), *column in zip(masked, *opened, strict=True)]

    def encrypt(self, x: bytes) -> Ciphertext:
        """A fresh encryption of the scalar x, as x G."""
        k = group.random_scalar()
        secret = group.times(k, self._P)
        return group.base_times(k), group.add(secret, group.base_times(x)) if any(x) else secret

    def _plain(self, bit: int) -> Ciphertext:
        """An encryption with a k that everyone knows: to be encrypted anew before it is sent."""
        k = hashlib.sha512(b"pdml-spdz largest").digest()[: group.SIZE - 1] + b"\0"
        secret = group.times(k, self._P)
        return group.base_times(k), group.add(secret, self._one) if bit else secret

    def _anew(self, c: Ciphertext) -> Ciphertext:
        """c plus a fresh encryption of zero: nobody but who did it can tell which c it was."""
        k = group.random_scalar()
        return group.add(c[0], group.base_times(k)), group.add(c[1], group.times(k, self._P))

    def times(self, c: Ciphertext) -> Ciphertext:
        r = group.random_scalar()
        return self._anew((group.times(r, c[0]), group.times(r, c[1])))

    def sum(self, step: str, own: Sequence[Ciphertext]) -> list[Ciphertext]:
        """The sums over all parties, one for each of our ciphertexts."""
        flat = [point for c in own for point in c]
        sums = [group.added(column) for column in zip(flat, *self._exchange(step, flat), strict=True)]
        if group.ZERO in sums:  # of honest addends one is, in 2^252
            raise ProtocolError(
                f"the ciphertexts of all parties at step '{self._what}:{step}' add up to zero.",
                "parties that follow the protocol",
                "a party made its ciphertexts of the others': compare the logs of all parties",
            )
        return list(zip(sums[::2], sums[1::2], strict=True))

    def _exchange(self, step: str, points: Sequence[bytes]) -> list[list[bytes]]:
        """The others' points, as many from each as ours."""
        received = self._link.all_to_all(f"{self._what}:{step}", b"".join(points))
        return [self.points(data, len(points), peer) for peer, data in received.items()]

    def _proven(self, step: str, bases: Sequence[bytes]) -> dict[int, list[bytes]]:
        """By party, x_m times each of the bases, and proven to be, once keys are known, of the x_m of its key."""

        def pairs(m: int, points: Sequence[bytes]) -> list[proof.Pair]:
            of_key = [(self._one, self._keys[m])] if step != "key" else []
            return [*of_key, *zip(bases, points, strict=True)]

        link, own = self._link, [group.times(self._x, A) for A in bases]
        contexts = [link.heard + f"{self._what}:{step} {m}".encode() for m in range(link.M)]
        made = proof.prove(self._x, pairs(link.me, own), contexts[link.me])
        found = {link.me: own}
        for peer, data in link.all_to_all(f"{self._what}:{step}", b"".join(own) + made).items():
            found[peer] = self.points(data[: -proof.SIZE], len(own), peer)
            if not proof.holds(bytes(data[-proof.SIZE :]), pairs(peer, found[peer]), contexts[peer]):
                raise ProtocolError(
                    f"P{peer} has no proof of what it sent at step '{self._what}:{step}'.",
                    "parties that follow the protocol, and that were all sent the same",
                    f"one party deviates: P{peer}, or one that sent it other numbers than this party; compare the logs",
                    culprit=peer,
                )
        return dict(sorted(found.items()))

    def points(self, data: memoryview | bytes, count: int, peer: int) -> list[bytes]:
        points = [bytes(data[i : i + group.SIZE]) for i in range(0, len(data), group.SIZE)]
        if len(points) != count or not all(map(group.is_point, points)):
            raise ProtocolError(
                f"P{peer} sent {len(data)} bytes that are not {count} group elements.",
                "elements of ristretto255",
                "check that all parties run the same version",
                culprit=peer,
            )
        return points
