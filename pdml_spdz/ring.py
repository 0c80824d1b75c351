"""Arithmetic in Z_2^k on vectors of shape (n, L): L = k/64 little-endian uint64 limbs per number, k = 128, 192, ...

A vector stands for its residues mod 2^k; "signed" reads them as two's complement, in [-2^(k-1), 2^(k-1)).
Everything is vectorised over n; the only loops are over limbs or over the bits of one number.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import blas

from pdml_spdz.errors import QuotaError

Vector: TypeAlias = "NDArray[np.uint64]"  # shape (n, L)
Term: TypeAlias = "tuple[Sequence[Vector], int]"  # a scalar times a sum of vectors

WORD = np.dtype("<u8")  # limbs are little-endian in memory too, so that a vector's bytes are its numbers' bytes
COMBINE_PRODUCTS = 1 << 18  # up to here OpenBLAS uses one thread: more would wait for each other, and for the cache
DOT_ROWS = 1 << 20  # 2^20 products of 16-bit by 16-bit pieces stay below 2^53: exact in float64


def limbs(bits: int) -> int:
    """L for the ring Z_2^bits."""
    if bits <= 0 or bits % 64:
        raise ValueError(f"a ring of {bits} bits is not a whole number of 64-bit limbs")
    return bits // 64


def zeros(n: int, bits: int) -> Vector:
    return np.zeros((n, limbs(bits)), WORD)


def random(n: int, bits: int) -> Vector:
    """n uniform ring elements: AES-256 in counter mode under a fresh key from the operating system's generator."""
    size = n * 8 * limbs(bits)
    raw = bytearray(size)
    Cipher(algorithms.AES(os.urandom(32)), modes.CTR(bytes(16))).encryptor().update_into(bytes(size), raw)
    return from_bytes(raw, bits)


def from_bytes(raw: bytes | bytearray | memoryview, bits: int) -> Vector:
    """The vector whose numbers are the consecutive little-endian bytes of `raw`: no copy, writable if `raw` is."""
    return np.frombuffer(raw, WORD).reshape(-1, limbs(bits))


def from_ints(values: Iterable[int], bits: int) -> Vector:
    """Python integers of any size and sign, reduced mod 2^bits."""
    size, mask = 8 * limbs(bits), (1 << bits) - 1
    return from_bytes(bytearray(b"".join((x & mask).to_bytes(size, "little") for x in values)), bits)


def to_ints(a: Vector, *, signed: bool = False) -> list[int]:
    size = 8 * a.shape[1]
    raw = np.ascontiguousarray(a).tobytes()
    return [int.from_bytes(raw[i : i + size], "little", signed=signed) for i in range(0, len(raw), size)]


def from_float(x: ArrayLike, f: int, bits: int) -> Vector:
    """round(x * 2^f), halves to even, exactly: the fixed-point encoding with f fraction bits, x of shape (n,)."""
    x = np.asarray(x, np.float64)
    # `not all(<)`: NaN must not pass. ldexp is exact, and above 2^53 there is nothing left to round.
    if not np.all(np.abs(x) < np.ldexp(1.0, bits - 1 - f)):
        raise QuotaError(f"a number is not finite or not below 2^{bits - 1 - f}.", f"|x| * 2^{f} < 2^{bits - 1}")
    y = np.rint(np.ldexp(x, f))
    out = np.empty((len(y), limbs(bits)), WORD)
    if bits >= 128 and np.all(np.abs(y) < 2.0**106):
        # y = a 2^43 + b with 0 <= b < 2^43: both are exact, and together they are two's complement.
        a = np.floor(np.ldexp(y, -43))
        b = (y - np.ldexp(a, 43)).astype(np.int64)
        high = a.astype(np.int64)
        out[:, 0] = ((high << 43) | b).view(WORD)
        out[:, 1] = (high >> 21).view(WORD)
        out[:, 2:] = (high >> 63).view(WORD)[:, None]
        return out
    left = np.abs(y)
    for i in range(limbs(bits) - 1, -1, -1):  # from the top: what a limb takes away is exact, and so is what is left
        limb = np.floor(np.ldexp(left, -64 * i))
        left -= np.ldexp(limb, 64 * i)
        out[:, i] = limb.astype(WORD)
    return np.where((y < 0)[:, None], neg(out), out)


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
    n, size = terms[0][0][0].shape
    out = np.empty((n, size), WORD)
    for rows, sums in _digit_sums(terms, plus):
        for i in range(4 * size - 1):
            sums[i + 1] += sums[i] >> 16
        out[rows] = sums.astype("<u2").T.copy().view(WORD)
    return out


