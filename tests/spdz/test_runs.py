"""Whole runs with the engine mp-spdz, one process a party: PD-SVD against NumPy, and stocks that serve one run."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdml_spdz import api
from pdml_spdz.algorithms.solver import start_by_seed
from pdml_spdz.engines.mp_spdz.preprocessing import Preprocessing
from pdml_spdz.errors import EngineError, ProtocolError, StockError
from pdml_spdz.local.joint import LocalRun, local_study, run_local
from pdml_spdz.numerics.linalg import fix_signs, orthonormalise, sine
from pdml_spdz.offline.stock import look
from pdml_spdz.primitives.agree import Agreement
from pdml_spdz.run.party import offline_plan
from pdml_spdz.study.model import PrecisionSettings
from pdml_spdz.transport.inprocess import mesh
from tests.embedded.test_svd import centralised, noise
from tests.parties.helpers import run
from tests.spdz.helpers import LONG, MARKS, REQUIRED, machines, need, spent

pytestmark = REQUIRED
D = 4
SMALL = PrecisionSettings(bits=10, range=20)  # an unlucky start is well within the range
SVD = [
    "--rank",
    "1",
    "--solver",
    "power",
    "--iterations",
    "6",
    "--engine",
    "mp-spdz",
    "--protocol",
    "semi",
    "--bits",
    "10",
    "--range",
    "20",
]
SVD += ["--bound", "1000"]


def tables(M: int = 2, d: int = D) -> list[np.ndarray]:
    """Rows whose singular values are a factor of three apart."""
    return [np.random.default_rng(m).standard_normal((9 + m, d)) * 3.0 ** -np.arange(d) for m in range(M)]


def svd(X: list[np.ndarray], **settings: Any) -> api.SVDResult:
    return api.svd(X, **({"engine": "mp-spdz", "protocol": "semi"} | settings))


def start(d: int, k: int, seed: int) -> np.ndarray:
    (link,) = mesh(1)
    return start_by_seed(d, k, seed, Agreement(link))


def nothing_is_left(tmp_path: Path, temporary: Path) -> None:
    assert machines(tmp_path) == []
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("protocol", "M", "precision"),
    [
        pytest.param("semi", 2, PrecisionSettings(), marks=MARKS),
        pytest.param("mascot", 2, SMALL, marks=LONG),
        pytest.param("semi", 3, PrecisionSettings(20, 20), marks=LONG),
        pytest.param("semi2k", 2, PrecisionSettings(), marks=LONG),
        pytest.param("hemi", 2, PrecisionSettings(), marks=LONG),
    ],
)
def test_v_equals_pooled_svd(
    tmp_path: Path, temporary: Path, protocol: str, M: int, precision: PrecisionSettings
) -> None:
    need(protocol)
    X, k, tol = tables(M, d=6), 2, 1e-7
    result = svd(X, rank=k, protocol=protocol, iterations=30, tol=tol, precision=precision, bound="secsum")
    report = result.report
    assert report["converged"]
    assert (report["engine"], report["protocol"], report["singular_values"]) == ("mp-spdz", protocol, None)
    assert report["security"]["malicious"] == (protocol == "mascot")
    assert report["mp_spdz"]["executions"] == 1  # one machine for the whole fit
    assert report["stock"]["mode"] == "on-demand"
    pooled = np.concatenate(X)
    sigma, V = np.linalg.svd(pooled, compute_uv=False), np.linalg.svd(pooled, full_matrices=False)[2][:k].T
    # As in tests/embedded/test_svd.py: the last change, and the noise of all iterations, shrink by q in each.
    q, each = (sigma[k] / sigma[k - 1]) ** 2, noise(M, 6, precision.bits)
    assert sine(V, result.V) <= (max(tol, 2 * each) * q + 2 * np.sqrt(k) * each) / (1 - q)
    nothing_is_left(tmp_path, temporary)


@pytest.mark.parametrize(
    ("protocol", "M", "precision"),
    [
        pytest.param("semi", 2, PrecisionSettings(), marks=MARKS),
        pytest.param("mascot", 2, SMALL, marks=LONG),
        pytest.param("semi", 3, PrecisionSettings(20, 20), marks=LONG),
    ],
)
def test_hidden_mean_gives_the_principal_components(
    tmp_path: Path, temporary: Path, protocol: str, M: int, precision: PrecisionSettings
) -> None:
    need(protocol)
    d, k, tol = 6, 2, 1e-7
    X = [table + 3.0 + m for m, table in enumerate(tables(M, d))]
    settings = {"engine": "mp-spdz", "protocol": protocol, "iterations": 30, "tol": tol, "precision": precision}
    settings["bound"] = "secsum" if precision.range else "auto"  # a small range has no room for a blurred exponent
    result = api.pca(X, rank=k, centre="hidden", **settings)
    report = result.report
    assert result.mean is None
    assert report["converged"]
    assert (report["program"], report["mp_spdz"]["executions"]) == ("scaled_sum_centred", 1)
    pooled = np.concatenate(X)
    _, sigma, rows = np.linalg.svd(pooled - pooled.mean(axis=0), full_matrices=False)
    # As for PD-SVD; and the scaled mean, off by M units of f_inv, times kappa <= lambda_1 / lambda_k.
    mean = M * np.sqrt(d) * 2.0 ** -(precision.bits + 16) * (sigma[0] / sigma[k - 1]) ** 2
    q, each = (sigma[k] / sigma[k - 1]) ** 2, noise(M, d, precision.bits) + mean
    assert sine(rows[:k].T, result.V) <= (max(tol, 2 * each) * q + 2 * np.sqrt(k) * each) / (1 - q)
    nothing_is_left(tmp_path, temporary)


@pytest.mark.spdz
def test_one_machine_for_each_column_and_iteration(tmp_path: Path, temporary: Path) -> None:
    X, k, tau = tables(), 1, 2
    settings = {"normalise": "per-column", "online": "per-column", "precision": PrecisionSettings(20, 20)}
    settings["bound"] = "secsum"
    result = svd(X, rank=k, iterations=tau, tol=0.0, seed=5, **settings)
    assert result.report["mp_spdz"]["executions"] == k * tau
    pooled = np.concatenate(X)
    V = centralised(pooled.T @ pooled, start(D, k, 5), tau)
    # With one column no noise is magnified: V is off by what the last call adds, and what is left of the ones before.
    assert np.abs(V - fix_signs(result.V)).max() <= 2 * tau * noise(2, D, 20)
    nothing_is_left(tmp_path, temporary)


@pytest.mark.spdz
def test_program_of_the_paper(tmp_path: Path, temporary: Path) -> None:
    X, k, tau, f = tables(d=3), 1, 2, 20
    settings = {"normalise": "per-column", "program": "paper", "precision": PrecisionSettings(f, 20)}
    result = svd(X, rank=k, iterations=tau, tol=0.0, seed=5, **settings)
    assert result.report["program"] == "normed_sum_paper"
    pooled = np.concatenate(X)
    V = start(3, k, 5)
    for _ in range(tau):
        V, _ = orthonormalise(pooled.T @ pooled @ V)
    # Its squares have f bits, so half of them is what can be hoped for (PaperColumns).
    assert np.abs(fix_signs(V) - result.V).max() <= tau * np.sqrt(3) * 2.0 ** (-f / 2)
    nothing_is_left(tmp_path, temporary)


@pytest.mark.spdz
def test_program_of_the_paper_ends_where_a_sum_has_no_bits(tmp_path: Path, temporary: Path) -> None:
    settings = {"normalise": "per-column", "program": "paper", "precision": PrecisionSettings(20, 20), "bound": "1e6"}
    with pytest.raises(ProtocolError, match="the paper's program has lost its length") as error:
        svd(tables(d=3), rank=1, iterations=2, tol=0.0, seed=5, **settings)
    assert "the direction of S v_i" in str(error.value)  # what was opened is said
    (logs,) = temporary.iterdir()  # of a run that was given no directory
    assert f"the logs are in {logs}/party-*" in str(error.value)
    assert {path.name for path in logs.glob("party-*/*")} == {"log", "vm.log"}
    assert machines(tmp_path) == []


# Stocks, by the command line


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    for m, X in enumerate(tables()):
        np.save(tmp_path / f"rows-{m}.npy", X)
    return ["rows-0.npy", "rows-1.npy"]


@pytest.mark.spdz
def test_stock_serves_one_run(tmp_path: Path, temporary: Path, files: list[str]) -> None:
    made = run("offline", "make", "--parties", "2", "--dim", str(D), *SVD, "--stock", "stocks", "--json", cwd=tmp_path)
    made.well()
    (stock,) = {report["stock"] for report in json.loads(made.out)}
    root = tmp_path / "stocks" / "mp-spdz"
    assert [(s.name, s.party, s.claims) for s in look(Preprocessing, root)] == [(stock, 0, ()), (stock, 1, ())]

    common = ["svd", *files, *SVD, "--tol", "0", "--stock", "stocks", "--offline", "stock", "--no-accuracy"]
    run(*common, "--out", "first", cwd=tmp_path).well()
    report = json.loads((tmp_path / "first" / "report.json").read_text())
    assert (report["stock"]["id"], report["stock"]["mode"]) == (stock, "stock")
    assert report["mp_spdz"]["stocks"] == [stock]
    assert [(s.name, s.party, len(s.claims)) for s in look(Preprocessing, root)] == [(stock, 0, 1), (stock, 1, 1)]
    left = {path.name for path in root.parent.rglob("*")}
    assert left == {"mp-spdz", ".making-0", ".making-1", *spent(root.parent, 0), *spent(root.parent, 1)}

    second = run(*common, "--out", "second", cwd=tmp_path)
    second.failed(StockError, "there is no unused stock for this program that all parties have", "offline make")
    nothing_is_left(tmp_path, temporary)


@pytest.mark.spdz
def test_stocks_that_do_not_suffice_for_the_whole_run_are_counted(
    tmp_path: Path, temporary: Path, files: list[str]
) -> None:
    each = ["--normalise", "per-column", "--online", "per-column", "--stock", "stocks"]
    fewer = [*SVD, *each]
    fewer[fewer.index("--iterations") + 1] = "2"
    made = run("offline", "make", "--parties", "2", "--dim", str(D), *fewer, "--json", cwd=tmp_path)
    made.well()
    stocks = json.loads(made.out)[0]["stocks"]
    assert len(stocks) == 2  # one for each column and iteration
    done = run("svd", *files, *SVD, *each, "--tol", "0", "--no-accuracy", "--out", "out", cwd=tmp_path)
    done.well()
    assert "offline material: 2 of 6 executions from stocks, the others' made in the run" in " ".join(done.out.split())
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert (report["stock"]["mode"], set(report["mp_spdz"]["stocks"])) == ("mixed", set(stocks))
    assert report["stock"]["executions"] == {"from stock": 2, "on demand": 4}
    nothing_is_left(tmp_path, temporary)


@pytest.mark.spdz
def test_stock_is_for_the_iterations_that_are_expected(tmp_path: Path, temporary: Path, files: list[str]) -> None:
    """A run that needs more ends with it, and goes on with fresh material."""
    more = [*SVD, "--tol", "0", "--stock", "stocks"]
    more[more.index("--iterations") + 1] = "130"
    plan = [word for word in more if word not in ("--stock", "stocks")]
    forecast = run("offline", "plan", "--parties", "2", "--dim", str(D), *plan, "--json", cwd=tmp_path)
    forecast.well()
    assert json.loads(forecast.out)["iterations"] == 100
    run("offline", "make", "--parties", "2", "--dim", str(D), *more, cwd=tmp_path).well()
    command = ["svd", *files, *more, "--no-accuracy", "--out", "out"]
    ended = run(*command, "--offline", "stock", cwd=tmp_path)
    ended.failed(EngineError, "takes more iterations than a stock is made for", "go on with --resume")
    assert list(tmp_path.rglob("Triples-*")) == []
    run(*command, "--resume", cwd=tmp_path).well()
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert (report["iterations"], report["stock"]["mode"]) == (130, "on-demand")
    pooled = np.concatenate(tables())
    assert sine(np.linalg.svd(pooled)[2][:1].T, np.load(tmp_path / "out" / "V.npy")) <= 2 * noise(2, D, 10)
    shutil.rmtree(tmp_path / "out")
    nothing_is_left(tmp_path, temporary)


@pytest.mark.spdz
@pytest.mark.parametrize("protocol", ["semi", pytest.param("hemi", marks=LONG), pytest.param("mascot", marks=LONG)])
def test_forecast_of_bytes_is_what_a_run_sends(tmp_path: Path, protocol: str) -> None:
    need(protocol)
    d, k, tau = (300, 2, 10) if protocol != "mascot" else (20, 1, 2)
    settings: dict[str, Any] = {"engine": "mp-spdz", "protocol": protocol, "offline": "on-demand", "solver": "power"}
    settings |= {"rank": k, "iterations": tau, "tol": 0.0, "precision": SMALL, "bound": "2000", "d": d}
    study = local_study(2, **settings)
    expected = offline_plan(study, None).facts["forecast"]
    X = [np.random.default_rng(m).standard_normal((k + 2, d)) for m in range(2)]
    own, _ = run_local(LocalRun(X, study, tmp_path / "out")).party_reports
    found = own["offline"]["bytes_sent"]
    # Material is made in batches, of which the last is not used up.
    assert 0.8 * found <= expected["sent"] <= 1.1 * found


@pytest.mark.spdz
def test_bytes_and_rounds_are_those_of_the_virtual_machines_too(tmp_path: Path, temporary: Path) -> None:
    settings = {"engine": "mp-spdz", "protocol": "semi", "precision": SMALL, "bound": "1000"}
    study = local_study(2, rank=1, iterations=3, tol=0.0, solver="power", **settings)
    result = run_local(LocalRun(tables(), study, tmp_path / "out"))
    for own in result.party_reports:
        said = own["mp_spdz"]
        offline, links = said["offline"], sum(way["sent"] for way in own["traffic"].values())
        assert 0 < offline["megabytes_sent"] < said["megabytes_sent"]
        assert said["cpu_seconds"] > 0
        assert own["offline"]["bytes_sent"] == round(1e6 * offline["megabytes_sent"])
        assert own["bytes_sent"] + own["offline"]["bytes_sent"] == links + round(1e6 * said["megabytes_sent"])
        assert own["rounds"] > said["rounds"] - offline["rounds"] > 0
    assert result.report["bytes_sent"] == sum(own["bytes_sent"] for own in result.party_reports)


@pytest.mark.spdz
def test_missing_stock_has_the_command_that_makes_one(tmp_path: Path, temporary: Path, files: list[str]) -> None:
    """The command that the message gives makes a stock that serves the run which had none."""
    common = ["svd", *files, *SVD, "--tol", "0", "--stock", "stocks", "--offline", "stock", "--no-accuracy"]
    failed = run(*common, "--out", "first", cwd=tmp_path)
    failed.failed(StockError, "there is no unused stock for this program that all parties have")
    said = re.search(r"`pdml-spdz (offline make --algorithm[^`]*)`", " ".join(failed.err.split()))
    assert said is not None
    (elsewhere := tmp_path / "elsewhere").mkdir()
    run(*shlex.split(said[1]), cwd=elsewhere).well()
    run(*common, "--out", "second", cwd=tmp_path).well()


@pytest.mark.spdz
def test_blocks_of_krylov_become_narrower_and_are_resumed(tmp_path: Path, temporary: Path) -> None:
    """Four columns, and then the two that are left of six: the program takes four, of which two are zero. Resumed after
    the first block, with another secret scale, they fit to it.
    """
    X, k = tables(d=6), 2
    study = local_study(2, rank=k, engine="mp-spdz", protocol="semi", precision=PrecisionSettings(), bound="1000")
    cut = run_local(LocalRun(X, replace(study, iterations=1), tmp_path / "out"))
    assert (cut.report["iterations"], cut.report["converged"]) == (1, False)
    done = run_local(LocalRun(X, study, tmp_path / "out", resume=True, record_transcript=True))
    assert done.transcript is not None
    widths = [entry.arrays["scaled"].shape[1] for entry in done.transcript.entries if entry.step == "columns"]
    assert widths[0] == 4  # the first block once more, at the new scale
    assert 2 in widths[1:]
    report, V = done.report, np.linalg.svd(np.concatenate(X))[2][:k].T
    assert report["converged"]
    assert sine(V, done.V) <= report["sine_bound"]["span"] <= 1e-6
    nothing_is_left(tmp_path, temporary)
