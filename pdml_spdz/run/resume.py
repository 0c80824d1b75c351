"""What all parties have of a run that has begun: its end, or where they go on."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pdml_spdz.errors import ResumeError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.numerics.linalg import EPS
from pdml_spdz.run import output as results
from pdml_spdz.run.checkpoints import KEPT, Checkpoint, Checkpoints
from pdml_spdz.run.kept import KeptNumbers
from pdml_spdz.study.model import Study
from pdml_spdz.transport.base import Link, read_object

MOST = 4096  # bytes of a message here
NAME, NUMBER, DIGEST = re.compile(r"[a-z]{1,40}\.npz"), re.compile("[0-9]{1,18}"), re.compile("[0-9a-f]{64}|start")
START = 0  # in the place of an iteration: nothing is on the disk of it
ANEW = "start anew without --resume"
ONCE_MORE = f"{ANEW}: what was opened before the first iteration is then opened once more"


def common(link: Link, checkpoints: Checkpoints, kept: KeptNumbers) -> Checkpoint | None:
    """The latest checkpoint that all parties have; None if that is the start of the fit. Nothing has been opened yet.

    1. each party sends which run it has begun, digests of the numbers that it has kept, by file, and of its
       checkpoints, by iteration; the start is among these unless an iteration is later than all others differ from it
       by
    2. all parties end the run if these are of different runs, if one of them lacks a file, or has another one, or if
       all of them lack one with which another, or the checkpoint, was made
    3. the largest t with equal digests is taken

    Reveals: digests of public values. Cost: one round. Ref: -
    """
    found = checkpoints.load()
    own = {str(t): c.digest for t, c in found.items()}
    if max(found, default=START) < KEPT:
        own[str(START)] = "start"
    begun = checkpoints.run()
    said = json.dumps({"run": begun, "kept": kept.digests, "iterations": own}).encode()
    of: dict[int, tuple[str, Mapping[str, str], Mapping[str, str]]] = {link.me: (begun, kept.digests, own)}
    of |= {peer: _read(peer, data) for peer, data in link.all_to_all("resume", said, MOST).items()}
    _same_run({m: of[m][0] for m in sorted(of)})
    _same_files({m: of[m][1] for m in sorted(of)})
    for name in kept.digests:
        _still_there(kept, kept.made_with(name), name)
    offered = {m: of[m][2] for m in sorted(of)}
    candidates = set.intersection(*(set(iterations.items()) for iterations in offered.values()))
    if not candidates:
        raise _nothing_in_common(offered)
    t = max(int(t) for t, _ in candidates)
    if t == START:
        return None
    _still_there(kept, found[t].made_with, f"iteration {t}")
    return found[t]


def compare(link: Link, t: int, arrays: Mapping[str, Reals]) -> None:
    """What a checkpoint has besides V is party 0's at every party, up to rounding, or the run ends.

    1. party 0 sends its arrays; 2. each other party compares them with its own

    In each of t iterations a number of them is a sum of d + m products at most, each rounded, on two machines, relative
    to the largest. Reveals: nothing that the parties do not have. Cost: a round for each array. Ref: -
    """
    for name, array in sorted(arrays.items()):
        own = np.ascontiguousarray(array, np.float64)
        data = link.broadcast("checkpoint", own.tobytes() if link.me == 0 else None, most=own.nbytes)
        tolerance = 8 * (t + 1) * (sum(own.shape) + 1) * EPS * float(np.abs(own).max(initial=0.0))
        # NaN must not pass: `not all(<=)`.
        if data.nbytes != own.nbytes or not np.all(np.abs(np.frombuffer(data, "<f8") - own.ravel()) <= tolerance):
            raise ResumeError(
                f"the checkpoint of iteration {t} is another one at P0 than at this party ({name}).",
                "what both have computed from the same sums",
                f"put the checkpoint back at the party whose files were changed, or {ANEW}",
                culprit=0,
            )


def _read(peer: int, data: memoryview) -> tuple[str, Mapping[str, str], Mapping[str, str]]:
    try:
        said = read_object(data)
        kept, iterations = (dict(said[key]) for key in ("kept", "iterations"))
        # These words are in messages that people read.
        names = all(NAME.fullmatch(name) for name in kept) and all(NUMBER.fullmatch(t) for t in iterations)
        if names and all(DIGEST.fullmatch(digest) for digest in (*kept.values(), *iterations.values())):
            return str(said["run"]), kept, iterations
    except (ValueError, TypeError, KeyError):
        pass
    raise ResumeError(f"P{peer} sent a list of checkpoints that cannot be read.", culprit=peer)


def _same_run(begun: Mapping[int, str]) -> None:
    """A run that one party began and another did not has left numbers of the one before: they are not of its rows."""
    if len(set(begun.values())) > 1:
        raise ResumeError(
            "what the parties have in --out is not of one run.",
            "the --out of one run, which every party has begun",
            f"check that every party passes the --out of the same run; if one began it and another did not, {ANEW}",
        )


def _same_files(kept: Mapping[int, Mapping[str, str]]) -> None:
    for name in sorted({name for digests in kept.values() for name in digests}):
        having = {m: digests[name] for m, digests in kept.items() if name in digests}
        lacking = [m for m in kept if m not in having]
        if len(set(having.values())) > 1:
            raise ResumeError(
                f"{name} is not the same at all parties ({_parties(having)}).",
                "what was opened before the first iteration of one run, the same file at every party",
                f"check that every party passes the --out of the same run, or {ONCE_MORE}",
            )
        if lacking:
            raise ResumeError(
                f"{name} is there at {_parties(having)}, and not at {_parties(lacking)}.",
                "what was opened before the first iteration, the same file at every party",
                f"put it back at {_parties(lacking)}, into the directory party-<i> of the run: a copy of another "
                f"party's serves, for it has nothing but what every party has seen; or {ONCE_MORE}",
            )


def _still_there(kept: KeptNumbers, made_with: Mapping[str, str], what: str) -> None:
    if lost := kept.lost(made_with):
        raise ResumeError(
            f"no party has the {' and '.join(lost)} that {what} was made with.",
            "what was opened before the first iteration, the same file at every party",
            f"put back a copy of it at every party, or {ONCE_MORE}",
        )


def _nothing_in_common(offered: Mapping[int, Mapping[str, str]]) -> ResumeError:
    has = "; ".join(f"P{m}: {', '.join(sorted(i, key=int)) or 'none'}" for m, i in offered.items())
    return ResumeError(
        f"the parties have no checkpoint in common (iterations of {has}).",
        "one finished iteration that all of them have",
        f"check that every party passes the --out of the same run, or {ANEW}",
    )


def _parties(which: Iterable[int]) -> str:
    return ", ".join(f"P{m}" for m in which)


def finished_everywhere(link: Link, directory: Path, study: Study) -> dict[str, Any] | None:
    """This party's report, if all parties have finished the run and the study asks for nothing more; else None.

    1. each party sends the digest of its finished result, or nothing if it has none or more is asked of it
    2. with equal digests everywhere there is nothing to do

    Reveals: the digest of a public value. Cost: one round. Ref: -
    """
    report = results.finished(directory)
    own = b"" if report is None or _asks_more(study, report) else _finished_digest(report)
    received = [bytes(data) for data in link.all_to_all("finished", own, MOST).values()]
    return report if own and all(theirs == own for theirs in received) else None


def _asks_more(study: Study, report: dict[str, Any]) -> bool:
    """Whether one uninterrupted run of the study could end elsewhere than the run that the report is of."""
    asked = report.get("asked")
    if asked is None or study.tol < asked["tol"]:
        return True
    return bool(study.iterations > asked["iterations"] and not report.get("converged", True))


def _finished_digest(report: dict[str, Any]) -> bytes:
    return f"{report['digests']['result']} after {report.get('iterations')}".encode()
