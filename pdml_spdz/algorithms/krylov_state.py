"""What the solver `krylov` hands on from one iteration to the next, keeps in checkpoints, and says at its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.algorithms.rayleigh_ritz import groups
from pdml_spdz.algorithms.shown import Shown, Sines, ritz
from pdml_spdz.algorithms.solver import EXHAUSTED, GO_ON, SvdResult, SvdSettings
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.primitives.normed_sum import NormedColumns

LIMITED = 2.0  # what is no more than twice what noise alone makes of it will not fall much further


@dataclass(frozen=True)
class KrylovState:
    """All that an iteration hands on; public, and all that a checkpoint needs.

    V : (d, b) orthonormal, and orthogonal to what was shown: to be opened next
    t : openings made; change : the largest bound of a sine, 1 if columns are missing; stop : GO_ON, or why not
    lengths : (b,), how long the columns c S V are expected to be; none at first
    size : columns of a whole block
    shown : c S on the span of all earlier blocks
    k : columns whose theta is above the noise, k at most; bound : of their sines; before : of the span, a block earlier
    best : when Ritz vectors were opened the last time, the worst bound, k and the number of columns of Q
    exact : the factor c is 1
    first : what was opened of V, where some of it was too large and V is opened for the second time
    over : the tol for which nothing that could be opened would tell more
    replaced : so many columns of `shown`, the first, are opened again, and replaced then
    doubt : what is shorter may be rounding of S
    levels : of `shown`, the least and the largest that party 0 may have found, until all parties have its own
    known : (d, b), c S V with another c, before V has been opened in a run that was resumed
    """

    V: Reals
    t: int = 0
    change: float = 1.0
    stop: int = GO_ON
    lengths: Reals | None = None
    size: int = 0
    shown: Shown = field(default_factory=lambda: Shown.nothing(0))
    k: int = 0
    bound: Sines | None = None
    before: float = 1.0
    best: tuple[float, int, int] = (np.inf, 0, 0)
    exact: bool = False
    first: NormedColumns | None = None
    over: float = np.inf
    replaced: int = 0
    doubt: float = 0.0
    levels: tuple[float, float] = (0.0, 0.0)
    known: Reals | None = None

    def _unmet(self, settings: SvdSettings) -> NDArray[np.bool_]:
        """(k + 1,), which sines (columns, then the span) are above tol."""
        return np.zeros(0, np.bool_) if self.bound is None else self.bound.all >= settings.tol

    def worst(self, settings: SvdSettings) -> float:
        """The largest sine that is above tol; 1 for columns that are missing; 0 if there is none."""
        if self.bound is None or self.k < settings.k:
            return 1.0
        return float(np.max(self.bound.all[self._unmet(settings)], initial=0.0))

    def stuck(self, settings: SvdSettings) -> bool:
        """Whether there are all columns, and noise alone keeps every sine that is above tol where it is."""
        if self.bound is None or self.worst(settings) == 0 or self.k < settings.k:
            return False
        return bool(np.all((self.bound.all <= LIMITED * self.bound.least)[self._unmet(settings)]))


def warnings(state: KrylovState, settings: SvdSettings) -> list[str]:
    """What whoever relies on V must know of it."""
    assert state.bound is not None
    said, bound, k = [], state.bound, state.k
    worst = float(bound.all.max())
    if state.stop == EXHAUSTED:
        said.append(
            f"not converged: after {state.t} iterations V is known to {worst:.2e} (a bound of the largest sine; tol "
            f"{settings.tol:g}); raise --iterations, or go on with --resume"
        )
    elif worst > settings.tol > 0:
        said.append(
            f"V is known to {worst:.2e} (a bound of the largest sine; tol {settings.tol:g}): what is opened of the "
            "sums shows no more; agree on more --bits, or centre or scale columns"
        )
    if k < settings.k and state.stop == EXHAUSTED:
        said.append(f"{settings.k - k} of {settings.k} columns do not show yet, and were left out")
    elif k < settings.k:
        said.append(
            f"{settings.k - k} of {settings.k} columns were dropped: the rows have a numerical rank of {k}, "
            "or the other directions are too small beside the largest for the agreed --bits: centre or scale columns"
        )
    if state.shown.level > 0 and worst > settings.tol:
        bits = max(0.0, -np.log2(state.shown.level / state.shown.largest))
        means = (
            "the means of the features are large beside their deviations; agree on an offset near the mean for each "
            "feature (--offset)"
            + (", or use --centre open; or a party has changed its input in the run" * (state.doubt > 0))
        )
        fills = "what is filled in for missing values is known no better (--missing)"
        why = means if settings.centred or state.doubt > 0 else fills
        said.append(f"the sums are exact to {bits:.0f} bits only: {why}")
    for members in groups(bound.tied[:, :k].astype(np.float64), 0.5):
        names = ", ".join(str(i + 1) for i in members)
        said.append(
            f"vectors {names} cannot be told apart: their singular values are too close for what is known of the sums; "
            "what they span together is not affected"
        )
    if np.any(bound.tied[:, k]):
        names = ", ".join(str(i + 1) for i in np.flatnonzero(bound.tied[:, k]))
        said.append(
            f"vectors {names} cannot be told from those that were not asked for: their singular values are too close; "
            "ask for another --rank"
        )
    return said


def saved(state: KrylovState) -> tuple[dict[str, Any], dict[str, Reals]]:
    names = ("t", "change", "stop", "size", "k", "before", "exact", "over", "doubt")
    numbers = {name: getattr(state, name) for name in names} | {"level": state.shown.level}
    arrays = {"Q": state.shown.Q, "C": state.shown.C, "N": state.shown.N}
    if state.bound is not None:
        arrays |= {"sines": state.bound.all, "least": state.bound.least, "tied": state.bound.tied.astype(np.float64)}
    return numbers, arrays


def restored(V: Reals, numbers: dict[str, Any], arrays: Mapping[str, Reals]) -> KrylovState:
    shown = Shown(arrays["Q"], arrays["C"], arrays["N"], numbers.pop("level"))
    if not (shown.Q.shape == shown.C.shape == (len(V), len(shown.N)) and shown.N.ndim == 2):
        raise ValueError("not of one basis")
    bound = None
    if "sines" in arrays:
        *columns, span = arrays["sines"]
        bound = Sines(np.array(columns), float(span), arrays["least"], arrays["tied"] > 0)
    return KrylovState(V, shown=shown, bound=bound, **numbers)


def compared(state: KrylovState) -> dict[str, Reals]:
    """Of N, which is one of many with the same noise, N N^T."""
    shown = state.shown
    return {"Q": shown.Q, "C": shown.C, "N N^T": shown.N @ shown.N.T}


def lengths(state: KrylovState) -> tuple[float, ...]:
    """Of the Ritz vectors, with which a run goes on."""
    if not state.shown.m:
        return ()
    found, b = ritz(state.shown), min(state.size, state.shown.m)
    return tuple(float(x) for x in np.linalg.norm(state.shown.C @ found.U[:, :b], axis=0) + found.noise[:b])


def facts(result: SvdResult) -> dict[str, Any]:
    bound = result.state.bound
    return {"sine_bound": bound and {"columns": bound.columns.tolist(), "span": bound.span}}
