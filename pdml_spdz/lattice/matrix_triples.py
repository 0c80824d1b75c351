"""Beaver triples of matrices: shares of uniform A, B and of C = A B mod 2^w, many of one shape."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.lattice import cost
from pdml_spdz.lattice.exact import multiply
from pdml_spdz.lattice.parameters import MAX_BITS, Parameters
from pdml_spdz.lattice.product import Progress, added, share_product
from pdml_spdz.lattice.residues import DIGIT
from pdml_spdz.numerics import ring
from pdml_spdz.ot import extension, triples
from pdml_spdz.transport.base import Link

MOST_DIGITS = 4
TRANSFER_SECONDS = 0.5e-6  # of CPU for each bit of a product of two numbers by oblivious transfers, and peer
TRANSFER_BYTES = 4  # that the transfer of a bit takes beside what is sent under it


@dataclass(frozen=True)
class MatrixTriples:
    """One party's shares: sum A sum B = sum C mod 2^w over the parties, for each of `count` triples.

    w : bits
    a : (count, n, i, limbs)
    b : (count, i, c, limbs)
    c : (count, n, c, limbs)
    """

    w: int
    a: NDArray[np.uint64]
    b: NDArray[np.uint64]
    c: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.a)


def layout(M: int, n: int, i: int, c: int, count: int, w: int, kind: type[Parameters] = Parameters) -> Parameters:
    """The cheapest parameters, with A cut into digits: inner dimension digits i, entries below 2^bits."""
    found = []
    for many in range(1, MOST_DIGITS + 1):
        bits = digit_bits(w, many)
        if bits <= MAX_BITS and kind.possible(many * i, w, bits):
            found.append(kind.choose(M=M, n=n, i=many * i, c=c, w=w, bits=bits, count=count))
    return min(found, key=lambda p: cost.price(p.packing, M, p.N, p.count, p.travel_bits))


def digit_bits(w: int, many: int) -> int:
    """Bits of each of `many` digits of a number mod 2^w; all bits but the sign if there is only one."""
    return DIGIT * ceil(w / (DIGIT * many)) if many > 1 else w - 1


def matrix_triples(
    link: Link,
    *,
    n: int,
    i: int,
    c: int,
    count: int,
    w: int,
    parameters: Parameters | None = None,
    ots: extension.Ends | None = None,
    progress: Progress | None = None,
) -> MatrixTriples:
    """`count` triples of an (n x i) and an (i x c) matrix.

    1. Party m draws its shares A_m and B_m, uniform.
    2. A_m = sum_k 2^(b k) A_mk, with digits of b bits, so that A_m B_l = [A_m0 A_m1 ...] [B_l; 2^b B_l; ...]:
    3. `share_product` of these gives shares of C = (sum A_m)(sum B_l).

    Digits keep the noise of S e, and with it q, small; how many is chosen by cost. With `ots`, oblivious transfers that
    the parties have set up, a few small triples are made by these instead, if that costs less (`transfers_pay`).

    *Reveals:* nothing, as `share_product`.
    *Cost:* `layout(...).sent` bytes.
    """
    p = parameters or layout(link.M, n, i, c, count, w)
    limbs = ring.limbs(w)
    a = ring.random(count * n * i, w).reshape(count, n, i, limbs)
    b = ring.random(count * i * c, w).reshape(count, i, c, limbs)
    if ots is not None and transfers_pay(p, n * i * c * count):
        return MatrixTriples(w, a, b, _by_transfers(link, ots, a, b, w))
    many = p.packing.i // i
    share = share_product(link, _left(a, w, many), _right(b, w, many), p, progress=progress)
    return MatrixTriples(w, a, b, share.reshape(count, n, c, limbs))


def transfers_pay(p: Parameters, products: int) -> bool:
    """Whether so many products of two numbers cost less by oblivious transfers than by ring-LWE."""
    bits = 64 * ring.limbs(p.w)
    sent = products * (triples.message_size(1, bits) + TRANSFER_BYTES * bits)
    price = (p.M - 1) * (sent / cost.BANDWIDTH + products * bits * TRANSFER_SECONDS)
    return price < cost.price(p.packing, p.M, p.N, p.count, p.travel_bits)


def _by_transfers(
    link: Link, ots: extension.Ends, a: NDArray[np.uint64], b: NDArray[np.uint64], w: int
) -> NDArray[np.uint64]:
    """Shares of A B: every product of two numbers by itself (`ot/triples.py`)."""
    count, n, i, c, limbs = *a.shape[:3], *b.shape[2:]
    shape = count, n, i, c, limbs
    left = np.broadcast_to(a[:, :, :, None], shape).reshape(-1, limbs)
    right = np.broadcast_to(b[:, None], shape).reshape(-1, limbs)
    terms = np.empty_like(left)
    for first in range(0, len(left), triples.BATCH):
        some = slice(first, first + triples.BATCH)
        pair = (np.ascontiguousarray(side[some]) for side in (left, right))
        terms[some] = triples.cross_terms(link, ots, *pair)
    cross = terms.reshape(shape).transpose(2, 0, 1, 3, 4)
    return added([multiply(_signed(a, w), b, w), *cross])


def _left(a: NDArray[np.uint64], w: int, many: int) -> NDArray[np.uint64]:
    """[A_0 A_1 ...], (count, n, many i, limbs); one digit is the number itself, with its sign."""
    count, n, i = a.shape[:3]
    if many == 1:
        return _signed(a, w)
    size = digit_bits(w, many) // DIGIT
    digits = a.view("<u2")[..., : w // DIGIT]
    out = np.zeros((count, n, many, i, 4 * (size // 4 + 1)), "<u2")  # with room for a sign, which is never negative
    for k in range(many):
        some = digits[..., k * size : (k + 1) * size]
        out[:, :, k, :, : some.shape[-1]] = some
    return out.reshape(count, n, many * i, -1).view("<u8")


def _signed(a: NDArray[np.uint64], w: int) -> NDArray[np.uint64]:
    """Numbers mod 2^w with the sign of bit w - 1 in all bits above it."""
    if w % 64 == 0:
        return a
    shift = np.uint64(64 - w % 64)
    out = a.copy()
    out[..., -1] = ((out[..., -1] << shift).view(np.int64) >> shift.astype(np.int64)).view(np.uint64)
    return out


def _right(b: NDArray[np.uint64], w: int, many: int) -> NDArray[np.uint64]:
    """[B; 2^b B; 2^(2b) B; ...], (count, many i, c, limbs)."""
    size = digit_bits(w, many) // DIGIT
    out = np.zeros((len(b), many, *b.shape[1:3], 4 * b.shape[3]), "<u2")
    digits = b.view("<u2")
    for k in range(many):
        out[:, k, ..., k * size :] = digits[..., : digits.shape[-1] - k * size]
    return out.reshape(len(b), many * b.shape[1], b.shape[2], -1).view("<u8")
