"""Whether a shared integer is one of a few public ones, and nothing else about it."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from pdml_spdz.ot import group
from pdml_spdz.primitives.largest import Ciphertext, CommonKey
from pdml_spdz.transport.base import Link


def is_one_of(link: Link, share: int, values: Sequence[int]) -> bool:
    """Whether x = sum_m share_m is one of `values`, for integers |x| < 2^250 and shares of any size.

    1. party m draws a secret key x_m and sends x_m G, with a proof that it knows x_m; the common key is
       P = sum_m x_m G
    2. party m sends an encryption of share_m G; the sum of these, less v G, is C_v for every v in `values`
    3. one party after the other multiplies every C_v by a random number of its own, encrypts it anew and sends them in
       an order of its own
    4. all decrypt them together, each share with a proof that it was made by that x_m: one is the group's identity
       exactly if x is that value, otherwise all are random points

    The group has prime order, so that a random multiple of any number but 0 is uniform: nothing shows how often 2 or
    another number divides it. Values differ, so that at most one is the identity; which one, the order hides as long as
    one party keeps its order to itself.

    Reveals: the result. Semi-honest, up to M - 1 colluding; decisional Diffie-Hellman in ristretto255. The proofs end a
    run with a party that chooses its key or its decryption share by those of others. No proof is made of step 3: a
    party that mixes other ciphertexts than it was sent makes the result what it likes, and a small x its own.
    Cost: M + 3 rounds; 64 bytes for each value and round. Ref: as `largest`.
    """
    keys = CommonKey(link, "zero")
    (total,) = keys.sum("shares", [keys.encrypt(group.scalar(share))])
    tests = [_less(total, v) for v in values]
    for root in range(link.M):
        own = None
        if root == link.me:
            mixed = [keys.times(c) for c in tests]
            secrets.SystemRandom().shuffle(mixed)
            own = b"".join(point for c in mixed for point in c)
        sent = link.broadcast("zero:mix", own, root, most=2 * len(tests) * group.SIZE)
        points = keys.points(sent, 2 * len(tests), root)
        tests = list(zip(points[::2], points[1::2], strict=True))
    return not all(keys.nonzero(tests))


def _less(c: Ciphertext, v: int) -> Ciphertext:
    return c if v == 0 else (c[0], group.sub(c[1], group.base_times(group.scalar(v))))
