"""KSDP by party size. [PDML Table "KSDP", Fig. "KSDP of SVD"]"""

from __future__ import annotations

import hashlib
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.experiments import pcr
from benchmarks.experiments.cells import Cell, Row
from benchmarks.privacy import data
from benchmarks.privacy.compiled_runs import CompiledNmf
from pdml_spdz.algorithms.rri import Penalties
from pdml_spdz.privacy.ksdp import Experiment, make_plan, run
from pdml_spdz.privacy.level_mechanism import SEALED, SEALED_LESS, VECTORS, LevelMechanism
from pdml_spdz.privacy.mechanism import Mechanism
from pdml_spdz.privacy.nmf_mechanism import NMF_VIEWS
from pdml_spdz.privacy.sealed_shows import SealedSettings
from pdml_spdz.privacy.svd_mechanism import SvdMechanism
from pdml_spdz.privacy.verdict import Observer, judge
from pdml_spdz.rows.base import RowsLike

RATINGS = Penalties(beta=1.0, delta=1.0)
# Those that the paper names: six for SVD; of seven for NMF it prints the one that told most.
OF_PAPER = {"W max", "W sum", "W squares", "D max", "D sum", "D squares", "weighted coefficients"}
SAMPLES = Path("runs/privacy/samples")


def population(directory: Path, name: str, terms: int) -> RowsLike:
    if name == "ML-1M":
        return data.ratings(directory)
    if name == "Songs":
        return pcr.table(directory, name, "scaled")[0]
    return data.texts(directory, name, terms, 0)


def split(X: RowsLike, share: float, seed: int) -> tuple[RowsLike, RowsLike, int]:
    """(rows to draw the victim's databases from, the adversary's rows, size of each): parties of the same size."""
    n = X.shape[0]
    size = max(8, int(share * n))
    order = np.random.default_rng(seed).permutation(n)
    return X[np.sort(order[size:])], X[np.sort(order[:size])], size


def nmf(
    directory: Path, name: str, terms: int, k: int, share: float, start: str, sweeps: int, documents: int, samples: int
) -> list[Row]:
    X, others, size = split(population(directory, name, terms), share, 1)
    mechanism = CompiledNmf(others, k, *nmf_settings(name, start, sweeps), tuple(NMF_VIEWS))
    return measured(X, mechanism, size, documents, samples)


def nmf_settings(name: str, start: str, sweeps: int) -> tuple[int, str, bool, Penalties]:
    """(sweeps, start, weighted, penalties) of `NmfMechanism`"""
    weighted = name == "ML-1M"
    tau = 2 * sweeps if start == "random 2x" else sweeps
    return tau, "pd" if start == "PD-NMF-Init" else "random", weighted, RATINGS if weighted else Penalties()


def svd(directory: Path, name: str, terms: int, k: int, share: float, documents: int, samples: int) -> list[Row]:
    """The paper's observers of V_k, and of V_k and Sigma; and whoever sees all of c S."""
    X, others, size = split(population(directory, name, terms), share, 1)
    return measured(X, SvdMechanism(others, k, size, centred=name == "Songs"), size, documents, samples)


def levels(directory: Path, name: str, terms: int, k: int, share: float, documents: int, samples: int) -> list[Row]:
    """The same databases and records, seen by observers of each level; ten times the work."""
    X, others, size = split(population(directory, name, terms), share, 1)
    mechanism = LevelMechanism(others, k, size, SealedSettings.usual(k, X.shape[1]), centred=name == "Songs")
    return measured(X, mechanism, size, documents, samples)


def sealed(directory: Path, name: str, terms: int, k: int, share: float, documents: int, samples: int) -> list[Row]:
    """The same databases and records again, by observers of V_k alone and of sealed runs: a tenth of the work."""
    X, others, size = split(population(directory, name, terms), share, 1)
    settings, views = SealedSettings.usual(k, X.shape[1]), (VECTORS, SEALED, SEALED_LESS)
    mechanism = LevelMechanism(others, k, size, settings, name == "Songs", views=views)
    return measured(X, mechanism, size, documents, samples)


