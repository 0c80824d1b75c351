"""The solver krylov between processes: cut off and resumed, by a stock, and what studies and reports say of it."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdml_spdz.errors import StockError
from pdml_spdz.local.joint import LocalRun, local_study, run_local
from tests.opened import off
from tests.parties.helpers import Parties, close_rows, run, until
from tests.parties.test_offline import make_stock

D, K = 40, 3
EMBEDDED: dict[str, Any] = {"engine": "embedded", "reveal": "normed", "bound": "1e4"}


def checked(V: np.ndarray, report: dict[str, Any], M: int = 2) -> None:
    """As exact as the report says, and as was asked for."""
    columns, span = off(V, np.linalg.svd(np.vstack([close_rows(m, D) for m in range(M)]))[2].T)
    bound = report["sine_bound"]
    assert (report["solver"], report["converged"]) == ("krylov", True)
    assert span <= bound["span"] < 1e-7
    assert np.all(columns <= bound["columns"])


def given(site: Parties) -> Parties:
    for m in range(site.M):
        site.give(m, close_rows(m, D))
    return site


def outcome(site: Parties) -> tuple[np.ndarray, dict[str, Any]]:
    V = [np.load(site.results(m) / "V.npy") for m in range(site.M)]
    np.testing.assert_array_equal(V[0], V[1])
    return V[0], json.loads((site.results(0) / "report.json").read_text())


@pytest.mark.parametrize("settings", [{}, EMBEDDED], ids=["secsum", "embedded"])
def test_resumed_from_all_that_was_shown(parties: Callable[..., Parties], settings: dict[str, Any]) -> None:
    site = given(parties(rank=K, tol=1e-7, iterations=4, **settings))
    for end in site.run():
        end.well()
    _, cut = outcome(site)
    assert (cut["iterations"], cut["converged"]) == (4, False)
    assert any("not converged: after 4 iterations" in w for w in cut["warnings"])
    site.change_studies(iterations=60)
    for end in site.run("--resume"):
        end.well()
    assert "resuming after iteration 4" in site.processes[0].out
    V, report = outcome(site)
    checked(V, report)
    # Blocks from anew, without what was shown before, would be as many as in one run.
    whole = given(parties(rank=K, tol=1e-7, iterations=60, **settings))
    for end in whole.run():
        end.well()
    assert report["iterations"] <= outcome(whole)[1]["iterations"] + 2


def test_killed_anywhere_and_resumed(parties: Callable[..., Parties]) -> None:
    site = given(parties(rank=K, tol=1e-7, iterations=60, **EMBEDDED))
    for m in range(2):
        site.start(m)
    until(lambda: len(site.checkpoints(1)) >= 2)
    site.processes[1].signal(signal.SIGKILL)
    site.end()
    for end in site.run("--resume"):
        end.well()
    checked(*outcome(site))


def test_stock_of_the_plan_serves_one_run_and_a_resumed_one_takes_another(tmp_path: Path) -> None:
    root, files = tmp_path / "stocks", [tmp_path / f"rows-{m}.npy" for m in range(2)]
    for m, path in enumerate(files):
        np.save(path, close_rows(m, D))
    plan: dict[str, Any] = {"rank": K, "d": D, "solver": "krylov", "iterations": 60, "bound": "1e4"}
    made = {make_stock(root, **plan) for _ in range(2)}
    study = {name: plan[name] for name in ("rank", "bound")} | {"offline": "stock", "engine": "embedded"}

    def fit(out: str, **settings: Any) -> dict[str, Any]:
        return run_local(LocalRun(files, local_study(2, **study, **settings), tmp_path / out, stock=root)).report

    cut = fit("a", iterations=3)
    options: dict[str, Any] = {"resume": True, "stock": root}
    resumed = run_local(LocalRun(files, local_study(2, **study), tmp_path / "a", **options))
    checked(resumed.V, resumed.report)
    # Each has a delta of its own, and neither stock is used again.
    assert {cut["stock"]["id"], resumed.report["stock"]["id"]} == made
    with pytest.raises(StockError):
        fit("b")


def test_study_and_commands_say_which_solver(tmp_path: Path) -> None:
    run("init", "--parties", "2", "--rank", "3", "--dim", "40", cwd=tmp_path).well()
    text = (tmp_path / "study.toml").read_text()
    assert 'solver = "krylov"' in text
    assert "iterations = 60" in text
    assert "tol = 1e-07" in text
    run("init", "--parties", "2", "--rank", "3", "--normalise", "per-column", "--out", "p.toml", cwd=tmp_path).well()
    text = (tmp_path / "p.toml").read_text()
    assert 'solver = "power"' in text
    assert "iterations = 300" in text
    assert "tol = 1e-09" in text
    for m in range(2):
        np.save(tmp_path / f"{m}.npy", close_rows(m, D))
    shown = run("svd", "0.npy", "1.npy", "--rank", "3", "--engine", "secsum", "--seed", "1", cwd=tmp_path)
    shown.well()
    assert "error at most (sines): span" in shown.out
    refused = run(
        "svd", "0.npy", "1.npy", "--rank", "3", "--solver", "krylov", "--normalise", "per-column", cwd=tmp_path
    )
    assert refused.code != 0
    assert "it needs one scale for all columns of a fit" in refused.err + refused.out
