"""A finished run, used again: coordinates as scikit-learn has them, whatever was taken off the rows."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from sklearn.decomposition import NMF, PCA, TruncatedSVD
from sklearn.preprocessing import StandardScaler

from pdml_spdz.applications.finished import FinishedRun
from pdml_spdz.cli.app import cli
from pdml_spdz.errors import InputError, StorageError
from pdml_spdz.estimators import PDNMF, PDPCA, PDSVD
from pdml_spdz.local.joint import LocalRun, local_study, run_local
from pdml_spdz.rows.data import from_rows
from pdml_spdz.rows.reading import Reading, RowSettings

NAMES = list("abcdef")
TOL = 1e-7  # of the fits: sines


def tables() -> list[pd.DataFrame]:
    rng = np.random.default_rng(1)
    parts = [rng.standard_normal((40, 6)) * [9.0, 5.0, 3.0, 1.0, 0.5, 0.2] + [3, -2, 5, 0, 1, 9] for _ in range(3)]
    return [pd.DataFrame(part, columns=NAMES) for part in parts]


def pooled() -> pd.DataFrame:
    return pd.concat(tables(), ignore_index=True)


def finished(out: Path, rows: list[pd.DataFrame] | None = None, **settings: Any) -> FinishedRun:
    study = local_study(3, **({"rank": 3, "engine": "secsum"} | settings))
    run_local(LocalRun(rows or tables(), study, out, transport="threads"))
    return FinishedRun.load(out)


OFFSETS, SCALES = np.arange(1.0, 7.0), np.array([2.0, 1.0, 0.5, 4.0, 1.0, 3.0])


def in_units(X: Any) -> Any:
    return (X.to_numpy() - OFFSETS) / SCALES


def centred(scores: Any) -> Any:
    return scores - scores.mean(axis=0)


CASES: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "open": ({"algorithm": "pca"}, pd.DataFrame.to_numpy, None),
    "open, scaled by secsum": (
        {"algorithm": "pca", "scale": "secsum"},
        lambda X: StandardScaler().fit(pooled().to_numpy()).transform(X.to_numpy()),
        None,
    ),
    "open, offsets and scales": ({"algorithm": "pca", "offsets": OFFSETS, "scales": SCALES}, in_units, None),
    "hidden, offsets and scales": (
        {"algorithm": "pca", "offsets": OFFSETS, "scales": SCALES, "centre": "hidden", "engine": "embedded"},
        in_units,
        centred,  # off by a constant, those of the mean
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_coordinates_are_those_of_scikit_learn(case: str, tmp_path: Path) -> None:
    settings, units, adjusted = CASES[case]
    run = finished(tmp_path, **settings)
    fitted = PCA(3).fit(units(pooled()))
    new = tables()[1]
    wanted = fitted.transform(units(new))
    signs = np.sign(np.sum(fitted.components_.T * run.result, axis=0))
    found = run.project(from_rows(new[NAMES[::-1]], "new rows")) * signs
    if adjusted:
        found, wanted = adjusted(found), adjusted(wanted)
    # Vectors are known to TOL, and rows are so long.
    size = np.linalg.norm(units(new) - units(pooled()).mean(axis=0), axis=1).max() + np.linalg.norm(OFFSETS)
    np.testing.assert_allclose(found, wanted, atol=10 * TOL * size)
    estimator = PDPCA.from_run(tmp_path)
    again = estimator.transform(new) * signs
    np.testing.assert_allclose(again if not adjusted else centred(again), found, atol=1e-9 * size)
    assert list(again.columns) == ["pdpca0", "pdpca1", "pdpca2"]
    back = run.reconstruct(run.project(from_rows(new, "new rows")))
    np.testing.assert_allclose(estimator.inverse_transform(estimator.transform(new)), back, atol=1e-9 * size)
    assert list(estimator.inverse_transform(estimator.transform(new)).columns) == NAMES
    if not adjusted:
        scaler = np.ones(6) if "offsets" not in settings else SCALES
        if "scale" in settings:
            scaler = StandardScaler().fit(pooled().to_numpy()).scale_
        shift = np.zeros(6) if "offsets" not in settings else OFFSETS
        if "scale" in settings:
            shift = pooled().to_numpy().mean(axis=0)
        sklearns = fitted.inverse_transform(fitted.transform(units(new))) * scaler + shift
        np.testing.assert_allclose(back, sklearns, atol=10 * TOL * size * scaler.max())


def test_svd_coordinates_take_offsets_and_scales(tmp_path: Path) -> None:
    run = finished(tmp_path, algorithm="svd", offsets=OFFSETS, scales=SCALES)
    fitted = TruncatedSVD(3, algorithm="arpack").fit(in_units(pooled()))
    signs = np.sign(np.sum(fitted.components_.T * run.result, axis=0))
    new = tables()[0]
    size = np.linalg.norm(in_units(new), axis=1).max()
    wanted = fitted.transform(in_units(new))
    np.testing.assert_allclose(run.project(from_rows(new, "new")) * signs, wanted, atol=10 * TOL * size)
    np.testing.assert_allclose(PDSVD.from_run(tmp_path).transform(new) * signs, wanted, atol=10 * TOL * size)


def test_topic_weights_fit_as_well_as_those_of_scikit_learn(tmp_path: Path) -> None:
    rows = [t.abs() for t in tables()]
    run = finished(tmp_path, rows, algorithm="nmf", engine="secsum", scales=SCALES, iterations=50, seed=1, start="seed")
    new = rows[2].to_numpy() / SCALES
    W = run.project(from_rows(rows[2], "new"))
    assert np.all(W >= 0)
    other = NMF(3, init="custom", tol=1e-10, max_iter=5000)
    other.components_, other.n_components_ = run.topics, 3
    other.n_features_in_ = 6
    theirs = other.transform(new)
    assert np.linalg.norm(new - W @ run.topics) <= np.linalg.norm(new - theirs @ run.topics) * (1 + 1e-6)
    np.testing.assert_allclose(PDNMF.from_run(tmp_path).transform(rows[2]), W)


def test_estimator_of_another_algorithm_is_refused(tmp_path: Path) -> None:
    finished(tmp_path, algorithm="svd", rank=1)
    with pytest.raises(InputError, match="is a run of svd"):
        PDPCA.from_run(tmp_path)
    with pytest.raises(InputError, match="holds no finished run"):
        PDPCA.from_run(tmp_path / "nothing")


def test_share_of_the_variance_takes_as_many_components_as_scikit_learn() -> None:
    X = pooled()
    for share in (0.5, 0.95):
        wanted = PCA(share).fit(X)
        found = PDPCA(share, variance=True, engine="secsum", transport="threads").fit(X)
        assert found.components_.shape == wanted.components_.shape
        np.testing.assert_allclose(found.explained_variance_ratio_, wanted.explained_variance_ratio_, rtol=1e-6)
    assert PDPCA(2, transport="threads", engine="secsum").fit(X).explained_variance_ratio_ is None
    with pytest.raises(ValueError, match="variance=True"):
        PDPCA(0.9).fit(X)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Finished runs of pca and nmf, beside the files of their rows."""
    home = tmp_path_factory.mktemp("runs")
    rows = tables()
    rng = np.random.default_rng(3)
    for m, table in enumerate(rows):
        target = table @ np.arange(6.0) + 4.0 + 0.01 * rng.standard_normal(len(table))
        table.assign(y=target).to_csv(home / f"{m}.csv", index=False)
        table.abs().to_csv(home / f"n{m}.csv", index=False)
    finished(home / "pca", rows, algorithm="pca", rank=6)
    nmf = {"algorithm": "nmf", "iterations": 5, "seed": 1, "start": "seed"}
    finished(home / "nmf", [t.abs() for t in rows], **nmf)
    return home


