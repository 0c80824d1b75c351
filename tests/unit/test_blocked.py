"""Rows that are not loaded whole, on threads: what follows from one pass is what NumPy says of the whole table."""

from __future__ import annotations

import itertools
import shutil
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
import zarr

import pdml_spdz
from pdml_spdz import NmfSettings, RowSettings
from pdml_spdz.algorithms.rri import Penalties, part
from pdml_spdz.applications.finished import FinishedRun
from pdml_spdz.errors import InputError, StudyError
from pdml_spdz.fits.examine import examine
from pdml_spdz.local.joint import LocalRun, checked, local_study, run_local
from pdml_spdz.local.threads import run_in_threads
from pdml_spdz.numerics.linalg import EPS
from pdml_spdz.rows import blocked, covariance, digests, pieces, workers
from pdml_spdz.rows.covariance import GramMatrix, GramOperator, centred_covariance
from pdml_spdz.rows.data import Data, from_rows, load
from pdml_spdz.rows.reading import Reading, RowsWanted

N, D = 700, 6
NAMES = tuple("abcdef")


def numbers(seed: int = 0, n: int = N) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.gamma(1.0, size=(n, D)) * [9, 7, 5, 3, 2, 1] + [100, 0, 5, 3, 2, 1]


def files(
    directory: Path, X: np.ndarray | pd.DataFrame, cuts: tuple[int, ...] = (0, 301, 302, N), group: int = 97
) -> Path:
    directory.mkdir(parents=True)
    table = X if isinstance(X, pd.DataFrame) else frame(X)
    for i, (a, b) in enumerate(itertools.pairwise(cuts)):
        table.iloc[a:b].to_parquet(directory / f"{i}.parquet", index=False, row_group_size=group)
    return directory


