"""PD-SVD: block power iteration on the sum of the parties' covariances, the solver `power`. [PDML Alg. PD-SVD]"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.algorithms.krylov import SETTLED
from pdml_spdz.algorithms.krylov_state import facts
from pdml_spdz.algorithms.rayleigh_ritz import Next, Product, Ritz, beyond, groups, product_of, ritz, ritz_basis
from pdml_spdz.algorithms.shown import Sines, davis_kahan
from pdml_spdz.algorithms.solver import CONVERGED, EXHAUSTED, GO_ON, Fitting, Solver, SvdResult, SvdSettings
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.numerics.linalg import EPS, fix_signs, orthonormalise, qr_tolerance, sine
from pdml_spdz.primitives.agree import Agreement, check_verdict
from pdml_spdz.primitives.bound import nothing_there

STOP_REASONS = {CONVERGED: "subspace change below tol or noise", EXHAUSTED: "iterations used up"}
LESS = 0.5  # noise that has shrunk to this, or below, since the iteration before will shrink further
STRIKES = 3  # a column that shows nothing but noise this many times in a row is dropped
NOISY = 2.0**-20  # a bound above this is worth a warning, where tol was below it: by SLOW times, for V changes by less
SLOW = 16.0  # than it is off


@dataclass(frozen=True)
class Noise:
    """floor : how far noise may tilt the subspace; pairs : (k, k), how far it may turn two of its vectors."""

    floor: float
    pairs: Reals


@dataclass(frozen=True)
class PowerState:
    """All that an iteration hands on; public, and all that a checkpoint needs.

    V : (d, k) orthonormal; t : iterations done; change : sine of the largest angle between the last two V
    strikes : (k,) how often in a row each column was below the noise
    error : the fit has converged for any tol above it
    product : what the last iteration has shown of S, with which the fit ends
    seen : how much noise there was in it, to see whether that still shrinks; forgotten when a run is cut off
    next : what has shown of the first eigenvalue that was not asked for
    bound : of the sines, at the end
    """

    V: Reals
    t: int = 0
    change: float = 1.0
    strikes: tuple[int, ...] = ()
    stop: int = GO_ON
    error: float = 1.0
    product: Product | None = None
    seen: Noise | None = None
    next: Next = field(default_factory=Next)
    bound: Sines | None = None

    @property
    def alive(self) -> NDArray[np.bool_]:
        """Which columns have not died."""
        strikes = np.array(self.strikes or (0,) * self.V.shape[1])
        return strikes < STRIKES


def pd_svd(fitting: Fitting, state: PowerState, settings: SvdSettings) -> SvdResult:
    """The top-k right singular vectors of all parties' rows, party m's view.

    1. for t = 1 .. tau:
    2.     U <- NormedSecSum(S_m V), all k columns in one call
    3.     V <- Orthonormalise(U), party 0's bytes for all
    4.     stop when the subspace changes by less than tol (or by less than the noise lets one see) and Rayleigh-Ritz
           tells its single vectors as well as that, or as well as noise allows
    5. turn V within its span to singular vectors: Rayleigh-Ritz on the last S V, which is known up to a factor; where
       each column was normalised by itself the ratios of the norms follow from v.S w = w.S v

    A column whose part orthogonal to the earlier ones stays below the noise for three iterations in a row has died
    (the rows have a rank below k): it is dropped, with a warning.

    Reveals: V_t after every iteration, and what normed_sum reveals. Cost: per iteration one normed_sum of d k numbers
    and one broadcast. Ref: [PDML Alg. PD-SVD; Theorem 3].
    """
    while state.stop == GO_ON:
        with fitting.clock("local"):
            SV = fitting.S_m.times(state.V)
        columns = fitting.normed_sum(SV, state.V)
        with fitting.clock("local"):
            product = product_of(state.V, columns, state.product)
            V, r = orthonormalise(columns.U)
            own = step(state, V, r, product, settings)
        V, said = fitting.agree(V, (own.t, own.stop, *own.strikes), qr_tolerance(r, len(V)))
        check_verdict(said, _possible(state, own, r, settings))
        _, stop, *strikes = said
        state = replace(own, V=V, stop=stop, strikes=tuple(strikes))
        fitting.done(state)
    return finish(state, settings, fitting.agree)


def step(state: PowerState, V: Reals, r: Reals, product: Product, settings: SvdSettings) -> PowerState:
    """What one party makes of an iteration: the next basis and whether to stop. Pure, the same for every engine."""
    before = np.array(state.strikes or (0,) * len(r))
    below = r <= _least(product.noise, r)
    # Three strikes are for good: what comes after them is noise.
    strikes = np.where(before >= STRIKES, before, np.where(below, before + 1, 0))
    alive = strikes < STRIKES
    if not alive.any():
        raise nothing_there()
    change = sine(V[:, alive], state.V[:, alive])
    sound = strikes == 0
    # Noise of k columns, spread over d directions, tilts a subspace hardly more than that of the worst column.
    floor = 2.0 * float(np.max((product.noise / np.maximum(r, EPS))[sound], initial=0.0))
    found = ritz(product.of(alive))
    seen = Noise(floor, found.pairs)
    error = np.inf if np.any(alive & ~sound) else max(change if change >= floor else 0.0, _to_come(found, seen, state))
    new = PowerState(V, state.t + 1, change, tuple(int(x) for x in strikes), GO_ON, error, product, seen)
    new = replace(new, next=beyond(product, state.product, state.next))
    return replace(new, stop=verdict(new, settings))


def _possible(before: PowerState, own: PowerState, r: Reals, settings: SvdSettings) -> list[tuple[int, ...]]:
    """For t, stop and each strike of this party what they may be at another one, by rounding."""
    assert own.product is not None
    least = _least(own.product.noise, r)
    near = np.abs(r - least) <= qr_tolerance(r, len(own.V)) * (1.0 + least)
    either = [(0, s + 1) if s < STRIKES else () for s in before.strikes or (0,) * len(r)]
    strikes = [(s, *other) if close else (s,) for s, other, close in zip(own.strikes, either, near, strict=True)]
    stops = tuple(verdict(replace(own, error=error), settings) for error in (0.0, np.inf))
    return [(own.t,), stops, *strikes]


def verdict(state: PowerState, settings: SvdSettings) -> int:
    """Whether a fit with these settings ends here."""
    if settings.tol > 0 and state.error < settings.tol:
        return CONVERGED
    return EXHAUSTED if state.t >= settings.tau else GO_ON


def _to_come(found: Ritz, seen: Noise, state: PowerState) -> float:
    """The largest error that further iterations can make smaller.

    That is what the subspace's own error does to single vectors, where noise does not do more; and noise that is much
    less than in the iteration before: small columns are raised out of it, and sorted from the large ones.
    """
    mixing = float(np.max(found.mixing[found.mixing > found.pairs], initial=0.0))
    if state.seen is None or state.seen.pairs.shape != seen.pairs.shape:
        return max(mixing, seen.floor, float(np.max(seen.pairs, initial=0.0)))
    tilting = seen.floor if seen.floor <= LESS * state.seen.floor else 0.0
    return max(mixing, tilting, float(np.max(seen.pairs[seen.pairs <= LESS * state.seen.pairs], initial=0.0)))


def _least(noise: Reals, r: Reals) -> Reals:
    """What is left of a column after the earlier ones shows nothing but noise if it is not above this."""
    return 2.0 * _noise_left(noise, r)


def _noise_left(noise: Reals, r: Reals) -> Reals:
    """How much noise is in the part of a column that is orthogonal to the earlier ones.

    Its own, and that of the earlier columns, which QR magnifies by 1/r.
    """
    earlier = np.maximum.accumulate(noise / np.maximum(r, EPS))
    left: Reals = noise + np.concatenate([[0.0], earlier[:-1]])
    return left


def finish(state: PowerState, settings: SvdSettings, agree: Agreement) -> SvdResult:
    """Singular vectors within the last subspace, signs fixed, singular values where they are known, and warnings."""
    alive = state.alive
    if state.product is None:  # no iteration was made
        return SvdResult(fix_signs(state.V), None, np.ones(len(alive)), state)
    bound, product = _sines(ritz(state.product), state, settings), state.product.of(alive)
    found, state = ritz(product), replace(state, bound=bound)
    V, tolerance = ritz_basis(product, found)
    V = agree.subspace(V, tolerance)
    sigma = np.sqrt(np.maximum(found.values, 0.0)) if product.exact else None
    return SvdResult(fix_signs(V), sigma, bound.columns, state, _warnings(state, settings, found))


def _sines(found: Ritz, state: PowerState, settings: SvdSettings) -> Sines:
    """Davis and Kahan, as for krylov, of the V that was opened: that of the result is no further off, but that noise of
    a column is left in those that were made orthogonal to it. A bound above SETTLED is none: directions that have not
    shown yet may be in V. Of one column it is no bound where the two largest eigenvalues are nearly equal.
    """
    theta, least = found.values, len(state.V) * EPS
    r, k = found.residual + (settings.off + least) * theta[0], int(state.alive.sum())
    if len(theta) < len(state.V):
        theta, r = np.append(theta, state.next.value), np.append(r, 0.0)
    columns, span, tied = davis_kahan(theta, r, np.zeros(k), k, least)
    columns = columns + 2.0 * np.linalg.norm(found.pairs[:k, :k], axis=1)
    return Sines(np.where(columns < SETTLED, columns, 1.0), span if span < SETTLED else 1.0, np.zeros(0), tied)


def _warnings(state: PowerState, settings: SvdSettings, found: Ritz) -> list[str]:
    """What whoever relies on V must know of it."""
    assert state.bound is not None
    alive, warnings = state.alive, []
    # Noise costs a vector some digits wherever a gap is narrow; where it costs more than half of them it is said.
    tied = groups(found.pairs, max(settings.tol, float(np.sqrt(found.tilt.max(initial=0.0)))))
    worst = float(np.delete(state.bound.all, [i for members in tied for i in members]).max())
    known = f"V is known to {worst:.2e} (a bound of the largest sine; tol {settings.tol:g})"
    if state.stop == EXHAUSTED:
        warnings.append(
            f"not converged: the subspace still changed by {state.change:.2e} in iteration {state.t}, and {known}; "
            "raise --iterations, or go on with --resume"
        )
    if state.stop == CONVERGED and worst >= max(SLOW * settings.tol, NOISY):
        warnings.append(
            f"stopped at a change of {state.change:.2e}, and {known}: what is opened of the sums shows no more, or the "
            "subspace changes slowly; agree on a smaller --bound, on more --bits, or on a smaller --tol"
        )
    if settings.k == 1 < len(state.V):
        # Where they are, V is a mixture of both vectors, which S leaves as it is: nothing that was opened shows it.
        warnings.append(
            "the bound of V's error holds unless the two largest singular values are nearly equal, which one column of "
            "the solver power cannot show; take the solver krylov, or --rank 2"
        )
    if not alive.all():
        warnings.append(
            f"{np.sum(~alive)} of {settings.k} columns were dropped: the rows have a numerical rank of {alive.sum()}, "
            "or the other directions are too small beside the largest for the agreed --bits: centre or scale columns"
        )
    for members in tied:
        names = ", ".join(str(i + 1) for i in members)
        off = float(found.pairs[np.ix_(members, members)].max())
        warnings.append(
            f"columns {names} of V are singular vectors up to a turn of {off:.0e} among themselves: their singular "
            "values are too close for the noise of the sums; what they span together is not affected"
        )
    return warnings


def _saved(state: PowerState) -> tuple[dict[str, Any], dict[str, Reals]]:
    numbers = {name: getattr(state, name) for name in ("t", "change", "strikes", "stop", "error")}
    return numbers | {"next": astuple(state.next)}, state.product.arrays() if state.product else {}


def _restored(V: Reals, numbers: dict[str, Any], arrays: Mapping[str, Reals]) -> PowerState:
    strikes, following = tuple(numbers.pop("strikes")), Next(*numbers.pop("next"))
    return PowerState(V, strikes=strikes, next=following, product=Product.restored(dict(arrays)), **numbers)


def _lengths(state: PowerState) -> tuple[float, ...]:
    """v_i.S v_i(before), up to the factor of what was seen."""
    return () if state.product is None else tuple(float(x) for x in np.sum(state.V * state.product.SV, axis=0))


POWER = Solver(
    "power",
    "the paper's block power iteration.",
    pd_svd,
    PowerState,
    verdict,
    STOP_REASONS,
    _restored,
    _saved,
    _lengths,
    facts=lambda result: facts(result) | {"subspace_change": result.state.change},
)