def say(home: Path, *arguments: str) -> str:
    found = CliRunner().invoke(cli, list(arguments), catch_exceptions=False, env={"COLUMNS": "200"})
    assert found.exit_code == 0, found.output
    return found.output


def test_regression_by_command_is_least_squares(runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "coefficients.csv"
    said = say(runs, "regress", str(runs / "pca"), str(runs / "0.csv"), "--target", "y", "--out", str(out))
    table = pd.read_csv(runs / "0.csv")
    exact = np.linalg.lstsq(np.column_stack([np.ones(40), table[NAMES]]), table["y"], rcond=None)[0]
    found = pd.read_csv(out)
    assert list(found["feature"]) == ["(intercept)", *NAMES]
    np.testing.assert_allclose(found["coefficient"], exact, rtol=1e-6, atol=1e-6)
    assert "R² 1.0000" in said
    assert out.stat().st_mode & 0o077 == 0


def test_projection_by_command_leaves_other_columns_out_and_is_for_its_owner(runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "scores.csv"
    say(runs, "project", str(runs / "pca"), str(runs / "1.csv"), "--out", str(out))
    scores = pd.read_csv(out)
    run = FinishedRun.load(runs / "pca")
    np.testing.assert_allclose(scores.iloc[:, 1:], run.project(from_rows(tables()[1], "rows")), rtol=1e-12, atol=1e-9)
    assert out.stat().st_mode & 0o077 == 0


def test_topics_by_command_have_the_largest_words_and_own_rows(runs: Path, tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("one\ntwo\nthree\nfour\nfive\n\n")
    said = say(runs, "topics", str(runs / "nmf"), "--id", "1", "--words", str(words), "--top", "2").splitlines()
    T, W = np.load(runs / "nmf" / "T.npy"), np.load(runs / "nmf" / "party-1" / "W.npy")
    names = ["one", "two", "three", "four", "five", "f"]
    for t in range(3):
        best = np.argsort(-T[t])[:2]
        assert said[2 * t] == f"topic {t + 1}: {names[best[0]]}, {names[best[1]]}"
        assert said[2 * t + 1].startswith(f"    own rows: {np.argmax(W[:, t])} (")
    assert "own rows" not in say(runs, "topics", str(runs / "nmf"))


def test_recommendations_leave_out_what_is_rated(runs: Path, tmp_path: Path) -> None:
    ratings = tables()[0].abs().assign(b=0.0, e=0.0)
    ratings.to_csv(tmp_path / "ratings.csv", index=False)
    nmf, file = str(runs / "nmf"), str(tmp_path / "ratings.csv")
    said = say(runs, "recommend", nmf, "--ratings", file, "--user", "3")
    assert sorted(line.split()[1] for line in said.splitlines()) == ["b", "e"]
    every = say(runs, "recommend", nmf, "--id", "0", "--user", "3").splitlines()
    predicted = np.load(runs / "nmf" / "party-0" / "W.npy")[3] @ np.load(runs / "nmf" / "T.npy")
    assert [line.split()[1] for line in every] == [NAMES[j] for j in np.argsort(-predicted)]


def test_biplot_is_on_a_page_for_its_owner(runs: Path) -> None:
    say(runs, "page", str(runs / "pca"), "--rows", str(runs / "0.csv"))
    path = runs / "pca" / "result.html"
    assert path.read_text().count("<circle") >= 40
    assert path.stat().st_mode & 0o077 == 0
    report = json.loads((runs / "pca" / "report.json").read_text())
    assert report["rows_own"] is None


@pytest.mark.parametrize(
    "words",
    [
        "project run rows.csv --out ./rows.csv",
        "reconstruct run rows.csv --out link.csv",
        "regress run targets.csv --target target --out targets.csv",
        "regress run targets.csv --target target --test test.csv --out test.csv",
        "documents targets.csv --hashed 4 --out out.npz --words targets.csv",
        "project run parts --out parts/0.csv",
        "project run rows.csv --out run/V.npy",
        "project run rows.csv --out run/party-0/report.json",
        "project run rows.csv --exclude 0=targets.csv --out targets.csv",
    ],
)
def test_what_a_command_reads_is_not_written_over(tmp_path: Path, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    finished(tmp_path / "run", algorithm="pca")
    monkeypatch.chdir(tmp_path)
    Path("parts").mkdir()
    Path("link.csv").symlink_to("rows.csv")
    table = tables()[0]
    for name in ("rows.csv", "parts/0.csv"):
        table.to_csv(name, index=False)
    for name in ("targets.csv", "test.csv"):
        table.assign(target=range(len(table))).to_csv(name, index=False)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file()}
    asked = CliRunner().invoke(cli, words.split())
    assert isinstance(asked.exception, InputError)
    assert "which is read" in str(asked.exception)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file()} == before
    long = ",".join(f"c{i}" for i in range(200))  # no name of a file, and no trace
    assert isinstance(
        CliRunner().invoke(cli, ["check", "rows.csv", "--columns", long]).exception, InputError | SystemExit
    )
    Path("there.csv").symlink_to("scores.csv")
    assert CliRunner().invoke(cli, ["project", "run", "rows.csv", "--out", "there.csv"]).exit_code == 0
    assert Path("there.csv").is_symlink()
    assert Path("scores.csv").read_text().startswith("id,PC1")


@pytest.mark.parametrize("words", ["project run rows.csv --out pipe", "render normed_sum --parties 2 --out pipe"])
def test_what_is_no_file_is_not_replaced_by_one(tmp_path: Path, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    finished(tmp_path / "run", algorithm="pca")
    monkeypatch.chdir(tmp_path)
    tables()[0].to_csv("rows.csv", index=False)
    os.mkfifo("pipe")
    asked = CliRunner().invoke(cli, words.split())
    assert isinstance(asked.exception, StorageError)
    assert Path("pipe").is_fifo()


DAMAGES: dict[str, Callable[[Path], object]] = {
    "seven bytes": lambda path: path.write_bytes(path.read_bytes()[:7]),
    "a digit": lambda path: path.write_bytes(path.read_bytes()[:-8] + bytes(8)),
    "a negative shape": lambda path: path.write_bytes(path.read_bytes().replace(b"(6, 6)", b"(6,-6)")),
    "a claim": lambda path: path.write_bytes(path.read_bytes().replace(b"(6, 6), ", b"(6,9**9)")),
    "transposed": lambda path: np.save(path, np.load(path).T.copy()),
    "a column less": lambda path: np.save(path, np.load(path)[:, :-1]),
    "one dimension": lambda path: np.save(path, np.load(path)[:, 0]),
    "three times": lambda path: np.save(path, 3.0 * np.load(path)),
    "not a number": lambda path: np.save(path, np.full((6, 6), np.nan)),
    "text": lambda path: np.save(path, np.full((6, 6), "x")),
    "objects": lambda path: np.save(path, np.full((6, 6), None), allow_pickle=True),
}


@pytest.mark.parametrize(
    ("name", "damage"),
    [*(("V.npy", damage) for damage in DAMAGES), *(("mean.npy", d) for d in ("seven bytes", "a digit", "three times"))],
)
def test_results_that_a_run_has_not_written_are_refused(runs: Path, tmp_path: Path, name: str, damage: str) -> None:
    shutil.copytree(runs / "pca", tmp_path / "run")
    DAMAGES[damage](tmp_path / "run" / name)
    with pytest.raises(InputError, match=f"{name} is damaged, or is not what the run has written"):
        FinishedRun.load(tmp_path / "run")


DAMAGED: dict[str, tuple[str, Callable[[Path], object]]] = {
    "ids cut off": ("ids.json", lambda path: path.write_text(path.read_text()[:30])),
    "too few ids": ("ids.json", lambda path: path.write_text('["a"]')),
    "W of no rows": ("W.npy", lambda path: np.save(path, np.zeros(0))),
    "W of other topics": ("W.npy", lambda path: np.save(path, np.ones((20, 5)))),
    "a feature that is a number": (
        "report.json",
        lambda path: path.write_text(path.read_text().replace('"a"', "7", 1)),
    ),
}


@pytest.mark.parametrize("damage", DAMAGED)
@pytest.mark.parametrize("words", ["topics run/party-0", "recommend run/party-0 --user r1"])
def test_own_files_that_no_run_has_written_are_an_error_in_words(
    tmp_path: Path, damage: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for m, table in enumerate(tables()):
        table.abs().assign(who=[f"r{i}" for i in range(len(table))]).to_csv(f"{m}.csv", index=False)
    asked = ["nmf", "0.csv", "1.csv", "2.csv", "--rank", "2", "--iterations", "3", "--id-column", "who", "--out", "run"]
    assert CliRunner().invoke(cli, asked).exit_code == 0
    assert CliRunner().invoke(cli, words.split()).exit_code == 0
    assert Path("run/party-0/W.npy").stat().st_mode & 0o077 == 0
    name, change = DAMAGED[damage]
    change(Path("run/party-0") / name)
    found = CliRunner().invoke(cli, words.split())
    if damage == "a feature that is a number" and words.startswith("recommend"):
        assert found.exit_code == 0  # it is a name like any other
    else:
        assert isinstance(found.exception, InputError), found.output


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")], ids=["pipe", "endless"])
@pytest.mark.parametrize("words", ["project run rows.csv", "svd rows.csv rows.csv --rank 1 --engine plain --out run"])
def test_a_report_that_is_no_file_is_no_report(
    tmp_path: Path, make: Callable[[Path], None], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tables()[0].to_csv("rows.csv", index=False)
    Path("run").mkdir()
    make(Path("run/report.json"))
    assert isinstance(CliRunner().invoke(cli, words.split()).exception, InputError | StorageError)


def test_infinite_variance_in_a_report_is_an_error_in_words(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "pca", tmp_path / "run")
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    report |= {"explained_variance_ratio": [float("inf")] * 3, "explained_variance": [1.0] * 3}
    (tmp_path / "run" / "report.json").write_text(json.dumps(report))
    assert isinstance(CliRunner().invoke(cli, ["page", str(tmp_path / "run")]).exception, InputError)


@pytest.mark.parametrize("key", ["asked", "d", "features", "offline", "history", "warnings", "observables", "seconds"])
def test_page_of_a_report_that_no_run_has_written_is_an_error_in_words(runs: Path, tmp_path: Path, key: str) -> None:
    shutil.copytree(runs / "pca", tmp_path / "run")
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    (tmp_path / "run" / "report.json").write_text(json.dumps(report | {key: [None, {"a": 7}]}))
    found = CliRunner().invoke(cli, ["page", str(tmp_path / "run")])
    assert found.exit_code == 0 or isinstance(found.exception, InputError)


def test_commands_fill_in_what_the_run_has_filled_in_and_know_its_identifiers(tmp_path: Path) -> None:
    """From the directory of all parties: means of all rows, categories, whose rows they are, a target that is whole."""
    held = []
    for m, table in enumerate(tables()):
        table.iloc[3 + m, 1] = np.nan
        table = table.assign(sex=np.where(np.arange(40) % 3 > m, "f", "m"), pid=[f"p{m}-{i}" for i in range(40)])
        held.append(table)
    rows = RowSettings(encode={"sex": ["f", "m"]}, missing="mean")  # type: ignore[arg-type]
    study = local_study(3, algorithm="pca", rank=3, engine="secsum", scale="secsum", rows=rows)
    run_local(LocalRun(held, study, tmp_path / "run", transport="threads", reading=Reading(id_column="pid")))
    whole = pd.get_dummies(pd.concat(held).drop(columns="pid"), columns=["sex"], prefix_sep="=").astype(float)
    filled = whole.fillna(whole.mean()).to_numpy()
    V = np.load(tmp_path / "run" / "V.npy")
    exact = (filled[:40] - filled.mean(axis=0)) / filled.std(axis=0) @ V
    held[0].to_csv(tmp_path / "rows.csv", index=False)
    held[0].assign(y=filled[:40] @ np.arange(8.0)).to_csv(tmp_path / "target.csv", index=False)
    run, file, out = str(tmp_path / "run"), str(tmp_path / "rows.csv"), str(tmp_path / "out.csv")
    say(tmp_path, "project", run, file, "--out", out)
    scores = pd.read_csv(out)
    assert list(scores["id"]) == list(held[0]["pid"])
    np.testing.assert_allclose(scores.iloc[:, 1:], exact, atol=1e-8)
    say(tmp_path, "reconstruct", run, file, "--out", out)
    assert list(pd.read_csv(out)["id"]) == list(held[0]["pid"])
    say(tmp_path, "page", run, "--rows", file)
    say(tmp_path, "regress", run, str(tmp_path / "target.csv"), "--target", "y", "--out", out)
    y = filled[:40] @ np.arange(8.0)
    found, shift = pd.read_csv(out)["coefficient"], np.column_stack([np.ones(40), exact])
    fitted = found[0] + filled[:40] @ found[1:]
    np.testing.assert_allclose(fitted, shift @ np.linalg.lstsq(shift, y, rcond=None)[0], atol=1e-6)
    held[0].drop(columns="pid").to_csv(tmp_path / "rows.csv", index=False)
    say(tmp_path, "project", run, file, "--out", out)
    assert list(pd.read_csv(out)["id"]) == list(range(40))
    held[0].assign(y=np.where(np.arange(40) == 5, np.nan, y)).to_csv(tmp_path / "target.csv", index=False)
    asked = CliRunner().invoke(cli, ["regress", run, str(tmp_path / "target.csv"), "--target", "y"])
    assert "has missing values for which" in str(asked.exception)
    assert "column 'y'" in str(asked.exception)
