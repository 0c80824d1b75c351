"""krylov beside power, the paper's own algorithm, on the same openings: how many, and what they cost."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from benchmarks.bench_krylov import GOAL, MOST, WANTED, K, M, openings_of_krylov, run, tables
from pdml_spdz.bench.results import Cell, Check, Measurement, Step, exact

BOTH = ("digits", "Songs", "20NG")  # by power, too
LARGE, LARGE_WANTED = "20NG", 15.0  # times fewer bytes online, at d = 10^4
VALUES = {
    "openings": "openings",
    "sine": "sine",
    "loop s": "loop",
    "offline and loop s": "offline and loop",
    "online MB": "sent_MB",
    "offline MB": "offline_MB",
    "numbers": "offline_numbers",
}


SAME = "krylov, to power's sine"  # stopped where its true sine is what power's is, not by its bound


def measure(step: Step = lambda done, of, text: None) -> Measurement:
    """Tables of PDML_DATA where they are; digits and breast cancer always."""
    there = list(tables(Path(os.environ.get("PDML_DATA", "data"))))
    cells, checks = list[Cell](), list[Check]()
    for i, (name, make) in enumerate(there):
        X = make()
        found: dict[str, dict[str, Any]] = {}
        for solver in ("krylov", *(["power"] if name in BOTH else []), *([SAME] if name == LARGE else [])):
            step(i, len(there), f"{name}, {solver}")
            openings = openings_of_krylov(X) if solver == SAME else 0
            found[solver] = row = run(X, solver.split(",")[0], "embedded", openings)
            key: dict[str, str | int] = {"table": name, "solver": solver, "M": M, "d": X.shape[1], "k": K}
            cells.append(Cell(key, {value: exact(row[at]) for value, at in VALUES.items()}))
        if name in MOST:
            checks.append(Check(f"{name}: openings of krylov", found["krylov"]["openings"], MOST[name], at_least=False))
        if "power" in found:
            checks += _ratios(name, found)
    return Measurement("solvers", {"k": K, "M": M, "sine": GOAL}, cells, checks, list(NOTES))


def _ratios(name: str, found: dict[str, dict[str, Any]]) -> list[Check]:
    krylov, power = found["krylov"], found["power"]
    what = f"{name}: power / krylov, "
    if not krylov["sine"] <= power["sine"]:
        return [Check(f"{name}: sine of krylov / power", krylov["sine"] / power["sine"], 1.0, at_least=False)]
    if name == LARGE:
        words = {SAME: "both to the same true sine", "krylov": "krylov by its bound, and so more accurate"}
        over = {text: power["sent_MB"] / found[solver]["sent_MB"] for solver, text in words.items()}
        return [Check(f"{what}sent_MB, {text}", ratio, LARGE_WANTED) for text, ratio in over.items()]
    return [Check(what + value, power[value] / krylov[value], wanted) for value, wanted in WANTED.items()] * (
        name == "Songs"
    )


NOTES = (
    "embedded, default window, three parties as threads of one process; MB are those of all three together. sine: to "
    "the exact vectors of the pooled rows, of what they span together.",
    f"krylov stops when its bound of the sine is below {GOAL:g}; power after as many iterations as take its true sine "
    f"to {GOAL:g}, counted beforehand with the exact vectors: no run could know them. So krylov's result is the more "
    f"accurate, for its bound is above the truth. {LARGE} has a row more, in which krylov, too, stops where its true "
    f"sine is {GOAL:g}: equal accuracy on both sides.",
    "Power's material comes from LPN, which makes many numbers for little more than few: its bytes fell with krylov's.",
)
