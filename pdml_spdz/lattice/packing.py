"""Where the numbers of matrices stand in polynomials.

A product (n x i)(i x c) is cut into blocks of n_w, i_w and c_w. With D = n_w i_w, a block of the left matrix is the
short polynomial

    S(X) = sum_(a < n_w, j < i_w) S[a, j] X^(a i_w + i_w - 1 - j)         (D coefficients)

and a block of the right one is R(X) = sum_(j < i_w, k < c_w) R[j, k] X^(k D + j). Their product has (S R)[a, k] at
X^(k D + a i_w + i_w - 1), because j and j' meet there only if they are equal: other terms are off by less than i_w.
It ends i_w - 1 places above D c_w, in places that hold nothing wanted, also where X^N = -1 brings them back to the
beginning.

Many products of the same shape (`count`) have places beside each other, D c_w each: g of them share a ciphertext, and
h ciphertexts are added into one response, with g h D c_w <= N. Product number x g + s is at place x g + s of ciphertext
x, and is read from response s, where all other products of the ciphertexts are garbage that is never returned.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


def blocks(length: int, width: int) -> int:
    return -(-length // width)


@functools.lru_cache
def widths(length: int) -> tuple[int, ...]:
    """The narrowest block for every number of blocks."""
    return tuple(sorted({blocks(length, count) for count in range(1, length + 1)}))


@dataclass(frozen=True)
class Packing:
    """n, i, c : the product's shape
    count : products of that shape
    n_w, i_w, c_w : a block's
    g : products that share a ciphertext
    h : ciphertexts of different products in a response
    """

    n: int
    i: int
    c: int
    count: int = 1
    n_w: int = 1
    i_w: int = 1
    c_w: int = 1
    g: int = 1
    h: int = 1

    @property
    def D(self) -> int:
        """Coefficients of a block of the left matrix."""
        return self.n_w * self.i_w

    @property
    def length(self) -> int:
        """Coefficients that are used."""
        return self.g * self.h * self.D * self.c_w

    @property
    def groups(self) -> int:
        """Sets of g h products."""
        return blocks(self.count, self.g * self.h)

    @property
    def units(self) -> int:
        """Sets of ciphertexts and responses that have nothing to do with each other: groups times blocks of columns."""
        return self.groups * blocks(self.c, self.c_w)

    @property
    def ciphertexts(self) -> int:
        """In a unit."""
        return self.h * blocks(self.i, self.i_w)

    @property
    def responses(self) -> int:
        """In a unit, to one peer."""
        return self.g * blocks(self.n, self.n_w)

    @property
    def terms(self) -> int:
        """Products of a number of a left matrix and one of a ciphertext in each coefficient of a response."""
        return self.ciphertexts * self.D

    @property
    def wanted(self) -> int:
        """Coefficients of a response that are returned."""
        return self.h * self.n_w * self.c_w

    def left(self, S: NDArray[Any], group: int) -> NDArray[Any]:
        """Short polynomials, shape (responses, ciphertexts, D, ...), of left matrices (count, n, i, ...)."""
        b_n, b_i, tail = blocks(self.n, self.n_w), blocks(self.i, self.i_w), S.shape[3:]
        some = self._group(S, group)
        out = np.zeros((self.h, self.g, b_n * self.n_w, b_i * self.i_w, *tail), S.dtype)
        out[:, :, : self.n, : self.i] = some
        out = out.reshape(self.h, self.g, b_n, self.n_w, b_i, self.i_w, *tail)[:, :, :, :, :, ::-1]
        axes = (1, 2, 0, 4, 3, 5, *range(6, out.ndim))  # g, b_n | h, b_i | n_w, i_w
        return out.transpose(axes).reshape(self.responses, self.ciphertexts, self.D, *tail)

    def right(self, R: NDArray[Any], group: int, column: int) -> NDArray[Any]:
        """The numbers of each ciphertext, (ciphertexts, g, c_w, i_w, ...), of right matrices (count, i, c, ...)."""
        b_i, tail = blocks(self.i, self.i_w), R.shape[3:]
        some = self._group(R, group)[:, :, :, self.columns(column)]
        out = np.zeros((self.h, self.g, b_i * self.i_w, self.c_w, *tail), R.dtype)
        out[:, :, : self.i, : some.shape[3]] = some
        out = out.reshape(self.h, self.g, b_i, self.i_w, self.c_w, *tail)
        axes = (0, 2, 1, 4, 3, *range(5, out.ndim))  # h, b_i | g | c_w, i_w
        return out.transpose(axes).reshape(self.ciphertexts, self.g, self.c_w, self.i_w, *tail)

    def _group(self, matrices: NDArray[Any], group: int) -> NDArray[Any]:
        """The products of a group, shape (h, g, ...), with zeros where there are none."""
        size = self.g * self.h
        some = matrices[group * size : (group + 1) * size]
        if len(some) < size:
            some = np.concatenate([some, np.zeros((size - len(some), *some.shape[1:]), some.dtype)])
        return some.reshape(self.h, self.g, *some.shape[1:])

    def columns(self, column: int) -> slice:
        return slice(column * self.c_w, min((column + 1) * self.c_w, self.c))

    def places(self, ciphertext: int) -> NDArray[np.intp]:
        """Where `right` of that ciphertext stands, shape (g, c_w, i_w)."""
        x = ciphertext // blocks(self.i, self.i_w)
        place = (x * self.g + np.arange(self.g)) * (self.D * self.c_w)
        return place[:, None, None] + np.arange(self.c_w)[:, None] * self.D + np.arange(self.i_w)

    def results(self, response: int) -> NDArray[np.intp]:
        """Where the results stand in that response, shape (h, n_w, c_w)."""
        s = response // blocks(self.n, self.n_w)
        place = (np.arange(self.h) * self.g + s) * (self.D * self.c_w) + self.i_w - 1
        rows, columns = np.arange(self.n_w) * self.i_w, np.arange(self.c_w) * self.D
        return place[:, None, None] + rows[:, None] + columns

    def targets(self, response: int, group: int, column: int) -> Iterator[tuple[int, slice, slice, int]]:
        """(product, its rows, its columns, which of the h results) of what that response gives."""
        s, block = divmod(response, blocks(self.n, self.n_w))
        rows = slice(block * self.n_w, min((block + 1) * self.n_w, self.n))
        for x in range(self.h):
            product = (group * self.h + x) * self.g + s
            if product < self.count:
                yield product, rows, self.columns(column), x
