"""PD-SVD by block Lanczos on the same openings, the solver `krylov`: far fewer of them than block power iteration."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from pdml_spdz.algorithms import krylov_state
from pdml_spdz.algorithms.blocks import (
    ROOM,
    agreed_vectors,
    block_of,
    expected_lengths,
    kept_within,
    new_directions,
    ratio,
    same,
)
from pdml_spdz.algorithms.krylov_state import KrylovState
from pdml_spdz.algorithms.shown import RitzVectors, Shown, ritz, sines
from pdml_spdz.algorithms.solver import CONVERGED, EXHAUSTED, GO_ON, Fitting, Solver, SvdResult, SvdSettings
from pdml_spdz.errors import ProtocolError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.numerics.linalg import fix_signs, orthonormalise, qr_tolerance
from pdml_spdz.primitives.agree import Agreement, check_verdict
from pdml_spdz.primitives.bound import nothing_there
from pdml_spdz.primitives.normed_sum import NormedColumns

MORE = 2  # columns of a block beyond k: of directions that a start of k columns missed, two more found all
SETTLED = 1e-2  # a bound is believed if that of the block before was below this: lambda_(k+1) has shown by then
WORTHLESS = 2.0**-4  # of theta_1: where rounding may show, sums that are off by more are no sums
SYMMETRIC = 4.0  # rounding that does not show, because it is symmetric, may be larger than what shows
ROUNDED = 2.0  # by which bounds may differ from machine to machine: residuals have d roundings in them that do not
TINY = float(np.finfo(np.float64).tiny)
NOTHING, BLOCK, RITZ, AGAIN = -1, 0, 1, 2  # what to open next: new directions, Ritz vectors, the same V once more
STOP_REASONS = {
    CONVERGED: "the bound of the sines is below tol, or at what noise leaves",
    EXHAUSTED: "iterations used up",
}


def pd_krylov(fitting: Fitting, state: KrylovState, settings: SvdSettings) -> SvdResult:
    """The top-k right singular vectors of all parties' rows, party m's view.

    1. Q, C <- nothing; V <- V_0, k + 2 columns
    2. for t = 1 .. tau:
    3.     Y <- c S V, NormedSecSum(S_m V) with one factor c for the fit
    4.     Q <- [Q V], C <- [C Y]: Q^T C is symmetric up to noise and positive, or the run ends; where a hidden mean
           was taken off, what is not symmetric may be rounding of it, and counts as noise
    5.     theta, U <- eigenvectors of Q^T C: Rayleigh-Ritz on all that was opened; bound <- how far the vectors Q U can
           be from singular vectors
    6.     stop when the bound is below tol, or no more than noise leaves
    7.     V <- what Y adds to the span of Q, by a pivoted QR that leaves out columns of noise; where noise keeps the
           bound up, V <- Q U_(k+2), opened each at its own scale, in place of what was known of them
    8. V_k <- Q U_k

    Where Q and C would take more than the study's memory, their best Ritz vectors are kept (a thick restart). Columns
    are opened at a scale that their expected length makes; numbers that were too large for it (a wrap) show in step 4,
    and the same V is opened once more, at a scale that suffices for any direction: no c S v is longer than theta_1.
    That tells by how many periods the first numbers are off, and nothing else may be: a party that has changed its
    input ends the run (`unwrapped`). A change that is symmetric on all that was opened does not show.

    Reveals: V_t after every iteration, and what normed_sum reveals: c S on the span of all V_t, k t dimensions, its
    tail as finely as its head. Cost: per iteration one normed_sum of d (k + 2) numbers and one broadcast; 10 to 25
    iterations where block power iteration takes hundreds. Ref: [PDML Alg. PD-SVD], with every V_t made use of.
    """
    if state.t and state.stop == GO_ON:  # resumed: c is another one
        state = _reopened(state, settings, fitting.agree)
        state = replace(state, known=state.shown.C[:, : state.V.shape[1]], best=KrylovState.best)
    while state.stop == GO_ON:
        with fitting.clock("local"):
            SV = fitting.S_m.times(state.V)
        columns = fitting.normed_sum(SV, state.V, state.lengths)
        columns = columns if state.first is None else unwrapped(state, columns)
        with fitting.clock("local"):
            own = step(state, columns, settings)
        state = _next(state, own, columns, settings, fitting)
        fitting.done(state)
    return finish(state, settings, fitting.agree)


def step(state: KrylovState, columns: NormedColumns, settings: SvdSettings) -> KrylovState:
    """Steps 4 to 6 at one party; V is still the block that was opened. Pure, the same for every engine."""
    Y, errors = _opened(columns)
    shown, doubt, own = state.shown, state.doubt, replace(state, t=state.t + 1)
    if state.known is not None and columns.norms is None:
        s, error = ratio(state.known, shown.lengths_of_noise(state.known.shape[1]), Y, errors)
        shown, doubt = shown.scaled(s, error), s * doubt
    if not _as_before(state, shown, columns, max(doubt, columns.doubt)):
        return _again(own, columns)
    shown = shown.without(state.replaced)
    new, doubt = shown.with_block(state.V, Y, errors), max(doubt, columns.doubt)
    new = replace(new, level=max(new.level, settings.off * new.largest))  # symmetric: nothing shows it
    off, allowed = new.asymmetry(state.V.shape[1])
    rounded = doubt > 0
    # The same, as other machines may have rounded it: on the other side of what is allowed.
    least, most = (_level(new, off, allowed * factor) if rounded else new.level for factor in (ROUNDED, 1 / ROUNDED))
    if not np.all(np.abs(off) <= allowed):
        if not (rounded and np.all(np.abs(off) <= allowed + _rounding(own, columns, new))):
            return _again(own, columns)
        new = replace(new, level=_level(new, off, allowed))
    found = ritz(new)
    if not np.all(found.theta >= -(found.noise + 8 * new.rounding + doubt)):
        return _again(own, columns)
    before = 1.0 if state.bound is None else state.bound.span
    own = replace(own, shown=new, levels=(least / ROUNDED, ROUNDED * most), before=before, doubt=doubt, first=None)
    own = replace(own, exact=columns.norms is not None, known=None, replaced=0, over=np.inf)
    return _bounded(own, found, settings)


def _as_before(state: KrylovState, shown: Shown, columns: NormedColumns, doubt: float) -> bool:
    """Whether columns that are opened again are as they were known, up to the noise of both: once they are replaced,
    nothing else would show that a party has changed its input there.
    """
    (Y, errors), b = _opened(columns), min(state.replaced, state.V.shape[1])
    expected = shown.C[:, :b] @ (shown.Q[:, :b].T @ state.V[:, :b])
    allowed = (
        errors[:b]
        + shown.lengths_of_noise(b)
        + 8 * shown.rounding
        + (_rounding(state, columns, shown)[:b] if doubt > 0 else 0.0)
    )
    return bool(np.all(np.linalg.norm(Y[:, :b] - expected, axis=0) <= allowed))


def _level(shown: Shown, off: Reals, allowed: Reals) -> float:
    """Noise of which what is beyond `allowed` is a sign."""
    return max(shown.level, SYMMETRIC * float(np.max(np.abs(off)[np.abs(off) > allowed], initial=0.0)))


def _bounded(own: KrylovState, found: RitzVectors, settings: SvdSettings) -> KrylovState:
    real = found.theta[: settings.k] > np.maximum(found.noise[: settings.k], own.doubt)
    k = int(np.argmin(np.append(real, False)))  # how many there are before the first that is not
    bound = sines(own.shown, found, k)
    return replace(own, k=k, bound=bound, change=float(bound.all.max()) if k == settings.k else 1.0)


def _rounding(state: KrylovState, columns: NormedColumns, new: Shown) -> Reals:
    """(b,), what is not symmetric up to that may be rounding of means. A wrap makes a column 2^9 times as long as was
    expected, or more, in some entry: rounding that is longer than the column shows so too, and is seen at the second
    opening, where as much is expected.
    """
    most = np.full(state.V.shape[1], WORTHLESS * new.largest)
    return most if state.lengths is None or columns.norms is not None else np.minimum(most, state.lengths)


def _opened(columns: NormedColumns) -> tuple[Reals, Reals]:
    if columns.scaled is None or columns.errors is None:
        raise ProtocolError("columns were opened each at a scale of its own.", "one factor for all columns of a fit")
    return columns.scaled, columns.errors


def _again(state: KrylovState, columns: NormedColumns) -> KrylovState:
    """The sums do not fit together: numbers that were too large show no more than that. Once."""
    if state.first is not None or state.lengths is None or state.known is not None or columns.period is None:
        raise _unfit("c S is not symmetric, or not positive")
    return replace(state, first=columns, lengths=np.maximum(state.lengths, state.shown.largest / ROOM))


def unwrapped(state: KrylovState, again: NormedColumns) -> NormedColumns:
    """The first opening of V minus its wraps, which follow from the second one, coarser and without wraps.

    Numbers that were too large are off by whole periods. Where anything else is, beyond the noise of both, a party has
    given in one block at first and another one then: what it has added would be read from the difference, times c.
    With a hidden mean rounding of it may be more than that noise.
    """
    first = state.first
    assert first is not None
    assert first.period is not None  # or it was not opened again
    (Y, errors), (coarse, more) = _opened(first), _opened(again)
    more = more + (_rounding(state, again, state.shown) if max(state.doubt, again.doubt) > 0 else 0.0)
    Y = Y - first.period * np.rint((Y - coarse) / first.period)
    if not np.all(np.linalg.norm(Y - coarse, axis=0) <= errors + more):
        raise _unfit("the same V gave two results")
    return replace(first, scaled=Y)


def _unfit(why: str) -> ProtocolError:
    return ProtocolError(
        f"the opened sums do not fit together: {why}.",
        "parties that follow the protocol, and sums within the agreed bound and head-room",
        "check that all parties run the same version; if they do, a party has changed its input in the middle of the "
        "run, and may know the secret scale: compare the logs before you start again",
    )


def verdict(state: KrylovState, settings: SvdSettings) -> int:
    """Whether a fit with these settings ends here."""
    if state.bound is not None and state.first is None:
        met = settings.tol > 0 and state.worst(settings) == 0.0 and state.before < SETTLED
        if met or settings.tol >= state.over:
            return CONVERGED
    return EXHAUSTED if state.t >= settings.tau else GO_ON


def verdicts(state: KrylovState, settings: SvdSettings) -> set[int]:
    """What party 0 may have come to, whose bounds are this party's up to rounding."""
    factors = 1 / ROUNDED, 1.0, ROUNDED
    states = [replace(state, before=state.before * factor) for factor in factors]
    return {verdict(s, replace(settings, tol=settings.tol * factor)) for s in states for factor in factors}


