"""PD-NMF: topics of all parties' rows by rank-one residual iterations. [PDML Alg. PD-NMF-Iter, PD-NMF-Init]"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.algorithms.rri import CAP, Penalties
from pdml_spdz.errors import ProtocolError, QuotaError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.numerics.linalg import EPS
from pdml_spdz.primitives.agree import Agreement, check_verdict
from pdml_spdz.primitives.sec_sum import Accuracy, SecSum
from pdml_spdz.transport.base import Clock

GO_ON, CONVERGED, EXHAUSTED = 0, 1, 2
STOP_REASONS = {CONVERGED: "topics change by less than tol", EXHAUSTED: "sweeps used up"}
STRIKES = 3  # a topic that no row uses in this many sweeps in a row has died
LARGEST = 2.0**300  # squares of scales stay finite
LEAST_BITS = 24  # of a party's largest addend, above the last place that is opened


@dataclass(frozen=True)
class SweepSettings:
    """Public parameters of a fit.

    tau : sweeps at most; tol : stop when no topic changes by more, in l1, in a sweep (0: never)
    paper_order : clip the quotient before it is projected, as printed; the objective may then rise
    bound : ||X||_F^2 of all parties' rows together is not larger
    """

    tau: int
    tol: float
    bound: float
    penalties: Penalties = field(default_factory=Penalties)
    weighted: bool = False
    paper_order: bool = False

    @property
    def simplex(self) -> bool:
        """Rows of T sum to 1: only where that loses nothing."""
        return not (self.penalties.any or self.weighted)


@dataclass(frozen=True)
class SweepState:
    """All that a sweep hands on; public. T : (k, d); strikes : (k,) sweeps in a row in which no row used the topic."""

    T: Reals
    t: int = 0
    change: float = np.inf
    strikes: tuple[int, ...] = ()
    stop: int = GO_ON


@dataclass(frozen=True)
class SweepResult:
    T: Reals
    state: SweepState
    warnings: list[str] = field(default_factory=list)


class Summands(Protocol):
    """What PD-NMF-Iter needs of a party's rows (`rri.Part`): its addends, and to hear of a topic that has moved."""

    d: int

    def update(self, t: int, T: Reals, p: Penalties) -> tuple[Reals, Reals]: ...

    def moved(self, t: int, before: Reals, T: Reals) -> None: ...


def pd_nmf_iter(
    part: Summands,
    state: SweepState,
    settings: SweepSettings,
    sec_sum: SecSum,
    agree: Agreement,
    *,
    clock: Clock,
    done: Callable[[SweepState], None] = lambda state: None,
) -> SweepResult:
    """Topics T that, with W of all parties, minimise 1/2 ||X - W T||_F^2 + penalties locally; party m's view.

    1. repeat, for t = 1 .. k:
    2.     W_t <- [R_t T_t^T - gamma]_+ / (||T_t||^2 + delta)                        local
    3.     num, den <- SecSum(W_t^T R_t, ||W_t||^2)                                  one call
    4.     T_t <- the nearest point of the simplex to num/den; with penalties or missing entries
              T_t <- [num - alpha]_+ / (den + beta) instead
    5. until no topic changes by more than tol

    A topic that no row uses (den = 0 as far as the sums show, `least_use`) stays as it is, or is zero with beta > 0;
    after three sweeps it counts as dead.
    Where entries are missing and neither gamma nor delta is given, W is capped (`rri.ObservedPart`).

    Reveals: num and den, to 44 bits below their `addend_bounds`, and T_t of every topic in every sweep. Never W.
    Cost: for each topic one SecSum of d + 1 numbers (2 d where entries are missing), for each sweep one broadcast of T;
    whatever n is.
    Ref: [PDML Alg. PD-NMF-Iter; Theorem 1], Ho, thesis 2008 (RRI-NMF).
    """
    accuracy = sec_sum.accuracy(1.0)
    while state.stop == GO_ON:
        T = state.T.copy()
        dead = np.zeros(len(T), bool)
        for t in range(len(T)):
            with clock("local"):
                bounds = addend_bounds(T[t], len(T), settings)
                own = np.concatenate(part.update(t, T, settings.penalties)) / bounds
                _check(own)
                if (state.t, t) == (0, 0) and settings.penalties.leave_w_free:
                    check_bits(float(np.abs(own).max()), accuracy)
            total = sec_sum(own, 1.0, "topic")
            with clock("local"):
                used = total[part.d :] > least_use(part.d, accuracy, settings)
                num, den = total[: part.d] * bounds[: part.d], total[part.d :] * bounds[part.d :]
                before = T[t].copy()
                dead[t] = not np.any(used)
                T[t] = new_topic(before, np.where(used, num, 0.0), np.where(used, den, 0.0), settings)
                part.moved(t, before, T)
        own_state = step(state, T, dead, settings)
        tolerance = np.maximum(1e-10, 64.0 * EPS * np.abs(T).max(axis=0))
        strikes = own_state.strikes  # from the sums alone: equal everywhere
        T, said = agree(T, (own_state.t, own_state.stop, *strikes), tolerance)
        stops = [verdict(replace(own_state, change=change), settings) for change in (0.0, np.inf)]
        check_verdict(said, [(own_state.t,), stops, *((s,) for s in strikes)])
        state = replace(own_state, T=T, stop=said[1])
        done(state)
    return finish(state, settings)


