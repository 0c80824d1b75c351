"""Runs on tables as people have them: missing values, categories, triplets; and `check`, which says it beforehand."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import pdml_spdz
from pdml_spdz import Reading, RowSettings
from pdml_spdz.cli.check import check as command
from pdml_spdz.errors import InputError, MismatchError, QuotaError, StudyError
from pdml_spdz.fits.fill import COUNTS, SUMS
from pdml_spdz.local.joint import local_study
from pdml_spdz.local.threads import run_in_threads
from pdml_spdz.numerics.linalg import EPS, sine
from tests.parties.helpers import run

D = 5
ENCODE: Any = {"colour": ["red", "blue"]}


def tables(holes: bool = True) -> list[pd.DataFrame]:
    """Three parties' tables: numbers far from zero, with some missing, a category and an identifier."""
    found = []
    for m in range(3):
        rng = np.random.default_rng(m)
        numbers = rng.normal(size=(30 + m, D)) * 2.0 ** -np.arange(D) + np.arange(D)
        frame = pd.DataFrame(numbers, columns=list("abcde"))
        frame["colour"] = rng.choice(["red", "blue"], len(frame))
        frame["pid"] = [f"{m}-{i}" for i in range(len(frame))]
        if holes:
            frame.loc[3 + m, "b"] = frame.loc[7, "d"] = np.nan
            frame.loc[9, "colour"] = None
        found.append(frame)
    return found


def pooled(frames: list[pd.DataFrame]) -> np.ndarray:
    """What one table of all rows would be: with an indicator for each category, and NaN where something is missing."""
    whole = pd.concat(frames)
    for name in ("red", "blue"):
        whole[f"colour={name}"] = (whole["colour"] == name).astype(float).where(whole["colour"].notna())
    return whole.drop(columns=["colour", "pid"]).to_numpy(float)


def tolerance(X: np.ndarray, k: int, M: int = 3) -> float:
    """By secsum: 44 bits below sums of M norms, over the gap; V to krylov's own tol of 1e-7."""
    sigma = np.linalg.svd(X, compute_uv=False)
    return 1e-7 + M * 2.0**-44 * float(np.sum(sigma**2) / (sigma[k - 1] ** 2 - sigma[k] ** 2))


@pytest.mark.parametrize("missing", ["mean", "drop-rows"])
def test_missing_values_are_filled_in_or_left_out_as_in_one_table(missing: str) -> None:
    X = pooled(tables())
    X = np.where(np.isnan(X), np.nanmean(X, axis=0), X) if missing == "mean" else X[~np.isnan(X).any(axis=1)]
    rows = RowSettings(encode=ENCODE, missing=missing)
    found = pdml_spdz.pca(
        tables(), rank=2, rows=rows, reading=Reading(id_column="pid"), engine="secsum", transport="threads"
    )
    centred = X - X.mean(axis=0)
    V = np.linalg.svd(centred, full_matrices=False)[2][:2].T
    assert sine(V, found.V) <= tolerance(centred, 2)
    # Sums of 100 numbers of size 5, of M parties, each to 44 bits below a bound of at most 2^8 times their norms.
    np.testing.assert_allclose(found.mean, X.mean(axis=0), rtol=0, atol=3 * 2.0**-44 * 2.0**8 * 500 + 100 * 5 * EPS)
    assert found.features == ("a", "b", "c", "d", "e", "colour=red", "colour=blue")
    seen = found.report["observables"]
    assert (COUNTS in seen, SUMS in seen) == (missing == "mean", missing == "mean")
    said = "get the mean" if missing == "mean" else "left out 3 of 30 rows"
    assert any(said in warning for warning in found.report["warnings"])


def test_a_column_that_nobody_has_ends_the_run_after_its_counts() -> None:
    frames = [frame.assign(z=np.nan) for frame in tables()]
    with pytest.raises(InputError, match=r"no party has a value of column 'z'(.|\n)*Every party has seen by now: how"):
        pdml_spdz.svd(
            frames,
            rank=1,
            rows=RowSettings(drop=("colour", "pid"), missing="mean"),
            engine="plain",
            transport="threads",
        )


