"""The attack of `privacy.scale` on recorded runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pdml_spdz.engines.transcript import Transcript
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.privacy.attacks import Finding, directions, scaled_covariance
from pdml_spdz.privacy.known import TRANSCRIPT, Known, factorised
from pdml_spdz.privacy.scale import OPENED, OwnRows, PublicBound, Seen, mean_of, size_of_last, together
from pdml_spdz.rows.base import as_rows

NAME = "scale from the bound"
LEARNT = 1.25  # a scale within this factor, so that every sigma_i is right to 12 %, is not hidden by the bound
NOTHING = {
    "window": "no bound was opened",
    "public": "the bound follows from what was opened anyway",
    "agreed": "the bound was agreed on, no data went into it; it only says what the scale is at most",
}
SHOWN = {"secsum": "the bound is the sum of the parties' norms", "exponent": "the bound is one blurred exponent"}


def scale_by_bound(runs: Sequence[Transcript], moved: Known, others: int, S: Reals | None) -> Finding:
    """Every sigma_i from c S and what the first run, or another one on the same rows, has shown of its bound."""
    needed = f"{TRANSCRIPT}; its own rows, for a better guess"
    if len(runs) > 1:
        needed += f"; {len(runs)} runs on the same rows"
    seen = together([_seen(run, moved, others) for run in runs if run.facts["bound"]["source"] in OPENED])
    values = None if seen is None else seen.singular_values()
    if seen is None or values is None:
        return _nothing(needed, runs[0])
    kind = seen.bound.kind
    figures: dict[str, Any] = {"kind": kind, "value": seen.bound.value, "sigma": [float(x) for x in values]}
    got = f"{SHOWN[kind]}: sigma_1 = {values[0]:.4g}"
    if S is None:
        return Finding(NAME, needed, f"{got} (no truth to compare with)", kind == "secsum", figures)
    # All sigma_i share one unknown factor: the largest, which the span shows best, stands for all.
    off = float(values[0] / np.sqrt(np.linalg.eigvalsh(seen.found.of(S).core)[-1]))
    factor = max(off, 1.0 / off) ** 2
    figures |= {"relative_error": abs(off - 1.0), "factor": factor}
    words = f"{got}; every sigma_i off by {abs(off - 1.0):.1e} relative, the scale of S by a factor of {factor:.4g}"
    return Finding(NAME, needed, words, factor <= LEARNT, figures)


def _seen(run: Transcript, moved: Known, others: int) -> Seen:
    facts = run.facts
    known, mu = factorised(run, moved)
    own = bounded = OwnRows(known.own, mu)
    if facts.get("centre") == "hidden" and known.own:  # the bound is around zero, c S is not
        own = OwnRows(known.own, mean_of(known.own))
    return Seen(
        scaled_covariance(run), _public(run, others), facts["bound"]["measure"], own, bounded, facts.get("rows_all")
    )


def _public(run: Transcript, others: int) -> PublicBound:
    bound = run.facts["bound"]
    value = bound["exponent" if bound["source"] == "exponent" else "total"]
    return PublicBound(bound["source"], float(value), run.facts["parties"], others)


def _nothing(needed: str, run: Transcript) -> Finding:
    kind = run.facts["bound"]["source"]
    return Finding(NAME, needed, f"nothing to work with: {NOTHING[kind]}", False, {"kind": kind})


def norm_by_bound(transcript: Transcript, known: Known, others: int) -> Finding:
    """||s|| of a normed-sum: where one norm is unknown, ||t u - own|| is that norm for t = ||s||, else a bound."""
    needed, bound = f"{TRANSCRIPT} and its own vector", _public(transcript, others)
    if bound.kind not in OPENED:
        return _nothing(needed, transcript)
    figures: dict[str, Any] = {"kind": bound.kind, "value": bound.value}
    own = [as_rows(X).column_sums() for X in known.own]
    U = directions(transcript)[1][:, 0]
    u = U / np.linalg.norm(U)
    size = size_of_last(bound, [float(np.linalg.norm(x)) for x in own], u, np.sum(own, axis=0)) if own else None
    if size is None:
        top = bound.value if bound.kind == "secsum" else bound.M * np.exp2(bound.value)
        return Finding(NAME, needed, f"{SHOWN[bound.kind]}: ||s|| is at most {top:.4g}", False, figures)
    other = 2.0 * float(u @ np.sum(own, axis=0)) - size  # the equation's second root
    words = f"||s|| = {size:.6g}" + (f", or {other:.6g}" if other > 0 else "")
    return Finding(NAME, needed, f"{SHOWN[bound.kind]}: {words}", True, figures | {"norm": size, "or": other})
