"""The largest of the parties' integers, and nothing else about them."""

from __future__ import annotations

from collections.abc import Sequence

from pdml_spdz.errors import ProtocolError, QuotaError
from pdml_spdz.ot import group
from pdml_spdz.transport.base import Link

BASE = 16  # integers are compared digit by digit: two digits for 256 values
Ciphertext = tuple[bytes, bytes]  # (k G, b G + k P) encrypts b under the common key P


def largest(link: Link, own: int, low: int, high: int) -> int:
    """max_m own_m, for integers in [low, high) with high - low <= 256.

    Of own - low, the first digit in base 16 and then, among the parties whose first digit is the largest, the second:

    1. party m draws a secret key x_m and sends x_m G; the common key is P = sum_m x_m G
    2. for j = 1 .. 15 party m sends an encryption of 1 if its digit is at least j, else of 0; the ciphertexts of all
       parties add up to C_j, an encryption of how many parties reach j
    3. party m sends r_mj C_j + (a fresh encryption of 0) for random r_mj; these add up to D_j = (A_j, B_j)
    4. party m sends x_m A_j; B_j - sum_m x_m A_j is the group's identity exactly if nobody reaches j, otherwise it is
       a random point

    Reveals: the maximum. Any M - 1 colluding parties learn of the last party's integer only whether it exceeds theirs:
    r_mj of that party hides how many reach j. Semi-honest; decisional Diffie-Hellman in ristretto255.
    Cost: 7 rounds, about 5 kB a peer, 300 multiplications of a point.
    Ref: ElGamal, CRYPTO 1984; Brandt, "Efficient cryptographic protocol design based on distributed ElGamal", ICISC
    2005 (the zero test by a random multiple).
    """
    if high - low > BASE**2:
        raise ValueError(f"{high - low} values: at most {BASE**2}")
    if not low <= own < high:
        raise QuotaError(f"{own} is not between {low} and {high - 1}.", "a smaller number")
    keys = _Keys(link)
    first, second = divmod(own - low, BASE)
    top = keys.largest_digit(first)
    return low + BASE * top + keys.largest_digit(second if first == top else 0)


class _Keys:
    """Party me's part of the common key P, fresh for each maximum."""

    def __init__(self, link: Link) -> None:
        self._link, self._x = link, group.random_scalar()
        own = group.base_times(self._x)
        self._P = _added([own, *(points[0] for points in self._exchange("key", [own]))])

    def largest_digit(self, digit: int) -> int:
        """Steps 2 to 4."""
        marks = [self._encrypt(digit >= j) for j in range(1, BASE)]
        counts = self._sum("marks", marks)
        masked = self._sum("masked", [self._times(c) for c in counts])
        shares = [group.times(self._x, A) for A, _ in masked]
        opened = [shares, *self._exchange("shares", shares)]
        # The marks of a maximum are ones up to it and zeros beyond; a point that is not the identity is a one.
        return sum(_added(column) != B for (_, B), *column in zip(masked, *opened, strict=True))

    def _encrypt(self, bit: bool) -> Ciphertext:
        k, one = group.random_scalar(), _one()
        secret = group.times(k, self._P)
        both = secret, group.add(secret, one)  # both are computed: the time does not tell the bit
        return group.base_times(k), both[bit]

    def _times(self, c: Ciphertext) -> Ciphertext:
        """A random multiple, as a ciphertext that nobody can tell from another."""
        r, zero = group.random_scalar(), self._encrypt(False)
        return group.add(group.times(r, c[0]), zero[0]), group.add(group.times(r, c[1]), zero[1])

    def _sum(self, step: str, own: Sequence[Ciphertext]) -> list[Ciphertext]:
        """The sums over all parties, one for each of our ciphertexts."""
        flat = [point for c in own for point in c]
        sums = [_added(column) for column in zip(flat, *self._exchange(step, flat), strict=True)]
        return list(zip(sums[::2], sums[1::2], strict=True))

    def _exchange(self, step: str, points: Sequence[bytes]) -> list[list[bytes]]:
        """The others' points, as many from each as ours."""
        received = []
        for peer, data in self._link.all_to_all(f"largest:{step}", b"".join(points)).items():
            theirs = [bytes(data[i : i + group.SIZE]) for i in range(0, len(data), group.SIZE)]
            if len(theirs) != len(points) or not all(map(group.is_point, theirs)):
                raise ProtocolError(
                    f"P{peer} sent {len(data)} bytes that are not {len(points)} group elements.",
                    "elements of ristretto255",
                    "check that all parties run the same version",
                    culprit=peer,
                )
            received.append(theirs)
        return received


def _one() -> bytes:
    return group.base_times((1).to_bytes(group.SIZE, "little"))


def _added(points: Sequence[bytes]) -> bytes:
    total, *others = points
    for point in others:
        total = group.add(total, point)
    return total
