"""What a run has come to: report.json, what it did, revealed and cost, the same keys for every algorithm and engine;
and its results on the disk, every array first, and the report, the mark of a finished run, last of all.
"""

from __future__ import annotations

import json
import platform
import resource
import shutil
import ssl
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from pdml_spdz import __version__
from pdml_spdz.engines import transcript as transcripts
from pdml_spdz.engines.base import Engine
from pdml_spdz.engines.transcript import Transcript
from pdml_spdz.errors import StorageError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.primitives.agree import digest_of
from pdml_spdz.primitives.bound import Bound
from pdml_spdz.rows.data import Data
from pdml_spdz.rows.reading import MEAN
from pdml_spdz.study.algorithm import ALGORITHMS, IDS, Algorithm
from pdml_spdz.study.model import Study
from pdml_spdz.system.files import parse_json, reading, save_array, save_json, sync, writing
from pdml_spdz.transport.base import Link

REPORT = "report.json"
OWN = ("W.npy",)  # arrays that are one party's: no digest of them is in a report
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
        older = {name for algorithm in _algorithms(directory) for name in algorithm.results}
        (directory / REPORT).unlink(missing_ok=True)
        sync(directory)
        for name in older - {*arrays, IDS}:
            (directory / name).unlink(missing_ok=True)
    if transcript is not None:
        transcript.save(directory / transcripts.FILE)
    for name, array in arrays.items():
        save_array(directory / name, array, private=name in OWN)
    report.setdefault("digests", {})["arrays"] = {
        name: digest_of(name, array.tobytes()) for name, array in arrays.items() if name not in OWN
    }
    save_json(directory / REPORT, report)


def kept_result(directory: Path, report: Mapping[str, Any]) -> Reals:
    """The array of the algorithm's file, as the run has written it, or InputError."""
    return kept_array(directory, ALGORITHMS[report["algorithm"]].result, report)


def kept_array(directory: Path, name: str, report: Mapping[str, Any]) -> Reals:
    """An array of a finished run, as the run has written it, or InputError."""
    path = directory / name
    wanted = f"the file that {REPORT} beside it has the digest of"
    do = "take both from another party's directory or from a copy, or run again"
    with reading(path, wanted, do):
        array: Reals = np.load(path, allow_pickle=False)
        digests = report["digests"]
        known, found = digests.get("arrays", {}).get(name), digest_of(name, array.tobytes())
        if name == ALGORITHMS[report["algorithm"]].result:  # the digest that all parties have agreed on
            known, found = digests["result"], digest_of("result", array.tobytes())
        if array.dtype == np.float64 and np.isfinite(array).all() and known in (found, None):
            return array
        raise ValueError("other numbers")


def remove(directory: Path, coming: Algorithm) -> None:
    """The results of an older run, its mark first, and what the one that comes would take up if it is resumed: what
    said which algorithm the older one had may be lost.
    """
    with writing(directory):
        older = [*coming.starts, *(name for algorithm in _algorithms(directory) for name in algorithm.files)]
        for path in (directory / name for name in (REPORT, *older, transcripts.FILE)):
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def _algorithms(directory: Path) -> Iterator[Algorithm]:
    """Of the run that has finished, or begun, in a directory."""
    for mark in (REPORT, BEGUN):
        try:
            yield ALGORITHMS[_content(directory / mark)["algorithm"]]
        except (OSError, ValueError, KeyError, TypeError):
            continue


def _content(path: Path) -> dict[str, Any]:
    if not path.is_file():  # a pipe, a device: reading it may not end
        raise FileNotFoundError
    return dict(parse_json(path.read_text(encoding="utf-8")))


def finished(directory: Path) -> dict[str, Any] | None:
    """The report of the finished run in `directory`, with its result beside it; None if there is none."""
    try:
        report = _content(directory / REPORT)
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


@cache
def versions() -> dict[str, str]:
    """Of everything that can change a result."""
    packages = {name: version(name) for name in ("numpy", "scipy", "cryptography", "click", "jinja2", "rich")}
    return {
        "pdml-spdz": __version__,
        "python": platform.python_version(),
        "openssl": ssl.OPENSSL_VERSION,
        "platform": platform.platform(),
        **packages,
    }