def frame(X: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(X, columns=list(NAMES))


def close(found: Any, true: Any, X: np.ndarray) -> None:
    """Sums of n products around a centre of the size of the numbers themselves."""
    size = float(np.abs(X).max()) ** 2
    np.testing.assert_allclose(found, true, rtol=0, atol=8 * len(X) * EPS * size)


KINDS: dict[str, Any] = {
    "directory": lambda X, at: load(files(at / "rows", X)),
    "pattern": lambda X, at: load(files(at / "rows", X).parent / "rows" / "*.parquet"),
    "array": lambda X, at: from_rows(da.from_array(X, chunks=(130, 4)), "x"),
    "frame": lambda X, at: from_rows(dd.from_pandas(frame(X), npartitions=4), "x"),
    "sparse": lambda X, at: from_rows(da.from_array(X, chunks=(130, D)).map_blocks(sp.csr_array), "x"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_sums_and_products_are_those_of_the_whole_table(tmp_path: Path, kind: str) -> None:
    X, rng = numbers(), np.random.default_rng(1)
    rows = KINDS[kind](X, tmp_path).rows
    assert rows.lazy
    assert rows.sparse == (kind == "sparse")
    V, W, mu, by, order = rng.random((D, 2)), rng.random((N, 2)), X.mean(axis=0), 1.0 + rng.random(D), [4, 0, 2]
    changed, Z = rows.columns(order).shifted(mu[order]).over(by[order]), ((X - mu) / by)[:, order]
    np.testing.assert_array_equal(rows.dense(), X)
    for found, true in ((rows, X), (changed, Z)):
        assert found.shape == true.shape
        close(found.gram(), true.T @ true, X)
        close(found.gram_times(V[: true.shape[1]]), true.T @ (true @ V[: true.shape[1]]), X)
        close(found.times(V[: true.shape[1]]), true @ V[: true.shape[1]], X)
        close(found.transposed_times(W), true.T @ W, X)
        close(found.column_sums(), true.sum(axis=0), X)
        close(found.column_squares(), (true**2).sum(axis=0), X)
        close(found.squares(), np.sum(true**2), X)
        close(found.row_squares(), np.sum(true**2, axis=1), X)
    close(rows.column_squares(mu), ((X - mu) ** 2).sum(axis=0), X)
    close(centred_covariance(rows, mu, 2, 9).times(V), (X - mu).T @ ((X - mu) @ V), X)
    assert (rows.nonzero, rows.negative, rows.largest) == (np.count_nonzero(X), 0, X.max())


def test_names_are_those_of_the_files_and_columns_are_chosen(tmp_path: Path) -> None:
    X = numbers()
    place = files(tmp_path / "rows", X)
    found = load(place, wanted=RowsWanted(agreed=RowSettings(columns=("c", "a"))))
    assert found.features == ("c", "a")
    np.testing.assert_array_equal(found.rows.dense(), X[:, [2, 0]])
    store = zarr.create_group(tmp_path / "x.zarr")
    array = store.create_array("X", data=X, chunks=(200, D))
    array.attrs["features"] = list(NAMES)
    found = load(tmp_path / "x.zarr", wanted=RowsWanted(agreed=RowSettings(drop=("b",))))
    assert found.features == ("a", "c", "d", "e", "f")
    np.testing.assert_array_equal(found.rows.dense(), np.delete(X, 1, axis=1))


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_the_digest_does_not_depend_on_pieces(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "GROUP", 50 * D)
    X = numbers() * (np.random.default_rng(0).random((N, D)) < 0.5)
    if kind == "dense":
        whole = Data(X, NAMES, "x")
        tables = [load(files(tmp_path / str(i), X, *how)) for i, how in enumerate([((0, N), 97), ((0, 5, 9, N), 333)])]
        other = load(files(tmp_path / "other", X + (np.arange(N) == 666)[:, None] * 1e-9))
    else:
        whole = from_rows(sp.csr_array(X), "x")
        tables = [from_rows(da.from_array(X, chunks=(c, D)).map_blocks(sp.csr_array), "x") for c in (130, 49, 51)]
        other = from_rows(sp.csr_array(X + (np.arange(N) == 666)[:, None]), "x")
    assert {table.digest(b"salt") for table in tables} == {whole.digest(b"salt")}
    assert whole.digest(b"salt") not in (other.digest(b"salt"), whole.digest(b"pepper"))
    assert tables[0].digest(b"salt") != tables[0].permuted([1, 0, 2, 3, 4, 5]).digest(b"salt")


def test_one_pass_is_enough_for_a_fit_and_the_form_is_chosen_by_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[str] = []
    total = workers.ThreadWorkers.total
    monkeypatch.setattr(
        workers.ThreadWorkers,
        "total",
        lambda self, function, *rest: passes.append(function.__name__) or total(self, function, *rest),
    )
    study = local_study(2, algorithm="pca", rank=2, engine="secsum", scale="secsum")
    run_in_threads([load(files(tmp_path / str(m), numbers(m))) for m in range(2)], study)
    assert passes == ["summarised"] * 2
    monkeypatch.setattr(blocked, "LARGEST_GRAM", 0)
    monkeypatch.setattr(covariance, "GRAM_BYTES", 0)
    passes.clear()
    done = run_in_threads([load(files(tmp_path / f"o{m}", numbers(m))) for m in range(2)], study)
    assert passes.count("summarised") == 2
    assert passes.count("gram_product") >= 2 * done.report["iterations"]
    rows = load(files(tmp_path / "x", numbers())).rows
    rows.expect(2, 50)
    assert isinstance(centred_covariance(rows, np.zeros(D), 2, 50), GramOperator)
    monkeypatch.undo()
    assert isinstance(centred_covariance(load(tmp_path / "x").rows, np.zeros(D), 2, 50), GramMatrix)


SETTINGS: dict[str, dict[str, Any]] = {
    "svd": {"algorithm": "svd"},
    "pca": {"algorithm": "pca", "scale": "secsum", "variance": True},
    "hidden": {"algorithm": "pca", "centre": "hidden", "engine": "embedded", "bound": "1e9", "tol": 1e-6},
    "nmf": {"algorithm": "nmf", "iterations": 20, "nmf": NmfSettings(w_start="nnls", objective=True)},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_results_are_those_of_rows_in_memory(tmp_path: Path, name: str) -> None:
    settings: dict[str, Any] = {"engine": "plain", "seed": 1, "start": "seed", "tol": 0.0, "rank": 2} | SETTINGS[name]
    settings.setdefault("iterations", 30)
    tables = [numbers(m) for m in range(2)]
    study = local_study(2, **settings)
    whole = run_in_threads([Data(X, NAMES, "x") for X in tables], study)
    parts = run_in_threads([load(files(tmp_path / str(m), X)) for m, X in enumerate(tables)], study)
    # Sums of n d products, relative to their largest, over a gap that is more than 1/100 of it; by embedded what is
    # opened has 31 bits, and a fit ends at 1e-6.
    tolerance = 2e-6 if name == "hidden" else 100 * 2 * N * D * EPS * 30
    np.testing.assert_allclose(parts.V, whole.V, rtol=0, atol=tolerance)
    if name == "nmf":
        assert parts.report["squared_error"] == pytest.approx(whole.report["squared_error"], rel=1e-9)


def test_normed_sum_is_of_the_column_sums(tmp_path: Path) -> None:
    tables = [numbers(m) for m in range(2)]
    study = local_study(2, algorithm="normed-sum", engine="plain", rank=1)
    paths = [files(tmp_path / str(m), X) for m, X in enumerate(tables)]
    found = run_local(LocalRun(paths, study, tmp_path / "out", transport="threads"))
    s = np.concatenate(tables).sum(axis=0)
    np.testing.assert_allclose(found.V.ravel(), s / np.linalg.norm(s), rtol=0, atol=2 * N * EPS)
    checked = examine(paths[0], Reading(), RowSettings(), replace(study, bound="10"), 0)
    assert "||x_m|| is" in str(checked.problem)
    with pytest.raises(InputError, match=r"700 rows(.|\n)*one vector"):
        from_rows(tables[0], "x", vector=True)


@pytest.mark.parametrize("weighted", [False, True])
def test_coefficients_are_written_by_pieces_for_their_owner_alone(tmp_path: Path, weighted: bool) -> None:
    tables = [numbers(m) for m in range(2)]
    given: dict[str, Any] = {"rank": 2, "seed": 1, "engine": "plain", "transport": "threads", "tol": 0.0}
    given["nmf"] = NmfSettings(weighted=weighted, delta=1.0 if weighted else 0.0)
    named = [frame(X).assign(pid=[f"{m}-{i}" for i in range(N)]) for m, X in enumerate(tables)]
    paths = [files(tmp_path / str(m), table) for m, table in enumerate(named)]
    whole = pdml_spdz.nmf([frame(X) for X in tables], iterations=6, **given)
    given["reading"] = Reading(id_column="pid")
    done = pdml_spdz.nmf(paths, iterations=3, out=tmp_path / "out", **given)
    done = pdml_spdz.nmf(paths, iterations=6, out=tmp_path / "out", resume=True, **given)
    assert done.report["iterations"] == 6
    for m in range(2):
        written = sorted((tmp_path / "out" / f"party-{m}" / "W").glob("*.parquet"))
        assert {stat.S_IMODE(path.stat().st_mode) for path in written} == {0o600}
        assert stat.S_IMODE(written[0].parent.stat().st_mode) == 0o700
        W = pd.concat([pd.read_parquet(path) for path in written])
        assert W.pop("id").tolist() == [f"{m}-{i}" for i in range(N)]
        W = W.to_numpy()
        np.testing.assert_allclose(W, whole.W[m], rtol=1e-9, atol=1e-9 * whole.W[m].max())
        assert not (tmp_path / "out" / f"party-{m}" / "W.npy").exists()
        own = FinishedRun.load(tmp_path / "out" / f"party-{m}")
        np.testing.assert_array_equal(own.own_weights(), W)
        read = own.read(paths[m], Reading(id_column="pid"))
        assert (read.rows.lazy, own.project(read).shape, read.names()[0]) == (True, (N, 2), f"{m}-0")
    np.testing.assert_allclose(done.T, whole.T, rtol=0, atol=6 * 2 * N * D * EPS * 100)


@pytest.mark.parametrize("missing", ["drop-rows", "mean"])
def test_accuracy_is_of_the_rows_as_they_were_factorised(tmp_path: Path, missing: str) -> None:
    X = numbers()
    X[3, 2] = np.nan
    paths = [files(tmp_path / "0", X), files(tmp_path / "1", numbers(1))]
    study = local_study(2, algorithm="pca", rank=2, engine="plain", rows=RowSettings(missing=missing))
    done = run_local(
        LocalRun(paths, study, transport="threads"), compare=lambda result: study.spec.reference(result, paths)
    )
    assert done.report["accuracy"]["largest_angle_sine"] <= 1e-7  # krylov's own tol


@pytest.mark.parametrize("weighted", [False, True])
def test_a_part_by_pieces_does_what_a_part_does(tmp_path: Path, weighted: bool) -> None:
    X, rng = numbers(), np.random.default_rng(0)
    X[rng.random(X.shape) < 0.5] = 0.0  # with `weighted`: not there
    X[:, 0] += 1.0
    rows = load(files(tmp_path / "x", X)).rows
    whole, pieces = part(X, 3, weighted=weighted), part(rows, 3, weighted=weighted)
    T, p = rng.dirichlet(np.ones(D), 3), Penalties(gamma=0.1, delta=0.2)
    for t in (0, 2, 1):
        for found, true in zip(pieces.update(t, T, p), whole.update(t, T, p), strict=True):
            close(found, true, X)
    close(pieces.W, whole.W, X)
    close(pieces.error(T), whole.error(T), X)
    close(pieces.lengths(), whole.lengths(), X)
    pieces.fit(T, p)
    whole.fit(T, p)
    close(pieces.W, whole.W, X)


@pytest.mark.parametrize("missing", ["refuse", "drop-rows", "mean"])
def test_missing_values_are_found_in_the_pass(tmp_path: Path, missing: str) -> None:
    X = numbers()
    X[[5, 400, 401], [1, 1, 3]] = np.nan
    study = local_study(2, rank=2, engine="plain", rows=RowSettings(missing=missing), seed=1, start="seed", tol=0.0)
    given = [load(files(tmp_path / "x", X)), Data(numbers(1), NAMES, "y")]
    if missing == "refuse":
        with pytest.raises(InputError, match=r"missing values: column 'b' 2, column 'd' 1 \(3 entries, in 3 of 700"):
            run_in_threads(given, study)
        with pytest.raises(InputError, match="missing values: column 2 2"):
            checked(LocalRun([da.from_array(X, chunks=(100, D)), numbers(1)], study, transport="processes"))
        return
    done = run_in_threads(given, study)
    handed = checked(LocalRun([da.from_array(X, chunks=(100, D)), numbers(1)], study, transport="processes"))
    assert (handed[0].n, handed[0].holes) == ((N - 3, False) if missing == "drop-rows" else (N, True))  # type: ignore[union-attr]
    alone = from_rows(frame(X), "x", wanted=RowsWanted(agreed=RowSettings(missing=missing)))
    whole = run_in_threads([alone, given[1]], study)
    np.testing.assert_allclose(done.V, whole.V, rtol=0, atol=100 * 2 * N * D * EPS * 60)


def test_rows_are_left_out_by_their_ids_or_numbers_and_keep_them(tmp_path: Path) -> None:
    X = numbers()
    X[[5, 400], 1] = np.nan
    place = tmp_path / "x"
    place.mkdir()
    whole = frame(X).assign(pid=[f"p{i}" for i in range(N)])
    whole.iloc[:333].to_parquet(place / "0.parquet", index=False, row_group_size=50)
    whole.iloc[333:, ::-1].to_parquet(place / "1.parquet", index=False)  # its columns in another order
    (tmp_path / "ids.txt").write_text("p0\np699\n")
    (tmp_path / "numbers.txt").write_text("0\n699\n")
    left = np.setdiff1d(np.arange(N), [0, 5, 400, 699])
    for own in ({"id_column": "pid", "exclude": ("ids.txt",)}, {"exclude": ("numbers.txt",)}):
        reading = Reading(**own | {"exclude": (str(tmp_path / own["exclude"][0]),)})
        agreed = RowSettings(missing="drop-rows", drop=() if "id_column" in own else ("pid",))
        found = load(place, wanted=RowsWanted(reading, agreed)).looked_at("drop-rows")
        assert found.rows.lazy
        np.testing.assert_array_equal(found.rows.dense(), X[left])
        assert found.names() == [("p" if "id_column" in own else "") + str(i) for i in left]
    twice = whole.assign(pid="p")
    twice.to_parquet(place / "2.parquet", index=False)
    with pytest.raises(InputError, match="1 identifiers are there more than once, that of row 701 first"):
        load(place, wanted=RowsWanted(Reading(id_column="pid")))


def test_masked_entries_of_dask_are_missing_and_check_finds_them(tmp_path: Path) -> None:
    masked = np.ma.masked_array(numbers(), mask=np.arange(N * D).reshape(N, D) == 7)
    with pytest.raises(
        InputError, match=r"missing values: column 2 1 \(1 entry, in 1 of 700 rows; the first in row 2\)"
    ):
        from_rows(da.from_array(masked, chunks=(100, D)), "x").looked_at("refuse")
    X = numbers()
    X[699, 2] = np.nan
    found = examine(files(tmp_path / "x", X), Reading(), RowSettings())
    assert found.problem is not None
    assert "column 'c' 1 (1 entry, in 1 of 700 rows; the first in row 700)" in found.problem.found


def test_wide_row_groups_are_read_by_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X = numbers()
    place = files(tmp_path / "x", X)
    monkeypatch.setattr(pieces, "FEW_ROWS", 1 << 30)
    monkeypatch.setattr(pieces, "COLUMNS", 2 * 97)  # two columns at a time
    rows = load(place, wanted=RowsWanted(agreed=RowSettings(columns=("f", "a", "c")))).rows
    np.testing.assert_array_equal(rows.dense(), X[:, [5, 0, 2]])
    close(rows.gram(), X[:, [5, 0, 2]].T @ X[:, [5, 0, 2]], X)


def test_infinite_entries_are_found_by_their_place(tmp_path: Path) -> None:
    X = numbers()
    X[650, 4] = np.inf
    with pytest.raises(InputError, match=r"not finite \(the first in row 651, column 5 'e'\)"):
        load(files(tmp_path / "x", X)).looked_at("refuse")


def test_a_directory_is_read_whole_and_without_what_programs_leave_in_it(tmp_path: Path) -> None:
    place = files(tmp_path / "x", X := numbers())
    n = load(place).n
    files(place / "_temporary" / "0", numbers())
    (place / "_SUCCESS").touch()
    (place / ".0.parquet.crc").touch()
    assert load(place).n == n
    frame(X[:7]).to_parquet(place / "9.PARQUET", index=False)
    assert load(place).n == n + 7
    nothing = frame(X[:5]).assign(b=None)  # a column that happens to have no values
    nothing.to_parquet(place / "a.parquet", index=False)
    with pytest.raises(InputError, match="missing values: column 'b' 5"):
        load(place).looked_at("refuse")


def test_a_copy_of_a_file_is_refused_and_rows_that_are_only_alike_are_not(tmp_path: Path) -> None:
    place = files(tmp_path / "x", X := numbers())
    shutil.copy(place / "0.parquet", place / "0 (1).parquet")
    with pytest.raises(InputError, match=r"0 \(1\)\.parquet is a copy of .*/0\.parquet, byte for byte"):
        load(place)
    assert examine(place, Reading(), RowSettings()).problem is not None
    assert load(place / "?.parquet").n == N
    (place / "0 (1).parquet").unlink()
    for name in ("a", "b"):  # no rows, as programs leave them behind; as many rows, and other ones
        frame(X[:0]).to_parquet(place / f"{name}.parquet", index=False)
        frame(X[:9] + ord(name)).to_parquet(place / f"{name}9.parquet", index=False, compression="none")
    assert load(place).n == N + 18


@pytest.mark.filterwarnings("ignore:Writing zarr v2")
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_annotated_matrices_in_zarr_have_names_and_identifiers(tmp_path: Path, form: type) -> None:
    anndata = pytest.importorskip("anndata")
    X, names = numbers()[:6], list("abcdefgh")
    obs, var = pd.DataFrame(index=[f"o{i}" for i in range(6)]), pd.DataFrame(index=names[: X.shape[1]])
    anndata.AnnData(form(X), obs=obs, var=var).write_zarr(tmp_path / "x.zarr")
    found = load(tmp_path / "x.zarr", wanted=RowsWanted(agreed=RowSettings(drop=("b",))))
    assert found.features == tuple(name for name in names[: X.shape[1]] if name != "b")
    assert found.names() == [f"o{i}" for i in range(6)]
    np.testing.assert_array_equal(found.rows.dense(), np.delete(X, 1, axis=1))


def test_what_cannot_be_read_in_pieces_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="has no Parquet files"):
        load(tmp_path / "empty")
    place = files(tmp_path / "x", numbers())
    frame(numbers()).rename(columns={"a": "A"}).to_parquet(place / "9.parquet", index=False)
    with pytest.raises(InputError, match=r"9\.parquet has other names than .*0\.parquet; missing: 'a'; not known: 'A'"):
        load(place)
    (place / "9.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(InputError, match=r"9\.parquet cannot be read as Parquet(.|\n)*take it out of the directory"):
        load(place)
    (place / "9.parquet").rename(place / "9.csv")
    with pytest.raises(InputError, match=r"other tables beside its Parquet files: 9\.csv(.|\n)*by a pattern"):
        load(place)
    (place / "9.csv").rename(place / "9.parquet.part")
    with pytest.raises(InputError, match=r"other tables beside its Parquet files: 9\.parquet\.part"):
        load(place)
    (place / "9.parquet.part").rename(tmp_path / "empty" / "9.csv.gz")
    with pytest.raises(InputError, match=r"no Parquet files, but other tables: 9\.csv\.gz"):
        load(tmp_path / "empty")
    files(tmp_path / "hive" / "year=2024", numbers())
    with pytest.raises(InputError, match="in the names of its directories only: 'year'"):
        load(tmp_path / "hive")
    with pytest.raises(InputError, match="a user's entries may be in any of its files"):
        load(place, wanted=RowsWanted(Reading(triplets=("a", "b", "c"))))
    (tmp_path / "x.zarr").mkdir()
    with pytest.raises(InputError, match="cannot be read as Zarr"):
        load(tmp_path / "x.zarr")
    with pytest.raises(InputError, match=r"shape \(3,\)"):
        from_rows(da.ones(3), "x")
    with pytest.raises(InputError, match="columns that are not numbers: 'z'"):
        from_rows(dd.from_pandas(pd.DataFrame({"a": [1.0], "z": ["u"]}), npartitions=1), "x")


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("tcp://10.0.0.1:8786", r"rows would travel in the clear(.|\n)*--dask-plaintext"),
        ("tls://10.0.0.1:8786", "ca.pem, cert.pem and key.pem"),
        ("http://x:1", "tls://HOST:PORT"),
        ("nothing.json", "no scheduler's address or file"),
    ],
)
def test_clusters_without_tls_or_certificates_are_refused(tmp_path: Path, where: str, said: str) -> None:
    place = files(tmp_path / "x", numbers())
    with pytest.raises(StudyError, match=said):
        load(place, wanted=RowsWanted(Reading(dask=where)))


MEASURED = """
import sys
from pathlib import Path
import numpy as np
from pdml_spdz.rows.data import load

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])

load(Path(sys.argv[1])).rows.summary()  # with everything imported, and a piece read
before = peak()
rows = load(Path(sys.argv[2])).rows
centred = rows.shifted(rows.column_sums() / rows.shape[0]).gram()
rows.gram_times(np.eye(rows.shape[1], 3))
print(peak() - before, 8 * rows.shape[0] * rows.shape[1])
"""


def test_memory_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    """After a pass over some pieces another over five times as many takes hardly more, and far less than the rows."""
    X = np.random.default_rng(0).normal(size=(400_000, 50))
    for name, n in (("small", 80_000), ("large", len(X))):
        (tmp_path / name).mkdir()
        table = pa.table(list(X[:n].T), names=[f"c{j}" for j in range(50)])
        pq.write_table(table, tmp_path / name / "x.parquet", row_group_size=20_000, compression="none")
    command = [sys.executable, "-c", MEASURED, str(tmp_path / "small"), str(tmp_path / "large")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    more, whole = map(int, done.stdout.split())
    assert whole == X.nbytes
    assert more < whole / 4
