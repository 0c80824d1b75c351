"""A run's results on the disk: every array first, and the report, the mark of a finished run, last of all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdml_spdz.engines import transcript as transcripts
from pdml_spdz.engines.transcript import Transcript
from pdml_spdz.errors import StorageError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.study.algorithm import ALGORITHMS, Algorithm
from pdml_spdz.system.files import parse_json, save_array, save_json, sync, writing

REPORT = "report.json"
BEGUN = "checkpoint/run.json"  # says what began in a directory


@dataclass(frozen=True)
class Fitted:
    """What a fit has come to. arrays : by the names of their files"""

    report: dict[str, Any]
    arrays: dict[str, Reals]


def commit(
    directory: Path, arrays: Mapping[str, Reals], report: dict[str, Any], transcript: Transcript | None = None
) -> None:
    """Put a finished run on the disk.

    1. the report of an older run goes, so that none stands beside arrays that it does not describe
    2. arrays that this run does not have go; its transcript and arrays come, each whole and on the disk
    3. report.json: whoever finds it finds all the rest
    """
    with writing(directory):
        older = {name for algorithm in _algorithms(directory) for name in (algorithm.result, *algorithm.kept)}
        (directory / REPORT).unlink(missing_ok=True)
        sync(directory)
        for name in older - set(arrays):
            (directory / name).unlink(missing_ok=True)
    if transcript is not None:
        transcript.save(directory / transcripts.FILE)
    for name, array in arrays.items():
        save_array(directory / name, array)
    save_json(directory / REPORT, report)


def remove(directory: Path) -> None:
    """The results of an older run, its mark first."""
    with writing(directory):
        older = [name for algorithm in _algorithms(directory) for name in algorithm.files]
        for name in (REPORT, *older, transcripts.FILE):
            (directory / name).unlink(missing_ok=True)


def _algorithms(directory: Path) -> Iterator[Algorithm]:
    """Of the run that has finished, or begun, in a directory."""
    for mark in (REPORT, BEGUN):
        try:
            yield ALGORITHMS[parse_json((directory / mark).read_text(encoding="utf-8"))["algorithm"]]
        except (OSError, ValueError, KeyError, TypeError):
            continue


def finished(directory: Path) -> dict[str, Any] | None:
    """The report of the finished run in `directory`, with its result beside it; None if there is none."""
    try:
        report = dict(parse_json((directory / REPORT).read_text(encoding="utf-8")))
        return report if (directory / ALGORITHMS[report["algorithm"]].result).is_file() else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def refuse_finished(out: Path, *, allowed: bool) -> None:
    """Refuse to replace a finished run that nobody asked to replace."""
    if (out / REPORT).exists() and not allowed:
        raise StorageError(
            f"{out} already holds a finished run.",
            do="choose another --out, pass --force to replace it, or --resume to go on from it",
        )
