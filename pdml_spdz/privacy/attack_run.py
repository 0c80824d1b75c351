"""All attacks on one recorded run, as a list of findings; compared with the truth where it is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import numpy as np

from pdml_spdz.engines.transcript import Transcript
from pdml_spdz.errors import EngineError, InputError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.primitives.bound import power_of_two
from pdml_spdz.privacy.attacks import (
    COORDINATES,
    Finding,
    directions,
    norm_from_grid,
    same_norm,
    scale_from_semidefiniteness,
    scale_from_zero_columns,
    scaled_covariance,
)
from pdml_spdz.privacy.known import COALITION, TRANSCRIPT, Known, agreed, factorised, honest_parties, less_own
from pdml_spdz.privacy.scale import covariance_of, mean_of, norm_by_bound, scale_by_bound
from pdml_spdz.programs.precision import Precision
from pdml_spdz.rows.base import as_rows
from pdml_spdz.study.levels import LEVELS, SUM

GRID_COLUMNS = 8  # lattice reductions: as many as there is patience for
WELL = 1e-3  # directions that the V_t show so much of: rounding grows by no more than a thousand
CLOSE = 1e-3  # a scale that is right to so much counts as found


def attack(transcript: Transcript, known: Known, repeats: Sequence[Transcript] = ()) -> list[Finding]:
    """Every attack that fits the run's algorithm; where norms are revealed there is no factor to look for.

    repeats : transcripts of other runs on the same rows
    """
    algorithm = transcript.facts.get("algorithm")
    if algorithm not in ("svd", "pca", "nmf", "normed-sum"):
        raise InputError(f"the transcript is of {algorithm!r}.", "one of svd, pca, nmf, normed-sum, run to its end")
    others, moved = honest_parties(transcript, known), agreed(transcript, known)
    subtracted = less_own(transcript, moved, others)
    if algorithm == "nmf":
        return [*subtracted, features_of_others(transcript, known)]
    if LEVELS[transcript.facts["reveal"]].sealed:
        return [*subtracted, nothing_on_the_way(transcript)]
    known, mu = factorised(transcript, moved)
    findings = [*subtracted, grid(transcript, known)]
    hides = transcript.facts["reveal"] != SUM.name
    if algorithm == "normed-sum":
        return [*findings, *([norm_by_bound(transcript, known, others)] if hides else [])]
    everyone, hidden = [*known.own, *known.honest], transcript.facts.get("centre") == "hidden"
    S = None
    if known.honest:
        S = covariance_of(everyone, mean_of(everyone) if hidden else mu)
    findings.append(covariance(transcript, S))
    if hides:
        findings.append(scale_by_bound([transcript, *repeats], moved, others, S))
    if hides and known.own and not hidden:  # a mean that is hidden hides the coalition's own part, too
        findings += scales(transcript, covariance_of(known.own, mu), S)
    return findings


def nothing_on_the_way(transcript: Transcript) -> Finding:
    """What the attacks on c S V_t find in a sealed run, whose V_t nobody has seen."""
    opened = [entry.step for entry in transcript.entries if entry.step == "columns"]
    ratios = sum(entry.arrays["value"].size for entry in transcript.steps("ritz"))
    got = f"no column but those of the result; {ratios} ratios of Ritz values"
    return Finding("covariance, scale and grid", TRANSCRIPT, got, bool(opened), {"ratios": ratios})


def grid(transcript: Transcript, known: Known) -> Finding:
    """The norm of an opened sum from the grid of its inputs."""
    facts = transcript.facts
    if facts.get("reveal") == SUM.name:
        return Finding(
            "norm from the grid", "nothing", "the sums themselves are open, and with them how large they are", True
        )
    try:
        V, Y, _ = directions(transcript)
    except EngineError as missing:
        return Finding("norm from the grid", TRANSCRIPT, missing.found, False, tried=False)
    precision = Precision(**{f.name: facts["precision"][f.name] for f in fields(Precision)})
    noise = np.concatenate([entry.arrays["noise"] for entry in transcript.steps("columns")])
    norms = np.linalg.norm(Y, axis=0)
    tried, found = [], 0
    for i in np.unique(np.linspace(0, Y.shape[1] - 1, GRID_COLUMNS).astype(int)):
        u, error = Y[:, i] / norms[i], float(noise[i]) / np.sqrt(len(Y))
        for f in (precision.f_out, precision.f_in):
            try:
                norm = norm_from_grid(u, f, error)
            except EngineError as missing:
                return Finding("norm from the grid", TRANSCRIPT + " and fpylll", str(missing), False, tried=False)
            if norm is not None and _right(norm, V[:, i], known, facts):
                found += 1
        tried.append(int(i))
    got = f"a grid in {found} of {len(tried)} columns" + ("" if found else ": nothing shows")
    enough = len(Y) > COORDINATES
    needed = f"{TRANSCRIPT} and lattice reduction on {COORDINATES} of {len(Y)} features"
    if not enough:
        needed = f"{TRANSCRIPT}, lattice reduction and more than {COORDINATES} features"
        got = f"not tried: there are {len(Y)} features"
    return Finding("norm from the grid", needed, got, found > 0, {"columns": len(tried), "found": found}, tried=enough)


def _right(norm: float, v: Reals, known: Known, facts: dict[str, object]) -> bool:
    """Whether a norm (relative to the bound) is the truth, where that is known; else it counts as found."""
    if not known.honest or facts.get("algorithm") != "svd":
        return True
    s = sum(as_rows(X).gram_times(v) for X in [*known.own, *known.honest])
    bound = facts["bound"]["total"]  # type: ignore[index]
    scales = (power_of_two(bound * scale) for scale in (1.0, np.sqrt(facts["rank"])))  # type: ignore[call-overload]
    return any(same_norm(norm, float(np.linalg.norm(s)) / scale) for scale in scales)


def covariance(transcript: Transcript, S: Reals | None) -> Finding:
    """c S from the transcript alone."""
    found = scaled_covariance(transcript)
    d, r = found.B.shape
    share = r / d
    got = f"the covariance of all rows, up to one factor, on {r} of {d} dimensions"
    figures: dict[str, float] = {"dimensions": r, "d": d}
    if S is not None:
        cS = found.matrix()
        c = float(np.vdot(cS, S) / np.vdot(S, S))
        error = float(np.linalg.norm(cS / c - S) / np.linalg.norm(S))
        figures["relative_error"] = error
        got += f"; relative error {error:.1e}"
    success = share > 0.5 or figures.get("relative_error", 1) < 0.1
    return Finding("c S from the transcript", TRANSCRIPT, got, success, figures, partly=True)


def scales(transcript: Transcript, S_A: Reals, S: Reals | None) -> list[Finding]:
    """The secret factor by the coalition's own part, where c S is known well."""
    found = scaled_covariance(transcript, tolerance=WELL)
    true = None
    if S is not None:
        true = float(np.vdot(found.Y, S @ found.B) / np.vdot(S @ found.B, S @ found.B))
    findings = []
    by_columns = scale_from_zero_columns(found, S_A)
    name = "scale from zero columns"
    needed = COALITION + ", and a feature that no honest row has"
    if by_columns is None:
        findings.append(Finding(name, needed, "no feature that only the coalition has", False))
    else:
        findings.append(_scale(name, needed, by_columns[0], true, {"misfit": by_columns[1]}))
    by_sign = scale_from_semidefiniteness(found, S_A)
    name = "scale from positive semidefiniteness"
    needed = COALITION + f"; it is exact if the honest parties have fewer than {found.B.shape[1]} rows"
    if by_sign is None:
        findings.append(Finding(name, needed, "the coalition's rows say nothing here", False))
    else:
        findings.append(_scale(name, needed, by_sign[0], true, {"gap": by_sign[1]}, bound=True))
    return findings


