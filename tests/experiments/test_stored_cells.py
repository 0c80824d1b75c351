"""A cell of each kind of the paper's grids, computed again, is the one that is stored.

    PDML_DATA=DIR python -m pytest -rs tests/experiments/test_stored_cells.py

DIR : where the official data sets are; a test whose data set is not there is skipped. `test_small_cells.py` needs none.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from benchmarks.experiments import cells, datasets, official, pooled, search, starts, uplift
from benchmarks.experiments.cells import Cell, Row
from benchmarks.paper import sources, theorems
from benchmarks.paper.__main__ import FIGURES
from benchmarks.paper.sources import EXPERIMENTS, PRIVACY
from benchmarks.privacy import claims, measure, noise, only_topics, ratings, sealed_runs, shows
from benchmarks.privacy.compiled_runs import CompiledNmf
from pdml_spdz.algorithms.rri import Penalties
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.privacy.ksdp import SamplePlan, Unit, database, generator, make_plan
from pdml_spdz.privacy.level_mechanism import LevelMechanism
from pdml_spdz.privacy.mechanism import Mechanism
from pdml_spdz.privacy.nmf_mechanism import NmfMechanism
from pdml_spdz.privacy.sealed_shows import SealedSettings
from pdml_spdz.privacy.svd_mechanism import SvdMechanism
from pdml_spdz.rows.base import RowsLike, as_rows
from pdml_spdz.study.solvers import SOLVERS
from tests.experiments.same import assert_same_rows, close

DATA = Path(os.environ.get("PDML_DATA", "data"))
# Rounding in sums of this many addends, by the time a fit has made what it makes of it.
SAME = 1e-6
NAMES = ("alpha", "beta", "gamma", "delta")


def needs(name: str) -> Any:
    return pytest.mark.skipif(not official.has(DATA, name), reason=absent(name))


def absent(name: str) -> str:
    return f"{name} is not in {DATA}; set PDML_DATA to the directory of the official data sets (docs/testing.md)"


def needs_now(name: str) -> None:
    if not official.has(DATA, name):
        pytest.skip(absent(name))


def needs_terms(name: str, terms: int) -> None:
    """Of a corpus."""
    needs_now(name)
    if not datasets.kept_corpus(DATA, name, terms, 0).is_file():
        pytest.skip(
            f"the {terms} terms of {name} are not in {datasets.CACHE}; to stem the words of all corpora, a minute: "
            f"PDML_DATA={DATA} python -m tests.experiments.terms"
        )


def stored(name: str, **wanted: Any) -> list[Row]:
    """The rows of one cell, as they are in the repository."""
    rows = [row for place in (EXPERIMENTS, PRIVACY) for row in cells.read(place / "full" / f"{name}.csv")]
    found = [row for row in rows if all(row[n] == str(v) for n, v in wanted.items())]
    assert found, f"no such cell of {name} is stored"
    return found


def again(name: str, wanted: dict[str, Any], make: Callable[[Path], list[Cell]]) -> list[Row]:
    (cell,) = [c for c in make(DATA) if all(c.settings[n] == v for n, v in wanted.items())]
    return cell.compute(*cell.arguments)


def compare(found: list[Row], kept: list[Row], names: tuple[str, ...]) -> None:
    assert_same_rows(found, kept, SAME, names, least=SAME)


@needs("Reuters")
def test_a_cell_of_table_1() -> None:
    wanted = {"data": "Reuters", "M": 3, "party_share": 0.03, "k": 20, "trial": 0}
    kept = stored("table_1", **wanted)
    found = again("table_1", wanted, pooled.cells)
    assert [row["start"] for row in found] == [row["start"] for row in kept]
    compare(found, kept, ("error", "own_error", "c_v", "npmi", "perplexity"))


@needs("Songs")
@pytest.mark.parametrize("form", ["scaled", "as it is"])
def test_a_cell_of_regression(form: str) -> None:
    wanted = {"data": "Songs", "form": form, "k": 7, "party_share": 0.03, "trial": 0}
    kept = stored("pcr", **wanted)
    found = again("pcr", wanted, lambda directory: sources.pcr.cells(directory, full=True))
    # V comes from sums of 31 bits, with masks that differ from run to run.
    for name in ("local", "uplift_percent", "own_beta_percent"):
        assert float(found[0][name]) == pytest.approx(float(kept[0][name]), abs=1e-3)


@pytest.mark.parametrize(("experiment", "name"), [("lra", "20NG"), ("topics", "Enron")], ids=["low-rank", "topics"])
def test_a_cell_of_uplift_on_documents(experiment: str, name: str) -> None:
    needs_terms(name, 10_000)
    wanted = {"data": name, "k": 7, "party_share": 0.01, "trial": 0}
    kept = stored(experiment, **wanted)
    found = again(experiment, wanted, lambda directory: uplift.cells(directory, full=True)[experiment])
    compare(found, kept, ("local", "joint", "uplift_percent"))


@needs("ML-1M")
def test_cells_of_ratings() -> None:
    wanted = {"data": "ML-1M", "M": 3, "party_share": 0.03, "k": 7, "trial": 0}
    kept = stored("starts_ratings", **wanted)
    found = again("starts_ratings", wanted, lambda directory: starts.cells(directory, full=True)["starts_ratings"])
    assert [(row["start"], str(row["tau"])) for row in found] == [(row["start"], row["tau"]) for row in kept]
    compare(found, kept, ("rmse",))
    wanted = {"data": "ML-1M", "k": 7, "party_share": 0.01, "trial": 0}
    kept = stored("recommender", **wanted)
    found = again("recommender", wanted, lambda directory: uplift.cells(directory, full=True)["recommender"])
    compare(found, kept, ("local", "joint", "uplift_percent"))


@needs("ML-1M")
def test_a_cell_of_gains_by_number_of_parties() -> None:
    wanted = {"data": "ML-1M", "M": 2, "trial": 0}
    kept = stored("by_parties", **wanted)
    found = again("by_parties", wanted, lambda directory: uplift.cells(directory, full=True)["by_parties"])
    compare(found, kept, ("local", "joint", "uplift_percent"))


@needs("ML-1M")
def test_a_cell_of_the_recommender_with_each_side_tuned() -> None:
    wanted = {"data": "ML-1M", "k": 7, "party_share": 0.01, "trial": 0}
    kept = stored("ratings", **wanted)
    found = again("ratings", wanted, ratings.cells)
    assert [row["method"] for row in found] == [row["method"] for row in kept]
    compare(found, kept, ("local", "joint", "uplift_percent", "own_penalty", "joint_penalty"))


@needs("ML-1M")
def test_the_best_settings_of_a_search_for_penalties() -> None:
    """A cell is 642 sweeps between three parties: here those of the two settings that were found best."""
    wanted = {"data": "ML-1M", "M": 3, "party_share": 0.1, "k": 7, "trial": 0}
    by_hyperband, of_grid = stored("hyperband", **wanted)
    best, on_grid = (Penalties(*(float(row[n]) for n in NAMES)) for row in (by_hyperband, of_grid))
    rng = np.random.default_rng(0)
    assert best in [search.draw(rng) for _ in range(36)]
    assert on_grid in search.grid()
    after = [(best, sweeps) for sweeps in (1, 5, search.SWEEPS)]  # as Hyperband goes on
    found = search.losses(DATA, 7, 0.1, 3, 0, [*after, (on_grid, search.SWEEPS)])
    assert np.sqrt(min(found[:3])) == pytest.approx(float(by_hyperband["rmse"]), rel=SAME)
    assert np.sqrt(found[3]) == pytest.approx(float(of_grid["rmse"]), rel=SAME)


@pytest.mark.parametrize(
    ("experiment", "name", "share"),
    [("pcr", "Songs", 0.03), ("lra", "Enron", 0.01), ("topics", "Enron", 0.01), ("recommender", "ML-1M", 0.01)],
)
def test_a_cell_with_differential_privacy(experiment: str, name: str, share: float) -> None:
    needs_now(name)
    if name == "Enron":
        needs_terms(name, 2000)
    wanted = {"experiment": experiment, "data": name, "party_share": share, "trial": 0}
    kept = stored("noise", **wanted)
    found = again("noise", wanted, lambda directory: noise.cells(directory, full=True))
    assert [row["method"] for row in found] == [row["method"] for row in kept]
    compare(found, kept, ("local", "joint", "uplift_percent"))


def ks(within: Reals, without: Reals) -> float:
    """p of the two-sided test of two samples of the same size, as SciPy has it."""
    return float(stats.ks_2samp(within, without, method="exact").pvalue)


def p_values(X: RowsLike, plan: SamplePlan, mechanism: Mechanism, record: int) -> dict[str, float]:
    """p of one record by every statistic, from its own samples: the other records' are left out."""
    document = plan.documents[record]
    x = as_rows(X[[document]]).dense()[0]
    values: dict[str, list[list[float]]] = {}
    for arm in (0, 1):
        for j in range(plan.samples):
            unit = Unit(0, arm, j)
            rng = generator(plan, unit)
            rows = X[np.sort(database(plan, X.shape[0], unit, rng))]
            content = mechanism.sample_without(rows, rng) if arm else mechanism.sample_with(rows, X[[document]], rng)
            seen = mechanism.observables(content, None if arm else 0, x)
            for name, value in mechanism.statistics(seen, x).items():
                values.setdefault(name, [[], []])[arm].append(value)
    return {name: ks(np.array(a), np.array(b)) for name, (a, b) in values.items()}


