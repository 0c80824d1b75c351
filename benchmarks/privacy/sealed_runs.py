"""Recorded sealed runs, products by ring-LWE, beside what the mechanism of KSDP computes of them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

import pdml_spdz
from benchmarks.experiments.cells import Cell, Row
from benchmarks.privacy import data
from benchmarks.privacy.text import table
from pdml_spdz.algorithms.solver import start_by_seed
from pdml_spdz.engines.transcript import RecordingWarning
from pdml_spdz.numerics.linalg import fix_signs
from pdml_spdz.primitives.normed_sum import Alone
from pdml_spdz.privacy import sealed_shows
from pdml_spdz.privacy.rank_one import Eigen
from pdml_spdz.privacy.sealed_shows import SealedSettings

RUNS, TERMS, WORDS, K, M = 10, 2000, 16, 2, 2
SIZES = (512, 154)  # mails at each party: a tenth of those that KSDP has at 33.3 % and at 10 %


def run(directory: Path, size: int, seed: int) -> list[Row]:
    """Mails and words drawn at random."""
    rng = np.random.default_rng(seed)
    X = data.texts(directory, "Enron", TERMS, 0)
    rows = np.sort(rng.choice(X.shape[0], M * size, replace=False))
    words = np.sort(rng.choice(200, WORDS, replace=False))  # of the most frequent
    X = np.asarray(X[rows][:, words].todense())
    parts = np.split(X, M)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecordingWarning)
        fit = pdml_spdz.svd(
            parts, rank=K, reveal="sealed", seed=seed, transport="threads", record_transcript=True, offline="on-demand"
        )
    assert fit.transcript is not None
    seen: dict[str, Any] = {}
    for entry in fit.transcript.entries:
        seen.setdefault(entry.step, []).extend(entry.arrays.values())
    p = SealedSettings.usual(K, WORDS).precision(M, WORDS, K)
    start = start_by_seed(WORDS, p.columns, seed, Alone())
    (plain,) = sealed_shows.sealed(Eigen.of(X.T @ X), np.zeros((1, WORDS)), start, p)
    assert plain.V is not None
    exponent = int(seen["exponent:fit"][0][0]) - np.ceil(np.log2(max(float(np.sum(x * x)) for x in parts)))
    return [
        {
            "opened": "; ".join(sorted(seen)),
            "checkpoint": fit.report["gate"]["reached"] - 1,
            "checkpoint_computed": plain.checkpoint,
            "ratios_off": float(np.abs(seen["ritz"][-1] - plain.ratios).max()),
            "first_ratios_off": float(np.abs(seen["ritz"][0] - plain.first).max()),
            "V_off": float(np.abs(fix_signs(fit.V) - fix_signs(plain.V)).max()),
            "last_place": 2.0**-p.f_out,
            "blur": int(exponent),
        }
    ]


def cells(directory: Path) -> list[Cell]:
    if not data.has(directory, "Enron"):
        return []
    return [
        Cell({"data": "Enron", "size": SIZES[seed % 2], "seed": seed}, run, (directory, SIZES[seed % 2], seed))
        for seed in range(RUNS)
    ]


def section(rows: list[Row]) -> list[str]:
    head = [
        "mails at each of 2 parties",
        "run",
        "checkpoint, run and mechanism",
        "ratios differ by",
        "V by",
        "last place",
    ]
    lines = [
        [
            r["size"],
            r["seed"],
            f"{r['checkpoint']}, {r['checkpoint_computed']}",
            f"{max(float(r['ratios_off']), float(r['first_ratios_off'])):.0e}",
            f"{float(r['V_off']):.0e}",
            f"{float(r['last_place']):.0e}",
        ]
        for r in rows
    ]
    return table(head, lines)
