"""The solver krylov on secret shares: its bound, hidden means, numbers that wrap, and what it takes of its plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

import pdml_spdz
from pdml_spdz.algorithms import krylov
from pdml_spdz.algorithms.shown import Shown
from pdml_spdz.engines.embedded.runner import EmbeddedExecution
from pdml_spdz.engines.openings.one_scale import FixedScale
from pdml_spdz.engines.transcript import Transcript
from pdml_spdz.errors import InputError, ProtocolError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.numerics.linalg import EPS
from tests.opened import off
from tests.privacy.recorded import record
from tests.unit.test_svd import digits, with_spectrum


def rows(case: int) -> tuple[list[np.ndarray], int, dict[str, Any]]:
    """Parties' rows, k, settings: as in the random cases of the twin, smaller."""
    rng = np.random.default_rng(case)
    d, M = int(rng.integers(4, 30)), (2, 3, 5)[case % 3]
    k = int(rng.integers(1, min(d, 7)))
    sigma = np.sort(10.0 ** rng.uniform(-rng.uniform(0, 3), 0, d))[::-1].copy()
    if case % 6 == 1:
        sigma[: k + 1] = 1.0
    elif case % 6 == 2:
        sigma[k] = sigma[k - 1] * (1 - 1e-6)
    elif case % 6 == 3:
        sigma[k:] = 0.0
        k += 1
    X = with_spectrum(4 * d, d, sigma, case) * 10.0 ** rng.uniform(-6, 6)
    settings: dict[str, Any] = {"bound": float(2 * np.linalg.norm(X) ** 2), "seed": case}
    return np.array_split(X, M), k, settings


@pytest.mark.parametrize("case", [*range(6), *(pytest.param(i, marks=pytest.mark.long) for i in range(6, 12))])
def test_true_sines_are_below_the_bound(case: int) -> None:
    tables, k, settings = rows(case)
    result = pdml_spdz.svd(tables, rank=k, engine="embedded", transport="threads", **settings)
    W = np.linalg.svd(np.vstack(tables))[2].T
    columns, span = off(result.V, W)
    bound, report = result.report["sine_bound"], result.report
    assert (report["solver"], report["converged"]) == ("krylov", True)
    assert np.all(columns <= np.array(bound["columns"]) + 10 * len(W) * EPS)
    assert span <= bound["span"] + 10 * len(W) * EPS
    assert report["column_errors"] == bound["columns"]


def test_hidden_mean_has_the_components_of_the_centred_rows() -> None:
    X = np.vstack(digits())[:600]
    result = pdml_spdz.pca(np.split(X, [200]), rank=2, centre="hidden", transport="threads", bound=1e7, seed=3)
    columns, span = off(result.V, np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[2].T)
    bound = result.report["sine_bound"]
    assert result.report["opening"] == "centred"
    assert span <= bound["span"] < 1e-7
    assert np.all(columns <= bound["columns"])


def test_hidden_mean_that_dwarfs_deviations_counts_as_noise_and_is_said() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 6)) * np.array([5.0, 3.0, 2.0, 1.0, 0.5, 0.2]) + 3e5
    result = pdml_spdz.pca(np.split(X, [60]), rank=2, centre="hidden", transport="threads", seed=3)
    columns, span = off(result.V, np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[2].T)
    bound = result.report["sine_bound"]
    assert span <= bound["span"]
    assert np.all(columns <= bound["columns"])
    assert any("are exact to" in w and "--offset" in w for w in result.report["warnings"])


def assert_within_bound(result: Any, X: Reals) -> None:
    """V of the centred rows, whose mean is taken off in more digits than float64 has."""
    centred = (X - X.astype(np.longdouble).mean(axis=0)).astype(np.float64)
    columns, span = off(result.V, np.linalg.svd(centred, full_matrices=False)[2].T)
    bound = result.report["sine_bound"]
    assert span <= bound["span"] < 1e-7
    assert np.all(columns <= bound["columns"])


@pytest.mark.parametrize("far", [1e3, 1e4, 1e6])
def test_open_mean_of_sparse_rows_that_dwarfs_deviations_is_taken_off_before_products(far: float) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 20)) * np.geomspace(3.0, 0.01, 20) + far
    X[::3, 4] = far  # equal numbers
    X[:, 5] -= far
    X[::3, 5], X[:, 6] = 0.0, X[:, 6] * (np.arange(300) % 3 == 0) / far  # one in three is not stored, or is
    tables = [sp.csr_array(part) for part in np.split(X, [100, 200])]
    result = pdml_spdz.pca(tables, rank=3, engine="secsum", transport="threads", seed=1)
    assert_within_bound(result, X)
    assert not [w for w in result.report["warnings"] if "are exact to" in w]


