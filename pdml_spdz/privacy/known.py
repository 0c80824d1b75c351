"""What a coalition has besides the transcript: its members' rows, brought to the form that they had in the run.

And what opened sums show of the others once a coalition takes off its own addends: with one honest party left, that
party's addend, exactly. This follows from the sums, whatever computed them; with M = 2 every party is such a coalition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pdml_spdz.engines.transcript import Transcript
from pdml_spdz.errors import InputError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.privacy.attacks import Finding, directions
from pdml_spdz.rows.base import Rows, RowsLike, as_rows
from pdml_spdz.study.levels import SUM

ROUNDING = 1e-12  # a relative error that is no more than that of the arithmetic
TRANSCRIPT = "one party's transcript"
COALITION = "the transcript and the rows of all parties but the honest ones"


@dataclass(frozen=True)
class Known:
    """own : the rows of each colluding party; honest : those of the others, to compare with (a demonstration only)"""

    own: Sequence[RowsLike] = ()
    honest: Sequence[RowsLike] = ()


def last_seen(transcript: Transcript, step: str) -> Reals | None:
    """What all parties have agreed on under that name, if they have."""
    found = [entry.arrays["value"] for entry in transcript.steps(step)]
    return found[-1] if found else None


def honest_parties(transcript: Transcript, known: Known) -> int:
    """How many parties do not collude."""
    M, own, honest = transcript.facts["parties"], len(known.own), len(known.honest)
    if own >= M or (honest and own + honest != M):
        raise InputError(
            f"--own has {own} and --honest {honest} parties, and the run had {M}.",
            "rows of at most all parties but one that collude, and of all others if any of them are given",
        )
    return int(M - own)


def agreed(transcript: Transcript, known: Known) -> Known:
    """The rows less the study's offsets, over its scales."""
    offsets, scales = (last_seen(transcript, name) for name in ("offsets", "scales"))

    def moved(X: RowsLike) -> Rows:
        rows = as_rows(X) if offsets is None else as_rows(X).shifted(offsets)
        return rows if scales is None else rows.over(scales)

    return Known([moved(X) for X in known.own], [moved(X) for X in known.honest])


def factorised(transcript: Transcript, moved: Known) -> tuple[Known, Reals | None]:
    """Such rows over the scale that SecSum has found, and the open mean of what they are then, where there are any."""
    mu, scale = last_seen(transcript, "mean"), last_seen(transcript, "scale")
    if scale is None:
        return moved, mu
    known = Known(*([as_rows(X).over(scale) for X in tables] for tables in (moved.own, moved.honest)))
    return known, None if mu is None else mu / scale


NEEDED = "a party's transcript and its own rows, or those of all who collude"


def whose(others: int) -> str:
    return "the other party's" if others == 1 else f"of the {others} other parties together the"


def less_own(transcript: Transcript, known: Known, others: int) -> list[Finding]:
    """Mean, number of rows and second moments, and S V where it was opened as a sum, less the coalition's own.

    known : rows as the study's offsets and scales have them; others : how many parties do not collude
    """
    if not known.own:
        return []
    findings = []
    n, mu, scale = (last_seen(transcript, step) for step in ("rows", "mean", "scale"))
    if n is not None and mu is not None:
        findings.append(mean(known, others, int(n[0]), mu))
    if n is not None and scale is not None:
        squares = [entry.arrays["s"] for entry in transcript.steps("sum:scales")] or [n * scale**2]
        findings.append(second_moments(known, others, int(n[0]), mu, squares[-1]))
    if transcript.facts.get("reveal") == SUM.name and transcript.facts.get("algorithm") != "nmf":
        findings.append(sums(transcript, known, others, mu, scale))
    return findings


def mean(known: Known, others: int, n: int, mu: Reals) -> Finding:
    """(n mu - own sums) / (n - own rows)."""
    left = n - _rows(known.own)
    found = (n * mu - _sums(known.own)) / max(left, 1)
    true = _sums(known.honest) / _rows(known.honest) if known.honest else None
    got = f"{whose(others)} mean of each feature and number of rows ({left:,})"
    return _finding("mean less own rows", got, others, found, true, {"rows": left})


def second_moments(known: Known, others: int, n: int, mu: Reals | None, squares: Reals) -> Finding:
    """The sums of (x - mu)^2 less the own ones, over the others' rows."""
    left = max(n - _rows(known.own), 1)
    found = (squares - _squares(known.own, mu)) / left
    true = _squares(known.honest, mu) / left if known.honest else None
    around = "zero" if mu is None else "the common mean"
    got = f"{whose(others)} mean square of each feature around {around}"
    return _finding("deviations less own rows", got, others, found, true, {})


def sums(transcript: Transcript, known: Known, others: int, mu: Reals | None, scale: Reals | None) -> Finding:
    """S_h V = S V - S_A V for every V_t; of a normed-sum the honest parties' vectors."""
    V, Y, _ = directions(transcript)
    vector = transcript.facts["algorithm"] == "normed-sum"

    def addend(tables: Sequence[RowsLike]) -> Reals:
        return _sums(tables)[:, None] if vector else _times(tables, V, mu, scale)

    got = f"{whose(others)} {'vector' if vector else 'covariance, in all directions that the run went'}"
    true = addend(known.honest) if known.honest else None
    return _finding("sums less own rows", got, others, Y - addend(known.own), true, {})


def _finding(
    attack: str, got: str, others: int, found: Reals, true: Reals | None, figures: dict[str, float]
) -> Finding:
    if true is not None:
        error = float(np.linalg.norm(found - true) / max(float(np.linalg.norm(true)), 1e-300))
        figures, got = (
            figures | {"relative_error": error},
            f"{got}; {f'relative error {error:.1e}' if error > ROUNDING else 'exact'}",
        )
    return Finding(attack, NEEDED, got, others == 1, figures, partly=True)


def _rows(tables: Sequence[RowsLike]) -> int:
    return sum(X.shape[0] for X in tables)


def _sums(tables: Sequence[RowsLike]) -> Reals:
    return np.asarray(sum(as_rows(X).column_sums() for X in tables), np.float64)


def _squares(tables: Sequence[RowsLike], mu: Reals | None) -> Reals:
    return np.asarray(sum(as_rows(X).column_squares(mu) for X in tables))


def _times(tables: Sequence[RowsLike], V: Reals, mu: Reals | None, scale: Reals | None) -> Reals:
    """S V of these rows as they were factorised."""
    total = np.zeros_like(V)
    for X in tables:
        rows = as_rows(X) if mu is None else as_rows(X).shifted(mu)
        total += (rows if scale is None else rows.over(scale)).gram_times(V)
    return total
