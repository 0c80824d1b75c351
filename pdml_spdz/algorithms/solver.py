"""What finds the top singular vectors from columns that all parties see: one `Solver`, and one line in
`study/solvers.py`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np

from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.numerics.linalg import gaussian, orthonormalise, qr_tolerance
from pdml_spdz.primitives.agree import Agreement
from pdml_spdz.primitives.normed_sum import NormedSum
from pdml_spdz.primitives.sec_sum import SecSum
from pdml_spdz.transport.base import Clock

GO_ON, CONVERGED, EXHAUSTED = 0, 1, 2


@dataclass(frozen=True)
class SvdSettings:
    """Public parameters of one fit: rank k, at most tau iterations, and tol, below which the solver stops.

    With tol = 0 all tau iterations are made, as far as they can tell more.
    memory : bytes that what a solver keeps of earlier iterations may take
    centred : means were taken off the rows, in the open or not: for the words of a warning
    off : how far S may be off, by the error of a mean or of what was filled in, over its largest eigenvalue
    """

    k: int
    tau: int
    tol: float
    memory: float = 1e9
    centred: bool = False
    off: float = 0.0


class State(Protocol):
    """What an iteration hands on, a dataclass: public, the same at every party.

    t : iterations done; change : what is measured against tol; stop : GO_ON, or why not
    """

    @property
    def t(self) -> int: ...
    @property
    def change(self) -> float: ...
    @property
    def stop(self) -> int: ...


class SolverState(State, Protocol):
    """That of a solver is all that a checkpoint needs. V : (d, k) orthonormal"""

    @property
    def V(self) -> Reals: ...


@dataclass(frozen=True)
class SvdResult:
    """V : (d, k) with fixed signs; sigma : singular values if the norms were revealed.

    errors : (k,), how far (a sine) each column may be off
    """

    V: Reals
    sigma: Reals | None
    errors: Reals
    state: Any
    warnings: list[str] = field(default_factory=list)


class Operator(Protocol):
    """One party's S_m = X_m^T X_m."""

    def times(self, V: Reals) -> Reals: ...


@dataclass(frozen=True)
class Fitting:
    """What a solver is handed: this party's S_m, how S_m V becomes columns that all see, and a word with the others.

    done : to be told of the state after every iteration
    """

    S_m: Operator
    normed_sum: NormedSum
    agree: Agreement
    clock: Clock
    done: Callable[[Any], None] = lambda state: None


def _plain(state: Any) -> tuple[dict[str, Any], dict[str, Reals]]:
    return {name: value for name, value in asdict(state).items() if name != "V"}, {}


@dataclass(frozen=True)
class Solver:
    """
    name : as a study has it
    help : what it is, in a few words
    solve : solve(fitting, state, settings), party m's part of the fit from this state to its end
    start : start(V_0), the first state
    verdict : verdict(state, settings), whether a fit with these settings ends here
    reasons : why a fit ended, by its `stop`
    saved : saved(state), numbers and arrays of a checkpoint besides V
    restored : restored(V, numbers, arrays), the state again
    lengths : lengths(state), how long the next columns will be, up to one factor, where that is known
    common_scale : it needs columns that are known up to one factor for the whole fit
    columns : columns(k, d), how many it has opened at once at most
    expected : iterations to reckon with, where that decides which way is cheaper
    lot : iterations that offline material is claimed, or made, for at a time; 0: for all
    iterations, tol : for a study that says nothing else
    facts : facts(result), what the report says of this solver's result alone
    compared : compared(state), what of a checkpoint's arrays all parties have up to rounding, whichever their libraries
    """

    name: str
    help: str
    solve: Callable[[Fitting, Any, SvdSettings], SvdResult]
    start: Callable[[Reals], Any]
    verdict: Callable[[Any, SvdSettings], int]
    reasons: Mapping[int, str]
    restored: Callable[[Reals, dict[str, Any], Mapping[str, Reals]], Any]
    saved: Callable[[Any], tuple[dict[str, Any], dict[str, Reals]]] = _plain
    lengths: Callable[[Any], tuple[float, ...]] = lambda state: ()
    common_scale: bool = False
    columns: Callable[[int, int], int] = lambda k, d: k
    expected: int = 100
    lot: int = 0
    iterations: int = 300
    tol: float = 1e-9
    facts: Callable[[SvdResult], dict[str, Any]] = lambda result: {"subspace_change": result.state.change}
    compared: Callable[[Any], dict[str, Reals]] = lambda state: {}


def start_by_sec_sum(d: int, k: int, M: int, sec_sum: SecSum, agree: Agreement) -> Reals:
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


def start_by_seed(d: int, k: int, seed: int, agree: Agreement) -> Reals:
    """V_0 from a public generator; the study's seed makes it the same at every party (and known before the run)."""
    return _started(gaussian(np.random.default_rng(seed), d, k, 1.0 / d), agree)


def _started(V: Reals, agree: Agreement) -> Reals:
    # Orthonormal from the start (the span, and with it every later V_t, is the same), and the same bytes for all.
    U = V / np.linalg.norm(V, axis=0)
    Q, r = orthonormalise(U)
    return agree(Q, (), qr_tolerance(r, len(Q)))[0]