def new_topic(before: Reals, num: Reals, den: Reals, settings: SweepSettings) -> Reals:
    """Step 4: T_t from the sums, the same at every party."""
    p = settings.penalties
    if not settings.simplex:
        size = np.broadcast_to(den + p.beta, num.shape)
        return np.divide(np.maximum(num - p.alpha, 0.0), size, out=before.copy(), where=size > 0)
    if den[0] <= 0:
        return before
    quotient = num / den[0]
    # The projection is the minimiser on the simplex of what the topic leaves over; of the clipped quotient it is not.
    return project(np.maximum(quotient, 0.0) if settings.paper_order else quotient, before)


def least_use(d: int, accuracy: Accuracy, settings: SweepSettings) -> float:
    """Of a den, relative to its bound: what is not above it may be what opening the sums leaves of nothing.

    An entry of num/den is off by at most `tolerance` w square / den, with the names of `addend_bounds`, which is w^-1/4
    for a den of 4 `tolerance` w^2 square: where w is 1/T_tj, a quarter of T_tj itself. Where it is 1/||T_t|| for all d
    entries, their errors together stay below a quarter of ||T_t|| from sqrt(d) times as much on.
    """
    return 4.0 * accuracy.tolerance * (1.0 if settings.weighted else math.sqrt(d))


def step(state: SweepState, T: Reals, dead: Reals, settings: SweepSettings) -> SweepState:
    """What one party makes of a sweep."""
    before = np.array(state.strikes or (0,) * len(T))
    strikes = np.where(dead, before + 1, 0)
    change = float(np.max(np.sum(np.abs(T - state.T), axis=1)))
    t = state.t + 1
    new = SweepState(T, t, change, tuple(int(s) for s in strikes))
    return replace(new, stop=verdict(new, settings))


def verdict(state: SweepState, settings: SweepSettings) -> int:
    """Whether a fit with these settings ends here."""
    if settings.tol > 0 and state.change < settings.tol:
        return CONVERGED
    return EXHAUSTED if state.t >= settings.tau else GO_ON


def finish(state: SweepState, settings: SweepSettings) -> SweepResult:
    warnings = []
    if state.stop == EXHAUSTED and settings.tol > 0:
        warnings.append(
            f"not converged: a topic still changed by {state.change:.2e} in sweep {state.t} (tol {settings.tol:g}); "
            "raise --iterations, or go on with --resume"
        )
    if count := died(state):
        warnings.append(f"{count} of {len(state.T)} topics died: no party's rows use them; ask for a smaller --rank")
    return SweepResult(state.T, state, warnings)


def died(state: SweepState) -> int:
    """How many topics no row uses: for three sweeps in a row, or in the last one where nothing changes any more."""
    return sum(s >= (1 if state.stop == CONVERGED else STRIKES) for s in state.strikes)


def addend_bounds(T_t: Reals, k: int, settings: SweepSettings) -> Reals:
    """What no addend of (num, den) of a topic exceeds, number by number; from public numbers.

    -W T <= R_t - X <= 0, entry by entry, so ||R_t||^2 <= ||X||^2 + ||X - W T||^2 at each party, and the latter is at
    most what all parties' objective was at the start: ||X||^2 and the penalties of T_0. A row's coefficient is
    <= w ||R_i||, with w = 1/||T_t||, which is <= 1/T_tj if feature j is observed in row i; <= 1/(2 sqrt(delta)); and
    <= ||R_i||/(4 gamma); or it is capped at w ||X_i||. Hence num <= w ||R_t||^2 and den <= w^2 ||R_t||^2, with the
    bound above for ||R_t||^2. In the printed order the objective may rise: twice as much is allowed for, and a party
    whose addend does not fit says so before it sends anything.
    """
    p = settings.penalties
    slack = 2.0 if settings.paper_order else 1.01  # 1.01: for rounding
    square = slack * (2.0 * settings.bound + k * (2.0 * p.alpha + p.beta))
    sizes = T_t if settings.weighted else np.full(len(T_t), np.linalg.norm(T_t))
    w = np.divide(1.0, sizes, out=np.full(len(T_t), LARGEST), where=sizes > 1.0 / LARGEST)
    if p.delta:
        w = np.minimum(w, 0.5 / np.sqrt(p.delta))
    if p.gamma:
        w = np.minimum(w, np.sqrt(square) / (4.0 * p.gamma))
    if settings.weighted and p.leave_w_free:
        w = np.minimum(w, CAP * len(T_t))
    return square * np.concatenate([w, w**2 if settings.weighted else w[:1] ** 2])


