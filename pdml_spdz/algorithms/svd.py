"""PD-SVD: block power iteration on the sum of the parties' covariances. [PDML Alg. PD-SVD]"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.algorithms.rayleigh_ritz import Product, Ritz, groups, product_of, ritz, ritz_basis
from pdml_spdz.errors import InputError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.numerics.linalg import EPS, fix_signs, gaussian, orthonormalise, qr_tolerance, sine
from pdml_spdz.primitives.agree import Agreement, check_verdict
from pdml_spdz.primitives.normed_sum import NormedSum
from pdml_spdz.primitives.sec_sum import SecSum
from pdml_spdz.rows.covariance import Covariance
from pdml_spdz.transport.clock import Clock

GO_ON, CONVERGED, EXHAUSTED = 0, 1, 2
STOP_REASONS = {CONVERGED: "subspace change below tol or noise", EXHAUSTED: "iterations used up"}
LESS = 0.5  # noise that has shrunk to this, or below, since the iteration before will shrink further
STRIKES = 3  # a column that shows nothing but noise this many times in a row is dropped
NOISY = 2.0**-20  # a stop at a change above this is worth a warning, where tol was below it


@dataclass(frozen=True)
class Noise:
    """floor : how far noise may tilt the subspace; pairs : (k, k), how far it may turn two of its vectors."""

    floor: float
    pairs: Reals


@dataclass(frozen=True)
class State:
    """All that an iteration hands on; public, and all that a checkpoint needs.

    V : (d, k) orthonormal; t : iterations done; change : sine of the largest angle between the last two V
    strikes : (k,) how often in a row each column was below the noise
    error : the fit has converged for any tol above it
    product : what the last iteration has shown of S, with which the fit ends
    seen : how much noise there was in it, to see whether that still shrinks; forgotten when a run is cut off
    """

    V: Reals
    t: int = 0
    change: float = 1.0
    strikes: tuple[int, ...] = ()
    stop: int = GO_ON
    error: float = 1.0
    product: Product | None = None
    seen: Noise | None = None

    @property
    def alive(self) -> NDArray[np.bool_]:
        """Which columns have not died."""
        strikes = np.array(self.strikes or (0,) * self.V.shape[1])
        return strikes < STRIKES


@dataclass(frozen=True)
class Settings:
    """Public parameters of one fit: rank k, at most tau iterations, stop when the subspace changes by less than tol
    and single vectors are known as well as that, or as well as noise allows.

    With tol = 0 all tau iterations are made.
    """

    k: int
    tau: int
    tol: float


@dataclass(frozen=True)
class Result:
    """V : (d, k) with fixed signs; sigma : singular values if the norms were revealed.

    errors : (k,), by how much (a sine) noise may have moved each column, or turned it towards another one
    """

    V: Reals
    sigma: Reals | None
    errors: Reals
    state: State
    warnings: list[str] = field(default_factory=list)


def start_by_sec_sum(d: int, k: int, M: int, sec_sum: SecSum, agree: Agreement) -> State:
    """V_0 that no coalition of fewer than M parties chose.  [PDML Alg. PD-SVD, lines 2-3]

    1. V^(m) <- N(0, 1/(sqrt(M) d)), d x k
    2. V <- SecSum(V^(m)), distributed as N(0, 1/d)

    Reveals: V_0, which everyone needs. Cost: one SecSum of d k numbers.
    The addends protect nothing, so NumPy's generator, seeded by the operating system, is good enough for them.
    """
    rng = np.random.default_rng(secrets.randbits(256))
    deviation = 1.0 / (np.sqrt(M) * d)
    # A normal number beyond 40 deviations does not occur.
    V_m = gaussian(rng, d, k, deviation)
    return _started(sec_sum(V_m, 40.0 * deviation, "start"), agree)


def start_by_seed(d: int, k: int, seed: int, agree: Agreement) -> State:
    """V_0 from a public generator; the study's seed makes it the same at every party (and known before the run)."""
    return _started(gaussian(np.random.default_rng(seed), d, k, 1.0 / d), agree)


def _started(V: Reals, agree: Agreement) -> State:
    # Orthonormal from the start (the span, and with it every later V_t, is the same), and the same bytes for all.
    U = V / np.linalg.norm(V, axis=0)
    Q, r = orthonormalise(U)
    return State(agree(Q, (), qr_tolerance(r, len(Q)))[0])


def pd_svd(
    S_m: Covariance,
    state: State,
    settings: Settings,
    normed_sum: NormedSum,
    agree: Agreement,
    *,
    clock: Clock,
    done: Callable[[State], None] = lambda state: None,
) -> Result:
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
        with clock("local"):
            SV = S_m.times(state.V)
        columns = normed_sum(SV, state.V)
        with clock("local"):
            product = product_of(state.V, columns, state.product)
            V, r = orthonormalise(columns.U)
            own = step(state, V, r, product, settings)
        V, said = agree(V, (own.t, own.stop, *own.strikes), qr_tolerance(r, len(V)))
        check_verdict(said, _possible(state, own, r, settings))
        _, stop, *strikes = said
        state = replace(own, V=V, stop=stop, strikes=tuple(strikes))
        done(state)
    return finish(state, settings, agree)


