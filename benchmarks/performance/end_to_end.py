"""How long do whole commands take, from their start to their result: processes, files, offline phase?"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.performance.scenarios import PCR
from pdml_spdz.bench.fits import party_rows, study_of
from pdml_spdz.bench.results import Cell, Check, Measurement, Quartiles, Step, exact, spread
from pdml_spdz.local.joint import LocalRun, local_study, run_local
from pdml_spdz.system import process

ROOT = Path(__file__).parents[2]
REPEATS, LIMIT = 3, 120.0
SECONDS, STARTS = 2.0, 4.0  # wanted of krylov: so many seconds, or so many times what importing takes
MINUTE = 60.0  # wanted of power
IMPORTS = "import numpy, scipy.sparse, cryptography.hazmat.primitives.ciphers"
ARRAYS = """
import numpy as np
from pdml_spdz import svd
rng = np.random.default_rng(0)
X = [rng.standard_normal((100, 10)) for _ in range(3)]
svd(X, rank=3)
"""


def command(*arguments: str) -> float:
    """Seconds of a Python process."""
    began = time.perf_counter()
    code, said = process.run([sys.executable, *arguments], directory=ROOT, timeout=LIMIT)
    if code:
        raise RuntimeError(f"{arguments} ended with {code}: {said}")
    return time.perf_counter() - began


def digits(directory: Path) -> float:
    """What `make svd` runs."""
    files = [f"examples/digits/party-{m}.csv.gz" for m in range(3)]
    rows = ["--rank", "7", "--engine", "embedded", "--bound", "rows:128,2000"]
    return command("-m", "pdml_spdz", "svd", *files, *rows, "--out", str(directory / "svd"), "--force")


def pcr(directory: Path, solver: str) -> tuple[float, dict[str, Any]]:
    """The scenario as `pdml-spdz svd` runs it; its report is the slowest party's."""
    files = []
    for m in range(PCR.size.M):
        np.save(path := directory / f"rows-{m}.npy", party_rows(PCR.size, m))
        files.append(path)
    study = study_of("svd", PCR.engine, PCR.size, PCR.tau)
    if solver != "power":  # as its defaults are
        study = local_study(PCR.size.M, rank=PCR.size.k, engine=PCR.engine, solver=solver, offline="on-demand")
    began = time.perf_counter()
    result = run_local(LocalRun(files, study, directory / f"pcr-{time.time_ns()}"))
    seconds = time.perf_counter() - began
    return seconds, max(result.party_reports, key=lambda r: r["seconds"]["total"])


def measure(step: Step = lambda done, of, text: None) -> Measurement:
    with tempfile.TemporaryDirectory(prefix="pdml-spdz-") as name:
        directory = Path(name)
        short: dict[str, Callable[[], float]] = {
            "imports": lambda: command("-c", IMPORTS),
            "make svd (digits)": lambda: digits(directory),
            "pdml_spdz.svd of three 100 x 10 arrays": lambda: command("-c", ARRAYS),
        }
        times: dict[str, list[float]] = {what: [] for what in short}
        for i in range(REPEATS + 1):  # by turns; the first time finds cold files
            for j, (what, run) in enumerate(short.items()):
                step(i * len(short) + j, len(short) * (REPEATS + 1) + 2, what)
                times[what] += [run()]
        found = {what: spread(seconds[1:]) for what, seconds in times.items()}
        solvers = {what: "" if what == "imports" else "krylov" for what in short}
        cells = [Cell({"what": what, "solver": solvers[what]}, {"total s": s}) for what, s in found.items()]
        for solver in ("krylov", "power"):
            step(len(short) * (REPEATS + 1) + (solver == "power"), len(short) * (REPEATS + 1) + 2, f"PCR, {solver}")
            runs = [pcr(directory, solver) for _ in range(REPEATS if solver == "krylov" else 1)]
            cells.append(_scenario(solver, spread([seconds for seconds, _ in runs]), runs[-1][1]))
    limit = max(SECONDS, STARTS * found["imports"].median)
    checks = [_check(c, limit) for c in cells if c.key["solver"] == "krylov"]
    checks.append(replace(_check(cells[-1], MINUTE), what=f"{_name(cells[-1])} (the paper, online: {PCR.paper_text})"))
    notes = [
        f"Wanted of krylov: {SECONDS:g} s, or {STARTS:g} times one process that imports numpy, scipy.sparse and "
        "cryptography, whichever is more.",
        f"PCR: d = {PCR.size.d}, k = {PCR.size.k}, M = {PCR.size.M}; krylov stops by its bound, power makes {PCR.tau} "
        "iterations.",
    ]
    return Measurement("end-to-end", {"repeats": REPEATS}, cells, checks, notes)


def _scenario(solver: str, seconds: Quartiles, report: dict[str, Any]) -> Cell:
    values = {
        "total s": seconds,
        "offline s": exact(report["seconds"]["offline"]),
        "loop s": exact(report["seconds"]["loop"]),
        "offline MB": exact(report["offline"]["bytes_sent"] / 1e6),
        "sent MB": exact(report["bytes_sent"] / 1e6),
        "iterations": exact(report["iterations"]),
    }
    return Cell({"what": "PCR from files to result", "solver": solver}, values)


def _name(cell: Cell) -> str:
    return f"{cell.key['what']}, {cell.key['solver']}"


def _check(cell: Cell, limit: float) -> Check:
    return Check(_name(cell), cell.values["total s"].median, limit, at_least=False, unit=" s")