def check_ksdp(kept: list[Row], X: RowsLike, mechanism: Mechanism, size: int, record: int) -> None:
    """kept : a row for each view of the mechanism, of one cell"""
    documents, samples = int(kept[0]["documents"]), int(kept[0]["samples"])
    chosen = np.random.default_rng(2).choice(X.shape[0], documents, replace=False)
    plan = make_plan(X.shape[0], [int(i) for i in np.sort(chosen)], size, samples, seed=3, group=documents)
    by_view = {row["view"]: claims.p_by_statistic(row) for row in kept}
    found = p_values(X, plan, mechanism, record)
    assert {name.partition("/")[0] for name in found} == by_view.keys()
    for name, p in found.items():
        view, _, statistic = name.partition("/")
        # Two digits are kept; a p of 1e-20 is not one of 1e-40.
        assert p == pytest.approx(by_view[view][statistic][record], rel=0.06, abs=0.0), name


@needs("Songs")
def test_a_record_of_ksdp_of_svd() -> None:
    kept = stored("svd", data="Songs", party_share=0.005)
    X, others, size = measure.split(measure.population(DATA, "Songs", 0), 0.005, 1)
    check_ksdp(kept, X, SvdMechanism(others, 7, size, centred=True), size, 5)


@pytest.mark.long
def test_a_record_of_ksdp_of_svd_of_mail() -> None:
    needs_terms("Enron", 2000)
    kept = stored("svd", data="Enron", party_share=0.005)
    X, others, size = measure.split(measure.population(DATA, "Enron", 2000), 0.005, 1)
    check_ksdp(kept, X, SvdMechanism(others, 7, size, centred=False), size, 5)