def test_means_are_not_filled_in_where_the_mean_is_hidden_or_there_is_one_row() -> None:
    with pytest.raises(StudyError, match=r"`rows\.missing` is 'mean' and `centre` is hidden"):
        pdml_spdz.pca(tables(), rank=1, centre="hidden", rows=RowSettings(missing="mean"))
    with pytest.raises(StudyError, match=r"`rows\.missing` is 'drop-rows' for normed-sum"):
        pdml_spdz.normed_sum([np.ones(3)] * 2, rows=RowSettings(missing="drop-rows"))


def test_a_run_that_fills_in_means_is_resumed_with_the_same_means(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "rows": RowSettings(drop=("colour", "pid"), missing="mean"),
        "engine": "secsum",
        "transport": "threads",
        "out": tmp_path,
        "rank": 2,
        "tol": 1e-14,
        "solver": "power",
    }
    pdml_spdz.svd(tables(), iterations=3, **settings)
    means = (tmp_path / "party-0" / "missing.npz").read_bytes()
    more = pdml_spdz.svd(tables(), iterations=6, resume=True, **settings)
    assert more.report["iterations"] == 6
    assert (tmp_path / "party-0" / "missing.npz").read_bytes() == means
    assert np.load(tmp_path / "party-0" / "fill.npy").shape == (D,)


def test_commands_take_files_with_all_of_it_and_compare_with_one_table(tmp_path: Path) -> None:
    for m, frame in enumerate(tables()):
        frame.to_csv(tmp_path / f"{m}.csv", index=False, sep=";", decimal=",")
    words = ["svd", "0.csv", "1.csv", "2.csv", "-k", "2", "--engine", "secsum", "--json", "--out", "out"]
    words += ["--decimal", "comma", "--id-column", "pid", "--encode", "colour=red,blue", "--missing", "mean"]
    ended = run(*words, cwd=tmp_path)
    ended.well()
    accuracy = json.loads(ended.out)["accuracy"]
    X = pooled(tables())
    assert accuracy["largest_angle_sine"] <= tolerance(np.where(np.isnan(X), np.nanmean(X, axis=0), X), 2)


def test_triplets_are_factorised_as_the_same_sparse_rows(tmp_path: Path) -> None:
    import scipy.sparse as sp

    films, sparse = [f"film {j}" for j in range(6)], []
    for m in range(2):
        rng = np.random.default_rng(m)
        ratings = rng.integers(1, 6, (12, 6)) * (rng.random((12, 6)) < 0.6)
        ratings[:, 0] = np.maximum(ratings[:, 0], 1)  # everybody has seen one
        users, items = np.nonzero(ratings)
        frame = pd.DataFrame({"user": users, "film": [films[j] for j in items], "stars": ratings[users, items]})
        frame.to_csv(tmp_path / f"{m}.csv", index=False)
        sparse.append(sp.csr_array(ratings.astype(float)))
    (tmp_path / "films.txt").write_text("\n".join(films))
    words = ["nmf", "0.csv", "1.csv", "-k", "2", "--weighted", "--delta", "1", "--seed", "3", "--iterations", "20"]
    words += ["--triplets", "user,film,stars", "--features-from", "films.txt", "--engine", "plain", "--out", "out"]
    ended = run(*words, "--tol", "0", "--json", cwd=tmp_path)
    ended.well()
    nmf = pdml_spdz.NmfSettings(weighted=True, delta=1.0)
    true = pdml_spdz.nmf(sparse, rank=2, nmf=nmf, seed=3, iterations=20, tol=0.0, engine="plain", transport="threads")
    np.testing.assert_allclose(np.load(tmp_path / "out" / "T.npy"), true.T, rtol=0, atol=20 * 24 * 6 * EPS)
    assert json.loads(ended.out)["features"] == films