def test_sums_of_many_equal_numbers_in_sparse_rows() -> None:
    """Added up one after another they are rounded in the same direction, and symmetric: nothing would show it."""
    rng = np.random.default_rng(5)
    X = np.round(rng.normal(size=(60_000, 2)) * [1.0, 0.3], 1) + 13_000.1
    tables = [sp.csr_array(part) for part in np.array_split(X, 3)]
    for engine in ("secsum", "embedded"):
        assert_within_bound(pdml_spdz.pca(tables, rank=1, engine=engine, transport="threads", seed=1), X)


def test_hidden_mean_of_sparse_rows_in_which_all_is_stored() -> None:
    X = np.round(np.random.default_rng(6).normal(size=(30_000, 6)) * [1.0, 0.8, 0.6, 0.3, 0.2, 0.1], 1) + 1300.1
    tables = [sp.csr_array(part) for part in np.array_split(X, 2)]
    assert_within_bound(pdml_spdz.pca(tables, rank=3, centre="hidden", transport="threads", seed=1), X)


@pytest.mark.parametrize("how", [{}, {"centre": "hidden"}, {"scale": "secsum"}], ids=["open", "hidden", "scaled"])
@pytest.mark.parametrize("far", [10.1, 1300.1])
def test_mean_of_blocks_of_sparse_rows_in_which_most_is_stored(how: dict[str, Any], far: float) -> None:
    """One column that is mostly zero, one of which all is stored and does not vary."""
    rng = np.random.default_rng(9)
    X = np.round(rng.normal(size=(6000, 5)) * [1.0, 0.8, 0.5, 0.0, 0.0], 1) + far
    X[:, 4] = rng.normal(size=6000) * (rng.random(6000) < 0.2)
    parts = [da.from_array(x, chunks=(700, 5)).map_blocks(sp.csr_array) for x in np.array_split(X, 2)]
    result = pdml_spdz.pca(parts, rank=2, transport="threads", seed=1, **how)
    exact = X.astype(np.longdouble) - X.astype(np.longdouble).mean(axis=0)
    scale = np.sqrt(np.mean(exact**2, axis=0)) if how.get("scale") else np.ones(5)
    assert_within_bound(result, (exact / np.where(scale > 1e-9, scale, 1.0)).astype(np.float64))


FAR: dict[str, Reals] = {
    "a constant feature": np.array([2e8, 0.0, 0.0, 0.0]),
    "two large ones": np.array([1e7, -3e7, 0.0, 5.0]),
}


@pytest.mark.parametrize("engine", ["plain", "secsum", "embedded"])
@pytest.mark.parametrize("name", FAR)
def test_an_open_mean_is_as_exact_as_small_deviations_need(name: str, engine: str) -> None:
    """To 44 bits of the largest feature it would be off by more than others deviate from it."""
    deviations = [0.0, 0.01, 0.005, 0.002] if FAR[name][1] == 0 else [0.05, 0.02, 0.01, 0.004]
    X = FAR[name] + np.random.default_rng(5).normal(size=(120, 4)) * deviations
    result = pdml_spdz.pca(np.array_split(X, 3), rank=2, engine=engine, transport="threads", seed=1)
    assert_within_bound(result, X)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("engine", ["plain", "secsum", "embedded"])
def test_rows_that_do_not_vary_have_no_components(engine: str, kind: Any) -> None:
    X = np.tile([0.1, 0.2, 0.3, 1e5 / 3], (60, 1))
    with pytest.raises(InputError, match="do not vary"):
        pdml_spdz.pca([kind(x) for x in np.array_split(X, 3)], rank=1, engine=engine, transport="threads", seed=1)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("engine", ["plain", "secsum"])
def test_sums_of_many_rows_far_from_zero(engine: str, kind: Any) -> None:
    """Their own rounding is more than the mean's last place."""
    X = np.round(np.random.default_rng(7).normal(size=(60_000, 2)) * [1e-2, 3e-3], 4) + 13_000.1
    result = pdml_spdz.pca([kind(x) for x in np.array_split(X, 3)], rank=1, engine=engine, transport="threads", seed=1)
    assert_within_bound(result, X)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("scaled", ["secsum", "agreed"])
