"""The Python interface: its keywords are a study's, what is wrong is said at once, and a result says no numbers."""

from __future__ import annotations

import inspect
import tempfile
import threading
from collections.abc import Callable
from dataclasses import MISSING
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdml_spdz
from pdml_spdz.errors import EngineError, InputError, MismatchError, StudyError
from pdml_spdz.local.joint import LocalRun, local_study, run_local
from pdml_spdz.study import algorithm as algorithms
from pdml_spdz.study.model import Study
from pdml_spdz.system import process
from pdml_spdz.transport import certs

FUNCTIONS = {"svd": pdml_spdz.svd, "pca": pdml_spdz.pca, "nmf": pdml_spdz.nmf, "normed-sum": pdml_spdz.normed_sum}
CHOSEN = ("engine", "reveal", "start")  # None: by what else is given
FAST: dict[str, Any] = {"engine": "secsum", "seed": 1, "transport": "threads"}


def tables(M: int = 3, d: int = 4) -> list[np.ndarray]:
    return [np.random.default_rng(m).gamma(1.0, size=(12, d)) * 2.0 ** -np.arange(d) for m in range(M)]


def default(name: str, algorithm: str) -> Any:
    f = Study.__dataclass_fields__[name]
    usual = f.default if f.default_factory is MISSING else f.default_factory()
    return algorithms.ALGORITHMS[algorithm].defaults.get(name, usual)


@pytest.mark.parametrize("algorithm", FUNCTIONS)
def test_keywords_are_explicit_and_have_the_defaults_of_a_study(algorithm: str) -> None:
    parameters = inspect.signature(FUNCTIONS[algorithm]).parameters.values()
    assert all(p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) for p in parameters)
    settings = [p for p in parameters if p.name in Study.__dataclass_fields__ and p.name not in ("parties", "rank")]
    for p in settings:
        assert p.default == (None if p.name in CHOSEN else default(p.name, algorithm)), p.name
    for p in parameters:
        if p.name in LocalRun.__dataclass_fields__ and p.name != "parties":
            assert p.default == LocalRun.__dataclass_fields__[p.name].default, p.name


def test_every_setting_of_a_study_is_a_keyword_and_has_a_line() -> None:
    found = {name for f in FUNCTIONS.values() for name in inspect.signature(f).parameters}
    assert set(Study.__dataclass_fields__) - found == {"algorithm"}
    lines = [line.strip() for f in FUNCTIONS.values() for line in (f.__doc__ or "").splitlines()]
    for name in found:
        assert any(line.startswith(f"{name} : ") for line in lines), name