def measured(
    X: RowsLike, mechanism: Mechanism, size: int, documents: int, samples: int, store: Path = SAMPLES
) -> list[Row]:
    """A row for each view. Statistics of samples are kept until the cell is done: an interrupted one goes on."""
    chosen = np.random.default_rng(2).choice(X.shape[0], documents, replace=False)
    plan = make_plan(X.shape[0], [int(i) for i in np.sort(chosen)], size, samples, seed=3, group=documents)
    name = hashlib.sha256(repr((mechanism.settings(), plan, X.shape)).encode()).hexdigest()[:16]
    # Whole samples of a cell of the paper's size would be gigabytes.
    found = judge(run(Experiment(X, plan, mechanism, store=store / name, whole=False)), plan.documents)
    shutil.rmtree(store / name)
    return [_row(view, size) for view in found]


def _row(view: Observer, size: int) -> Row:
    best: dict[str, int] = {}
    for record in view.records:
        best[record.statistic] = best.get(record.statistic, 0) + 1
    names = OF_PAPER & set(view.statistics)  # T without den has none of them
    paper, told = view.by(names or view.statistics), set(view.flagged)
    return {
        "view": view.name,
        "rows": size,
        "pi": view.pi,
        "mean_min_p": view.mean_min_p,
        "sd_min_p": view.sd_min_p,
        "by_chance": view.by_chance,
        "flagged": len(view.flagged),
        "records": len(view.records),
        "auc": float(np.mean([r.auc for r in view.records])),
        "epsilon": max(r.epsilon_family for r in view.records),
        "detectable_shift": view.detectable.shift,
        "best_statistic": max(best, key=lambda name: best[name]),
        "paper_pi": paper.pi,
        "paper_mean_min_p": paper.mean_min_p,
        "paper_sd_min_p": paper.sd_min_p,
        "paper_by_chance": paper.by_chance,
        "paper_flagged": len(paper.flagged),
        "told": "".join("1" if r.document in told else "0" for r in view.records),
        "p": "; ".join(
            f"{name}: {' '.join(f'{r.p_by_statistic[name]:.2g}' for r in view.records)}" for name in view.statistics
        ),
    }


# Records and samples of an arm, by the size of a grid. Reduced: all else as in the paper.
SIZES = {
    "nmf": {"small": (8, 30), "reduced": (10, 60), "full": (50, 200)},
    "svd": {"small": (40, 50), "reduced": (100, 50), "full": (200, 50)},
}


def cells(directory: Path, *, size: str) -> dict[str, list[Cell]]:
    """The paper's grids, or smaller ones."""
    shares, full = (0.005, 0.03, 0.1), size != "small"
    documents, samples = SIZES["nmf"][size]
    sweeps, terms = (20, 10_000) if full else (10, 1000)
    ks = (7, 14) if full else (7,)
    found: dict[str, list[Cell]] = {"nmf": []}
    for name in ("Enron", "ML-1M"):
        if not data.has(directory, name):
            continue
        starts = ("random", "random 2x", "PD-NMF-Init") if name == "Enron" else ("random",)
        found["nmf"] += [
            Cell(
                _settings(name, k, share, documents, samples) | {"start": start, "sweeps": sweeps},
                nmf,
                (directory, name, terms, k, share, start, sweeps, documents, samples),
            )
            for k in ks
            for start in starts
            for share in (shares if full or start == "random" else (0.03,))
        ]
    # The paper's own cells first (it starts from noise), and what takes least first: a run may be stopped.
    found["nmf"].sort(key=lambda c: (c.settings["start"] != "random", c.settings["k"], c.settings["party_share"]))
    documents, samples = SIZES["svd"][size]
    terms = 2000 if full else 1000
    for grid, compute in (("svd", svd), ("levels", levels), ("sealed", sealed)):
        found[grid] = [
            Cell(
                _settings(name, 7, share, documents, samples),
                compute,
                (directory, name, terms, 7, share, documents, samples),
            )
            for name, share in product(("Songs", "Enron"), (0.005, 0.03, 0.1, 0.333))
            if data.has(directory, name)
        ]
    # Large parties first, for which it matters most what else is seen.
    found["levels"].sort(key=lambda c: (c.settings["party_share"] < 0.1, c.settings["data"] != "Enron"))
    large = [c for c in found["sealed"] if c.settings["party_share"] >= 0.1 and c.settings["data"] == "Enron"]
    found["sealed"] = large if full else []
    return {name: grid for name, grid in found.items() if grid}


def _settings(name: str, k: int, share: float, documents: int, samples: int) -> dict[str, Any]:
    return {"data": name, "k": k, "party_share": share, "documents": documents, "samples": samples}
