"""The offline phase and the public primitive with real processes: stocks are made, named, used once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdml_spdz.errors import QuotaError, StockError
from pdml_spdz.local.joint import LocalRun, local_study, run_local
from pdml_spdz.local.supervisor import PartyCommands, supervise
from pdml_spdz.offline.status import status
from pdml_spdz.run import repeats
from pdml_spdz.study.model import Study

D, RANK, TAU = 6, 2, 8


@pytest.fixture
def rows(tmp_path: Path) -> list[Path]:
    files = []
    for m in range(2):
        table = np.random.default_rng(m).normal(size=(30, D)) * np.geomspace(3.0, 1.0, D)
        np.save(path := tmp_path / f"rows-{m}.npy", table)
        files.append(path)
    return files


FIXED: dict[str, Any] = {"solver": "power", "tol": 0.0, "seed": 3, "start": "seed"}


def make_stock(root: Path, **settings: Any) -> str:
    usual = {"d": D, "rank": RANK, "solver": "power", "iterations": TAU}
    return made_for(local_study(2, **(usual | settings)), root)


def made_for(study: Study, root: Path) -> str:
    """As `pdml-spdz offline make` on one machine."""
    command = ["offline", "make"]
    reports = supervise(
        PartyCommands(study, root / "logs", lambda m, file: [*command, str(file), "--id", str(m), "--stock", str(root)])
    )
    assert len({report["stock"] for report in reports}) == 1
    return str(reports[0]["stock"])


def svd(rows: list[Path], root: Path, out: Path, **settings: Any) -> dict[str, Any]:
    study = local_study(2, rank=RANK, iterations=TAU, **(FIXED | settings))
    return run_local(LocalRun(rows, study, out, stock=root)).report


def test_stock_serves_one_run_and_is_named(rows: list[Path], tmp_path: Path) -> None:
    root = tmp_path / "stocks"
    made = make_stock(root)
    with_stock = svd(rows, root, tmp_path / "first", offline="stock")
    assert with_stock["stock"]["id"] == made
    assert with_stock["stock"]["mode"] == "stock"
    assert with_stock["seconds"]["offline"] == 0.0
    assert with_stock["offline"]["bytes_sent"] == 0
    # The next run finds it spent: an error if it must have a stock, made in the run if it may.
    with pytest.raises(StockError, match=r"offline make|no stock"):
        svd(rows, root, tmp_path / "second", offline="stock")
    assert "LPN" in with_stock["security"]["model"]
    without = svd(rows, root, tmp_path / "third", vole="ot")
    assert "LPN" not in without["security"]["model"]
    assert without["stock"] == {"id": None, "claimed": without["stock"]["claimed"], "mode": "on-demand"}
    assert without["seconds"]["offline"] > 0
    first, third = (np.load(tmp_path / name / "V.npy") for name in ("first", "third"))
    assert np.abs(first - third).max() < 1e-6  # the same seed; they differ by their dither only


def test_on_demand_leaves_a_stock_alone(rows: list[Path], tmp_path: Path) -> None:
    root = tmp_path / "stocks"
    make_stock(root)
    svd(rows, root, tmp_path / "out", offline="on-demand")
    assert all(row.triples_left == row.triples and not row.claims for row in status(root))


def test_run_that_is_refused_before_its_first_sum_burns_nothing(rows: list[Path], tmp_path: Path) -> None:
    root = tmp_path / "stocks"
    make_stock(root, bound="1e-9")
    with pytest.raises(QuotaError):
        svd(rows, root, tmp_path / "out", offline="stock", bound="1e-9")
    assert not any(row.claims for row in status(root))


def test_run_that_ends_at_the_gate_burns_its_claim(rows: list[Path], tmp_path: Path) -> None:
    root = tmp_path / "stocks"
    make_stock(root, normalise="per-column", bound="1e30")
    settings: dict[str, Any] = {"normalise": "per-column", "offline": "stock", "bound": "1e30"}
    with pytest.raises(QuotaError, match="too small for the agreed bound and range"):
        svd(rows, root, tmp_path / "out", **settings)
    assert all(len(row.claims) == 1 for row in status(root))


def normed_sum(files: list[Path], out: Path, **settings: Any) -> tuple[np.ndarray, dict[str, Any]]:
    study = local_study(len(files), rank=1, algorithm="normed-sum", **settings)
    result = run_local(LocalRun(files, study, out))
    return result.V, result.report


@pytest.fixture
def vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    files = []
    for m in range(3):
        np.save(path := tmp_path / f"vector-{m}.npy", np.random.default_rng(m).normal(size=40) - 0.2)
        files.append(path)
    return files


def test_normed_sum_is_the_direction_of_the_sum(vectors: list[Path], tmp_path: Path) -> None:
    u, report = normed_sum(vectors, tmp_path / "out", bound="20")
    s = np.sum([np.load(path) for path in vectors], axis=0)
    assert np.linalg.norm(u - s / np.linalg.norm(s)) <= report["error_bound"]
    assert report["error_bound"] < 1e-7
    assert report["norm"] is None
    assert report["observables"] == [
        "u, the direction of the sum of all parties' vectors, to f_out bits, to every party"
    ]
    np.testing.assert_array_equal(u, np.load(tmp_path / "out" / "party-2" / "u.npy"))


def test_normed_sum_by_secsum_reveals_the_norm(vectors: list[Path], tmp_path: Path) -> None:
    _, report = normed_sum(vectors, tmp_path / "out", engine="secsum", reveal="sum")
    s = np.sum([np.load(path) for path in vectors], axis=0)
    assert report["norm"] == pytest.approx(float(np.linalg.norm(s)), rel=1e-12)
    assert report["observables"] == [
        "the sum of all parties' vectors, to every party",
        "the bound B, the sum of the parties' norms (||x_m||), to every party",
    ]
    assert "reveal sum: the sum, and with it its norm, is seen by every party" in report["warnings"]


def test_vector_that_is_too_long_is_refused_in_its_own_words(vectors: list[Path], tmp_path: Path) -> None:
    with pytest.raises(QuotaError, match=r"this party's \|\|x_m\|\| is .*; it was not sent"):
        normed_sum(vectors, tmp_path / "out", bound="0.01")


def test_repeats_are_counted_and_said(vectors: list[Path], tmp_path: Path) -> None:
    for i in range(3):
        _, report = normed_sum(vectors, tmp_path / f"out-{i}", engine="secsum", reveal="sum")
    # Three parties on this machine share one count each for their own vectors.
    assert any("3 times" in warning for warning in report["warnings"])


def test_repeats_beyond_the_limit_are_refused_before_anything_is_sent(tmp_path: Path) -> None:
    path = tmp_path / "repeats.json"
    assert [repeats.count(b"x", path) for _ in range(3)] == [1, 2, 3]
    assert repeats.count(b"y", path) == 1
    kept = json.loads(path.read_text())
    kept["uses"] = dict.fromkeys(kept["uses"], repeats.LIMIT)
    path.write_text(json.dumps(kept))
    with pytest.raises(QuotaError, match="nothing was sent"):
        repeats.count(b"x", path)