def _scale(
    name: str, needed: str, c: float, true: float | None, figures: dict[str, float], *, bound: bool = False
) -> Finding:
    figures = figures | {"c": c}
    if true is None:
        what = "the factor is at most" if bound else "the factor,"
        return Finding(name, needed, f"{what} {c:.6g} (no truth to compare with)", not bound, figures, partly=True)
    error = abs(c / true - 1.0)
    words = f"the factor, {c:.6g}, off by {error:.1e} relative" + (": only a bound" if error > CLOSE else "")
    return Finding(name, needed, words, error <= CLOSE, figures | {"relative_error": error}, partly=bound)


def last_sweep(transcript: Transcript) -> Reals:
    """num of every topic in the last sweep, (k, d), up to a positive factor for each number."""
    d, k = transcript.facts["d"], transcript.facts["rank"]
    sums = [entry.arrays["s"] for entry in transcript.steps("sum:topic")][-k:]
    if len(sums) < k:
        raise InputError("the transcript has no whole sweep of topics.", "a recorded nmf, run to its end")
    return np.array(sums)[:, :d]


def features_of_others(transcript: Transcript, known: Known) -> Finding:
    """Which features occur in honest rows at all: num is positive where the coalition has nothing.

    Where no row has a feature, what is left of it for a topic is never positive.
    """
    num = last_sweep(transcript)
    used = np.any(num > 0, axis=0)
    own = sum((as_rows(X).column_sums() for X in known.own), np.zeros(num.shape[1]))
    others = used & (own == 0)
    figures: dict[str, float] = {"features": int(others.sum())}
    success = bool(others.any()) and bool(known.own)
    got = f"{int(others.sum())} features that occur in honest rows and in none of the coalition's"
    if known.honest:
        true = (sum(as_rows(X).column_sums() for X in known.honest) != 0) & (own == 0)
        figures["recall"] = float(np.mean(others[true])) if true.any() else 1.0
        figures["precision"] = float(np.mean(true[others])) if others.any() else 1.0
        got += f" (of {int(true.sum())}, {figures['recall']:.0%} found, {figures['precision']:.0%} of them right)"
    if not known.own:
        got = "not tried: without the coalition's rows nothing can be taken off"
    return Finding("features of the honest parties", COALITION, got, success, figures, tried=bool(known.own))
