"""PDML_DATA=DIR python -m tests.experiments.terms: the terms that `test_stored_cells.py` needs, kept in runs/."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.experiments import datasets, official

WANTED = (("20NG", 10_000), ("Enron", 10_000), ("Enron", 2000), ("Reuters", 10_000))


def main() -> None:
    directory = Path(os.environ.get("PDML_DATA", "data"))
    for name, terms in WANTED:
        if official.has(directory, name):
            found = datasets.corpus(directory, name, terms, 0)
            print(f"{name}: {len(found.documents):,} documents, {found.d:,} terms")
        else:
            print(f"{name} is not in {directory}")


if __name__ == "__main__":
    main()