def test_parties_that_agreed_on_other_columns_refuse_each_other(parties: Any) -> None:
    site = parties()
    study = (site.home(1) / "study.toml").read_text()
    assert 'missing = "refuse"' in study
    (site.home(1) / "study.toml").write_text(study.replace('missing = "refuse"', 'missing = "drop-rows"'))
    for end in site.run():
        end.failed(MismatchError, "another study than this party")


def check(tmp_path: Path, *words: str) -> tuple[int, Any]:
    """The command in this process: its exit code, and what it prints."""
    ended = CliRunner().invoke(
        command, [str(tmp_path / w) if (tmp_path / w).is_file() else w for w in (*words, "--json")]
    )
    return ended.exit_code, json.loads(ended.stdout)


def test_check_says_what_a_run_would_say_and_ends_with_its_code(tmp_path: Path) -> None:
    first, second, _ = tables()
    first = first.assign(ones=1.0, row=np.arange(len(first)) + 1)
    first.to_csv(tmp_path / "a.csv", index=False)
    second.assign(ones=1.0, line=range(31)).to_csv(tmp_path / "b.csv", index=False)
    own = ["--id-column", "pid", "--drop", "colour"]
    code, (found,) = check(tmp_path, "a.csv", *own)
    assert code == InputError.code
    assert [f["what"] for f in found["findings"] if f["level"] == "problem"] == ["missing"]
    code, (found,) = check(tmp_path, "a.csv", *own, "--missing", "mean")
    assert code == 0
    notes = [f["found"] for f in found["findings"] if f["level"] == "note"]
    assert any("get the mean" in note for note in notes)
    assert any("the same number in all of this party's rows: column 'ones'" in note for note in notes)
    assert any("'row' looks like an identifier" in note for note in notes)
    facts = {c["name"]: (c["kind"], c["missing"]) for c in found["columns"]}
    assert (facts["ones"], facts["row"], facts["b"]) == (("constant", 0), ("whole", 0), ("real", 1))
    code, both = check(tmp_path, "a.csv", "b.csv", *own, "--missing", "mean")
    assert code == MismatchError.code
    assert "'line', 'row'" in both[1]["findings"][-1]["found"]


def test_check_and_doctor_compare_rows_with_a_study(tmp_path: Path) -> None:
    first = tables(holes=False)[0]
    first.to_csv(tmp_path / "a.csv", index=False)
    words = ["init", "--parties", "3", "-k", "2", "--features-from", "a.csv", "--drop", "pid", "--bound", "1.0"]
    run(*words, "--encode", "colour=red,blue", cwd=tmp_path).well()
    assert '"colour" = ["red", "blue"]' in (tmp_path / "study.toml").read_text()
    code, (found,) = check(tmp_path, "a.csv", "--study", "study.toml", "--id", "1")
    assert code == QuotaError.code
    assert "Wanted: at most 1" in next(f["found"] for f in found["findings"] if f["level"] == "problem")
    doctor = run("doctor", "study.toml", "--data", "a.csv", cwd=tmp_path)
    assert doctor.code == 1
    assert "7 features as in the study" in doctor.out
    first.rename(columns={"a": "A"}).to_csv(tmp_path / "b.csv", index=False)
    code, (found,) = check(tmp_path, "b.csv", "--study", "study.toml")
    assert code == InputError.code
    assert "missing: 'a'; not known: 'A'" in found["findings"][-1]["found"]