def _next(
    state: KrylovState, own: KrylovState, columns: NormedColumns, settings: SvdSettings, fitting: Fitting
) -> KrylovState:
    """Step 7: party 0 chooses what is opened next, the others see that it is what they would have made of its choice.

    Whatever V is orthonormal and orthogonal to Q would do: bound and checks hold for it. Whether rounding of means
    shows may be seen by one party alone, if it is at the limit, and bounds and scales of columns depend on it: all take
    the level that party 0 has, a float64 number as an integer.
    """
    Y, errors = _opened(columns)
    agree = fitting.agree

    @cache
    def with_level(bits: int) -> KrylovState:
        level = float(np.int64(bits).view(np.float64))
        if own.first is not None or level == own.shown.level:
            return own
        shown = replace(own.shown, level=level)
        return _bounded(replace(own, shown=shown), ritz(shown), settings)

    @cache
    def block(bits: int, pivots: tuple[int, ...]) -> tuple[Reals, Reals]:
        shown = with_level(bits).shown
        return block_of(shown, Y, _weights(shown, errors), list(pivots))

    with fitting.clock("local"):
        plan, pivots = _plan(own, Y, _weights(own.shown, errors), settings)
        stop = verdict(replace(own, over=settings.tol if plan == NOTHING else np.inf), settings)
        goes_on, bits = plan == BLOCK and stop == GO_ON, int(np.float64(own.shown.level).view(np.int64))
        V = block(bits, tuple(pivots))[0] if goes_on else np.zeros((len(Y), 0))

    def right(V: Reals, said: tuple[int, ...]) -> bool:
        if not _meaningful(said, V, Y, last=own.t >= settings.tau):
            return False
        stop, plan, bits, *pivots = said
        level = float(np.int64(bits).view(np.float64))
        if plan != AGAIN and own.first is None and not own.levels[0] <= level <= own.levels[1]:
            return False
        if (stop, plan) != (GO_ON, BLOCK):
            return True
        return same(V, *block(bits, tuple(pivots)), Y / _weights(with_level(bits).shown, errors))

    V, (stop, plan, bits, *pivots) = agree.offered(V, (stop, plan, bits, *pivots), right, columns=Y.shape[1])
    own = with_level(bits) if plan != AGAIN else own
    if plan in (BLOCK, RITZ):  # otherwise noise is the limit, or numbers wrapped, which one party may see alone
        check_verdict((stop,), [verdicts(own, settings)])
    if own.first is not None and plan != AGAIN:
        raise _unfit("party 0 did not see that c S is not symmetric")
    if plan == AGAIN:  # what was shown before stands
        return replace(_again(replace(state, t=own.t), columns), stop=stop)
    own = replace(own, stop=stop, over=settings.tol if plan == NOTHING else np.inf)
    if stop != GO_ON:
        return own
    if plan == RITZ:
        return _reopened(own, settings, agree)
    least, above = float(np.min(np.sum(own.V * Y, axis=0))), block(bits, tuple(pivots))[1]
    lengths = expected_lengths(own.shown, V, least, above)
    return replace(own, V=V, lengths=lengths, shown=kept_within(settings.memory, own.shown, own.size, agree))