@pytest.mark.parametrize("far", [1e2, 1e7])
def test_rows_far_from_zero_are_scaled_without_losing_digits(scaled: str, kind: Any, far: float) -> None:
    """x / scale would be rounded relative to the mean, many equal numbers in the same direction."""
    rng = np.random.default_rng(8)
    X = np.round(rng.normal(size=(3000, 3)) @ rng.normal(size=(3, 4)), 1) + far * np.array([1.0, 1.1, 1.3, 1.7])
    exact = X.astype(np.longdouble) - X.astype(np.longdouble).mean(axis=0)
    scale = np.sqrt(np.mean(exact**2, axis=0)) if scaled == "secsum" else np.array([0.3, 0.7, 1.1, 1.9])
    how: Any = {"scale": "secsum"} if scaled == "secsum" else {"scales": scale.tolist()}
    tables = [kind(x) for x in np.array_split(X, 3)]
    result = pdml_spdz.pca(tables, rank=2, engine="secsum", transport="threads", seed=1, **how)
    assert_within_bound(result, (exact / scale).astype(np.float64))


def blocks(X: Reals) -> Any:
    return da.from_array(X, chunks=(170, X.shape[1]))


def sparse_blocks(X: Reals) -> Any:
    return blocks(X).map_blocks(sp.csr_array)


AWAY: dict[str, tuple[Reals, Reals, dict[str, Any]]] = {  # means, units of features, settings
    "offsets near the mean": (np.full(4, 1e8), np.ones(4), {"offsets": [1e8] * 4}),
    "and scales": (np.full(4, 1e8), np.ones(4), {"offsets": [1e8] * 4, "scales": [0.3, 0.7, 1.1, 1.9]}),
    "and deviations": (np.full(4, 1e8), np.ones(4), {"offsets": [1e8] * 4, "scale": "secsum"}),
    "offsets far from the mean": (np.zeros(4), np.ones(4), {"offsets": [1e6] * 4, "scale": "secsum"}),
    "one far feature": (np.array([1e9, 1.0, 0.0, 3.0]), np.ones(4), {"scale": "secsum"}),
    "a constant of 19 digits": (np.array([1.7e18, 1.0, 0.0, 3.0]), np.ones(4), {"scale": "secsum"}),
    "units far apart": (np.full(4, 30.0), np.array([1e10, 1.0, 1e-10, 1.0]), {"scale": "secsum"}),
}


@pytest.mark.parametrize("name", AWAY)
def test_means_offsets_and_units_of_any_size_are_within_the_bound(name: str) -> None:
    """Whoever has sparse rows or blocks takes off the same as the others, to the last digit."""
    means, units, how = AWAY[name]
    rng = np.random.default_rng(11)
    X = (np.round(rng.normal(size=(900, 3)) @ rng.normal(size=(3, 4)), 1) + means) * units
    exact = X.astype(np.longdouble) - X.astype(np.longdouble).mean(axis=0)
    scale = np.sqrt(np.mean(exact**2, axis=0)) if how.get("scale") else np.array(how.get("scales", [1.0] * 4))
    scale[scale == 0] = 1.0
    dense = [np.asarray, blocks, np.asarray] if "offsets" in how else [np.asarray, sp.csr_array, sparse_blocks]
    tables = [kind(x) for kind, x in zip(dense, np.split(X, [200, 500]), strict=True)]
    result = pdml_spdz.pca(tables, rank=2, engine="secsum", transport="threads", seed=1, **how)
    assert_within_bound(result, (exact / scale).astype(np.float64))


def test_features_of_which_float64_has_too_few_digits_are_named() -> None:
    X = np.random.default_rng(12).normal(size=(300, 3)) + np.array([0.0, 1e12, 3.0])
    with pytest.raises(InputError, match=r"column 2 of all .* too few digits"):
        pdml_spdz.pca(np.array_split(X, 3), rank=1, scale="secsum", engine="secsum", transport="threads", seed=1)


