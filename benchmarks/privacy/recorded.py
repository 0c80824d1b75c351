"""Attacks on recorded runs of every engine, on real data: M processes each, what party 0 saw, the others collude."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.experiments import pcr
from benchmarks.experiments.cells import Cell, Row
from benchmarks.privacy import data
from pdml_spdz.engines import transcript
from pdml_spdz.engines.mp_spdz import home
from pdml_spdz.local.joint import LocalRun, local_study, run_local
from pdml_spdz.privacy.attack_run import attack
from pdml_spdz.privacy.known import Known
from pdml_spdz.rows.base import RowsLike
from pdml_spdz.rows.formats import save
from pdml_spdz.study.model import NmfSettings

M, K, ITERATIONS, TERMS = 3, 8, 15, 200
ENGINES: dict[str, dict[str, Any]] = {
    "plain": {"engine": "plain"},
    "secsum": {"engine": "secsum"},
    "embedded": {"engine": "embedded"},
    "embedded, per column": {"engine": "embedded", "normalise": "per-column", "iterations": 4},
    "mp-spdz (semi)": {"engine": "mp-spdz", "protocol": "semi"},
}
HONEST = {"songs": ("Songs", 0), "songs, 12 honest rows": ("Songs", 12), "mail, 30 honest rows": ("Enron", 30)}


def tables(directory: Path, name: str, honest: int) -> list[RowsLike]:
    """Three parties; the first is honest and has so many rows (0: a third of all)."""
    X = pcr.table(directory, name, "scaled")[0] if name == "Songs" else data.texts(directory, name, TERMS, 2000)
    order = np.random.default_rng(5).permutation(X.shape[0])
    first = honest or X.shape[0] // M
    parts = [order[:first], *np.array_split(order[first:], M - 1)]
    return [X[np.sort(rows)] for rows in parts]


def run(directory: Path, case: str, engine: str, algorithm: str) -> list[Row]:
    rows = tables(directory, *HONEST[case])
    settings = {"rank": K, "solver": "power", "iterations": ITERATIONS, "tol": 0.0} | ENGINES[engine]
    if algorithm == "nmf":
        settings |= {"nmf": NmfSettings(init="random")}
    with tempfile.TemporaryDirectory() as private:
        out = Path(private)
        files = [save(out / f"rows-{m}", X, None) for m, X in enumerate(rows)]
        study = local_study(M, algorithm=algorithm, **settings)
        run_local(LocalRun(files, study, out / "run", record_transcript=True))
        seen = transcript.load(out / "run" / "party-1" / transcript.FILE)
    findings = attack(seen, Known(rows[1:], rows[:1]))
    return [
        {"attack": f.attack, "got": f.got, "success": f.success, "error": f.figures.get("relative_error", "")}
        for f in findings
    ]


def cells(directory: Path) -> list[Cell]:
    engines = [name for name in ENGINES if not name.startswith("mp-spdz") or home.find() is not None]
    found = [(case, engine, "svd") for case in HONEST for engine in engines if engine != "plain" or case == "songs"]
    found = [c for c in found if c[1] != "embedded, per column" or c[0] == "songs"]
    found.append(("mail, 30 honest rows", "secsum", "nmf"))
    return [
        Cell({"case": case, "engine": engine, "algorithm": algorithm}, run, (directory, case, engine, algorithm))
        for case, engine, algorithm in found
        if data.has(directory, HONEST[case][0])
    ]
