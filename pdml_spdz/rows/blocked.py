"""Rows that are not loaded whole: pieces on Dask's threads or workers, of which only sums come back.

One pass finds out what is missing or infinite, digests the rows, and adds up their sums and (where that is cheaper) the
Gram matrix, around a provisional centre near their own mean. What is made of the rows afterwards (columns in another
order, less a mean, over scales) is affine, and follows from these without another pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.numerics.shift import Shift
from pdml_spdz.rows import pieces as work
from pdml_spdz.rows.base import BLOCK, Dense, MovedBlocks, Rows, Work
from pdml_spdz.rows.coefficients import Coefficients, coefficients
from pdml_spdz.rows.pieces import Affine, Changed, Filled, Selected, StoredWhole, Summary
from pdml_spdz.rows.sparse import Sparse
from pdml_spdz.rows.workers import Workers

READ = 80.0  # flops on dense arrays that take as long as to read and unpack one number
SAMPLE = 1024  # rows, at most, by which a provisional centre is found
FAR = 15 / 16  # of the squares around the centre are those of its distance from the mean: four bits are lost
NEAR = 2.0**-40  # of the centre itself: what rounding makes of a constant
LARGEST_GRAM = 64 << 20  # bytes: several of them are held while a pass goes on


@dataclass
class BlockStore:
    """Pieces, and what one pass has found of them; shared by all rows that are made of them by affine maps."""

    workers: Workers
    pieces: Sequence[Any]
    lengths: Sequence[int]
    d: int
    sparse: bool
    products: int = 0  # how many columns S will be multiplied with, and in how many calls, if anybody has said so
    calls: int = 0
    _summary: Summary | None = None
    _sample: Any = None
    _kept: list[Any] | None = None
    _around: tuple[BlockStore, Reals] | None = None
    _centre: Reals | None = None
    _filled: tuple[NDArray[np.int64] | None, Reals, BlockStore] | None = None

    @property
    def n(self) -> int:
        return sum(self.lengths)

    @property
    def firsts(self) -> list[int]:
        return [0, *np.cumsum(self.lengths)[:-1].tolist()]

    @property
    def sample(self) -> Rows:
        """The first rows."""
        if self._sample is None:
            place = next(i for i, n in enumerate(self.lengths) if n)
            self._sample = self.workers.call(work.first_rows, self.pieces[place], SAMPLE)
        return Sparse(self._sample) if self.sparse else Dense(self._sample)

    @property
    def centre(self) -> Reals:
        if self._centre is None:
            self._centre = np.zeros(self.d) if self.sparse else self._first_mean()
        return self._centre

    def _first_mean(self) -> Reals:
        """Of the first rows."""
        first = self.sample.dense()
        present = np.isfinite(first)
        mean: Reals = np.where(present, first, 0.0).sum(axis=0) / np.maximum(present.sum(axis=0), 1)
        return mean

    @property
    def with_gram(self) -> bool:
        """Whether forming S costs less than reading the rows again for every product."""
        again = 0.0 if self.workers.keeps else READ
        by_operator = 4.0 * self.products + again * self.calls
        return 8 * self.d**2 <= LARGEST_GRAM and (not self.calls or self.d <= by_operator)

    def summary(self) -> Summary:
        if self._summary is None:
            found = self._pass()
            if not self.sparse and np.any(far := self._far(found)):
                self._centre = self.centre + np.where(far, found.sums / max(found.n, 1), 0.0)
                found = self._pass()
            # Rows of groups that lie in two pieces are not needed any more.
            self._summary = replace(found, digests=tuple(enumerate(work.joined_digests(found))), parts=())
        return self._summary

    def _pass(self) -> Summary:
        own = [(first, self.centre, self.with_gram) for first in self.firsts]
        found: Summary = self.workers.total(work.summarised, self.pieces, own)
        return found

    def _far(self, found: Summary) -> NDArray[np.bool_]:
        """(d,): where the first rows are so far from the others that sums around their mean have lost digits."""
        with np.errstate(over="ignore", invalid="ignore"):  # numbers that are missing or too large are found later
            lost = found.sums**2 > FAR * found.n * found.squares
            far: NDArray[np.bool_] = lost & (np.abs(found.sums) > found.n * NEAR * np.abs(self.centre))
        return far

    def around_own_mean(self) -> tuple[BlockStore, Reals]:
        """Sparse rows less their own mean in the columns where that is larger than the deviations; and what was taken
        off, (d,). There more than half of the entries are stored, so that all of them may as well be.

        It takes a pass of its own, the first time.
        """
        if self._around is None:
            found = self.summary()
            full = 2.0 * found.sums**2 > found.n * found.squares
            own = np.where(full, found.sums / max(found.n, 1), 0.0)
            pieces = [Changed(piece, (StoredWhole(full, own),)) for piece in self.pieces]
            made = replace(
                self, pieces=pieces, _summary=None, _sample=None, _kept=None, _around=None, _centre=None, _filled=None
            )
            self._around = (made if np.any(full) else self), own
        return self._around

    def filled(self, order: NDArray[np.int64] | None, values: Reals, d: int) -> BlockStore:
        """These columns, with these values where something is missing. The last such rows are kept: they had a pass."""
        if self._filled is None or not all(map(_same, self._filled[:2], (order, values))):
            pieces = [Changed(piece, (Affine(order), Filled(values))) for piece in self.pieces]
            made = BlockStore(self.workers, pieces, self.lengths, d, self.sparse, self.products, self.calls)
            self._filled = order, values, made
        return self._filled[2]

    def at_hand(self) -> Sequence[Any]:
        """The pieces, in the workers' memory if they keep them."""
        if self.workers.keeps and self._kept is None:
            held = self.workers.kept(work.whole_piece, self.pieces, 8 * self.n * self.d)
            self._kept = list(self.pieces) if held is None else [work.ValuePiece(value) for value in held]
        return self.pieces if self._kept is None else self._kept


