"""What a party sees of a run, kept in order: the one object that all measurements of privacy start from.

Every party sees the same sums, openings and bases, so one party's transcript is every coalition's; what a coalition
has besides are its members' own rows.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pdml_spdz.errors import InputError
from pdml_spdz.numerics.fixedpoint import OPENED_BITS, Reals
from pdml_spdz.primitives.normed_sum import NormedColumns, NormedSum
from pdml_spdz.primitives.sec_sum import Accuracy, EngineSum
from pdml_spdz.system.files import parse_json, reading, replaced

FILE = "transcript.npz"
RESUMED = "resumed"  # a marker: what follows has fresh keys and a fresh secret scale
WARNING = (
    "the transcript of this run is recorded: whoever reads the file knows what this party saw, which is enough for the "
    "attacks of `pdml-spdz privacy attack`"
)


class RecordingWarning(UserWarning):
    """A run is recorded: what is kept is enough for attacks."""


def warn_of_recording(frames: int = 3) -> None:
    """For functions called from Python: what the commands say on standard error; frames : up to the user's call"""
    warnings.warn(WARNING, RecordingWarning, stacklevel=frames + 1)


@dataclass(frozen=True)
class Entry:
    """One thing seen: "sum:<purpose>" (SecSum), "columns" (NormedSecSum), "exponent:<what>" (of a
    bound), "T0", "T" or "V" (agreed), or a marker."""

    step: str
    arrays: dict[str, Reals] = field(default_factory=dict)


@dataclass
class Transcript:
    """entries : in the order in which they were seen; facts : the run's report, with bytes, rounds and precision"""

    entries: list[Entry] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def see(self, step: str, **arrays: Reals | None) -> None:
        self.entries.append(Entry(step, {name: np.array(a) for name, a in arrays.items() if a is not None}))

    def current(self) -> list[Entry]:
        """What was seen since the run began or was last resumed."""
        marks = [i for i, entry in enumerate(self.entries) if entry.step == RESUMED]
        return self.entries[marks[-1] + 1 :] if marks else self.entries

    def steps(self, step: str) -> Iterator[Entry]:
        return (entry for entry in self.current() if entry.step == step)

    def counts(self) -> dict[str, dict[str, int]]:
        """For each step how often it was seen and how many numbers that is."""
        found: dict[str, dict[str, int]] = {}
        for entry in self.entries:
            row = found.setdefault(entry.step, {"times": 0, "numbers": 0})
            row["times"] += 1
            row["numbers"] += sum(a.size for a in entry.arrays.values())
        return found

    def save(self, path: Path) -> None:
        """Readable by its owner only."""
        index = [{"step": entry.step, "arrays": list(entry.arrays)} for entry in self.entries]
        arrays: dict[str, Any] = {
            f"{i}/{name}": a for i, entry in enumerate(self.entries) for name, a in entry.arrays.items()
        }
        head = np.array(json.dumps({"index": index, "facts": self.facts}))
        with replaced(path, synced=True) as temporary, temporary.open("wb") as file:
            temporary.chmod(0o600)
            np.savez(file, head=head, **arrays)


def load(path: Path) -> Transcript:
    if not path.exists():
        raise InputError(
            f"{path} does not exist.",
            "the transcript of a recorded run",
            "run svd, pca, nmf or party with --record-transcript (in Python: record_transcript=True)",
        )
    with (
        reading(path, "what --record-transcript wrote", "take it from a copy, or record a run again"),
        np.load(path, allow_pickle=False) as archive,
    ):
        head = parse_json(str(archive["head"]))
        entries = [
            Entry(row["step"], {name: archive[f"{i}/{name}"] for name in row["arrays"]})
            for i, row in enumerate(head["index"])
        ]
        return Transcript(entries, head["facts"])


class RecordedSum:
    """A SecSum that keeps its results."""

    def __init__(self, inner: EngineSum, transcript: Transcript) -> None:
        self._inner, self._transcript = inner, transcript
        self.link = inner.link

    def __call__(self, x: Reals, bound: float, purpose: str) -> Reals:
        s = self._inner(x, bound, purpose)
        if purpose == "columns":  # which `recorded` writes down
            return s
        self._transcript.see(f"sum:{purpose}", s=s)
        return s

    def positive(self, x: Reals, purpose: str, bits: int = OPENED_BITS) -> Reals:
        s = self._inner.positive(x, purpose, bits)
        self._transcript.see(f"sum:{purpose}", s=s)
        return s

    def rest(self, x: Reals, unit: float, purpose: str) -> Reals:
        s = self._inner.rest(x, unit, purpose)
        self._transcript.see(f"sum:{purpose}", s=s)
        return s

    def integer(self, n: int, purpose: str) -> int:
        s = self._inner.integer(n, purpose)
        self._transcript.see(f"sum:{purpose}", s=np.array([float(s)]))
        return s

    def anywhere(self, flags: Sequence[bool], purpose: str) -> list[bool]:
        return self._inner.anywhere(flags, purpose)

    def accuracy(self, bound: float) -> Accuracy:
        return self._inner.accuracy(bound)


def recorded(columns: NormedSum, transcript: Transcript) -> NormedSum:
    """A NormedSecSum that is written down: V (the public directions it was asked for), the columns U, what is known of
    them up to one factor (c S V with one scale for a fit, S V itself where norms are revealed) and their noise. What
    was opened, y, is c S V times a factor for each column that everyone computes from the earlier ones.
    """

    def call(x: Reals, g: Reals, lengths: Reals | None = None) -> NormedColumns:
        seen = columns(x, g, lengths)
        U = seen.U if seen.scaled is None else None
        transcript.see("columns", V=g, U=U, scaled=seen.scaled, norms=seen.norms, noise=seen.noise)
        return seen

    return call
