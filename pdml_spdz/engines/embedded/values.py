"""What a program's variables are on the embedded engine: shares in one of two rings, or public numbers.

Vectors (what parties input, and multiples of it) live in Z_2^k as limbs; scalars live in a wider Z_2^w as Python
integers, because fixed-point arithmetic needs room for masks. A scalar is reduced to the ring of vectors for free;
the way back exists only for sums of inputs, whose shares are known without wrapping.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pdml_spdz.engines.embedded.backend import Backend, Share, Truncating

# A vector that meets many scalars takes a delta for each of its numbers, up to so many, and fewer where the run takes
# its material in lots (`Lots.longest`); a longer one takes a delta for each scalar. Numbers of a delta cost as much as
# five hundred, however few they are.
OUTER = 1024


class UnsupportedOperation(TypeError):
    """An operation that the embedded engine does not have."""


def unsupported(what: str) -> Any:
    raise UnsupportedOperation(f"{what} is not an operation of the embedded engine")


class Clear(tuple[int, ...]):
    """Public numbers (cint)."""

    __slots__ = ()

    def get_vector(self, base: int = 0, size: int | None = None) -> Clear:
        return Clear(self[base : None if size is None else base + size])

    def __mul__(self, other: object) -> Any:
        if isinstance(other, int):
            return Clear(other * x for x in self)
        return Weighted(self, other) if isinstance(other, Vector) else unsupported("cint times this")


class Scalars:
    """Shares of n secret numbers in the wide ring (sint)."""

    def __init__(self, backend: Backend, shares: Sequence[int]) -> None:
        self.backend = backend
        self._shares = [z % backend.modulus for z in shares]

    @property
    def shares(self) -> list[int]:
        return self._shares

    def __len__(self) -> int:
        return len(self._shares)

    def get_vector(self, base: int = 0, size: int | None = None) -> Scalars:
        size = len(self) - base if size is None else size
        if base == 0 and size == len(self):
            return self
        return Scalars(self.backend, self.shares[base : base + size])

    def expand_to_vector(self, size: int) -> Spread:
        """One number, `size` times."""
        return Spread(self.backend, self.shares * size)

    def sum(self) -> Scalars:
        return Scalars(self.backend, [sum(self.shares)])

    def _public(self, c: int) -> list[int]:
        """Shares of the public number c."""
        return [c if self.backend.me == 0 else 0] * len(self)

    def __add__(self, other: object) -> Scalars:
        theirs = self._public(other) if isinstance(other, int) else _scalars(other, len(self)).shares
        return Scalars(self.backend, [a + b for a, b in zip(self.shares, theirs, strict=True)])

    __radd__ = __add__

    def __neg__(self) -> Scalars:
        return Scalars(self.backend, [-a for a in self.shares])

    def __sub__(self, other: object) -> Scalars:
        return self + (-other if isinstance(other, int) else -_scalars(other, len(self)))

    def __rsub__(self, other: object) -> Scalars:
        return -self + other

    def __mul__(self, other: object) -> Any:
        if isinstance(other, int):
            return Scalars(self.backend, [other * a for a in self.shares])
        if isinstance(other, Wide):
            return other * self
        if isinstance(other, Vector):
            return other.scaled(self)
        theirs = _scalars(other, len(self))
        return Scalars(self.backend, self.backend.multiply(self.shares, theirs.shares))

    __rmul__ = __mul__

    def round(self, k: int, m: int, nearest: bool = False, signed: bool = True) -> Scalars:
        """Drop m bits of numbers of at most k bits; off by less than M in the last place."""
        if nearest or not signed:
            return unsupported("rounding other than round(k, m, signed=True)")  # type: ignore[no-any-return]
        return Rounded(self.backend, self.backend.wait(Truncating(self.shares, k, m)))

    def reveal(self) -> Clear:
        return Clear(self.backend.open_scalars(self.shares, committed=True))  # a gate's bit: of zero or random numbers


class Delayed(Scalars):
    """Numbers that are there once a truncation is done: it waits for others until its result is wanted."""

    def __init__(self, backend: Backend, truncating: Truncating) -> None:
        self.backend, self.truncating = backend, truncating

    @property
    def shares(self) -> list[int]:
        if self.truncating.waits:
            self.backend.settle()
        return self._found()

    def _found(self) -> list[int]:
        return self.truncating.shares

    def __len__(self) -> int:
        return len(self.truncating.numbers)


class Rounded(Delayed):
    """Numbers that have lost their last bits."""

    def __mul__(self, other: object) -> Any:
        if other is not self or not self.truncating.waits:
            return super().__mul__(other)
        self.truncating.squared = True  # a mask's square is found in the round in which it is used
        return Squared(self.backend, self.truncating)

    __rmul__ = __mul__


class Squared(Delayed):
    """The squares of such numbers."""

    def _found(self) -> list[int]:
        return self.truncating.squares


class Spread(Scalars):
    """One number for each of a vector's."""