def test_notes_of_check_are_in_the_run_for_its_party_alone(tmp_path: Path) -> None:
    frames = [frame.drop(columns=["colour", "pid"]) for frame in tables(holes=False)]
    frames[1].loc[[2, 5], "b"] = -999.0
    frames[1]["e"] = 4.0
    frames[1].loc[:, "a"] *= 10_000
    for m, frame in enumerate(frames):
        frame.to_csv(tmp_path / f"{m}.csv", index=False)
    code, (found,) = check(tmp_path, "1.csv")
    assert code == 0
    notes = [f["found"] for f in found["findings"] if f["level"] == "note"]
    kinds = ("is -999 in 2 rows", "the same number in all", "carries nearly all")
    assert [sum(kind in note for note in notes) for kind in kinds] == [1, 1, 1]
    assert "a sealed run may end without any" in next(note for note in notes if "nearly all" in note)
    run("pca", "0.csv", "1.csv", "2.csv", "-k", "2", "--engine", "secsum", "--out", "out", cwd=tmp_path).well()
    for m in range(3):
        own = json.loads((tmp_path / "out" / f"party-{m}" / "report.json").read_text())["warnings_own"]
        assert sorted(own) == (sorted(notes) if m == 1 else [])
        page = (tmp_path / "out" / f"party-{m}" / "result.html").read_text()
        assert ("is -999 in 2 rows" in page) == (m == 1)
    assert "is -999 in" not in (tmp_path / "out" / "result.html").read_text()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pdml_spdz.pca(frames, rank=2, engine="secsum", transport="threads")
    assert any("is -999 in 2 rows" in str(warning.message) for warning in caught)


def test_names_in_another_order_are_noted_where_columns_are_matched_by_position(tmp_path: Path) -> None:
    frames = [frame[list("abcde")] for frame in tables(holes=False)]
    frames[1] = frames[1][list("bacde")]
    for m, frame in enumerate(frames):
        frame.to_csv(tmp_path / f"{m}.csv", index=False)
    words = ["--parties", "3", "-k", "2", "--columns-by", "position", "--features-from", "0.csv"]
    run("init", *words, "--out", "study.toml", cwd=tmp_path).well()
    code, found = check(tmp_path, "0.csv", "1.csv", "--study", "study.toml")
    assert code == 0
    text = "is matched by position: its names stand in another order than those"
    noted = [[f["found"] for f in one["findings"] if text in f["found"]] for one in found]
    assert (len(noted[0]), len(noted[1])) == (0, 2)  # than the study's, than the other file's
    study = local_study(3, rank=2, engine="secsum", columns="position", features=tuple("abcde"))
    reports = run_in_threads(frames, study).party_reports
    assert [any(text in warning for warning in r["warnings_own"]) for r in reports] == [False, True, False]


def test_check_finds_empty_columns_codes_numbers_too_large_and_names_that_look_alike(tmp_path: Path) -> None:
    rows = [f"{20 + i % 30 if i % 9 else -999},{i % 7},,{i}.5" for i in range(40)]
    (tmp_path / "a.csv").write_text("age,b,never,e\n" + "\n".join(rows) + "\n")
    code, (found,) = check(tmp_path, "a.csv", "--missing", "mean")
    assert code == 0
    assert found["columns"][2] == {"name": "never", "kind": "empty", "missing": 40, "least": None, "largest": None}
    notes = [f["found"] for f in found["findings"] if f["level"] == "note"]
    assert any("'age' is -999 in 5 rows, far from its other numbers" in note for note in notes)
    assert not any("'b' is" in note or "the same number" in note for note in notes)
    (tmp_path / "b.csv").write_text("caf\u00e9,b\n1e300,2\n3,4\n", encoding="utf-8")
    (tmp_path / "c.csv").write_text("cafe\u0301,b\n1,2\n3,4\n", encoding="utf-8")
    code, both = check(tmp_path, "b.csv", "c.csv")
    assert code == QuotaError.code
    assert "beyond all numbers" in both[0]["findings"][1]["found"]
    (tmp_path / "d.csv").write_text("a,seen\n1,1.6e9\n" + "\n".join(f"{i},1.{i}e10" for i in range(10, 40)))
    run("init", "--parties", "3", "-k", "1", "--algorithm", "pca", "--scale", "secsum", cwd=tmp_path).well()
    code, (found,) = check(tmp_path, "d.csv", "--study", "study.toml")
    assert code == 0
    code, (found,) = check(tmp_path, "d.csv")
    (size,) = [f["found"] for f in found["findings"] if f["what"] == "size"]
    assert "nearly all of it column 'seen'" in size
    assert "Do this: scale the features (--scale secsum" in size
    assert r"'caf\xe9' and 'cafe\u0301' differ" in both[1]["findings"][-1]["found"]
