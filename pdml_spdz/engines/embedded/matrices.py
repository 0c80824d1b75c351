"""What the variables of a program on matrices are: secret numbers under masks, their sums and products.

The subset of the language: Matrix of sint (assign_vector, get_vector, dot, transpose) and of cint; vectors of sint with
+, -, times public numbers, round(bits, shift), reveal() and < a power of two. A secret factor of a product has
to be an input or rounded: then it has a mask.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pdml_spdz.engines.embedded.machine import ArrayOf, CintType, Flush, break_loop, for_range, if_
from pdml_spdz.engines.embedded.values import Clear, unsupported
from pdml_spdz.offline.mask_products import Integers, MaskPlace, Rounding, Segment


@dataclass(frozen=True)
class Masked:
    """SecretNumbers E + sum_m R_m: E is public, R_m is party m's own.

    bits : of R_m at most, where it is no random number but an input
    """

    public: Integers
    own: Integers
    place: MaskPlace
    bits: int = 0


class MatrixBackend(ABC):
    """One party's side of a program on matrices."""

    me: int
    modulus: int

    @abstractmethod
    def read_input(self, party: int, n: int) -> SecretNumbers: ...

    @abstractmethod
    def sum_of_inputs(self, a: SecretNumbers, b: SecretNumbers) -> SecretNumbers: ...

    @abstractmethod
    def read_public(self) -> int: ...

    @abstractmethod
    def write(self, numbers: Any) -> None: ...

    @abstractmethod
    def write_bit(self, bit: int) -> None: ...

    @abstractmethod
    def round(self, x: SecretNumbers, bits: int, shift: int) -> SecretNumbers: ...

    @abstractmethod
    def product(self, a: SecretNumbers, b: SecretNumbers, shape: tuple[int, int, int]) -> SecretNumbers:
        """a of shape (n, i) times b of shape (i, c), both under masks."""

    @abstractmethod
    def combine(self, n: int, compute: Callable[[], Integers]) -> SecretNumbers:
        """SecretNumbers that follow locally from others."""

    @abstractmethod
    def open(self, x: SecretNumbers) -> Any: ...

    @abstractmethod
    def below(self, x: SecretNumbers, shift: int) -> int: ...


class SecretNumbers:
    """A vector of n secret numbers: this party's share, and their mask if they have one."""

    def __init__(self, backend: MatrixBackend, n: int, share: Integers | None, masked: Masked | None = None) -> None:
        self.backend, self.n, self._share, self.masked = backend, n, share, masked

    def __len__(self) -> int:
        return self.n

    @property
    def is_input(self) -> bool:
        return self.masked is not None and self.masked.place.source < 0

    @property
    def share(self) -> Integers:
        if self.masked is not None:
            return self.masked.own + self.masked.public if self.backend.me == 0 else self.masked.own
        assert self._share is not None
        return self._share

    def get_vector(self, base: int = 0, size: int | None = None) -> SecretNumbers:
        part = slice(base, self.n if size is None else base + size)
        return self.taken(np.arange(self.n)[part])

    def taken(self, order: Any) -> SecretNumbers:
        """Some of the numbers, in another order."""
        if self.masked is None:
            return self.backend.combine(len(order), lambda: self.share[order])
        m = self.masked
        place = MaskPlace(m.place.source, m.place.index[order])
        return SecretNumbers(self.backend, len(order), None, Masked(m.public[order], m.own[order], place))

    def __add__(self, other: object) -> SecretNumbers:
        if isinstance(other, int):
            return self.backend.combine(self.n, lambda: self.share + (other if self.backend.me == 0 else 0))
        if isinstance(other, Clear) and len(other) == self.n:
            public = _array(other) if self.backend.me == 0 else 0
            return self.backend.combine(self.n, lambda: self.share + public)
        if not isinstance(other, SecretNumbers) or other.n != self.n:
            return unsupported("adding this to secret numbers")  # type: ignore[no-any-return]
        if self.is_input and other.is_input:
            return self.backend.sum_of_inputs(self, other)
        return self.backend.combine(self.n, lambda: self.share + other.share)

    __radd__ = __add__

    def __neg__(self) -> SecretNumbers:
        return self * -1

    def __sub__(self, other: object) -> SecretNumbers:
        if isinstance(other, Clear):
            return self + Clear(-x for x in other)
        return self + (-other if isinstance(other, int | SecretNumbers) else other)

    def __rsub__(self, other: object) -> SecretNumbers:
        return -self + other

    def __mul__(self, other: object) -> SecretNumbers:
        """By a public number, or by as many of them."""
        if isinstance(other, Clear):
            factors = np.array([*other, None], object)[:-1]
            return self.backend.combine(self.n, lambda: self.share * factors)
        if not isinstance(other, int):
            return unsupported("this product with secret numbers")  # type: ignore[no-any-return]
        return self.backend.combine(self.n, lambda: self.share * other)

    __rmul__ = __mul__

    def sum(self) -> SecretNumbers:
        return self.backend.combine(1, lambda: np.array([sum(self.share), None], object)[:-1])

    def round(self, k: int, m: int, nearest: bool = False, signed: bool = True) -> SecretNumbers:
        """Drop m bits of numbers of at most k bits; off by less than M in the last place."""
        if nearest or not signed:
            return unsupported("rounding other than round(k, m, signed=True)")  # type: ignore[no-any-return]
        return self.backend.round(self, k, m)

    def reveal(self) -> Revealed:
        return Revealed(self)

    def __lt__(self, bound: int) -> Below:
        if bound <= 0 or bound & (bound - 1) or self.n != 1:
            unsupported("a comparison with anything but a power of two")
        return Below(self, bound.bit_length() - 1)