@pytest.mark.long
def test_a_record_of_ksdp_of_sealed_runs() -> None:
    needs_terms("Enron", 2000)
    kept = stored("sealed", data="Enron", party_share=0.1)
    X, others, size = measure.split(measure.population(DATA, "Enron", 2000), 0.1, 1)
    settings, views = SealedSettings.usual(7, X.shape[1]), tuple(row["view"] for row in kept)
    check_ksdp(kept, X, LevelMechanism(others, 7, size, settings, views=views), size, 5)


@pytest.mark.parametrize(
    ("name", "start", "record"),
    [("ML-1M", "random", 3), ("Enron", "random", 3), ("Enron", "random 2x", 3), ("Enron", "PD-NMF-Init", 3)],
    ids=["ratings", "mail", "twice as many sweeps", "PD-NMF-Init"],
)
def test_a_record_of_ksdp_of_nmf(name: str, start: str, record: int) -> None:
    needs_now(name)
    if name == "Enron":
        needs_terms(name, 10_000)
    kept = stored("nmf", data=name, party_share=0.005, k=7, start=start, view="pd-nmf")[:1]
    X, others, size = measure.split(measure.population(DATA, name, 10_000), 0.005, 1)
    settings = measure.nmf_settings(name, start, int(kept[0]["sweeps"]))
    # Of 400 runs: on mail compiled ones take half the time, on ratings they do not go side by side for one record.
    kind = CompiledNmf if name == "Enron" else NmfMechanism
    check_ksdp(kept, X, kind(others, 7, *settings, ("pd-nmf",)), size, record)