def peak_memory() -> int:
    """Bytes: the largest resident set of this process so far."""
    status = Path("/proc/self/status")
    if status.is_file():  # Linux: getrusage would count what the parent had when it started this process
        fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        return 1024 * int(fields["VmHWM"].split()[0])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def seconds(link: Link) -> dict[str, Any]:
    spent = link.clock.seconds
    online = {name: round(spent.get(name, 0.0), 6) for name in ("wait", "transport", "crypto")}
    return {
        "local": round(spent.get("local", 0.0), 6),
        "online": online,
        "offline": round(spent.get("offline", 0.0), 6),
        "total": round(link.clock.total, 6),
    }


def two_parties(study: Study) -> list[str]:
    """With M = 2 an opened sum less one's own addend is the other party's: a warning that names them, if there are any.

    What follows from the openings of NormedSecSum, whose scale is hidden, is not among them (docs/security.md).
    """
    deviations, of_two = study.scale == "secsum", study.spec.of_two(study)
    shown = {
        **of_two,
        "the number of its rows": deviations or of_two.get("the number of its rows", False),
        "the mean square of each feature": deviations,
        "how many values of each feature it has, and their sum": study.rows.missing == MEAN,
        "the norm of its rows": study.bound_kind == "secsum" and not deviations,  # these make the bound public
    }
    parts = [what for what, is_shown in shown.items() if is_shown]
    if study.M != 2 or not parts:
        return []
    mean = of_two.get("their mean", False)
    hide = "; --centre hidden keeps the mean from both" if mean and not (deviations or study.variance) else ""
    text = "with two parties an opened sum less one's own part is the other's: each of them learns of the other"
    return [f"{text} {', '.join(parts)}{hide}"]


@dataclass(frozen=True)
class Outcome:
    """What a fit adds to its report: this party's rows, the result's digest, warnings, what every party has seen."""

    data: Data
    digest: str
    warnings: list[str]
    observables: list[str]


def run_report(study: Study, engine: Engine, link: Link, bound: Bound, outcome: Outcome) -> dict[str, Any]:
    """What one party says of a run, whatever the algorithm."""
    facts = engine.facts()
    return {
        "algorithm": study.algorithm,
        "engine": engine.name,
        "protocol": facts.get("protocol"),
        "program": facts.get("program"),
        "reveal": study.reveal,
        "opening": study.opening.name,
        "security": asdict(engine.security),
        "insecure": engine.insecure,
        "parties": study.M,
        "names": [party.name for party in study.parties],  # of the organisations, where the study has them
        "party_id": link.me,
        "d": outcome.data.d,
        "features": None if outcome.data.features is None else list(outcome.data.features),  # in the order of V
        "columns": study.columns,
        "rows": json.loads(json.dumps(asdict(study.rows))),  # how files became rows; lists, as they are read back
        "seconds": seconds(link),
        "bytes_sent": link.traffic.bytes_sent,
        "bytes_received": sum(link.traffic.received.values()),
        "traffic": {
            f"P{p}": {"sent": link.traffic.sent.get(p, 0), "received": link.traffic.received.get(p, 0)}
            for p in link.peers
        },
        "rounds": link.traffic.rounds,
        "offline": {
            "bytes_sent": link.offline_traffic.bytes_sent,
            "bytes_received": sum(link.offline_traffic.received.values()),
            "rounds": link.offline_traffic.rounds,
        },
        "phases": {name: {key: round(x, 6) for key, x in spent.items()} for name, spent in link.phases.items()},
        "peak_memory": peak_memory(),
        "precision": facts.get("precision"),
        "bound": asdict(bound),
        "stock": facts.get("stock"),
        "mp_spdz": facts.get("mp_spdz"),
        "observables": [*outcome.observables, *([bound.observable] if bound.observable else [])],
        "digests": {"study": study.digest, "program": facts.get("program_digest"), "result": outcome.digest},
        "asked": {"iterations": study.iterations, "tol": study.tol},
        "rows_own": outcome.data.n,
        "versions": versions(),
        "warnings": [
            *engine.warnings,
            *two_parties(study),
            *outcome.warnings,
            *outcome.data.warnings,
        ],
        "warnings_own": list(outcome.data.warnings),  # those of them that are about this party's rows
    }