def _weights(shown: Shown, errors: Reals) -> Reals:
    return errors + max(shown.rounding, TINY)


def _meaningful(said: tuple[int, ...], V: Reals, Y: Reals, *, last: bool) -> bool:
    """Whether party 0's choice is one that there is: whether to stop, what comes next, of which columns of Y."""
    if len(said) < 3:
        return False
    stop, plan, _, *pivots = said
    possible = stop in ((CONVERGED, EXHAUSTED) if last else (CONVERGED, GO_ON)) and plan in (
        NOTHING,
        BLOCK,
        RITZ,
        AGAIN,
    )
    columns = len(set(pivots)) == len(pivots) and set(pivots) <= set(range(Y.shape[1]))
    wanted = len(pivots) if (stop, plan) == (GO_ON, BLOCK) else 0
    return possible and columns and bool(pivots) == (plan == BLOCK) and V.shape == (len(Y), wanted)


def _plan(state: KrylovState, Y: Reals, errors: Reals, settings: SvdSettings) -> tuple[int, list[int]]:
    """What to open next, and the columns of Y that it is made of."""
    if state.first is not None:
        return AGAIN, []
    pivots: list[int] = []
    if not (state.stuck(settings) and state.before < SETTLED):
        pivots = new_directions(state.shown, Y, errors, state.size)
    if pivots:
        return BLOCK, pivots
    worst, k = state.worst(settings), state.k
    # Ritz vectors, each at a scale of its own, may show more: at first, and while that halves the bound; and where
    # columns are missing, as long as there are others than before. Sums have one scale.
    best, known, m = state.best
    promising = worst <= best / 2 or k > known or (k < settings.k and state.shown.m > m)
    return (RITZ if worst > 0 and promising and not state.exact else NOTHING), []