class Revealed:
    """SecretNumbers about to be opened."""

    def __init__(self, numbers: SecretNumbers) -> None:
        self.numbers = numbers

    def binary_output(self) -> None:
        backend = self.numbers.backend
        backend.write(backend.open(self.numbers))


@dataclass(frozen=True)
class Below:
    """Whether a number that is not negative is below 2^shift: to be revealed, and nothing else of it.

    SecretNumbers below 2^shift / (M + 1) are; those from 2^shift on are not; between them truncation decides.
    """

    numbers: SecretNumbers
    shift: int

    def reveal(self) -> Bit:
        backend = self.numbers.backend
        found = backend.below(self.numbers, self.shift)
        return Bit(backend, found)


class Bit:
    """An opened bit."""

    def __init__(self, backend: MatrixBackend, bit: int) -> None:
        self.backend, self.bit = backend, bit

    def __bool__(self) -> bool:
        return bool(self.bit)

    def __rsub__(self, one: int) -> int:
        return one - self.bit

    def binary_output(self) -> None:
        self.backend.write_bit(int(self.bit))


class Either(int):
    """A bit of a dry run, which goes both ways."""

    def __bool__(self) -> bool:
        return True

    def __rsub__(self, other: object) -> Either:
        return self


class MatrixVariable:
    """Matrix(rows, columns, sint or cint)."""

    def __init__(self, rows: int, columns: int, kind: object, value: Any = None) -> None:
        self.sizes, self.kind, self._value = (rows, columns), kind, value

    def assign_vector(self, value: Any) -> None:
        rows, columns = self.sizes
        if len(value) != rows * columns:
            unsupported(f"assigning {len(value)} numbers to a matrix of {rows} by {columns}")
        self._value = value

    def get_vector(self, base: int = 0, size: int | None = None) -> Any:
        return self._value if base == 0 and size is None else self._value.get_vector(base, size)

    def transpose(self) -> MatrixVariable:
        rows, columns = self.sizes
        order = np.arange(rows * columns).reshape(rows, columns).T.reshape(-1)
        value = self._value
        turned = Clear(value[i] for i in order) if isinstance(value, Clear) else value.taken(order)
        return MatrixVariable(columns, rows, self.kind, turned)

    def dot(self, other: MatrixVariable) -> MatrixVariable:
        (n, i), (j, c) = self.sizes, other.sizes
        if i != j:
            unsupported(f"a product of matrices of {n} by {i} and {j} by {c}")
        a, b = self._value, other._value
        if isinstance(a, Clear) or isinstance(b, Clear):
            secret = b if isinstance(a, Clear) else a
            product = secret.backend.combine(n * c, lambda: _dot(_array(a), _array(b), (n, i, c)))
        else:
            product = a.backend.product(a, b, (n, i, c))
        return MatrixVariable(n, c, self.kind, product)


