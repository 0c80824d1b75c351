"""Arithmetic in Z_2^k on vectors of shape (n, L): L little-endian uint64 limbs per number, k = 128, 160, 192, 224, ...

A vector stands for its residues mod 2^k. It is worked on mod 2^(64 L), which 2^k divides: where k is not a multiple of
64, bits above k are carried along and mean nothing. "signed" reads all limbs as two's complement.
Everything is vectorised over n; the only loops are over limbs or over the bits of one number.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import ArrayLike, NDArray

from pdml_spdz.errors import QuotaError

Vector: TypeAlias = "NDArray[np.uint64]"  # shape (n, L)
Buffer: TypeAlias = "bytes | bytearray | memoryview"
Narrow: TypeAlias = "NDArray[np.uint32]"  # shape (n, k/32): a vector without the bits above k
Term: TypeAlias = "tuple[Sequence[Vector | Narrow], int]"  # a scalar times a sum of vectors

WORD = np.dtype("<u8")  # limbs are little-endian in memory too, so that a vector's bytes are its numbers' bytes
DIGIT = 16  # bits of a digit in products: views of a vector, without a copy
COMBINE_PRODUCTS = 1 << 18  # up to here OpenBLAS uses one thread: more would wait for each other, and for the cache
EXACT = 1 << 53 - 3 * DIGIT  # products of a digit and a long one that add up exactly in float64
COMBINE_ROWS = 5400  # numbers in a step of NumPy, some products of that size
DOT_ROWS = 1 << 20  # 2^20 products of 16-bit by 16-bit pieces stay below 2^53: exact in float64


def limbs(bits: int) -> int:
    """L for the ring Z_2^bits."""
    if bits <= 0 or bits % 32:
        raise ValueError(f"a ring of {bits} bits is not a whole number of 32-bit words")
    return -(-bits // 64)


def zeros(n: int, bits: int) -> Vector:
    return np.zeros((n, limbs(bits)), WORD)


def random(n: int, bits: int) -> Vector:
    """n uniform ring elements: AES-256 in counter mode under a fresh key from the operating system's generator."""
    out = zeros(n, bits)
    raw = out.reshape(-1).view(np.uint8).data
    Cipher(algorithms.AES(os.urandom(32)), modes.CTR(bytes(16))).encryptor().update_into(raw, raw)
    return out


def random_below(n: int, t: int, bits: int) -> Vector:
    """n uniform numbers below 2^t, in Z_2^bits."""
    out = random(n, bits)
    whole, rest = divmod(t, 64)
    out[:, whole] &= low(rest)
    out[:, whole + 1 :] = 0
    return out


def from_bytes(raw: Buffer, bits: int) -> Vector:
    """The vector whose numbers are the consecutive little-endian bytes of `raw`: no copy, writable if `raw` is."""
    return np.frombuffer(raw, WORD).reshape(-1, limbs(bits))