@pytest.mark.parametrize("kind", [sp.csr_array, sparse_blocks], ids=["in memory", "blocks"])
def test_hidden_mean_of_sparse_rows_over_scales(kind: Any) -> None:
    """Of some columns all is stored, of others little."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 6)) + 3.0
    X[:, 3:] *= rng.random((600, 3)) < 0.2
    scales = rng.uniform(0.5, 2.0, 6)
    tables = [kind(x) for x in np.array_split(X, 2)]
    result = pdml_spdz.pca(
        tables, rank=2, centre="hidden", scales=scales.tolist(), transport="threads", seed=1, bound="1e6"
    )
    assert_within_bound(result, X / scales)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_rows_that_do_not_vary_have_no_correlations(kind: Any) -> None:
    X = np.tile([0.1, 0.2, 1e5 / 3], (60, 1))
    with pytest.raises(InputError, match="do not vary"):
        pdml_spdz.pca(
            [kind(x) for x in np.array_split(X, 3)],
            rank=1,
            scale="secsum",
            engine="secsum",
            transport="threads",
            seed=1,
        )


def test_a_sealed_fit_has_no_bound_that_the_mean_could_be_in() -> None:
    X = FAR["a constant feature"] + np.random.default_rng(5).normal(size=(120, 4)) * [0.0, 0.01, 0.005, 0.002]
    with pytest.raises(InputError, match="beside their mean"):
        pdml_spdz.pca(np.array_split(X, 3), rank=1, reveal="sealed", transport="threads", seed=1)


def test_the_mean_of_ordinary_rows_is_opened_once(tmp_path: Path) -> None:
    far = FAR["two large ones"] + np.random.default_rng(5).normal(size=(120, 4)) * 0.01
    for X, times in ((np.vstack(digits())[:600], 1), (far, 2)):
        seen = record(
            np.array_split(X, 3), tmp_path / str(times), algorithm="pca", rank=2, engine="secsum", start="seed", seed=1
        )
        assert len(list(seen.steps("sum:mean"))) == times


def test_columns_that_are_missing_are_zero_and_show_nothing(tmp_path: Path) -> None:
    # Rank 3 of 20: the second block has fewer columns than the program, whose calls stay the same.
    X = with_spectrum(60, 20, np.array([3.0, 2.0, 1.0]))
    seen: Transcript = record(
        [X[:20], X[20:]], tmp_path, algorithm="svd", rank=4, engine="embedded", bound="100", start="seed", seed=1
    )
    widths = [entry.arrays["V"].shape[1] for entry in seen.steps("columns")]
    assert widths[0] == 6
    assert 0 < min(widths) < 6
    assert all(entry.arrays["scaled"].shape == entry.arrays["V"].shape for entry in seen.steps("columns"))
    lots = -(-len(widths) // 4)  # of four calls each; noise decides whether a column is left for a fifth
    assert seen.facts["stock"]["claimed"]["numbers"] == lots * 20 * 6 * 4
    assert seen.facts["rank_found"] == 3


def test_memory_of_the_study_is_kept_to(monkeypatch: pytest.MonkeyPatch) -> None:
    # A megabyte holds Q and C of 31 columns of 2,000 numbers: with close singular values there are restarts.
    within, kept = krylov.kept_within, list[tuple[int, int]]()

    def noted(memory: float, shown: Shown, *rest: Any) -> Shown:
        less = within(memory, shown, *rest)
        kept.append((shown.m, less.m))
        return less

    monkeypatch.setattr(krylov, "kept_within", noted)
    X = with_spectrum(120, 2000, np.sqrt(np.linspace(2.0, 1.0, 60)))
    settings: dict[str, Any] = {"engine": "plain", "transport": "threads", "seed": 1, "rank": 2}
    result = pdml_spdz.svd(np.split(X, [50]), memory=1e-3, iterations=200, **settings)
    assert any(after < before for before, after in kept)
    assert max(after for _, after in kept) <= 31 - 4
    columns, span = off(result.V, np.linalg.svd(X, full_matrices=False)[2].T)
    assert result.report["converged"]
    assert span <= result.report["sine_bound"]["span"] < 1e-7
    assert np.all(columns <= result.report["sine_bound"]["columns"])


def test_wrapped_numbers_are_opened_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lengths of one block are a million times too short."""
    call, wrong = FixedScale.__call__, []

    def short(self: FixedScale, x: np.ndarray, g: np.ndarray, lengths: np.ndarray | None = None) -> Any:
        if lengths is not None and len(wrong) < 2:  # at both parties
            wrong.append(len(lengths))
            lengths = lengths * 2.0**-20
        return call(self, x, g, lengths)

    X = np.vstack(digits())[:300]
    settings: dict[str, Any] = {"rank": 3, "transport": "threads", "bound": 1e7, "seed": 3, "engine": "embedded"}
    usual = pdml_spdz.svd(np.split(X, [100]), **settings)
    monkeypatch.setattr(FixedScale, "__call__", short)
    result = pdml_spdz.svd(np.split(X, [100]), **settings)
    assert wrong
    assert result.report["iterations"] == usual.report["iterations"] + 1
    assert off(result.V, usual.V)[1] < 2e-7  # both are within 1e-7


def test_party_that_changes_its_rows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    call, calls = EmbeddedExecution.call, []

    def changed(self: EmbeddedExecution, x: np.ndarray, *rest: Any) -> np.ndarray:
        if self.runner.sec_sum.link.me == 1:
            calls.append(len(x))
            x = x * (1.0 + 1e-6 * (len(calls) > 2))
        return call(self, x, *rest)

    monkeypatch.setattr(EmbeddedExecution, "call", changed)
    X = np.vstack(digits())[:300]
    with pytest.raises(ProtocolError, match="do not fit together"):
        pdml_spdz.svd(np.split(X, [100]), rank=3, transport="threads", bound=1e7, seed=3, engine="embedded")