def _array(value: Any) -> Integers:
    return np.array([*value, None], object)[:-1] if isinstance(value, Clear) else value.share


def _dot(a: Integers, b: Integers, shape: tuple[int, int, int]) -> Integers:
    n, i, c = shape
    product: Integers = a.reshape(n, i).dot(b.reshape(i, c)).reshape(-1)
    return product


class InputType:
    """The name `sint` in a program on matrices."""

    def __init__(self, backend: MatrixBackend) -> None:
        self._backend = backend

    def get_input_from(self, player: int, size: int = 1) -> SecretNumbers:
        return self._backend.read_input(player, size)

    def concat(self, parts: Sequence[SecretNumbers]) -> SecretNumbers:
        """Parts of the same numbers stay under their masks."""
        n = sum(map(len, parts))
        masked = [part.masked for part in parts if part.masked is not None]
        if len(masked) == len(parts) and len({m.place.source for m in masked}) == 1:
            public, own, index = (
                np.concatenate(of) for of in zip(*((m.public, m.own, m.place.index) for m in masked), strict=True)
            )
            place = MaskPlace(masked[0].place.source, index)
            return SecretNumbers(self._backend, n, None, Masked(public, own, place))
        return self._backend.combine(n, lambda: np.concatenate([part.share for part in parts]))


class Planner(MatrixBackend):
    """A dry run: which masks and products the program takes, up to each of its outputs."""

    me, modulus = 1, 2

    def __init__(self, most_bits: int) -> None:
        self.most_bits, self.segments = most_bits, [Segment()]
        self._sources = self._inputs = 0

    def _numbers(self, n: int, source: int | None = None) -> SecretNumbers:
        none = np.zeros(0, object)
        if source is None:
            return SecretNumbers(self, n, none)
        empty = np.broadcast_to(np.array(None, object), (n,))
        return SecretNumbers(self, n, None, Masked(empty, empty, MaskPlace(source, np.arange(n))))

    def read_input(self, party: int, n: int) -> SecretNumbers:
        self._inputs += 1
        return self._numbers(n, -self._inputs)

    def sum_of_inputs(self, a: SecretNumbers, b: SecretNumbers) -> SecretNumbers:
        return self.read_input(0, a.n)

    def read_public(self) -> int:
        return 0

    def write(self, numbers: Any) -> None:
        return None

    def write_bit(self, bit: int) -> None:
        self.segments.append(Segment())

    def round(self, x: SecretNumbers, bits: int, shift: int) -> SecretNumbers:
        self.segments[-1].roundings.append(Rounding(x.n, bits, shift))
        self._sources += 1
        return self._numbers(x.n, self._sources - 1)

    def product(self, a: SecretNumbers, b: SecretNumbers, shape: tuple[int, int, int]) -> SecretNumbers:
        n, i, c = shape
        left, right = _place(a, (n, i)), _place(b, (i, c))
        self.segments[-1].products.append((left, right))
        return self._numbers(n * c)

    def combine(self, n: int, compute: Callable[[], Integers]) -> SecretNumbers:
        return self._numbers(n)

    def open(self, x: SecretNumbers) -> Any:
        return None

    def below(self, x: SecretNumbers, shift: int) -> int:
        self.round(x, self.most_bits, shift)
        return Either()


def _place(x: SecretNumbers, shape: tuple[int, int]) -> MaskPlace:
    if x.masked is None:
        unsupported("a product of secret numbers that were not rounded")
    assert x.masked is not None
    return MaskPlace(x.masked.place.source, x.masked.place.index.reshape(shape))


def matrix_names(backend: MatrixBackend) -> dict[str, Any]:
    """Everything that a program on matrices may use."""
    python = (range, len, sum, min, max, enumerate)
    return {
        "__builtins__": {f.__name__: f for f in python},
        "sint": InputType(backend),
        "cint": CintType(),
        "cfix": Flush,
        "Array": ArrayOf,
        "Matrix": MatrixVariable,
        "for_range": for_range,
        "if_": if_,
        "break_loop": break_loop,
        "public_input": backend.read_public,
    }
