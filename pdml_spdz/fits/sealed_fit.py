"""One party's singular vectors with nothing opened on the way."""

from __future__ import annotations

import time
from fractions import Fraction
from typing import Any

import numpy as np

from pdml_spdz.algorithms.solver import start_by_sec_sum, start_by_seed
from pdml_spdz.engines.base import Engine, OwnRows, SealedCheckpoint, SealedWatch
from pdml_spdz.engines.openings.sealed import seen as observables
from pdml_spdz.engines.spec import sealed_precision_of
from pdml_spdz.errors import InputError, RangeExceeded
from pdml_spdz.fits.limits import find_bound
from pdml_spdz.fits.loop import of_rows
from pdml_spdz.fits.prepare import View
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.numerics.linalg import fix_signs, orthonormalise
from pdml_spdz.primitives.agree import Agreement
from pdml_spdz.primitives.bound import power_of_four
from pdml_spdz.programs.sealed_precision import REACH, SealedPrecision
from pdml_spdz.rows.covariance import Covariance, centred_covariance, covariance
from pdml_spdz.rows.data import Data
from pdml_spdz.run import repeats
from pdml_spdz.run.context import PartyRun
from pdml_spdz.run.output import Fitted, Outcome, run_report
from pdml_spdz.study.model import Study
from pdml_spdz.system.files import save_array
from pdml_spdz.transport.base import Link

# Colluders know the last place that is drawn for V: N fits of the same rows show log2 N bits below the goal's.
REPEATS = 16


def fit_sealed(run: PartyRun, data: Data, link: Link, engine: Engine, rows: View) -> Fitted:
    """The top singular vectors of the rows as they are to be factorised.

    1. a bound, as the study says; a start that all have
    2. the program `sealed_svd` up to its first checkpoint whose gate is open
    3. V <- what it has opened, orthonormal to the last bit

    Reveals: the bound (its blurred exponent, unless it is agreed); at each checkpoint that is reached whether S is
    large enough beside it, b Ritz values over their sum (unless ratios are hidden), and the gate's bit; V.
    Cost: that of the program. Ref: -
    """
    study, d = run.study, data.d
    precision = sealed_precision_of(study, d)
    if rows.off:
        raise InputError(
            "the rows of all parties vary too little beside their mean for the accuracy that is promised.",
            "deviations of more than about 10^-8 of the mean",
            "take off a number near the mean first (--offset), and leave out features that are constant",
        )
    with link.clock("local"):
        form = covariance(rows.X, d, 1) if rows.mu is None else centred_covariance(rows.X, rows.mu, d, 1)
        S = (form if rows.sums is None else _around_own_mean(rows, d)).times(np.eye(d))
        S = (S + S.T) / 2
    repeats.count(data.digest(b"sealed fits").encode(), run.repeats, "sealed fits", REPEATS)
    norm = (
        form.trace() if study.bound_kind == "exponent" else form.norm_bound()
    )  # the same exponent as other levels show
    bound = rows.bound or find_bound(run, norm, engine, link, data)
    agree = Agreement(link)
    V = _start(study, d, precision.columns, engine, agree)
    save_array(run.directory / "V0.npy", V)
    began = time.perf_counter()
    checkpoints: list[SealedCheckpoint] = []

    def shown(seen: SealedCheckpoint) -> None:
        checkpoints.append(seen)
        run.see("scale", np.array([float(seen.normal)]))
        if seen.ritz is not None:
            run.see("ritz", seen.ritz)
        if seen.normal:
            run.see("gate", np.array([float(seen.passed)]))
        done, most = (precision.iterations_at(i) for i in (len(checkpoints) - 1, len(precision.checkpoints) - 1))
        run.notify({"event": "iteration", "t": done, "of": most, "change": None})

    scale = power_of_four(bound.total)  # its root is a power of two as well
    own = OwnRows(S / scale)
    if rows.sums is not None:
        assert rows.n is not None
        own = OwnRows(S / scale, rows.sums / np.sqrt(scale), Fraction(rows.n, max(1, rows.X.shape[0])))
    seen = engine.sealed(precision, own, V, SealedWatch(shown, run.show))
    if seen.V is None:
        raise _closed(precision, study) if seen.normal else _too_small(precision, study)
    engine.finish()
    Q, _ = orthonormalise(fix_signs(seen.V))
    result = agree(Q, (), np.full(study.rank, 1e-9))[0]
    run.see("V", result)
    digest = agree.digest("result", result.tobytes())
    outcome = Outcome(data, digest, rows.warnings, observables(hidden_ratios=precision.hidden_ratios))
    report = run_report(study, engine, link, bound, outcome)
    report["seconds"]["loop"] = round(time.perf_counter() - began, 6)
    report["bound"]["measure"] = "trace" if study.bound_kind == "exponent" else form.measure
    report["history"] = []  # nobody has seen any of it
    arrays = {"V.npy": result}
    of_rows(report, arrays, study, data, rows)
    return Fitted(report | _facts(study, precision, checkpoints), arrays)