def to_wire(a: Vector, bits: int) -> Narrow:
    """The numbers in bits/8 bytes each, as they travel."""
    if bits % 64 == 0:
        return a.view("<u4")
    return np.ascontiguousarray(a.view("<u4")[:, : bits // 32])


def from_wire(raw: Buffer, bits: int) -> Narrow:
    """What `to_wire` made, without a copy: `combine` and `to_ints` take it as it is."""
    return np.frombuffer(raw, "<u4").reshape(-1, bits // 32)


def from_ints(values: Iterable[int], bits: int) -> Vector:
    """Python integers of any size and sign."""
    size = 8 * limbs(bits)
    mask = (1 << 8 * size) - 1
    return from_bytes(bytearray(b"".join((x & mask).to_bytes(size, "little") for x in values)), bits)


def to_ints(a: Vector | Narrow, *, signed: bool = False) -> list[int]:
    size = a.itemsize * a.shape[1]
    raw = np.ascontiguousarray(a).tobytes()
    return [int.from_bytes(raw[i : i + size], "little", signed=signed) for i in range(0, len(raw), size)]


def from_float(x: ArrayLike, f: int, bits: int) -> Vector:
    """round(x * 2^f), halves to even, exactly: the fixed-point encoding with f fraction bits, x of shape (n,)."""
    x = np.asarray(x, np.float64)
    # `not all(<)`: NaN must not pass. Scaling by 2^f is exact, and above 2^53 there is nothing left to round.
    if not np.all(np.abs(x) < np.ldexp(1.0, bits - 1 - f)):
        raise QuotaError(f"a number is not finite or not below 2^{bits - 1 - f}.", f"|x| * 2^{f} < 2^{bits - 1}")
    y = np.rint(x * 2.0**f)
    if bits >= 128 and np.all(np.abs(y) < 2.0**106):
        out = np.empty((len(y), limbs(bits)), WORD)
        # y = a 2^43 + b with 0 <= b < 2^43: both are exact, and together they are two's complement.
        a = np.floor(y * 2.0**-43)
        high = a.astype(np.int64)
        a *= 2.0**43
        b = np.subtract(y, a, out=a).astype(np.int64)
        out[:, 0] = ((high << 43) | b).view(WORD)
        out[:, 1] = (high >> 21).view(WORD)
        out[:, 2:] = (high >> 63).view(WORD)[:, None]
        return out
    if bits >= 224 and np.all(np.abs(y) < 2.0**190):
        return _from_pieces(y, limbs(bits))
    out, left = np.empty((len(y), limbs(bits)), WORD), np.abs(y)
    for i in range(limbs(bits) - 1, -1, -1):  # from the top: what a limb takes away is exact, and so is what is left
        limb = np.floor(np.ldexp(left, -64 * i))
        left -= np.ldexp(limb, 64 * i)
        out[:, i] = limb.astype(WORD)
    return np.where((y < 0)[:, None], neg(out), out)


def _from_pieces(y: NDArray[np.float64], count: int) -> Vector:
    """Integers |y| < 2^190 in two's complement, cut into pieces of 43 bits from below, each exact in float64."""
    high, pieces = y, []
    for _ in range(3):
        above = np.floor(high * 2.0**-43)
        pieces.append((high - above * 2.0**43).astype(np.int64))
        high = above
    a, b, c = pieces  # y = high 2^129 + c 2^86 + b 2^43 + a
    top = high.astype(np.int64)
    out = np.empty((len(y), count), WORD)
    out[:, 0] = ((b << 43) | a).view(WORD)
    out[:, 1] = ((c << 22) | (b >> 21)).view(WORD)
    out[:, 2] = ((top << 1) | (c >> 42)).view(WORD)
    out[:, 3:] = (top >> 63).view(WORD)[:, None]
    return out


def is_negative(a: Vector) -> NDArray[np.bool_]:
    return np.asarray(a[:, -1] >> np.uint64(63) != 0)


def add(a: Vector, b: Vector) -> Vector:
    """a + b; either may be a single row."""
    out = a + b
    carry = out < a
    for i in range(1, out.shape[1]):
        out[:, i] += carry[:, i - 1]
        carry[:, i] |= carry[:, i - 1] & (out[:, i] == 0)
    return out


def sub(a: Vector, b: Vector) -> Vector:
    """a - b; either may be a single row."""
    out = a - b
    borrow = a < b
    for i in range(1, out.shape[1]):
        borrow[:, i] |= borrow[:, i - 1] & (out[:, i] == 0)
        out[:, i] -= borrow[:, i - 1]
    return out


def neg(a: Vector) -> Vector:
    return sub(np.zeros((1, a.shape[1]), WORD), a)


def scale(a: Vector, c: int) -> Vector:
    """c * a for one ring scalar c."""
    return combine([([a], c)])


def combine(terms: Sequence[Term], plus: Sequence[Vector] = ()) -> Vector:
    """sum_j c_j (a_j1 + a_j2 + ...) + p_1 + p_2 + ... for ring scalars c_j; a p may be a single row."""
    n, count = len(terms[0][0][0]), _width(terms)
    out = np.zeros((n, 4 * -(-count // 4)), "<u2")
    for rows, sums in _digit_sums(terms, plus, count):
        digits = sums.astype(np.int64)
        for i in range(count - 1):
            digits[:, i + 1] += digits[:, i] >> DIGIT
        out[rows, :count] = digits.astype("<u2").transpose(0, 2, 1).reshape(-1, count)
    return out.view(WORD)


def combine_above(terms: Sequence[Term], plus: Sequence[Vector], t: int, bits: int) -> NDArray[np.uint64]:
    """The `bits` bits, up to 64, from bit t on of combine(terms, plus).

    Digits above are not computed at all, digits below give only their carries.
    """
    n, width = len(terms[0][0][0]), _width(terms)
    first, shift = divmod(t, DIGIT)
    count = min(width, -(-(t + bits) // DIGIT))
    out = np.empty(n, np.int64)
    for rows, sums in _digit_sums(terms, plus, count):
        sums[:, first] = _carried(sums[:, : first + 1])
        top = sums[:, first:].astype(np.int64)
        word = np.right_shift(top[:, 0], shift, out=out[rows].reshape(top[:, 0].shape))
        for i in range(1, count - first):
            word += np.left_shift(top[:, i], DIGIT * i - shift, out=top[:, i])
    return out.view(np.uint64) & low(min(bits, DIGIT * width - t))


def _width(terms: Sequence[Term]) -> int:
    """Digits that all vectors of the terms have."""
    return min(int(_digits(a[:1]).shape[1]) for vectors, _ in terms for a in vectors)


def _carried(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """The highest of these digits, with the carries of those below it. Exact: all is below 2^53."""
    carried, over = sums[:, 0], np.empty_like(sums[:, 0])
    for i in range(1, sums.shape[1]):
        np.floor(np.multiply(carried, 2.0**-DIGIT, out=over), out=over)
        carried = np.add(over, sums[:, i], out=over)
    return carried


def _digit_sums(
    terms: Sequence[Term], plus: Sequence[Vector], count: int
) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    """The lowest `count` digits of `combine` before carries, shape (pieces, count, numbers), for some rows at a time.

    Multiplication by c is a Toeplitz matrix on digits. Those of the vectors are twice as long as those of c and of the
    result, as long as a row's products of 48 bits, some dozens of them, stay below 2^53: float64, and with it the
    fastest matrix product there is, is exact. Digits stand in rows of their own, as BLAS likes them. Pieces are as long
    as BLAS takes in one thread, several make one step of NumPy; buffers are made once and stay in the cache: fresh
    memory would cost more than the arithmetic.
    """
    n = len(terms[0][0][0])
    long = [a for a in plus if len(a) == n]
    span = 2 if (sum(len(vectors) for vectors, _ in terms) + 1) * -(-count // 2) + len(plus) < EXACT else 1
    high = -(-count // span)  # digits of a vector
    matrix = np.hstack([_toeplitz(c, count, span) for _, c in terms])
    single = sum((_digits(a)[0, :count].astype(np.float64) for a in plus if len(a) == 1 < n), np.zeros(count))
    shapes = list(_piecewise(n, COMBINE_PRODUCTS // matrix.size))
    most = max((pieces * length for pieces, length in shapes), default=0)
    added, table, total = np.empty((most, high), np.int64), np.empty(most * matrix.shape[1]), np.empty(most * count)
    start = 0
    for pieces, length in shapes:
        m = pieces * length
        rows, start = slice(start, start + m), start + m
        digits = table[: m * matrix.shape[1]].reshape(pieces, -1, length)
        sums = total[: m * count].reshape(pieces, count, length)

        def planes(
            vectors: Sequence[Vector | Narrow], rows: slice = rows, shape: tuple[int, int] = (pieces, length)
        ) -> Any:
            """The digits of a sum of vectors, in the shape of `digits`."""
            whole = _add_digits(vectors, rows, added[: rows.stop - rows.start], span)
            return whole.reshape(*shape, high).transpose(0, 2, 1)

        for j, (vectors, _) in enumerate(terms):
            digits[:, j * high : (j + 1) * high] = planes(vectors)
        np.matmul(matrix, digits, out=sums)
        if long:
            sums[:, ::span] += planes(long)
        for i in np.flatnonzero(single):
            sums[:, i] += single[i]
        yield rows, sums


def _piecewise(n: int, length: int) -> Iterator[tuple[int, int]]:
    """(pieces, numbers in each) that together are n."""
    while n >= length:
        pieces = min(max(1, COMBINE_ROWS // length), n // length)
        yield pieces, length
        n -= pieces * length
    if n:
        yield 1, n


def _add_digits(
    vectors: Sequence[Vector | Narrow], rows: slice, added: NDArray[np.int64], span: int
) -> NDArray[np.integer[Any]]:
    """The sums of these rows, digit by digit, in the shape of `added`."""
    high = added.shape[1]
    first, *others = (_digits(a[rows], span)[:, :high] for a in vectors)
    if not others:
        return first
    np.add(first, others[0], out=added, dtype=np.int64)
    for digits in others[1:]:
        np.add(added, digits, out=added)
    return added


def _toeplitz(c: int, count: int, span: int) -> NDArray[np.float64]:
    """What each long digit of a number counts in each digit of c times that number; shape (count, count / span)."""
    digits = _digits(from_ints([c], 64 * -(-count // 4)))[0]
    weights = np.zeros((count, -(-count // span)), order="F")
    for j in range(weights.shape[1]):
        weights[span * j :, j] = digits[: count - span * j]
    return weights


def _digits(a: Vector | Narrow, span: int = 1) -> NDArray[np.uint16 | np.uint32]:
    """Digits of 16 bits, or `span` times that, without a copy."""
    return np.ascontiguousarray(a).view(f"<u{2 * span}")


def low(bits: int) -> np.uint64:
    """The mask of the low `bits` bits of a word."""
    return np.uint64((1 << bits) - 1)


def word_above(a: Vector, t: int, bits: int) -> NDArray[np.uint64]:
    """The `bits` bits, up to 64, of each number from bit t on."""
    limb, shift = divmod(t, 64)
    word = a[:, limb] >> np.uint64(shift)
    if shift and limb + 1 < a.shape[1]:
        word |= a[:, limb + 1] << np.uint64(64 - shift)
    return word & low(bits)


def pack(a: Vector, t: int) -> NDArray[Any]:
    """The low t bits of each number in ceil(t/8) bytes: whole limbs of all numbers, then the rest (`pack_words`)."""
    whole, rest = divmod(t, 64)
    if not rest:
        return np.ascontiguousarray(a[:, :whole])
    words = np.ascontiguousarray(a[:, :whole]).reshape(-1).view(np.uint8)
    return np.concatenate([words, pack_words(a[:, whole], rest)])


def unpack(raw: Buffer, n: int, t: int) -> Vector:
    """The inverse of `pack`: n numbers below 2^t, in as many limbs as they need."""
    whole, rest = divmod(t, 64)
    if not rest:
        return np.frombuffer(raw, WORD).reshape(n, whole)
    out = np.empty((n, whole + 1), WORD)
    out[:, :whole] = np.frombuffer(raw, WORD, n * whole).reshape(n, whole)
    out[:, whole] = unpack_words(memoryview(raw)[8 * n * whole :], n, rest)
    return out


def pack_words(z: NDArray[np.uint64], bits: int) -> NDArray[Any]:
    """The low `bits` bits of every word, in whole bytes: first the low 4 bytes of all, then the next 2, then 1."""
    if bits == 64:
        return z
    kept = z & low(bits)
    return np.concatenate([_pieces(kept, size, offset).copy().view(np.uint8) for size, offset in _planes(bits)])


def unpack_words(raw: Buffer, n: int, bits: int) -> NDArray[np.uint64]:
    """The inverse of `pack_words`: n words below 2^bits."""
    if bits == 64:
        return np.frombuffer(raw, WORD, n)
    z = np.zeros(n, WORD)
    for size, offset in _planes(bits):
        _pieces(z, size, offset)[:] = np.frombuffer(raw, f"<u{size}", n, offset * n)
    return z


def _planes(bits: int) -> Iterator[tuple[int, int]]:
    """(size, offset) in bytes of the pieces in which `bits` bits travel: copying whole columns is faster than 6 bytes
    of 8.
    """
    size, offset = -(-bits // 8), 0
    for piece in (8, 4, 2, 1):
        if size & piece:
            yield piece, offset
            offset += piece


def _pieces(z: NDArray[np.uint64], size: int, offset: int) -> NDArray[Any]:
    """The `size` bytes from `offset` on, a multiple of it, of every word: a view."""
    return z.view(f"<u{size}")[offset // size :: 8 // size]


def dot(a: Vector, weights: Sequence[int] | NDArray[Any]) -> int:
    """sum_i weights[i] * a[i] as an exact integer, a read as signed, weights in [-2^63, 2^63).

    For a share it is to be reduced mod 2^k (the public linear combination of a shared vector); for numbers that are
    known to be small it is the true sum. Four 16-bit pieces per limb in float64, where every partial sum is exact.
    """
    w = np.ascontiguousarray(weights, np.int64)
    pieces = w.view(np.uint16).reshape(-1, 4).astype(np.float64)
    pieces[:, 3] = w.view(np.int16).reshape(-1, 4)[:, 3]  # the piece that carries the sign
    digits = np.ascontiguousarray(a).view(np.uint16)
    sign = is_negative(a)[:, None]
    total, bits = 0, 64 * a.shape[1]
    for start in range(0, len(a), DOT_ROWS):
        rows = slice(start, start + DOT_ROWS)
        table = np.concatenate([digits[rows], sign[rows]], axis=1).astype(np.float64).T @ pieces[rows]
        *unsigned, negative = [[int(x) for x in row] for row in table]
        total += sum(x << 16 * (i + j) for i, row in enumerate(unsigned) for j, x in enumerate(row))
        total -= sum(x << 16 * j for j, x in enumerate(negative)) << bits
    return total
