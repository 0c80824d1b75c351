"""Cells are computed once, whatever interrupts a run; and every experiment computes what it says, at a tiny size."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks.experiments import cells, datasets, joined, pcr, pooled, search, starts, uplift
from benchmarks.experiments.cells import Cell, Row
from benchmarks.paper import table_1
from pdml_spdz.applications import topics
from pdml_spdz.applications import uplift as applied
from pdml_spdz.applications.recommender import hold_out
from pdml_spdz.applications.text import tf_idf
from pdml_spdz.applications.uplift import Uplift
from pdml_spdz.local.joint import local_study
from pdml_spdz.local.threads import run_in_threads
from pdml_spdz.numerics.linalg import sine
from tests.experiments import made_up


def computed(directory: Path, k: int) -> list[Row]:
    """Leaves a trace of having been called."""
    (directory / f"called-{k}").touch()
    return [{"value": k * k}, {"value": -k}]


def grid(directory: Path, *ks: int) -> list[Cell]:
    return [Cell({"data": "made up", "k": k}, computed, (directory, k)) for k in ks]


def test_cells_that_are_there_are_not_computed_again(tmp_path: Path) -> None:
    file = tmp_path / "out" / "made-up.csv"
    first = cells.run(grid(tmp_path, 1, 2), file, jobs=1)
    assert sorted((int(r["k"]), int(r["value"])) for r in first) == [(1, -1), (1, 1), (2, -2), (2, 4)]
    for trace in tmp_path.glob("called-*"):
        trace.unlink()
    second = cells.run(grid(tmp_path, 2, 3), file, jobs=2)
    assert [trace.name for trace in tmp_path.glob("called-*")] == ["called-3"]
    assert sorted({int(r["k"]) for r in second}) == [2, 3]  # only what is asked for
    assert [int(r["value"]) for r in cells.known(grid(tmp_path, 3, 1), file)] == [9, -3, 1, -1]  # in that order


def test_a_torn_last_line_is_computed_again(tmp_path: Path) -> None:
    file = tmp_path / "made-up.csv"
    cells.run(grid(tmp_path, 1, 2), file, jobs=1)
    content = file.read_text()
    torn = tmp_path / f"called-{content.splitlines()[-1].split(',')[1]}"
    for end in (content.rindex(","), content.rindex(",") + 1, content.rindex("made up") + 3):
        file.write_text(content[:end])
        torn.unlink()
        again = cells.run(grid(tmp_path, 1, 2), file, jobs=1)
        assert torn.exists()
        assert sorted((int(r["k"]), int(r["value"])) for r in again) == [(1, -1), (1, 1), (2, -2), (2, 4)]


def test_a_file_with_other_columns_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "made-up.csv"
    file.write_text("data,M,value\nx,3,1\n")
    with pytest.raises(SystemExit, match="has other columns"):
        cells.run(grid(tmp_path, 1), file, jobs=1)


@pytest.fixture
def songs(tmp_path: Path) -> Path:
    made_up.songs(tmp_path, 400, 8)
    return tmp_path


def test_regression_of_combined_rows_gains_and_is_that_of_the_pooled_rows(songs: Path) -> None:
    (row,) = pcr.cell(songs, "Songs", "as it is", 4, 0.02, 3, 0)
    assert row["uplift_percent"] > 0
    assert row["uplift_percent"] > row["own_beta_percent"]
    X, y = datasets.regression_table(songs, "Songs")
    rows, held = datasets.parties(400, 0.02, 3, 0)
    everyone = np.concatenate(rows)
    mean = X[everyone].mean(axis=0)
    V = np.linalg.svd(X[everyone] - mean, full_matrices=False)[2][:4].T
    A = np.column_stack([(X - mean) @ V, np.ones(400)])
    beta = np.linalg.lstsq(A[everyone], y[everyone], rcond=None)[0]
    rmse = np.sqrt(np.mean((A[held] @ beta - y[held]) ** 2))
    joint = pcr.jointly([X[r] for r in rows], [y[r] for r in rows], V, mean).rmse(X[held], y[held])
    assert joint == pytest.approx(rmse, rel=1e-9)


def test_leverage_is_the_variance_of_a_prediction() -> None:
    """Over many draws of noise, of predictions at held-out rows, in units of the noise's variance."""
    rng = np.random.default_rng(0)
    X, H, V = rng.normal(size=(12, 3)), rng.normal(size=(6, 3)), np.eye(3)[:, :2]
    Z = X[:, :2] - X[:, :2].mean(axis=0)
    noise = rng.normal(size=(12, 40_000))
    predictions = (H[:, :2] - X[:, :2].mean(axis=0)) @ np.linalg.lstsq(Z, noise, rcond=None)[0]
    # A mean of 6 sample variances, each with a relative deviation of sqrt(2/40000): six of them.
    assert pcr.leverage(X, H, V, None) == pytest.approx(np.mean(predictions.var(axis=1)), rel=6 * np.sqrt(2 / 40_000))