def step(state: State, V: Reals, r: Reals, product: Product, settings: Settings) -> State:
    """What one party makes of an iteration: the next basis and whether to stop. Pure, the same for every engine."""
    before = np.array(state.strikes or (0,) * len(r))
    below = r <= _least(product.noise, r)
    # Three strikes are for good: what comes after them is noise.
    strikes = np.where(before >= STRIKES, before, np.where(below, before + 1, 0))
    alive = strikes < STRIKES
    if not alive.any():
        raise InputError(
            "the rows of all parties together are zero, or too small for the agreed bound.",
            "rows that are not all zero",
            "agree on a smaller --bound, or scale the data",
        )
    change = sine(V[:, alive], state.V[:, alive])
    sound = strikes == 0
    # Noise of k columns, spread over d directions, tilts a subspace hardly more than that of the worst column.
    floor = 2.0 * float(np.max((product.noise / np.maximum(r, EPS))[sound], initial=0.0))
    found = ritz(product.of(alive))
    seen = Noise(floor, found.pairs)
    error = np.inf if np.any(alive & ~sound) else max(change if change >= floor else 0.0, _to_come(found, seen, state))
    new = State(V, state.t + 1, change, tuple(int(x) for x in strikes), GO_ON, error, product, seen)
    return replace(new, stop=verdict(new, settings))


def _possible(before: State, own: State, r: Reals, settings: Settings) -> list[tuple[int, ...]]:
    """For t, stop and each strike of this party what they may be at another one, by rounding."""
    assert own.product is not None
    least = _least(own.product.noise, r)
    near = np.abs(r - least) <= qr_tolerance(r, len(own.V)) * (1.0 + least)
    either = [(0, s + 1) if s < STRIKES else () for s in before.strikes or (0,) * len(r)]
    strikes = [(s, *other) if close else (s,) for s, other, close in zip(own.strikes, either, near, strict=True)]
    stops = tuple(verdict(replace(own, error=error), settings) for error in (0.0, np.inf))
    return [(own.t,), stops, *strikes]


def verdict(state: State, settings: Settings) -> int:
    """Whether a fit with these settings ends here."""
    if settings.tol > 0 and state.error < settings.tol:
        return CONVERGED
    return EXHAUSTED if state.t >= settings.tau else GO_ON


def _to_come(found: Ritz, seen: Noise, state: State) -> float:
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


def finish(state: State, settings: Settings, agree: Agreement) -> Result:
    """Singular vectors within the last subspace, signs fixed, singular values where they are known, and warnings."""
    alive, product = state.alive, state.product
    if product is None:  # no iteration was made
        return Result(fix_signs(state.V), None, np.ones(len(alive)), state)
    product = product.of(alive)
    found = ritz(product)
    V, tolerance = ritz_basis(product, found)
    V = agree.subspace(V, tolerance)
    sigma = np.sqrt(np.maximum(found.values, 0.0)) if product.exact else None
    errors = np.maximum(found.tilt, found.pairs.max(axis=1))
    return Result(fix_signs(V), sigma, errors, state, _warnings(state, settings, found))


def _warnings(state: State, settings: Settings, found: Ritz) -> list[str]:
    """What whoever relies on V must know of it."""
    alive, warnings = state.alive, []
    if state.stop == EXHAUSTED:
        warnings.append(
            f"not converged: the subspace still changed by {state.change:.2e} in iteration {state.t}, and V is known "
            f"to {min(state.error, 1.0):.2e} (tol {settings.tol:g}); raise --iterations, or go on with --resume"
        )
    if state.stop == CONVERGED and state.change >= max(settings.tol, NOISY):
        warnings.append(
            f"stopped at a change of {state.change:.2e} (tol {settings.tol:g}): what is opened of the sums shows no "
            "more; agree on a smaller --bound, or on more --bits"
        )
    if not alive.all():
        warnings.append(
            f"{np.sum(~alive)} of {settings.k} columns were dropped: the rows have a numerical rank of {alive.sum()}, "
            "or the other directions are too small beside the largest for the agreed --bits: centre or scale columns"
        )
    # Noise costs a vector some digits wherever a gap is narrow; where it costs more than half of them it is said.
    for members in groups(found.pairs, max(settings.tol, float(np.sqrt(found.tilt.max(initial=0.0))))):
        names = ", ".join(str(i + 1) for i in members)
        off = float(found.pairs[np.ix_(members, members)].max())
        warnings.append(
            f"columns {names} of V are singular vectors up to a turn of {off:.0e} among themselves: their singular "
            "values are too close for the noise of the sums; what they span together is not affected"
        )
    return warnings
