"""A proof that one secret scalar has made several points, which reveals nothing else about it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from pdml_spdz.ot import group

SIZE = 2 * group.SIZE  # bytes of a proof
DOMAIN = b"pdml-spdz proof v1"
Pair = tuple[bytes, bytes]  # a base A, and x A


def prove(x: bytes, pairs: Sequence[Pair], context: bytes) -> bytes:
    """That x A_i = X_i for all pairs (A_i, X_i), of which the first is the generator G and x G.

    1. A <- sum_i rho_i A_i and X <- sum_i rho_i X_i over all pairs but the first, with rho_i from a hash of them all
    2. k <- a random scalar; c <- hash of the context, all pairs, k G and k A; s <- k + c x; the proof is c, s

    Reveals: that it is so (in the random oracle model). Nobody who does not know x can make one, nor one for points of
    two different x but for one case in 2^126. The context has what all have heard, so that no proof serves twice.
    Cost: 64 bytes; a multiplication for each pair here, two at who checks it. Ref: Schnorr, CRYPTO 1989 (one pair);
    Chaum and Pedersen, CRYPTO 1992; the challenge by Fiat and Shamir, CRYPTO 1986.
    """
    k = group.random_scalar()
    weights, digest = _weights(pairs, context)
    bases = _merged(weights, [A for A, _ in pairs[1:]])
    c = _challenge(digest, [group.base_times(k), *(group.times(k, A) for A in bases)])
    s = (int.from_bytes(k, "little") + c * int.from_bytes(x, "little")) % group.ORDER
    return group.scalar(c) + group.scalar(s)


def holds(proof: bytes, pairs: Sequence[Pair], context: bytes) -> bool:
    """Whether c is the hash of step 2 with s G - c X_1 and s A - c X in the places of k G and k A."""
    c, s = (int.from_bytes(part, "little") for part in (proof[: group.SIZE], proof[group.SIZE :]))
    if len(proof) != SIZE or not (0 < c < group.ORDER and 0 < s < group.ORDER):
        return False
    weights, digest = _weights(pairs, context)
    bases, points = (_merged(weights, [pair[which] for pair in pairs[1:]]) for which in (0, 1))
    s_times = [group.base_times(group.scalar(s)), *(group.times(group.scalar(s), A) for A in bases)]
    c_times = [group.times(group.scalar(c), X) for X in (pairs[0][1], *points)]
    return c == _challenge(digest, list(map(group.sub, s_times, c_times)))


def _weights(pairs: Sequence[Pair], context: bytes) -> tuple[list[bytes], bytes]:
    """rho_i, and the digest of all that they and the challenge depend on."""
    whole = hashlib.sha512(DOMAIN + len(context).to_bytes(8, "little") + context)
    for A, X in pairs:
        whole.update(A + X)
    digest = whole.digest()
    return [group.scalar(_scalar(digest + i.to_bytes(8, "little"))) for i in range(1, len(pairs))], digest


def _merged(weights: Sequence[bytes], points: Sequence[bytes]) -> list[bytes]:
    """The weighted sum; of no points, none."""
    return [group.added(list(map(group.times, weights, points)))] if points else []


def _challenge(digest: bytes, points: Sequence[bytes]) -> int:
    return _scalar(digest + b"".join(points))


def _scalar(content: bytes) -> int:
    """A scalar but 0, from a hash that is twice as long: as good as uniform."""
    return int.from_bytes(hashlib.sha512(content).digest(), "little") % (group.ORDER - 1) + 1