# Stored cells of another population than there is now: computed when terms of equal frequency came in another order in
# every process, so that a few more mails had ten terms. Nothing can compute them again, but new ones in their place.
@pytest.mark.parametrize(
    ("grid", "terms"),
    [("svd", 2000), ("levels", 2000), ("sealed", 2000), ("nmf", 10_000)],
)
def test_cells_of_ksdp_are_of_the_mails_that_there_are(grid: str, terms: int) -> None:
    needs_terms("Enron", terms)
    n = measure.population(DATA, "Enron", terms).shape[0]
    for row in stored(grid, data="Enron"):
        assert int(row["rows"]) == int(float(row["party_share"]) * n)


@pytest.mark.parametrize("name", ["Songs", "Enron"])
@pytest.mark.parametrize("solver", SOLVERS.lines)
def test_what_a_transcript_shows(name: str, solver: str) -> None:
    needs_now(name)
    if name == "Enron":
        needs_terms(name, shows.TERMS)
    wanted = {"data": name, "solver": solver}
    found = again("shows", wanted, shows.cells)
    names = ("honest", "d", "iterations", "dimensions", "trace_known", "unknown", "error_of_c_by_sign")
    # Errors of openings of 31 bits: a few of them may be rounded the other way elsewhere.
    assert_same_rows(found, stored("shows", **wanted), 1e-2, names)


def test_a_cell_of_only_topics() -> None:
    needs_terms("Enron", only_topics.TERMS)
    wanted = {"data": "Enron", "party_share": 0.005, "trial": 0}
    found, kept = again("only_topics", wanted, only_topics.cells), stored("only_topics", **wanted)
    assert_same_rows(found, kept, 0.01, ("topic", "features", "den", "features_told"))  # three digits are kept
    for a, b in zip(found, kept, strict=True):
        for name in ("den_error", "num_error"):  # what 40 bits of T leave
            assert close(float(a[name]), float(b[name])), (name, b)


def test_a_recorded_sealed_run() -> None:
    needs_terms("Enron", sealed_runs.TERMS)
    wanted = {"data": "Enron", "size": 154, "seed": 1}
    (found,), (kept,) = again("sealed-runs", wanted, sealed_runs.cells), stored("sealed-runs", **wanted)
    assert_same_rows([found], [kept], 0.0, ("opened", "checkpoint", "checkpoint_computed", "last_place"))
    assert found["V_off"] < 2 * found["last_place"]  # masks are others in every run: off by more or by less


@pytest.mark.parametrize("name", ["from_init", "of_ratings"])
def test_figures_of_the_errata_on_official_data(name: str) -> None:
    data = {"from_init": "Reuters", "of_ratings": "ML-1M"}[name]
    needs_now(data)
    kept = json.loads((sources.RESULTS / "errata.json").read_text(encoding="utf-8"))[name]
    assert close(FIGURES[name].compute(DATA), kept, noise=1e-4)  # sums of 31 bits, twenty sweeps later


@pytest.mark.long
def test_a_trial_of_the_start_alone() -> None:
    for name in ("20NG", "Enron", "Reuters"):
        needs_terms(name, 10_000)
    kept = json.loads((sources.RESULTS / "errata.json").read_text(encoding="utf-8"))["init_alone"]
    # Percents by which one error is above another.
    wanted = {name: pytest.approx(above[:1], abs=100 * SAME) for name, above in kept.items()}
    assert theorems.init_alone(DATA, trials=1) == wanted
