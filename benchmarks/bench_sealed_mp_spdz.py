"""Sealed fits on MP-SPDZ, beside the embedded engine's of the same rows.

    MP_SPDZ_HOME=DIR python -m benchmarks.bench_sealed_mp_spdz [--goal 1e-2] [--decay 0.1] semi:2:4 mascot:2:16

Each case is a protocol, a number of parties and of features: 4 of iris, or the first 5 to 16 of breast cancer, each
over its largest value. k = 1. The sine of V's error against the pooled SVD on both engines, by how many units of the
last place that is opened the two V differ, and what it took: megabytes that a party sends, rounds, processor seconds of
all parties together (what is compiled first is not in them).
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_iris

import pdml_spdz
from benchmarks.parties import save
from pdml_spdz.engines.mp_spdz import home
from pdml_spdz.engines.mp_spdz.compiler import compile_program
from pdml_spdz.engines.mp_spdz.protocols import protocol
from pdml_spdz.numerics.linalg import sine
from pdml_spdz.programs.render import render_sealed
from pdml_spdz.programs.sealed_precision import SealedPrecision


def table(d: int) -> np.ndarray:
    X = load_iris().data if d == 4 else load_breast_cancer().data[:, :d]
    return np.asarray(X / np.abs(X).max(axis=0))


def precision_of(report: dict[str, Any]) -> SealedPrecision:
    names = ("M", "d", "rank", "columns", "goal_bits", "iterations", "decay")
    return SealedPrecision(**{name: report["precision"][name] for name in names})


def measured(name: str, M: int, d: int, goal: float, decay: float) -> dict[str, Any]:
    X = table(d)
    wanted = np.linalg.svd(X)[2][:1].T
    settings: dict[str, Any] = {"rank": 1, "reveal": "sealed", "accuracy_goal": goal, "decay": decay, "seed": 1}
    parts = np.array_split(X, M)
    embedded = pdml_spdz.svd(parts, offline="on-demand", **settings)
    p = precision_of(embedded.report)
    compiled = compile_program(render_sealed(p), p, protocol(name), home.require())
    load, began, before = os.getloadavg()[0], time.perf_counter(), _cpu_of_parties()
    result = pdml_spdz.svd(parts, engine="mp-spdz", protocol=name, offline="on-demand", **settings)
    wall, used = time.perf_counter() - began, result.report["mp_spdz"]
    difference = np.abs(result.V - embedded.V * np.sign(np.sum(result.V * embedded.V, axis=0))).max()
    return {
        "goal": goal,
        "sine": float(sine(result.V, wanted)),
        "sine of embedded": float(sine(embedded.V, wanted)),
        "ulp between both": float(np.ldexp(difference, p.f_out)),
        "ulp": 2.0**-p.f_out,
        "checkpoints": result.report["gate"]["reached"],
        "MB sent by a party": used["megabytes_sent"],
        "rounds": used["rounds"],
        "s of CPU, all parties": _cpu_of_parties() - before,
        "s": wall,
        "load before": load,
        "all checkpoints": compiled.counts.in_words,
    }


def _cpu_of_parties() -> float:
    """Seconds of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description="Sealed fits on MP-SPDZ")
    parser.add_argument("cases", nargs="+")
    parser.add_argument("--goal", type=float, default=1e-2)
    parser.add_argument("--decay", type=float, default=0.1)
    asked, found = parser.parse_args(), {}
    for case in asked.cases:
        name, M, d = case.split(":")
        found[case] = row = measured(name, int(M), int(d), asked.goal, asked.decay)
        print(f"{case}: {row}", flush=True)
    save("sealed-mp-spdz", found)


if __name__ == "__main__":
    main()
