"""Material made in the run as it is wanted: by OT, and once that is cheaper from LPN."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice, repeat

from pdml_spdz.errors import EngineError
from pdml_spdz.numerics import ring
from pdml_spdz.offline.material import Lots, Material, Plan, ScalarMaterial
from pdml_spdz.ot import extension, silent, triples, vole
from pdml_spdz.ot.lpn import LARGE, SHORT, SMALL
from pdml_spdz.ot.triples import Triples
from pdml_spdz.ot.vole import Correlation
from pdml_spdz.transport.base import Link

GROUP = 256  # scalars whose delta is set up at a time: bounds the memory, 12 kB of keys for each and peer
LEAST = 512  # numbers made at a time: fewer cost as much
PIECE = 1 << 16  # numbers made at a time: large enough for speed, small enough for memory and for stopping early
SHORT_FIT = 1 << 14  # numbers: some dozen openings of a hundred features
LEVELS = (SHORT, SMALL, LARGE)  # of LPN: the secret of one is made of the numbers of the one below, the first by OT


class OnDemand(Material):
    """Material made in the run, by all parties together, as the plan foresees it. lpn : whether LPN is trusted"""

    mode = "on-demand"

    def __init__(
        self,
        link: Link,
        session: bytes,
        vector_bits: int,
        scalar_bits: int,
        *,
        lpn: bool = True,
        piece: int = 0,
    ) -> None:
        self._link, self._vector_bits, self._scalar_bits = link, vector_bits, scalar_bits
        self._lpn, self._piece = lpn, piece or piece_for(link.M)
        with link.offline():
            self._ots = extension.set_up(link, session)
        self._ends: Iterator[vole.VoleEnds] = iter(())
        self._planned: deque[tuple[int, int, int]] = deque()  # of scalars: numbers at most, likely, and at a time
        self._fresh, self._ready = 1, deque[Supply]()  # scalars made together, and those of them that nobody has yet
        self._triples, self._used = Triples(scalar_bits, [], [], []), 0

    def begin(self, lots: Lots) -> None:
        piece = lots.piece.vectors if lots.piece else ()
        likely = lots.likely.vectors if lots.piece else ()
        self._reserve(lots.whole, likely, piece)
        self._fresh = lots.fresh

    def reserve(self, plan: Plan) -> None:
        self._reserve(plan, (), ())

    def _reserve(self, plan: Plan, likely: Sequence[int], piece: Sequence[int]) -> None:
        unknown, numbers = repeat(0), [*likely, *plan.vectors[len(likely) :]]
        link, first = self._link, min(GROUP, len(plan.vectors))
        with link.offline():
            if plan.triples <= triples.BATCH:  # OTs for them and for the first deltas in one go
                for_triples = plan.triples * self._scalar_bits
                for_deltas = vole.ots_for(first, self._vector_bits, kappa_for(numbers[:first]))
                extension.prepare(link, self._ots, for_triples + for_deltas)
            self._triples, self._used = triples.make(link, self._ots, plan.triples, self._scalar_bits), 0
        self._ends = self._set_up(numbers)
        self._planned = deque(zip(plan.vectors, chain(likely, unknown), chain(piece, unknown), strict=False))
        self._fresh = 1
        self._ready.clear()
        self.used += Plan(plan.triples, ())

    def _set_up(self, numbers: Sequence[int]) -> Iterator[vole.VoleEnds]:
        """Fresh deltas, some at a time: their keys take memory, and a run may stop early."""
        for first in range(0, len(numbers), GROUP):
            part = numbers[first : first + GROUP]
            with self._link.offline():
                some = vole.set_up(self._link, self._ots, self._vector_bits, count=len(part), kappa=kappa_for(part))
            yield from some

    def triples(self, n: int) -> Triples:
        start, self._used = self._used, self._used + n
        t = self._triples
        if self._used > len(t):
            raise EngineError(f"the program wants {self._used} triples.", f"the {len(t)} of its plan")
        return t.part(start, self._used)

    def scalar(self) -> ScalarMaterial:
        return self.scalars(1)[0]

    def scalars(self, count: int) -> list[ScalarMaterial]:
        if count > 1:
            return list(self._supplies(count))
        if not self._ready:
            self._ready.extend(self._supplies(self._alike()))
        return [self._ready.popleft()]

    def _alike(self) -> int:
        """How many of the next scalars are made in one round: those of an iteration, where none of them takes LPN."""
        sizes = [n for n, _, _ in islice(self._planned, self._fresh)]
        few = bool(sizes) and not (self._lpn and levels(sizes[0], sizes[0]))
        return len(sizes) if few and len(set(sizes)) == 1 else 1

    def _supplies(self, count: int) -> list[Supply]:
        """Of scalars that take the same numbers at the same time."""
        made: list[Supply] = []
        for _ in range(count):
            ends = next(self._ends, None)
            if ends is None:
                raise EngineError("the program multiplies vectors by more scalars than its plan has.")
            lpn, (planned, likely, step) = self._lpn and count == 1, self._planned.popleft()
            supply = Supply(
                self._link,
                self._ots,
                ends,
                planned,
                likely=likely,
                step=step,
                piece=self._piece,
                lpn=lpn,
                together=made if count > 1 else None,
                made=self._count,
            )
            made.append(supply)
        return made

    def _count(self, n: int) -> None:
        self.used += Plan(0, (n,))


class Supply(ScalarMaterial):
    """The numbers of one scalar.

    planned  : how many at the most
    likely   : how many are to be reckoned with, if that is known
    step     : how many are made at a time; 0: more and more
    piece    : by OT at a time, if not as many as usual
    lpn      : whether they may come from LPN
    whole    : whether all that is planned will be wanted; a run may stop early
    together : this one and those that are extended with it, in one round: all give the same numbers at the same time
    made     : is told how many were made
    """

    def __init__(
        self,
        link: Link,
        ots: extension.Ends,
        ends: vole.VoleEnds,
        planned: int,
        *,
        likely: int = 0,
        step: int = 0,
        piece: int = 0,
        lpn: bool = True,
        whole: bool = False,
        together: Sequence[Supply] | None = None,
        made: Callable[[int], None] = lambda n: None,
    ) -> None:
        self._link, self._ots, self._tell = link, ots, made
        self._left, self._likely, self._step = planned, likely, step
        self._ends: vole.VoleEnds | None = ends
        self._piece, self._lpn, self._whole = piece or piece_for(link.M), lpn, whole
        self._together = [self] if together is None else together
        if together is None:  # many at a time would fill the memory
            ends.keep()
        self.delta, self._bits = ends.delta, ends.bits
        self._source: silent.Source | None = None
        self._level = 0  # of LPN that the source has
        self._made: list[Correlation] = []  # what was not given yet
        self._so_far = self._size = 0  # numbers made, and at a time

    @property
    def left(self) -> int:
        return self._left + sum(map(len, self._made))

    def take(self, n: int) -> Correlation:
        parts = [Correlation(*(ring.zeros(0, self._bits) for _ in range(2)))] if n == 0 else []
        while n:
            if not self._made:
                if n > self._left:
                    raise EngineError("the program multiplies more numbers by a scalar than its plan has.")
                with self._link.offline():
                    self._make(n)
            first = self._made.pop(0)
            parts.append(first.part(0, n))
            if len(first) > n:
                self._made.insert(0, first.part(n, len(first) - n))
            n -= len(parts[-1])
        if self._left == 0 and not self._made and self._ends:
            self._ends.drop()
            self._ends = self._source = None  # a program may have thousands of scalars, one vector each
        return Correlation.join(parts)

    def _make(self, n: int) -> None:
        """At least some of the n numbers that are wanted now. Pieces are as large as planned or grow, so that a run
        that stops early has not made much more than it used."""
        size = self._left if self._whole else min(self._left, max(self._step or max(2 * self._size, 8 * n, LEAST), n))
        if len(self._together) > 1:
            self._make_together(size)
            return
        likely = max(self._likely - self._so_far, size) if self._likely else self._left
        while self._lpn and self._level < levels(min(self._left, likely), self._so_far + size):
            self._climb()
        self._keep(self._numbers(size, last=size == self._left).part(0, self._left))

    def _climb(self) -> None:
        """The next level of LPN, its secret made by the one below, which is not used again."""
        lpn, parts = LEVELS[self._level], list[Correlation]()
        while self._level and (wanted := lpn.secret - sum(map(len, parts))):
            parts.append(self._numbers(wanted, last=True).part(0, wanted))
        secret = Correlation.join(parts) if parts else None
        self._source = silent.Source(self._link, self._ots, self._open_ends(), lpn, secret)
        self._level += 1

    def _numbers(self, n: int, *, last: bool) -> Correlation:
        """About n numbers: fewer if they are too many for one step, more if they are less than a block."""
        if self._source:
            return self._source.next(n, last=last)
        ends = self._open_ends()
        return Correlation.of(vole.extend(self._link, ends, ends.random(min(n, self._piece))))

    def _open_ends(self) -> vole.VoleEnds:
        if self._ends is None:
            raise EngineError("a scalar has given all its numbers, and others that go with it have not.")
        return self._ends

    def _make_together(self, size: int) -> None:
        """A piece for all that go together, some in each round: their messages are held at once."""
        size = min(size, self._piece)
        step = max(1, self._piece // (4 * size))
        for first in range(0, len(self._together), step):
            some = self._together[first : first + step]
            ends = [one._open_ends() for one in some]
            made = vole.extend_all(self._link, ends, [one.random(size) for one in ends])
            for one, extended in zip(some, made, strict=True):
                one._keep(Correlation.of(extended))

    def _keep(self, made: Correlation) -> None:
        self._made.append(made)
        self._size = len(made)
        self._so_far += len(made)
        self._left -= len(made)
        self._tell(len(made))


def levels(n: int, now: int) -> int:
    """Levels of LPN that pay for n numbers, `now` of them at once: a level saves less than its secret costs if few
    numbers come of it."""
    return sum(n > lpn.secret * 5 // 4 and now >= lpn.secret for lpn in LEVELS)


def kappa_for(numbers: Sequence[int]) -> int:
    """Bits of a digit of the deltas of scalars that are set up together, each with so many numbers to be reckoned with.

    Where numbers are few, their bytes are most of a fit's; where they are many, their time is; and where there are many
    scalars with next to none, their keys.
    """
    short = all(LEVELS[0].secret < n <= SHORT_FIT for n in numbers)
    return vole.FEWER_BYTES if short else vole.KAPPA


def piece_for(M: int) -> int:
    """Numbers by OT at a time: their messages to all peers are held at once."""
    return max(1024, PIECE // (M - 1))


def pieces(n: int, most: int) -> list[int]:
    return [min(most, n - done) for done in range(0, n, most)]
