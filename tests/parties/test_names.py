"""Names belong to columns: the result is that of the pooled rows, whatever order each party has its columns in."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
from click.testing import CliRunner

import pdml_spdz
from pdml_spdz.applications.text import save
from pdml_spdz.cli.init import init
from pdml_spdz.errors import InputError, MismatchError, ResumeError, StudyError
from pdml_spdz.local.joint import LocalResult, local_study
from pdml_spdz.local.threads import run_in_threads
from pdml_spdz.numerics.linalg import EPS
from pdml_spdz.study import file as study_file
from tests.parties.helpers import Parties, rows, run

NAMES = ("zinc", "age", "pulse", "mass", "height", "bmi")
TURNED = NAMES[::-1]
# One seed, one bound and sums without masks: equal rows give equal bytes.
FIXED: dict[str, Any] = {"rank": 2, "engine": "plain", "seed": 1, "start": "seed", "tol": 0.0, "iterations": 6}
FIXED |= {"solver": "power"}
FIXED |= {"bound": "1e4"}


def frames(d: int = 6) -> list[pd.DataFrame]:
    """Three parties' rows, non-negative, with columns of very different sizes."""
    return [pd.DataFrame(np.abs(rows(m, d=d)) + 0.1, columns=list(NAMES[:d])) for m in range(3)]


def turned() -> list[pd.DataFrame]:
    first, second, third = frames()
    return [first, second[list(TURNED)], third[sorted(NAMES)]]


def threads(tables: Any, algorithm: str = "svd", **settings: Any) -> LocalResult:
    return run_in_threads(tables, local_study(len(tables), algorithm=algorithm, **(FIXED | settings)))


@pytest.mark.parametrize("algorithm", ["svd", "pca", "nmf"])
def test_columns_in_any_order_give_the_same_bytes(algorithm: str) -> None:
    wanted, found = threads(frames(), algorithm), threads(turned(), algorithm)
    np.testing.assert_array_equal(found.V, wanted.V)
    assert found.report["features"] == wanted.report["features"] == list(NAMES)
    # Without names, the same tables are others.
    mixed = threads([frame.to_numpy() for frame in turned()], algorithm)
    assert np.abs(mixed.V - wanted.V).max() > 0.1
    assert mixed.report["features"] is None


def test_result_has_the_order_of_party_0_or_of_the_study() -> None:
    wanted = threads(frames()[::-1]).V
    by_party = threads(turned()[::-1])
    assert by_party.report["features"] == sorted(NAMES)
    listed = threads(turned()[::-1], features=NAMES)
    assert listed.report["features"] == list(NAMES)
    np.testing.assert_array_equal(listed.V, wanted)


def test_functions_take_tables_of_pandas_and_arrow(tmp_path: Path) -> None:
    first, second, third = turned()
    second.to_csv(tmp_path / "second.csv", index=False)
    parties = [first, tmp_path / "second.csv", pa.Table.from_pandas(third, preserve_index=False)]
    found = pdml_spdz.pca(parties, **FIXED, out=tmp_path / "out", variance=True)
    wanted = threads(frames(), "pca", variance=True)
    np.testing.assert_array_equal(found.V, wanted.V)
    np.testing.assert_array_equal(found.mean, wanted.mean)
    assert found.features == NAMES
    for place in (".", "party-0", "party-1", "party-2"):
        assert json.loads((tmp_path / "out" / place / "report.json").read_text())["features"] == list(NAMES)


def test_functions_warn_of_columns_that_are_no_features() -> None:
    tables = [frame.assign(number=1000.0 * np.arange(12)) for frame in frames()]
    with pytest.warns(UserWarning, match="^column ") as said:
        found = pdml_spdz.pca(tables, **(FIXED | {"bound": "1e9"}))
    texts = [str(warning.message) for warning in said]
    assert [text in found.report["warnings"] for text in texts] == [True, True]
    assert "column 'number' looks like an identifier" in texts[0]
    assert "column 'number' carries nearly all of the variance" in texts[1]
    assert {warning.filename for warning in said} == {__file__}


