"""A small cell of each kind of the paper's grids, by the functions that compute those, on data that are made up.

    python -m tests.experiments.small_cells [NAME ...]

computes them again (all, or those named) and keeps them in tests/experiments/stored: needed when a grid computes
something else than before, and meant to. `test_small_cells.py` and `test_paper.py` compare with what is kept.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.experiments import cells, pcr, pooled, search, starts, uplift
from benchmarks.experiments.cells import Cell
from benchmarks.paper import theorems
from benchmarks.paper.errata import Figures
from benchmarks.privacy import measure, noise, only_topics, ratings, shows
from tests.experiments import made_up

STORED = Path(__file__).parent / "stored"
Settings = dict[str, Any]

PARTIES: Settings = {"M": 3, "trial": 0}
DOCUMENTS = PARTIES | {"limit": 0, "terms": 200, "k": 3, "share": 0.05}
SONGS = PARTIES | {"name": "Songs", "k": 4, "share": 0.02}
STARS = PARTIES | {"k": 2, "share": 0.1}
KSDP: Settings = {"documents": 4, "samples": 12}
OF_SVD = KSDP | {"name": "Songs", "terms": 0, "k": 3, "share": 0.01}
OF_NMF = KSDP | {"terms": 200, "k": 2, "sweeps": 5}

# By name: what computes a cell, and its settings.
KINDS: dict[str, tuple[Callable[..., list[cells.Row]], Settings]] = {
    "table_1": (pooled.cell, PARTIES | {"name": "Reuters", "k": 3, "share": 0.1}),
    "pcr": (pcr.cell, SONGS | {"form": "as it is"}),
    "pcr-scaled": (pcr.cell, SONGS | {"form": "scaled"}),
    "lra": (uplift.lra, DOCUMENTS | {"name": "20NG"}),
    "topics": (uplift.topics, DOCUMENTS | {"name": "Enron"}),
    "recommender": (uplift.recommender, STARS),  # by_parties: the same two functions
    "hyperband": (search.cell, STARS),
    # Not `starts.documents`, which nothing is stored of: its parties' T_0 is secret, another one in every run.
    "starts_ratings": (starts.ratings, STARS),
    "svd": (measure.svd, OF_SVD),
    "levels": (measure.levels, OF_SVD),
    "sealed": (measure.sealed, OF_SVD),
    "nmf": (measure.nmf, OF_NMF | {"name": "ML-1M", "share": 0.1, "start": "random"}),
    "nmf_starts": (measure.nmf, OF_NMF | {"name": "Enron", "share": 0.03, "start": "PD-NMF-Init"}),
    "shows": (shows.run, {"name": "Songs", "solver": "power"}),
    "only_topics": (only_topics.cell, {"name": "Enron", "share": 0.1, "trial": 0}),
    "noise-pcr": (noise.pcr, SONGS | {"form": "scaled"}),
    "noise-lra": (noise.lra, DOCUMENTS | {"name": "20NG"}),
    "noise-topics": (noise.topics, DOCUMENTS | {"name": "Enron"}),
    "noise-recommender": (noise.recommender, STARS),
    "ratings": (ratings.run, STARS),
}

# Those of errata.json that need data: by name, what computes them.
FIGURES: dict[str, Callable[[Path], Figures]] = {
    "in_table_1": partial(theorems.in_table_1, cells=(("Enron", 7, 0.1, 3),)),
    "from_init": partial(theorems.from_init, k=3, share=0.1),
    "init_alone": partial(theorems.init_alone, k=3, trials=1),
    "of_ratings": partial(theorems.of_ratings, k=2, share=0.1),
}


def make_data(directory: Path) -> None:
    made_up.songs(directory, shows.ROWS, 90)
    for name, topics in (("20NG", 3), ("Reuters", 3), ("Enron", 7)):
        made_up.corpus(directory, name, 420, topics)
    made_up.ratings(directory, 90, 20)


def cell(name: str, directory: Path) -> Cell:
    compute, settings = KINDS[name]
    return Cell(settings, partial(compute, directory, **settings), ())


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.experiments.small_cells",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(KINDS)}, errata [all]")
    wanted = parser.parse_args().names or [*KINDS, "errata"]
    STORED.mkdir(exist_ok=True)
    # What grids keep of data sets goes to runs/ beside them, and away with them.
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        make_data(Path(place))
        for name in wanted:
            if name == "errata":
                figures = {n: compute(Path(place)) for n, compute in FIGURES.items()}
                (STORED / "errata.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
            else:
                file = STORED / f"{name}.csv"
                file.unlink(missing_ok=True)
                cells.run([cell(name, Path(place))], file, 1)


if __name__ == "__main__":
    main()