def _check(own: Reals) -> None:
    if not np.all(np.abs(own) < 1.0):
        raise QuotaError(
            "a sum of this party over its rows is larger than the agreed bound allows; nothing of it was sent.",
            "numbers within the bound on ||X||_F^2",
            "agree on a larger --bound; with --paper-order, do without it: the objective has risen far",
        )


def check_bits(largest: float, accuracy: Accuracy) -> None:
    """What a party adds at first, relative to its bound, is not lost below the last place that is opened.

    Later it may be small: topics die; and gamma and delta are there to make it small. Nothing but zeros has nothing to
    lose.
    """
    if 0.0 < largest < accuracy.unit * 2.0**LEAST_BITS:
        bits = max(0, math.floor(math.log2(largest / accuracy.unit)))
        raise QuotaError(
            f"the bound leaves {bits} bits for the largest sum of this party over its rows; nothing of it was sent.",
            f"{LEAST_BITS} bits or more: a bound on ||X||_F^2 that is not millions of times that of this party's rows",
            "agree on a smaller --bound; if the other parties need it, this party's rows are too small beside theirs: "
            "agree on a --scale, or leave them out",
        )


def check_size(norm: float, settings: SweepSettings, accuracy: Accuracy) -> None:
    """The same before anything is sent, from ||X||_F^2 of a party: no addend is larger beside its bound."""
    check_bits(norm / (2.0 * settings.bound), accuracy)


def start_by_sec_sum(d: int, k: int, M: int, sec_sum: SecSum, agree: Agreement) -> SweepState:
    """T_0 that no coalition of fewer than M parties chose.  [PDML Alg. PD-NMF-Init, lines 6-8]

    1. T_0^(m) <- U[0, 1], k x d; 2. T_0 <- SecSum(T_0^(m) / M); 3. rows of T_0 are scaled to sum 1

    Reveals: T_0, which everyone needs. Cost: one SecSum of d k numbers.
    """
    rng = np.random.default_rng(secrets.randbits(256))
    return _started(sec_sum(rng.uniform(size=(k, d)) / M, 1.0, "start"), agree)


def start_by_seed(d: int, k: int, seed: int, agree: Agreement) -> SweepState:
    """T_0 from a public generator; the study's seed makes it the same at every party."""
    return _started(np.random.default_rng(seed).uniform(size=(k, d)), agree)


def _started(T: Reals, agree: Agreement) -> SweepState:
    T = np.maximum(T, 0.0)
    if not np.all(T.sum(axis=1) > 0):
        raise ProtocolError(
            "a topic of the start has no positive entry.",
            "a sum of numbers between 0 and 1",
            "check that all parties run the same version",
        )
    T = T / T.sum(axis=1, keepdims=True)
    return SweepState(agree(T, (), np.full(T.shape[1], 1e-10))[0])


def project(x: Reals, near: Reals | None = None, last: float = 1.0) -> Reals:
    """argmin ||y - x||_2 over y >= 0 with sum(y) = 1, exactly: y = [x - theta]_+ for the theta that makes the sum 1.

    Only numbers above max(x) - 1 can stay positive (what is cut off them sums to 1). The theta of any set is never too
    large, so what is not above it goes; when nothing goes, it is theta. No sorting.
    x : (..., d), each of its vectors by itself
    near : a point that y is probably close to: the theta of its positive entries leaves few steps
    last : the last number stands for so many equal ones
    Ref: Michelot, J. Optim. Theory Appl. 1986; the filter as in Condat, Math. Programming 2016.
    """

    def total(values: Reals | NDArray[np.bool_]) -> Reals:
        return np.asarray(values.sum(axis=-1, keepdims=True) + (last - 1.0) * values[..., -1:])

    x = x - x.max(axis=-1, keepdims=True)  # for accuracy: the same theta, shifted, for numbers of any size
    y, theta = np.empty_like(x), np.full((*x.shape[:-1], 1), -1.0)
    if near is not None:
        size = np.maximum(total(near > 0.0), EPS)  # of no numbers: far below -1
        of_near = (total(np.multiply(x, near > 0.0, out=y)) - 1.0) / size
        theta = np.maximum(theta, of_near - 64.0 * EPS)  # below theta, whatever rounding does
    size = np.zeros_like(theta)
    while True:
        np.maximum(np.subtract(x, theta, out=y), 0.0, out=y)
        count = total(y > 0.0)
        if np.array_equal(count, size):
            y /= total(y)
            return y
        # Below 0, which is the largest number: it never goes.
        theta, size = np.maximum(theta, theta + (total(y) - 1.0) / count), count