def test_all_names_are_there() -> None:
    assert {"svd", "pca", "nmf", "normed_sum", "run_party", "Study", "SVDResult", "PCAResult", "NMFResult"} <= set(
        pdml_spdz.__all__
    )
    for name in pdml_spdz.__all__:
        assert getattr(pdml_spdz, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'sdv'"):
        _ = pdml_spdz.sdv


BAD: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "keyword": (lambda: pdml_spdz.svd(tables(), rank=1, itertions=3), TypeError, "did you mean `iterations`"),
    "strange keyword": (
        lambda: pdml_spdz.nmf(tables(), rank=1, qqq=3),
        TypeError,
        "unexpected keyword argument 'qqq'$",
    ),
    "engine": (lambda: pdml_spdz.svd(tables(), rank=1, engine="embeded"), StudyError, "did you mean `embedded`"),
    "centre": (lambda: pdml_spdz.pca(tables(), rank=1, centre="hiden"), StudyError, "did you mean `hidden`"),
    "bound": (lambda: pdml_spdz.svd(tables(), rank=1, bound="windw"), StudyError, "did you mean `window`"),
    "transport": (lambda: pdml_spdz.svd(tables(), rank=1, transport="thread"), StudyError, "did you mean `threads`"),
    "init": (
        lambda: pdml_spdz.nmf(tables(), rank=1, nmf=pdml_spdz.NmfSettings(init="nnsdv")),
        StudyError,
        "did you mean `nnsvd`",
    ),
    "progress": (lambda: pdml_spdz.svd(tables(), rank=1, progress=3), StudyError, "`progress` is 3"),
    "rank": (lambda: pdml_spdz.svd(tables(), rank=5), InputError, "the rank asked for is 5"),
    "seed": (
        lambda: pdml_spdz.svd(tables(), rank=1, seed=1, start="secsum"),
        StudyError,
        "`start` and `seed` disagree",
    ),
    "nan": (
        lambda: pdml_spdz.svd([*tables(2), np.full((2, 4), np.nan)], rank=1),
        InputError,
        "table of P2 has missing values",
    ),
    "shape": (lambda: pdml_spdz.svd([np.zeros(3), np.eye(3)], rank=1), InputError, r"table of P0 holds .* \(3,\)"),
    "widths": (lambda: pdml_spdz.svd([np.eye(3), np.eye(4)], rank=1), MismatchError, "3 at P0, 4 at P1"),
    "negative": (lambda: pdml_spdz.nmf([-np.eye(3), np.eye(3)], rank=1), InputError, "3 negative entries"),
    "path": (lambda: pdml_spdz.svd([np.eye(3), "none.npy"], rank=1), InputError, "none.npy is not there"),
    "one party": (lambda: pdml_spdz.svd(tables(1), rank=1), StudyError, "1 parties"),
    "offsets": (lambda: pdml_spdz.pca(tables(), rank=1, offsets=np.zeros(3)), InputError, "4 columns and the study 3"),
    "engine in threads": (
        lambda: pdml_spdz.svd(tables(), rank=1, engine="mp-spdz", transport="threads"),
        EngineError,
        "needs processes",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_said_before_anything_is_started(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*arguments: Any, **options: Any) -> Any:
        pytest.fail("a process, a thread or a certificate for a run that cannot be")

    for where, name in ((process, "start"), (certs, "make"), (tempfile, "mkdtemp"), (threading, "Thread")):
        monkeypatch.setattr(where, name, started)
    call, kind, text = BAD[case]
    with pytest.raises(kind, match=text):
        call()


def test_results_say_shapes_and_never_numbers() -> None:
    X = tables()
    results = [
        pdml_spdz.svd(X, rank=2, **FAST),
        pdml_spdz.pca(X, rank=2, variance=True, **FAST),
        pdml_spdz.nmf(X, rank=2, iterations=3, **FAST),
        run_local(LocalRun(X, local_study(3, rank=2, engine="plain"), transport="threads")),
    ]
    texts = [repr(result) for result in results]
    t = [result.report["iterations"] for result in results]
    assert texts == [
        f"SVDResult(V (4, 2), 3 parties, engine secsum, {t[0]} iterations, reveals sum; singular_values)",
        f"PCAResult(V (4, 2), 3 parties, engine secsum, {t[1]} iterations, reveals sum; mean, explained_variance)",
        "NMFResult(T (2, 4), 3 parties, engine secsum, 3 iterations, NOT converged, reveals sum; W)",
        f"LocalResult(V.npy (4, 2), 3 parties, engine plain, {t[3]} iterations, reveals sum)",
    ]
    assert "array" not in repr(LocalRun(X, local_study(3, rank=2)))


def test_progress_is_told_by_every_party_or_shown_on_standard_error(capfd: pytest.CaptureFixture[str]) -> None:
    seen: list[tuple[int, dict[str, Any]]] = []
    result = pdml_spdz.svd(tables(), rank=1, **FAST, progress=lambda party, event: seen.append((party, event)))
    steps = {m: [e["t"] for p, e in seen if p == m and e["event"] == "iteration"] for m in range(3)}
    assert steps == {m: list(range(1, result.report["iterations"] + 1)) for m in range(3)}
    pdml_spdz.svd(tables(), rank=1, **FAST, progress=True)
    shown = capfd.readouterr()
    assert shown.out == ""
    assert "iterations" in shown.err
    assert "P1: the table of P1: 12 rows x 4 columns" in shown.err


def test_threads_keep_and_resume_a_run_as_processes_do(tmp_path: Path) -> None:
    X, settings = tables(), FAST | {"rank": 2, "solver": "power", "tol": 0.0, "bound": 1000, "out": tmp_path}
    pdml_spdz.svd(X, iterations=3, **settings)
    going_on = pdml_spdz.svd(X, iterations=6, resume=True, **settings)
    assert going_on.report["iterations"] == 6
    np.testing.assert_array_equal(np.load(tmp_path / "V.npy"), going_on.V)
    found = {p.name for p in tmp_path.iterdir()}
    assert found == {"V.npy", "loadings.csv", "party-0", "party-1", "party-2", "report.json", "result.html"}
    by_processes = pdml_spdz.svd(X, iterations=6, resume=True, **(settings | {"transport": "processes"}))
    np.testing.assert_array_equal(by_processes.V, going_on.V)  # it has finished: nothing more is done
    assert by_processes.report == going_on.report


ALGORITHMS: dict[str, dict[str, Any]] = {"svd": {}, "pca": {"variance": True}, "nmf": {"iterations": 3}}


@pytest.mark.parametrize("algorithm", [*ALGORITHMS, "normed-sum"])
def test_a_key_of_a_report_has_one_type(algorithm: str) -> None:
    rank, X = (1, [x[0] for x in tables()]) if algorithm == "normed-sum" else (2, tables())
    study = local_study(3, algorithm=algorithm, rank=rank, engine="secsum", **ALGORITHMS.get(algorithm, {}))
    done = run_local(LocalRun(X, study, transport="threads"))
    for own in done.party_reports:
        assert set(done.report) - set(own) == {"by_party"}
        assert set(own) <= set(done.report)
        for name, value in own.items():
            nobodys = done.report[name] is None and name in ("party_id", "rows_own")
            assert nobodys or _kind(done.report[name]) == _kind(value), name
    for name, values in done.report["by_party"].items():
        assert values == [own[name] for own in done.party_reports]
    assert "rows_own" not in done.report["by_party"]
    for way, back in (("sent", "received"), ("received", "sent")):
        assert done.report[f"bytes_{way}"] == sum(done.report["by_party"][f"bytes_{way}"])
        # What was sent to a party is what it received.
        for m, own in enumerate(done.party_reports):
            assert done.report["traffic"][f"P{m}"][way] == own[f"bytes_{back}"]


def _kind(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _kind(v) for name, v in value.items() if not name.startswith("P")}  # peers: one has no P0
    return {int: float}.get(type(value), type(value))