class Wide(Scalars):
    """A vector's numbers in the ring of scalars, where they can be truncated; a scalar times them is a vector."""

    def __neg__(self) -> Wide:
        return Wide(self.backend, [-a for a in self.shares])

    def round(self, k: int, m: int, nearest: bool = False, signed: bool = True) -> Wide:
        return Wide(self.backend, super().round(k, m, nearest, signed).shares)

    def __mul__(self, other: object) -> Any:
        if not isinstance(other, Scalars) or isinstance(other, Wide):
            return unsupported("this product with a vector of scalars")
        if len(other) == 1 and len(self) <= min(OUTER, self.backend.longest):
            return Vector(self.backend, self.backend.outer(other, self), len(self), exact=False)
        narrow = self.backend.narrow(self.shares)
        return Vector(self.backend, narrow, len(self), exact=False).scaled(other)

    __rmul__ = __mul__


def _scalars(x: object, n: int) -> Scalars:
    if isinstance(x, Scalars) and len(x) == n:
        return x
    if isinstance(x, Scalars):
        return unsupported(f"arithmetic on {n} and {len(x)} numbers")  # type: ignore[no-any-return]
    return unsupported(f"arithmetic on sint and {type(x).__name__}")  # type: ignore[no-any-return]


class Vector:
    """Shares of a long vector in the ring of vectors (sint).

    exact : every party's share is a signed number that did not wrap, as it is for sums of inputs
    """

    def __init__(self, backend: Backend, share: Share, n: int, *, exact: bool) -> None:
        self.backend, self.share, self.n, self.exact = backend, share, n, exact

    def __len__(self) -> int:
        return self.n

    def get_vector(self, base: int = 0, size: int | None = None) -> Vector:
        size = self.n - base if size is None else size
        if base == 0 and size == self.n:
            return self
        return Vector(self.backend, self.backend.part(self.share, base, size), size, exact=self.exact)

    def __add__(self, other: object) -> Vector:
        if isinstance(other, int):
            return Vector(self.backend, self.backend.add_public(self.share, other), self.n, exact=False)
        if not isinstance(other, Vector) or other.n != self.n:
            return unsupported("adding this to a long vector")  # type: ignore[no-any-return]
        both = self.exact and other.exact
        return Vector(self.backend, self.backend.add(self.share, other.share), self.n, exact=both)

    __radd__ = __add__

    def __mul__(self, other: object) -> Any:
        if isinstance(other, Clear):
            return Weighted(other, self)
        return self.scaled(other) if isinstance(other, Scalars) else unsupported("this product with a long vector")

    __rmul__ = __mul__

    def lifted(self) -> Scalars:
        """The same numbers as scalars; of sums of inputs only."""
        if not self.exact:
            return unsupported("scalars from anything but inputs")  # type: ignore[no-any-return]
        return Scalars(self.backend, self.backend.lift(self.share, self.n))

    def scaled(self, c: Scalars) -> Any:
        """c times this vector, for one secret number c; or, where c is spread out, number by number as scalars."""
        if isinstance(c, Spread) and self.exact and len(c) == self.n:
            return Wide(self.backend, self.backend.multiply(self.lifted().shares, c.shares))
        if len(c) != 1:
            return unsupported(f"{len(c)} scalars times one vector")
        return Vector(self.backend, self.backend.scale(c, self.share, self.n), self.n, exact=False)

    def reveal(self) -> Unopened:
        return Unopened(self)


class Weighted:
    """Public numbers times a vector, waiting for its sum: a public linear combination."""

    def __init__(self, weights: Clear, vector: object) -> None:
        if not isinstance(vector, Vector) or len(weights) != vector.n:
            unsupported("this product with public numbers")
        self.weights, self.vector = weights, vector

    def sum(self) -> Scalars:
        vector = self.vector
        assert isinstance(vector, Vector)
        if not vector.exact:
            return unsupported("a sum of anything but inputs")  # type: ignore[no-any-return]
        return Scalars(vector.backend, [vector.backend.dot(vector.share, self.weights)])


class Unopened:
    """A vector about to be opened; only the bits that the program then asks for are."""

    def __init__(self, vector: Vector) -> None:
        self.vector = vector

    def __rshift__(self, drop: int) -> Opened:
        backend = self.vector.backend
        return Opened(backend, backend.open_vector(self.vector.share, self.vector.n, drop))


class Opened:
    """Opened numbers on their way to the parties."""

    def __init__(self, backend: Backend, numbers: Any) -> None:
        self.backend, self.numbers = backend, numbers

    def binary_output(self) -> None:
        self.backend.write(self.numbers)


def concat(parts: Iterable[object]) -> Any:
    """One after the other."""
    parts = list(parts)
    if parts and all(isinstance(part, Scalars) for part in parts):
        shares = [z for part in parts if isinstance(part, Scalars) for z in part.shares]
        return Scalars(parts[0].backend, shares)  # type: ignore[attr-defined]
    if parts and all(isinstance(part, Vector) for part in parts):
        vectors = [part for part in parts if isinstance(part, Vector)]
        backend = vectors[0].backend
        share = backend.concat([v.share for v in vectors])
        return Vector(backend, share, sum(v.n for v in vectors), exact=all(v.exact for v in vectors))
    return unsupported("concat of this")
