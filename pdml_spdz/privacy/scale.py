"""The hidden scale from the bound that a run opened, if it opened one; and the attack on recorded runs. Nothing is
sent.

The transcript gives c S, so every sigma_i up to one factor, and a bound that comes from the data is a figure of the
same rows: together they give the factor. Letters as in `privacy.attacks`; N is the number of all rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from pdml_spdz.engines.transcript import Transcript
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.primitives.bound import BLUR
from pdml_spdz.privacy.attacks import Finding, Reconstruction, directions, scaled_covariance
from pdml_spdz.privacy.known import TRANSCRIPT, Known, factorised
from pdml_spdz.rows.base import RowsLike, as_rows
from pdml_spdz.rows.covariance import GramMatrix

OPENED = ("secsum", "exponent")  # bounds that come from the data, the more telling first


@dataclass(frozen=True)
class PublicBound:
    """What a run showed of its bound.

    kind : "secsum" (value: the sum of the M norms), "exponent" (value: the blurred exponent of the largest), or one
    that no data went into ("window", "agreed")
    M : parties
    unknown : those whose norm and blur the attacker does not know
    """

    kind: str
    value: float
    M: int
    unknown: int


def size_from_bound(bound: PublicBound, ratio: float) -> float | None:
    """||S|| as the public bound lets expect it; None if no data went into the bound.

    ratio : sum_m ||S_m|| / ||S||, as the attacker's own rows let expect it

    A blurred exponent is E = max_m ceil(log2 ||S_m||) + b, where b is uniform below the width whatever the attacker
    knows. The best guess takes the norms for equal, for b its mean, and half a step for rounding up.
    """
    if bound.kind == "secsum":
        return bound.value / ratio
    if bound.kind == "exponent":
        blur = (BLUR - 1) / 2 + 0.5
        return math.exp2(bound.value - blur) * bound.M / ratio
    return None


def size_of_last(bound: PublicBound, own_norms: Sequence[float], T: Reals, own: Reals) -> float | None:
    """||S||_F where the sum of the norms leaves one norm unknown: exact. T : S/||S||_F; own : S_A

    1. rest <- B - the attackers' norms, which is ||S_h||_F = ||t T - S_A||_F with t = ||S||_F
    2. t <- the larger root; at the smaller one <S, S_h> would be negative, and both are positive semidefinite

    None where another number of norms is unknown, or what was opened is not a sum of norms.
    """
    if bound.kind != "secsum" or bound.unknown != 1:
        return None
    rest = bound.value - sum(own_norms)
    along = float(np.vdot(T, own))
    return along + math.sqrt(max(along**2 - float(np.vdot(own, own)) + rest**2, 0.0))


@dataclass(frozen=True)
class Moments:
    """Of rows x, y drawn at random: square = E|x|^2, fourth = E|x|^4, pair = E(x.y)^2.

    Then N rows have a trace of N square, and ||X^T X||_F^2 = N fourth + N (N - 1) pair, on average.
    """

    square: float
    fourth: float
    pair: float

    def norm(self, N: float, measure: str) -> float:
        if measure == "trace":
            return N * self.square
        return math.sqrt(N * self.fourth + N * max(N - 1.0, 0.0) * self.pair)


@dataclass(frozen=True)
class CentredOwnRows:
    """The attackers' rows, one table a party, less mu where there is one."""

    tables: Sequence[RowsLike]
    mu: Reals | None = None

    @cached_property
    def covariances(self) -> list[Reals]:
        return [covariance_of([X], self.mu) for X in self.tables]

    @cached_property
    def total(self) -> Reals:
        return np.asarray(np.sum(self.covariances, axis=0))

    @property
    def n(self) -> int:
        return sum(X.shape[0] for X in self.tables)

    @cached_property
    def moments(self) -> Moments:
        lengths = np.concatenate([_lengths(X, self.mu) for X in self.tables])
        fourth = float(lengths @ lengths)
        pair = max(float(np.vdot(self.total, self.total)) - fourth, 0.0) / max(self.n * (self.n - 1), 1)
        return Moments(float(lengths.mean()), fourth / self.n, pair)

    def norms(self, measure: str) -> list[float]:
        return [_norm(S_m, measure) for S_m in self.covariances]


def mean_of(tables: Sequence[RowsLike]) -> Reals:
    return np.asarray(sum(as_rows(X).column_sums() for X in tables) / sum(X.shape[0] for X in tables))


def covariance_of(tables: Sequence[RowsLike], mu: Reals | None) -> Reals:
    """X^T X of some parties' rows, less mu if there is one."""
    total = np.sum([GramMatrix(X).S for X in tables], axis=0)
    if mu is not None:
        t, n = sum(as_rows(X).column_sums() for X in tables), sum(X.shape[0] for X in tables)
        total = total - np.outer(t, mu) - np.outer(mu, t) + n * np.outer(mu, mu)
    return np.asarray(total)