def test_direction_of_a_sum_of_named_vectors() -> None:
    vectors = [pd.Series({"a": 3.0, "b": 0.0}), pd.Series({"b": 1.0, "a": 0.0}), pd.DataFrame({"b": [3.0], "a": [0]})]
    u = run_in_threads(vectors, local_study(3, algorithm="normed-sum", rank=1, engine="secsum")).V
    # The sum is (3, 4), and SecSum keeps 40 bits or more below a bound of at most twice the sum of norms: 14.
    np.testing.assert_allclose(u, [0.6, 0.8], atol=14 * 2.0**-40)


def assert_close(found: LocalResult, tables: list[pd.DataFrame]) -> None:
    """V is that of these tables: of numbers that are rounded once more than those of the run."""
    wanted, X = threads(tables, "pca"), pd.concat(tables).to_numpy()
    k = wanted.V.shape[1]
    sigma = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)
    noise = X.shape[1] * EPS * float(np.linalg.norm(X, 2) / sigma[k - 1]) ** 2
    # What the k-th iteration has too much of, the next has less of, by the ratio of eigenvalues.
    gap = 1.0 - float(np.max(sigma[1 : k + 1] / sigma[:k])) ** 2
    np.testing.assert_allclose(found.V, wanted.V, rtol=0, atol=2 * noise / gap)


@pytest.mark.parametrize("make", ["csv", "parquet", "npz", "sparse.npz"])
def test_offsets_and_scales_with_names_go_by_them(tmp_path: Path, make: str) -> None:
    """Three parties, each with another order, and a file with yet another: numbers meet the features they are of."""
    offsets = pd.DataFrame([np.arange(6.0)], columns=list(NAMES))
    scales = offsets + 1
    shuffled = ["pulse", *(n for n in TURNED if n != "pulse")]
    paths = [tmp_path / f"offsets.{make}", tmp_path / f"scales.{make}"]
    for path, vector in zip(paths, (offsets, scales), strict=True):
        if make == "csv":
            vector[shuffled].to_csv(path, index=False)
        elif make == "parquet":
            vector[shuffled].to_parquet(path, index=False)
        elif make == "npz":
            np.savez(path, X=vector[shuffled].to_numpy(), features=np.array(shuffled))
        else:
            save(path, sp.csr_array(vector[shuffled].to_numpy()), tuple(shuffled))
    wanted = threads(frames(), "pca", offsets=offsets.to_numpy()[0], scales=scales.to_numpy()[0])
    found = threads(turned(), "pca", offsets=paths[0], scales=paths[1])
    np.testing.assert_array_equal(found.V, wanted.V)
    assert_close(found, [(f - offsets.iloc[0]) / scales.iloc[0] for f in frames()])
    # The mean is in the units and the order of party 0's rows; it keeps 40 bits or more below twice the rows' norms.
    size = 2 * sum(float(np.linalg.norm(f)) for f in frames())
    np.testing.assert_allclose(found.mean, pd.concat(frames()).mean(), atol=6 * size * 2.0**-40)


def test_offsets_without_names_go_by_position_in_the_result() -> None:
    offsets = np.arange(6.0)
    found = threads(turned(), "pca", offsets=offsets)
    np.testing.assert_array_equal(found.V, threads(frames(), "pca", offsets=offsets).V)
    assert_close(found, [f - offsets for f in frames()])