@pytest.fixture(autouse=True)
def kept_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "CACHE", tmp_path / "cache")


@pytest.fixture
def corpora(tmp_path: Path) -> Path:
    made_up.corpus(tmp_path, "20NG", 120, 2)
    return tmp_path


def test_every_start_is_measured_at_every_tau(corpora: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starts, "TAUS", (1, 2))
    rows = starts.documents(corpora, "20NG", 0, 30, 2, 0.2, 3, 0)
    names = {"best_of_M", "nnsvd", "random", "random 2x", "PD-NMF-Init", "nnsvd, global IDF", "best local topics"}
    assert sorted((r["start"], r["tau"]) for r in rows) == sorted((name, tau) for name in names for tau in (1, 2))
    by = {(r["start"], r["tau"]): r for r in rows}
    assert by["random 2x", 1] | {"start": "", "tau": 0} == by["random", 2] | {"start": "", "tau": 0}
    # Two topics without a common word: a start that has looked at the rows finds them, and so half the perplexity.
    assert by["PD-NMF-Init", 2]["error"] <= by["random", 1]["error"]
    assert by["PD-NMF-Init", 2]["perplexity"] < 20
    assert by["PD-NMF-Init", 2]["c_v"] > 0.5


@pytest.mark.long
def test_pooled_cell_is_what_its_parts_say(corpora: Path) -> None:
    rows = {row["start"]: row for row in pooled.cell(corpora, "20NG", 2, 0.2, 3, 0)}
    assert set(rows) == {*table_1.PAPER, *table_1.BESIDES}
    assert float(rows["random 2x"]["error"]) <= float(rows["random"]["error"])
    assert all(row["error"] == row["own_error"] for start, row in rows.items() if start != "nnsvd")
    best = float(rows["PD-NMF-Init"]["perplexity"])
    assert best < 20  # two topics of twelve words
    # The same start and scores by the code of the small grid, whose windows are counted for each start.
    tables = pooled.pool(corpora, "20NG", 0.2, 3, 0)
    T = pooled.Sweeps(tables.X, pooled.noise(tables.X.shape[1], 2, 3, (0, 0))).go(pooled.SWEEPS).T
    assert float(rows["random"]["error"]) == pytest.approx(applied.topics_error(tables.X, T), rel=1e-7)
    corpus = datasets.corpus(corpora, "20NG", pooled.TERMS, 0)
    held = datasets.parties(len(corpus.documents), 0.2, 3, 0)[1]
    words = topics.top_words(T)
    seen = topics.occurrences([corpus.documents[i] for i in held], words, topics.C_V_WINDOW)
    assert float(rows["random"]["c_v"]) == pytest.approx(np.mean(topics.c_v(words, seen)), rel=1e-7)