def _lengths(X: RowsLike, mu: Reals | None) -> Reals:
    """|x - mu|^2 of every row."""
    rows = as_rows(X)
    own = rows.row_squares()
    return own if mu is None else np.maximum(own - 2.0 * rows.times(mu) + float(mu @ mu), 0.0)


def _norm(S: Reals, measure: str) -> float:
    return float(np.trace(S) if measure == "trace" else np.linalg.norm(S))


@dataclass(frozen=True)
class Seen:
    """What the attackers make of one run.

    found : c S; measure : of the norms in the bound, "frobenius" or "trace"
    own : their rows as in S; bounded : as in the bound, which has no part in hiding a mean
    N : rows of all parties, where that was shown
    """

    found: Reconstruction
    bound: PublicBound
    measure: str
    own: CentredOwnRows
    bounded: CentredOwnRows
    N: int | None

    def ratio(self) -> float:
        """The sum of all parties' norms over the size of what is seen of S, as own rows let expect it; 1 without any.

        The other parties' rows are taken for rows like the attackers', in equal numbers.
        """
        if not self.own.tables:
            return 1.0
        n, others, measure = self.own.n, self.bound.unknown, self.measure
        left = others * n / len(self.own.tables) if self.N is None else max(self.N - n, 0)
        norms = sum(self.bounded.norms(measure)) + others * self.bounded.moments.norm(left / others, measure)
        share = self.found.of(self.own.total).size(measure) / _norm(self.own.total, measure)
        return norms / (self.own.moments.norm(n + left, measure) * share)

    def factor(self) -> float | None:
        """c, by the bound; exactly where one norm is unknown and all of c S is seen. None: nothing to work with."""
        exact = None
        if self.own.tables and self.own is self.bounded and self.measure == "frobenius" and self.found.whole:
            cS = self.found.matrix()
            T = cS / np.linalg.norm(cS)
            exact = size_of_last(self.bound, self.own.norms(self.measure), T, self.own.total)
        size = size_from_bound(self.bound, self.ratio()) if exact is None else exact
        return None if size is None else self.found.size(self.measure) / size

    def singular_values(self) -> Reals | None:
        """Every sigma_i in the span, largest first."""
        c = self.factor()
        return None if c is None else np.sqrt(np.maximum(np.linalg.eigvalsh(self.found.core)[::-1], 0.0) / c)


def together(runs: Sequence[Seen]) -> Seen | None:
    """Of several runs on the same rows the first with the most telling bound, with the mean of all such values.

    A blur that is drawn anew in every run averages out so; one that is the same in all of them does not.
    """
    for kind in OPENED:
        if of_kind := [run for run in runs if run.bound.kind == kind]:
            first = of_kind[0]
            mean = float(np.mean([run.bound.value for run in of_kind if run.measure == first.measure]))
            return replace(first, bound=replace(first.bound, value=mean))
    return None


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
    got = f"{SHOWN[kind]}: the largest singular value is about {values[0]:.4g}"
    if S is None:
        return Finding(NAME, needed, f"{got} (no truth to compare with)", kind == "secsum", figures, partly=True)
    # All sigma_i share one unknown factor: the largest, which the span shows best, stands for all.
    off = float(values[0] / np.sqrt(np.linalg.eigvalsh(seen.found.of(S).core)[-1]))
    factor = max(off, 1.0 / off) ** 2
    figures |= {"relative_error": abs(off - 1.0), "factor": factor}
    words = f"{got}; all are off by {abs(off - 1.0):.1e} relative, the covariance by a factor of {factor:.4g}"
    return Finding(NAME, needed, words, factor <= LEARNT, figures, partly=True)


def _seen(run: Transcript, moved: Known, others: int) -> Seen:
    facts = run.facts
    known, mu = factorised(run, moved)
    own = bounded = CentredOwnRows(known.own, mu)
    if facts.get("centre") == "hidden" and known.own:  # the bound is around zero, c S is not
        own = CentredOwnRows(known.own, mean_of(known.own))
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
        return Finding(NAME, needed, f"{SHOWN[bound.kind]}: ||s|| is at most {top:.4g}", False, figures, partly=True)
    other = 2.0 * float(u @ np.sum(own, axis=0)) - size  # the equation's second root
    words = f"||s|| = {size:.6g}" + (f", or {other:.6g}" if other > 0 else "")
    return Finding(NAME, needed, f"{SHOWN[bound.kind]}: {words}", True, figures | {"norm": size, "or": other})