@pytest.mark.parametrize(
    ("tables", "settings", "error", "text"),
    [
        (turned(), {"offsets": pd.Series(1.0, (*NAMES[:5], "x"))}, InputError, "missing: 'bmi'; not known: 'x'"),
        (
            [f.to_numpy() for f in frames()],
            {"scales": pd.Series(1.0, NAMES)},
            InputError,
            "the study's scales have names",
        ),
        (turned(), {"features": NAMES, "scales": pd.Series(1.0, TURNED[1:])}, StudyError, "`scales` are 5 for d = 6"),
        (turned(), {"features": (*NAMES[:5], "x")}, InputError, "than the study; missing: 'x'; not known: 'bmi'"),
        (
            [f.to_numpy() for f in frames()],
            {"features": NAMES},
            InputError,
            "has no names for its columns, and the study",
        ),
        ([frames()[0], turned()[1].to_numpy()], {}, MismatchError, "has (no )?names for its features"),
        ([frames()[0], frames()[1].rename(columns={"age": "Age"})], {}, MismatchError, "another set of feature names"),
        ([frames()[0], frames()[1].assign(when="2024-01-31")], {}, InputError, "not numbers: 'when'"),
    ],
)
def test_other_names_are_refused(tables: list[Any], settings: dict[str, Any], error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        threads(tables, "pca", **settings)


def test_by_position_tables_with_and_without_names_go_together() -> None:
    first, second, third = frames()
    found = threads([first, second.to_numpy(), third.rename(columns=str.upper)], columns="position")
    np.testing.assert_array_equal(found.V, threads(frames()).V)
    assert found.report["features"] is None
    named = threads([first.to_numpy(), second.to_numpy()], columns="position", features=NAMES)
    assert named.report["features"] == list(NAMES)


def as_csv(site: Parties, m: int, columns: tuple[str, ...]) -> None:
    frames()[m][list(columns)].to_csv(site.home(m) / "x.csv", index=False)


def test_parties_align_between_hosts_and_when_they_resume(parties: Callable[..., Parties]) -> None:
    """P1's file has another order than P0's, and again another one when the run is resumed: the rows are the same."""
    site = parties(**(FIXED | {"iterations": 3, "reveal": "sum"}))
    for m, columns in enumerate((NAMES, TURNED)):
        as_csv(site, m, columns)
        site.start(m, data="x.csv")
    for end in site.end():
        end.well()
    site.change_studies(iterations=6)
    for m, columns in enumerate((tuple(sorted(NAMES)), NAMES)):
        as_csv(site, m, columns)
        site.start(m, "--resume", data="x.csv")
    for end in site.end():
        end.well()
    wanted = threads(frames()[:2]).V
    for m in range(2):
        np.testing.assert_array_equal(np.load(site.results(m) / "V.npy"), wanted)
        assert json.loads((site.results(m) / "report.json").read_text())["features"] == list(NAMES)
    frames()[1].rename(columns={"age": "Age"}).to_csv(site.home(1) / "x.csv", index=False)
    site.start(0, "--resume", data="x.csv")
    site.start(1, "--resume", data="x.csv")
    site.end()[1].failed(ResumeError, "the data differ from those that the run began with")


@pytest.mark.parametrize("features", [(), NAMES])
def test_run_by_position_is_resumed(parties: Callable[..., Parties], features: tuple[str, ...]) -> None:
    """The files' own names, which were not looked at when the run began, are not looked at now either."""
    settings = FIXED | {"reveal": "sum", "columns": "position", "features": features}
    site = parties(**(settings | {"iterations": 3}))
    for m, columns in enumerate((NAMES, [name.upper() for name in NAMES])):
        frames()[m].set_axis(list(columns), axis=1).to_csv(site.home(m) / "x.csv", index=False)
        site.start(m, data="x.csv")
    for end in site.end():
        end.well()
    site.change_studies(iterations=6)
    frames()[1].set_axis([f"{name}!" for name in NAMES], axis=1).to_csv(site.home(1) / "x.csv", index=False)
    for m in range(2):
        site.start(m, "--resume", data="x.csv")
    for end in site.end():
        end.well()
    wanted = threads(frames()[:2]).V
    for m in range(2):
        np.testing.assert_array_equal(np.load(site.results(m) / "V.npy"), wanted)
        assert json.loads((site.results(m) / "report.json").read_text())["features"] == (list(features) or None)


def test_commands_align_files_and_vectors(tmp_path: Path) -> None:
    """`pca` and its comparison with the pooled rows, with files and scales in four orders; then by position."""
    for m, frame in enumerate(turned()):
        frame.to_csv(tmp_path / f"{m}.csv", index=False)
    deviations = pd.DataFrame([pd.concat(frames()).std()])[sorted(NAMES, reverse=True)]
    deviations.to_csv(tmp_path / "scales.csv", index=False)
    words = ["pca", "0.csv", "1.csv", "2.csv", "--rank", "2", "--engine", "secsum", "--variance", "--json"]
    ended = run(*words, "--scale", "scales.csv", "--out", "out", cwd=tmp_path)
    ended.well()
    report = json.loads(ended.out)
    standardised = pd.concat(frames()) / pd.concat(frames()).std()
    variance = np.sort(np.linalg.eigvalsh(standardised.cov()))[::-1][:2]
    # tol is 1e-9 for the angle, which goes into variances squared; SecSum and sums of squares round to 2^-44 or better.
    np.testing.assert_allclose(report["explained_variance"], variance, rtol=1e-9)
    # The subspace changed by less than tol at last, and by 1 - gap of that in each iteration that was not made.
    assert report["accuracy"]["largest_angle_sine"] <= 2 * 1e-9 / report["accuracy"]["relative_gap"]
    assert report["features"] == list(NAMES)


def test_command_takes_files_with_and_without_names_by_position(tmp_path: Path) -> None:
    frames()[0].to_csv(tmp_path / "0.csv", index=False)
    np.save(tmp_path / "1.npy", frames()[1].to_numpy())
    words = ["svd", "0.csv", "1.npy", "--rank", "2", "--engine", "plain", "--out", "out", "--json"]
    ended = run(*words, "--columns-by", "position", cwd=tmp_path)
    ended.well()
    report = json.loads(ended.out)
    assert (report["features"], report["columns"]) == (None, "position")
    assert report["accuracy"]["largest_angle_sine"] <= 2 * 1e-9 / report["accuracy"]["relative_gap"]


def test_init_keeps_names_beside_offsets(tmp_path: Path) -> None:
    (near := tmp_path / "near.csv").write_text("b,a\n1,2\n")
    arguments = ["--algorithm", "pca", "--parties", "2", "--rank", "1", "--offset", near, "--columns-by", "position"]
    result = CliRunner().invoke(init, [*map(str, arguments), "--out", str(tmp_path / "study.toml")])
    assert result.exit_code == 0, result.output
    study = study_file.load(tmp_path / "study.toml")
    assert (study.offsets, study.offset_features, study.columns) == ((1.0, 2.0), ("b", "a"), "position")


def test_zeros_of_a_dense_table_are_said_to_be_missing_and_those_of_a_sparse_one_are_not() -> None:
    ratings = np.array([[5.0, 0, 1], [0, 4, 4], [2, 2, 0]])
    weighted = pdml_spdz.NmfSettings(weighted=True, init="random", beta=1.0)
    with pytest.warns(UserWarning, match="3 of the 9 entries of .* are zero, and are taken as missing") as said:
        found = pdml_spdz.nmf([ratings, sp.csr_array(ratings)], rank=1, nmf=weighted, transport="threads")
    assert found.T.shape == (1, 3)
    assert len(said) == 1


def test_party_is_warned_of_its_own_columns_and_no_other_is(parties: Callable[..., Parties]) -> None:
    site = parties(**(FIXED | {"reveal": "sum", "bound": "1e9"}))
    for m in range(2):
        frame = pd.DataFrame(rows(m, d=3), columns=["a", "b", "number"])
        frame["number"] = np.arange(12) * (1000.0 if m else 0.0) + (5 if m else frame["number"])
        frame.to_csv(site.home(m) / "x.csv", index=False)
        site.start(m, data="x.csv")
    for end in site.end():
        end.well()
    warned = [" ".join(json.loads((site.results(m) / "report.json").read_text())["warnings"]) for m in range(2)]
    assert "column 'number' looks like an identifier" in warned[1]
    assert "column 'number' carries nearly all of the sum of squares" in warned[1]
    assert "number" not in warned[0]
    assert "column 'number' looks like an identifier" in site.processes[1].out
    assert "'number'" not in site.processes[0].out