def _same(a: Any, b: Any) -> bool:
    return a is b or (a is not None and b is not None and np.array_equal(a, b))


@dataclass(frozen=True, eq=False)
class Blocked(Rows):
    """(x[order] - shift) / scale of the rows x in a store."""

    store: BlockStore
    affine: Affine = field(default_factory=Affine)
    lazy = True

    @property
    def sparse(self) -> bool:  # type: ignore[override]
        return self.store.sparse and self.affine.shift is None

    @property
    def shape(self) -> tuple[int, int]:
        order = self.affine.order
        return self.store.n, self.store.d if order is None else len(order)

    # ---- what one pass has found

    def expect(self, columns: int, calls: int) -> None:
        self.store.products, self.store.calls = columns * calls, calls

    def follow(self, progress: Callable[[int, int], None]) -> None:
        self.store.workers.progress = progress

    def close(self) -> None:
        self.store.workers.close()

    def summary(self) -> Summary:
        return self.store.summary()

    @property
    def missing(self) -> NDArray[np.int64]:
        """(d,): how many entries of each column are missing."""
        return self.summary().missing[self._order]

    @property
    def infinite(self) -> tuple[int, int] | None:
        """(row, column) of the first entry that is infinite, if there is one."""
        found = self.summary().infinite
        return None if found is None else (found[0], int(np.flatnonzero(self._order == found[1])[0]))

    @property
    def _order(self) -> NDArray[np.int64]:
        return np.arange(self.store.d) if self.affine.order is None else self.affine.order

    def _off(self, mu: Reals | None = None) -> Reals:
        """What has to be taken off x - c."""
        shift = self._shifted(np.zeros(self.shape[1]) if mu is None else mu)
        return (shift.high - self.store.centre[self._order]) + shift.low

    def _shifted(self, mu: Reals) -> Shift:
        return Shift.of(mu * self._scale, self.affine.shift)

    @property
    def _scale(self) -> Reals:
        return np.ones(self.shape[1]) if self.affine.scale is None else self.affine.scale

    def gram(self) -> Reals:
        found = self.summary()
        if found.gram is None:
            return self.gram_times(np.eye(self.shape[1]))
        order, off = self._order, self._off()
        S, t = found.gram[np.ix_(order, order)], found.sums[order]
        moved: Reals = S - np.outer(t, off) - np.outer(off, t) + found.n * np.outer(off, off)
        return moved / np.outer(self._scale, self._scale)

    def column_sums(self) -> Reals:
        found = self.summary()
        sums: Reals = (found.sums[self._order] - found.n * self._off()) / self._scale
        return sums

    def column_squares(self, mu: Reals | None = None) -> Reals:
        if mu is not None and self.sparse:
            rows, mu = self.less(mu)
            assert isinstance(rows, Blocked)
            return rows._squares(mu)
        return self._squares(mu)

    def _squares(self, mu: Reals | None) -> Reals:
        found, off = self.summary(), self._off(mu)
        t = found.sums[self._order]
        # Rounding may leave a little below zero.
        squares: Reals = np.maximum(found.squares[self._order] - off * (2.0 * t - found.n * off), 0.0)
        return squares / self._scale**2

    def squares(self) -> float:
        return float(self.column_squares().sum())

    def work(self) -> Work:
        n, d = self.shape
        again = 0.0 if self.store.workers.keeps else READ * n * d
        built = self.summary().gram is not None
        return Work(0.0 if built else float(n) * d * d + again, 4.0 * n * d, again)

    @property
    def nonzero(self) -> int:
        return self.summary().stored

    @property
    def negative(self) -> int:
        plain = self.affine.shift is None
        return self.summary().negative if plain else super().negative

    @property
    def largest(self) -> float:
        plain = self.affine.shift is None and self.affine.scale is None
        return self.summary().largest if plain else super().largest

    def group_digests(self) -> Iterator[bytes]:
        """Of the rows as they are stored, and of what is made of them: to look at that would take another pass."""
        yield from work.joined_digests(self.summary())
        for name in ("order", "shift", "scale"):
            value = getattr(self.affine, name)
            if value is not None:
                yield name.encode() + value.tobytes()

    # ---- passes

    def _pieces(self, at_hand: bool = False) -> list[Any]:
        pieces = self.store.at_hand() if at_hand else self.store.pieces
        return [Changed(piece, (self.affine,)) for piece in pieces]

    def gram_times(self, V: Reals) -> Reals:
        pieces = self._pieces(at_hand=True)
        product: Reals = self.store.workers.total(work.gram_product, pieces, [(V,)] * len(pieces))
        return product

    def times(self, V: Reals) -> Reals:
        pieces = self._pieces(at_hand=True)
        return np.concatenate([*self.store.workers.each(work.product, pieces, [(V,)] * len(pieces))])

    def transposed_times(self, W: Reals) -> Reals:
        own = [(W[i : i + n], self.shape[1]) for i, n in zip(self.store.firsts, self.store.lengths, strict=True)]
        product: Reals = self.store.workers.total(work.transposed_product, self._pieces(at_hand=True), own)
        return product

    def row_squares(self) -> Reals:
        pieces = self._pieces()
        return np.concatenate([*self.store.workers.each(work.row_lengths, pieces, [()] * len(pieces))])

    def blocks(self, numbers: int = BLOCK) -> Iterator[Reals]:
        """Through this process, piece by piece: for what nothing else is there for."""
        for piece in self._pieces():
            whole = self.store.workers.call(work.whole_piece, piece)
            yield from (Sparse(whole) if hasattr(whole, "tocsr") else Dense(whole)).blocks(numbers)

    def csr(self) -> Any:
        if not self.sparse:
            return super().csr()
        import scipy.sparse as sp

        return sp.csr_array(sp.vstack([self.store.workers.call(work.whole_piece, piece) for piece in self._pieces()]))

    def unwrapped(self) -> Any:
        return self.csr() if self.sparse else self.dense()

    def sample(self) -> Rows:
        first = self.store.sample
        held = self.affine(first.csr() if first.sparse else first.dense())
        return Sparse(held) if hasattr(held, "tocsr") else Dense(held)

    # ---- other rows

    def coefficients(self, k: int) -> Coefficients:
        """W = 0, by pieces."""
        return coefficients(self.store.workers, self._pieces(at_hand=True), self.store.lengths, k)

    def columns(self, order: Sequence[int] | NDArray[np.int64]) -> Rows:
        chosen = np.asarray(order)
        shift, scale = self.affine.shift, self.affine.scale
        moved = Affine(self._order[chosen], shift and shift[chosen], None if scale is None else scale[chosen])
        return Blocked(self.store, moved)

    def shifted(self, mu: Reals) -> Rows:
        return Blocked(self.store, replace(self.affine, shift=self._shifted(mu)))

    def less(self, mu: Reals) -> tuple[Rows, Reals]:
        """Of sparse rows their own mean, as far as it is above the deviations: what is left of mu is no larger."""
        if not self.sparse:
            return super().less(mu)
        store, own = self.store.around_own_mean()
        if store is self.store:
            return self, mu
        taken = own[self._order]
        # Every party takes off mu * scale: what another one rounds otherwise would pass for a difference of their rows.
        return Blocked(store, self.affine), np.where(taken == 0, mu, (mu * self._scale - taken) / self._scale)

    def over(self, scale: Reals | float) -> Rows:
        by = np.asarray(scale, np.float64)
        if by.ndim == 2:
            return super().over(scale)
        return Blocked(self.store, replace(self.affine, scale=self._scale * by))

    def filled(self, values: Reals) -> Rows:
        """As they came, with what these values are there: means are taken off later, before they are divided."""
        order, there = self.affine.order, self._shifted(values).nearest()
        return Blocked(self.store.filled(order, there, self.shape[1]), replace(self.affine, order=None))

    def filler(self, values: Reals) -> Rows:
        return MovedBlocks(Dense(self._shifted(values).nearest()[None]), self.affine.shift, self._scale)

    def complete(self) -> NDArray[np.int64]:
        """Which rows are those in which nothing is missing."""
        pieces = self._pieces()
        found = self.store.workers.each(work.complete_rows, pieces, [()] * len(pieces))
        return np.flatnonzero(np.concatenate([*found]))

    def selected(self, numbers: NDArray[np.int64]) -> Rows:
        chosen = np.zeros(self.store.n, np.bool_)
        chosen[numbers] = True
        parts = [chosen[i : i + n] for i, n in zip(self.store.firsts, self.store.lengths, strict=True)]
        pieces = [Selected(piece, part) for piece, part in zip(self._pieces(), parts, strict=True)]
        return self._of(pieces, [int(part.sum()) for part in parts])

    def _of(self, pieces: list[Any], lengths: Sequence[int]) -> Blocked:
        store = self.store
        made = BlockStore(store.workers, pieces, lengths, self.shape[1], self.sparse, store.products, store.calls)
        return Blocked(made)
