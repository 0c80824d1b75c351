"""krylov beside power, the paper's own algorithm, on the same openings: how many, and what they cost."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from benchmarks.bench_krylov import GOAL, MOST, WANTED, K, M, run, tables
from pdml_spdz.bench.results import Cell, Check, Measurement, Step, exact

BOTH = ("digits", "Songs", "20NG")  # by power, too
LARGE_WANTED = 15.0  # times fewer bytes online, at d = 10^4
VALUES = {
    "openings": "openings",
    "sine": "sine",
    "loop s": "loop",
    "offline and loop s": "offline and loop",
    "online MB": "sent_MB",
    "offline MB": "offline_MB",
    "numbers": "offline_numbers",
}


def measure(step: Step = lambda done, of, text: None) -> Measurement:
    """Tables of PDML_DATA where they are; digits and breast cancer always."""
    there = list(tables(Path(os.environ.get("PDML_DATA", "data"))))
    cells, checks = list[Cell](), list[Check]()
    for i, (name, make) in enumerate(there):
        X = make()
        found: dict[str, dict[str, Any]] = {}
        for solver in ("krylov", *(["power"] if name in BOTH else [])):
            step(i, len(there), f"{name}, {solver}")
            found[solver] = row = run(X, solver, "embedded")
            key: dict[str, str | int] = {"table": name, "solver": solver, "M": M, "d": X.shape[1], "k": K}
            cells.append(Cell(key, {value: exact(row[at]) for value, at in VALUES.items()}))
        if name in MOST:
            checks.append(Check(f"{name}: openings of krylov", found["krylov"]["openings"], MOST[name], at_least=False))
        if "power" in found:
            checks += _ratios(name, found["krylov"], found["power"])
    return Measurement(
        "solvers", {"k": K, "M": M, "tol": f"{GOAL:g}, krylov's bound and power's sine"}, cells, checks, list(NOTES)
    )


def _ratios(name: str, krylov: dict[str, Any], power: dict[str, Any]) -> list[Check]:
    what = f"{name}: power / krylov, "
    if not krylov["sine"] <= power["sine"]:
        return [Check(f"{name}: sine of krylov / power", krylov["sine"] / power["sine"], 1.0, at_least=False)]
    if name == "20NG":
        return [Check(what + "sent_MB", power["sent_MB"] / krylov["sent_MB"], LARGE_WANTED)]
    return [Check(what + value, power[value] / krylov[value], wanted) for value, wanted in WANTED.items()] * (
        name == "Songs"
    )


NOTES = (
    "embedded, default window, three parties as threads of one process; MB are those of all three together. sine: to "
    "the exact vectors of the pooled rows, of what they span together.",
    f"At equal accuracy: krylov stops when its bound of the sine is below {GOAL:g}, power after as many iterations as "
    f"take its true sine to {GOAL:g}, which were counted beforehand with the exact vectors: no run could know. What "
    "krylov was asked for is what both are compared by; it ends with less, for its bound is above the truth.",
    "Power's material comes from LPN, which makes many numbers for little more than few: its bytes fell with krylov's.",
)
