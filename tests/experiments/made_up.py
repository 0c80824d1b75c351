"""Data sets of a few rows from fixed seeds, in files as the official ones are: the experiments run without those."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import numpy as np

from benchmarks.experiments.official import OFFICIAL

LETTERS = "pqrstvw"  # one for each topic
PARTS = "abcdefghijkl"


def songs(directory: Path, n: int, d: int) -> None:
    """Years that are a linear function of d features, and noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) @ np.diag(np.geomspace(3, 0.3, d))
    y = 2000 + X @ np.linspace(1, 2, d) + 3 * rng.normal(size=n)
    with gzip.open(directory / OFFICIAL["Songs"].file, "wt", newline="") as file:
        csv.writer(file).writerows([["year", *(f"t{i}" for i in range(d))], *np.column_stack([y, X]).tolist()])


def corpus(directory: Path, name: str, n: int, topics: int) -> None:
    """Documents of 30 words, each of one topic, which has twelve words of its own; and a few words of all topics."""
    rng = np.random.default_rng(0)
    words = [[f"{letter}{part * 3}" for part in PARTS] for letter in LETTERS[:topics]]
    texts = [" ".join(rng.choice(words[i % topics], 30)) + f" rare{'xyz'[i % 3]}" for i in range(n)]
    key = "body" if name == "Reuters" else "text"
    with gzip.open(directory / OFFICIAL[name].file, "wt") as lines:
        lines.writelines(json.dumps({key: text}) + "\n" for text in texts)


def ratings(directory: Path, users: int, movies: int) -> None:
    """One to five stars for half of all movies, by two tastes."""
    rng = np.random.default_rng(0)
    tastes = rng.dirichlet(np.ones(movies), 2) * 0.8 * movies
    noise = 0.5 * rng.normal(size=(users, movies))
    table = np.clip(np.rint(1 + rng.gamma(1, 1, (users, 2)) @ tastes + noise), 1, 5).astype(int)
    seen = rng.random(table.shape) < 0.5
    with gzip.open(directory / OFFICIAL["ML-1M"].file, "wt") as lines:
        lines.write("user,movie,rating\n")
        lines.writelines(f"{u},{m},{table[u, m]}\n" for u, m in zip(*np.nonzero(seen), strict=True))