def combine_above(terms: Sequence[Term], plus: Sequence[Vector], t: int) -> NDArray[np.uint64]:
    """word_above(combine(terms, plus), t), at half the price: digits that no one asks for give only their carries."""
    n, size = terms[0][0][0].shape
    out = np.empty(n, np.int64)
    first, shift = divmod(t, 16)
    last = min(4 * size, first + -(-(64 + shift) // 16))
    for rows, sums in _digit_sums(terms, plus):
        carry = np.zeros(sums.shape[1], np.int64)
        for i in range(first):
            carry += sums[i]
            carry >>= 16
        carry += sums[first]
        word = np.right_shift(carry, shift, out=out[rows])
        for i in range(first + 1, last):
            word += np.left_shift(sums[i], 16 * (i - first) - shift, out=carry)
    word = out.view(np.uint64)
    room = 64 * size - t
    return word if room >= 64 else word & np.uint64((1 << room) - 1)


def _digit_sums(terms: Sequence[Term], plus: Sequence[Vector]) -> Iterator[tuple[slice, NDArray[np.int64]]]:
    """The 16-bit digits of `combine` before carries, shape (4L, rows), for some rows at a time.

    Multiplication by c is a Toeplitz matrix on digits. A row has at most a few thousand products below 2^32, so that
    float64, and with it the fastest matrix product there is, is exact. Buffers are made once and stay in the cache:
    fresh memory would cost more than the arithmetic.
    """
    n, size = terms[0][0][0].shape
    count = 4 * size
    weights = [_toeplitz(c, size) for _, c in terms]
    step = COMBINE_PRODUCTS // count**2
    sums, table, total = np.empty((step, count), np.int32), np.empty((step, count)), np.empty((step, count))
    out = np.empty((count, step), np.int64)
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        m = rows.stop - rows.start
        total[:m] = _add_digits(plus, rows, sums[:m]) if plus else 0.0
        for (vectors, _), matrix in zip(terms, weights, strict=True):
            table[:m] = _add_digits(vectors, rows, sums[:m])
            # total.T += matrix @ table.T, in place
            blas.dgemm(1.0, matrix, table[:m].T, 1.0, total[:m].T, overwrite_c=True)
        np.copyto(out[:, :m], total[:m].T, casting="unsafe")
        yield rows, out[:, :m]


def _add_digits(vectors: Sequence[Vector], rows: slice, sums: NDArray[np.int32]) -> NDArray[np.int32]:
    """The sums of these rows, digit by digit, in `sums`; a vector of one row counts for every row."""
    for k, a in enumerate(vectors):
        more = _digits(a if len(a) == 1 else a[rows])
        np.copyto(sums, more) if k == 0 else np.add(sums, more, out=sums)
    return sums


def _toeplitz(c: int, size: int) -> NDArray[np.float64]:
    """What each digit of a number counts in each digit of c times that number; shape (4 size, 4 size)."""
    count = 4 * size
    digits = _digits(from_ints([c], 64 * size))[0]
    weights = np.zeros((count, count), order="F")
    for i in range(count):
        weights[i:, i] = digits[: count - i]
    return weights


def _digits(a: Vector) -> NDArray[np.uint16]:
    """16-bit digits, (n, 4L), without a copy."""
    return np.ascontiguousarray(a).view("<u2")


def low_bits(a: Vector, t: int) -> Vector:
    """a mod 2^t."""
    return a & from_ints([(1 << t) - 1], 64 * a.shape[1])


def word_above(a: Vector, t: int) -> NDArray[np.uint64]:
    """The 64 bits of each number from bit t on."""
    limb, shift = divmod(t, 64)
    word = a[:, limb] >> np.uint64(shift)
    if shift and limb + 1 < a.shape[1]:
        word |= a[:, limb + 1] << np.uint64(64 - shift)
    return word


def pack(a: Vector, t: int) -> bytes:
    """The low t bits of each number in ceil(t/8) bytes; bits above t are cleared."""
    raw = np.ascontiguousarray(low_bits(a, t)).view(np.uint8)
    return raw[:, : -(-t // 8)].tobytes()


def unpack(raw: bytes | memoryview, t: int, bits: int) -> Vector:
    """The inverse of `pack`, as numbers of Z_2^bits below 2^t."""
    size = -(-t // 8)
    out = np.zeros((len(raw) // size, 8 * limbs(bits)), np.uint8)
    out[:, :size] = np.frombuffer(raw, np.uint8).reshape(-1, size)
    return out.view(WORD)


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