def test_rows_that_several_parties_have_count_once_for_each(corpora: Path) -> None:
    rows = pooled.pool(corpora, "20NG", 0.4, 3, 0)
    assert rows.once.shape[0] < rows.X.shape[0]
    X = datasets.parties(120, 0.4, 3, 0)[0]
    each = tf_idf(pooled.counts(corpora, "20NG")[np.concatenate(X)], rows.weights)
    T = pooled.noise(each.shape[1], 2, 1, 0)
    both = [pooled.Sweeps(table, T).go(5) for table in (rows.once, each)]
    assert np.abs(both[0].T - both[1].T).max() < 1e-12
    assert both[0].error() == pytest.approx(both[1].error(), rel=1e-9)


def test_terms_of_equal_frequency_are_in_the_order_of_their_names(tmp_path: Path) -> None:
    """Sets have another order in every process: columns, and what is kept of them, must not."""
    halves = [[f"{letter}{c * 3}" for c in "abcdefghijkl"] for letter in "pq"]
    with gzip.open(tmp_path / "newsgroups20.jsonl.gz", "wt") as lines:
        lines.writelines(json.dumps({"text": " ".join(halves[i % 2][::-1])}) + "\n" for i in range(8))
    found = datasets.corpus(tmp_path, "20NG", 22, 0)
    assert found.documents[0].tolist() == [*range(11, -1, -1)]
    assert found.documents[1].tolist() == [-1] * 2 + [*range(21, 11, -1)]


def test_low_rank_and_topics_of_tiny_corpora(corpora: Path) -> None:
    for compute in (uplift.lra, uplift.topics):
        (row,) = compute(corpora, "20NG", 0, 30, 2, 0.05, 3, 0)
        assert row["joint"] > 0
        assert row["local"] > 0


def test_singular_vectors_of_pooled_rows_are_those_that_parties_find() -> None:
    X = sp.csr_array(np.random.default_rng(0).gamma(0.3, 1.0, (60, 25)))
    study = local_study(3, algorithm="svd", rank=3, engine="secsum", iterations=300, tol=1e-7)
    V = run_in_threads([X[m::3] for m in range(3)], study).V
    assert sine(V, joined.singular_vectors(X, 3)) < 1e-6


@pytest.fixture
def stars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made_up.ratings(tmp_path, 90, 20)
    monkeypatch.setattr(search, "SWEEPS", 5)
    search.tuned.cache_clear()
    return tmp_path


def test_ratings_by_starts_uplift_and_search(stars: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starts, "TAUS", (1, 3))
    rows = starts.ratings(stars, 2, 0.3, 2, 0)
    assert {r["start"] for r in rows} == {"best_of_M", "nnsvd", "random", "random 2x", "PD-NMF-Init"}
    # Topics say more of a held-out rating than the mean of all known ones, which is the best of all constants.
    X = datasets.ratings(stars)
    split = [hold_out(X[r], datasets.HELD_OUT, 1000) for r in datasets.parties(X.shape[0], 0.3, 2, 0)[0]]
    known, held = (np.concatenate([part.data for part in parts]) for parts in zip(*split, strict=True))
    assert max(r["rmse"] for r in rows) < np.sqrt(np.mean((held - known.mean()) ** 2))
    gains: list[Uplift] = []
    compute = applied.recommender_uplift

    def kept(*arguments: Any, **settings: Any) -> Uplift:
        gains.append(compute(*arguments, **settings))
        return gains[-1]

    monkeypatch.setattr(applied, "recommender_uplift", kept)
    (row,) = uplift.recommender(stars, 2, 0.1, 2, 0)
    errors = np.array([(gain.local, gain.joint) for gain in gains])
    assert len(errors) == 2
    assert [row["local"], row["joint"]] == errors.mean(axis=0).tolist()
    # A mean of the parties' percentages, which is not the percentage of their means.
    assert row["uplift_percent"] == np.mean(100.0 * (errors[:, 0] - errors[:, 1]) / errors[:, 0])
    found = search.cell(stars, 2, 0.3, 2, 0)
    assert [r["method"] for r in found] == ["Hyperband", "grid of 16"]
    assert found[0]["sweeps"] <= found[1]["sweeps"] / 2
    search.tuned.cache_clear()