def _facts(study: Study, precision: SealedPrecision, checkpoints: list[SealedCheckpoint]) -> dict[str, Any]:
    reached, known = len(checkpoints), 2.0**-precision.goal_bits
    counts = [precision.iterations_at(i) for i in range(len(precision.checkpoints))]
    ritz = checkpoints[-1].ritz
    return {
        "solver": None,
        "rank": study.rank,
        "rank_found": study.rank,
        "iterations": counts[reached - 1],
        "converged": True,
        "stop_reason": f"the gate of checkpoint {reached} is open: V is known to {known:.1e}",
        "column_errors": _column_errors(ritz, known, precision),
        "singular_values": None,
        "start": {"kind": study.start, "seed": study.seed},
        "gate": {
            "accuracy_goal": study.accuracy_goal,
            "decay": study.decay,
            "columns": precision.columns,
            "checkpoints": counts,
            "reached": reached,
            "ratios": study.ratios,
            "ritz_values": None if ritz is None else [float(x) for x in ritz],
        },
    }


def _column_errors(ritz: Reals | None, known: float, p: SealedPrecision) -> list[float]:
    """The gate knows of the span: columns of close Ritz values are mixed by what rounding of H, of trace 8, does.

    Where nobody has seen these, columns that are mixed are not orthonormal, which the gate does know of.
    """
    if ritz is None:
        return [known] * p.rank
    unit = p.M * p.columns * 2.0 ** -(p.f_open + 3)
    gaps = [float(np.abs(np.delete(ritz, i) - ritz[i]).min()) for i in range(p.rank)]
    return [min(1.0, known + unit / max(gap, 1e-300)) for gap in gaps]


def _start(study: Study, d: int, b: int, engine: Engine, agree: Agreement) -> Reals:
    if study.seed is not None:
        return start_by_seed(d, b, study.seed, agree)
    return start_by_sec_sum(d, b, study.M, engine.sec_sum, agree)


def _around_own_mean(rows: View, d: int) -> Covariance:
    """Of a hidden mean: what is left of S_m without n_m mean_m mean_m^T, which is added exactly. A mean that is large
    beside the deviations must not cost them their digits.
    """
    n = max(1, rows.X.shape[0])
    return centred_covariance(rows.X, rows.X.column_sums() / n, d, 1)


def _too_small(precision: SealedPrecision, study: Study) -> RangeExceeded:
    found = "the rows are too small beside the bound, or there is nothing in them"
    if study.centre == "hidden" and "centre" in study.spec.own:
        found = "the rows' deviations are too small beside their mean and the bound, or there are none"
    return RangeExceeded(
        f"{found}: V was not computed, and nothing more was opened.",
        f"||S||_F (the root of the sum of all lambda^2) of at least 2^-{precision.scale} of the bound",
        "agree on a smaller --bound, or leave it out; with a hidden mean on an --offset near it",
    )


def _closed(precision: SealedPrecision, study: Study) -> RangeExceeded:
    total = precision.iterations_at(len(precision.checkpoints) - 1)
    gap, ratios = "with a gap below the last one", ""
    if precision.hidden_ratios:
        gap = f"with a gap of 2^-{precision.relative_gap_bits} of itself below each"
        ratios = ", or --ratios open, with which components may be close to each other"
    return RangeExceeded(
        f"after {total} iterations the gate is still closed: V is not known to {study.accuracy_goal:g}, and was not "
        "opened.",
        f"{study.rank} components, each above 2^-{REACH} of the root of the sum of all lambda^2, {gap}, "
        f"and lambda_(b+1) / lambda_k of at most about {study.decay:g} (b = {precision.columns})",
        "ask for fewer components, a larger --block or --decay, or a larger --accuracy-goal; standardise the features "
        f"(--scale) where a few have nearly all of the variance{ratios}",
    )