def _reopened(state: KrylovState, settings: SvdSettings, agree: Agreement) -> KrylovState:
    """The first Ritz vectors are opened next, and what is known of them is replaced then. Where columns are missing,
    all others were below the noise: nothing is kept of them, nor of their noise.
    """
    found, b = ritz(state.shown), min(state.size, state.shown.m)
    turned = state.shown.turned(agreed_vectors(found, found.U, agree))
    lengths = np.linalg.norm(turned.C[:, :b], axis=0) + found.noise[:b]
    V = orthonormalise(turned.Q[:, :b])[0]
    best = (state.worst(settings) or 1.0, state.k, state.shown.m)
    replaced = b if state.k == settings.k else turned.m
    return replace(state, V=V, lengths=lengths, shown=turned, best=best, replaced=replaced, first=None)


def finish(state: KrylovState, settings: SvdSettings, agree: Agreement) -> SvdResult:
    """The Ritz vectors above the noise, signs fixed, singular values where they are known, and warnings."""
    if state.bound is None:  # no iteration was made
        return SvdResult(fix_signs(state.V[:, : settings.k]), None, np.ones(settings.k), state)
    if state.k == 0:
        raise nothing_there()
    found = ritz(state.shown)
    V = orthonormalise(state.shown.Q @ agreed_vectors(found, found.U[:, : state.k], agree))[0]
    V, _ = agree(V, (), qr_tolerance(np.ones(state.k), len(V)))  # the same U at all parties: products of it are rounded
    sigma = np.sqrt(np.maximum(found.theta[: state.k], 0.0)) if state.exact else None
    return SvdResult(fix_signs(V), sigma, state.bound.columns, state, krylov_state.warnings(state, settings))


def start(V: Reals) -> KrylovState:
    return KrylovState(V, size=V.shape[1], shown=Shown.nothing(len(V)))


def block_size(k: int, d: int) -> int:
    return min(k + MORE, d)


KRYLOV = Solver(
    "krylov",
    "block Lanczos on the same openings, of which it needs far fewer; stops by a bound of its error.",
    pd_krylov,
    start,
    verdict,
    STOP_REASONS,
    krylov_state.restored,
    krylov_state.saved,
    krylov_state.lengths,
    common_scale=True,
    columns=block_size,
    expected=16,
    lot=4,
    iterations=60,
    tol=1e-7,
    facts=krylov_state.facts,
    compared=krylov_state.compared,
)
