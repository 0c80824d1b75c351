"""What a coalition has besides the transcript: its members' rows, brought to the form that they had in the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pdml_spdz.engines.transcript import Transcript
from pdml_spdz.errors import InputError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.rows.base import Rows, RowsLike, as_rows

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
