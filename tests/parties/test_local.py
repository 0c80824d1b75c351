"""The local command's parties: what comes of their errors, and whether they agree on the result."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdml_spdz.errors import INTERRUPTED, InputError, PdmlError, PeerError, StorageError
from pdml_spdz.local import supervisor
from pdml_spdz.local.joint import LocalResult, LocalRun, local_study, run_local
from pdml_spdz.numerics.fixedpoint import Format
from pdml_spdz.numerics.linalg import sine
from pdml_spdz.study.model import Timeouts
from pdml_spdz.system import process
from tests.parties.helpers import EMBEDDED, ENDLESS, SETTINGS, Parties, processes_with, rows, slow_rows, until


def local_run(directory: Path, X: list[np.ndarray], **changes: Any) -> LocalRun:
    """A run with one party for each array; `changes` are the study's or the run's."""
    files = [directory / f"rows-{m}.npy" for m in range(len(X))]
    for path, rows_m in zip(files, X, strict=True):
        np.save(path, rows_m)
    of_run = {name: changes.pop(name) for name in ("environment", "notify", "force", "resume") if name in changes}
    return LocalRun(files, local_study(len(X), **(SETTINGS | changes)), directory / "out", **of_run)


def test_error_names_every_party_and_raises_the_first_cause(tmp_path: Path) -> None:
    run = local_run(tmp_path, [rows(0), rows(1), np.full((2, 6), np.inf)])
    with pytest.raises(InputError) as caught:
        run_local(run)
    text = str(caught.value)
    assert f"P2 (exit code 3): {tmp_path}/rows-2.npy has entries that are not finite" in text
    for m in (0, 1):
        assert f"P{m} (exit code 8): P2 ended the run: it could not use its own input file" in text
    assert f"Do this: the logs are in {tmp_path}/out/party-*" in text
    assert caught.value.culprit == 2


def test_error_after_a_stop_by_hand_has_its_words_and_its_code(tmp_path: Path) -> None:
    def stop(m: int, event: dict[str, Any]) -> None:
        if event["event"] == "iteration" and m == 1:
            for pid in processes_with(f"{tmp_path}/rows-1.npy"):
                os.kill(pid, signal.SIGTERM)

    with pytest.raises(PdmlError) as caught:
        run_local(local_run(tmp_path, [slow_rows(), slow_rows()], **ENDLESS, notify=stop))
    assert "P1: stopped by a signal; last words: pdml-spdz: stopped." in str(caught.value)
    assert "By SIGTERM." in str(caught.value)
    assert "SIGINT" not in str(caught.value)
    assert (caught.value.code, caught.value.culprit) == (INTERRUPTED, 1)


LEAVES = """
import numpy, sys, pdml_spdz
if __name__ == "__main__":
    X = [numpy.random.default_rng(m).random((50, 9)) for m in range(2)]
    pdml_spdz.nmf(X, rank=3, iterations=int(sys.argv[1]), tol=0, transport=sys.argv[2])
"""


@pytest.mark.parametrize("transport", ["threads", "processes"])
def test_what_a_killed_run_has_left_goes_with_the_next(tmp_path: Path, transport: str) -> None:
    """Own W too; and logs of runs that failed, a day later."""
    (tmp_path / "run.py").write_text(LEAVES)
    logs = [tmp_path / f"pdml-spdz-logs-{name}" for name in ("old", "new")]
    for place in logs:
        place.mkdir()
    os.utime(logs[0], (0, 0))
    words, environment = [sys.executable, str(tmp_path / "run.py")], os.environ | {"TMPDIR": str(tmp_path)}
    killed = subprocess.Popen([*words, "100000", transport], env=environment)
    until(lambda: len(list(tmp_path.rglob("iteration-*.npz"))) > 2)
    for path in tmp_path.rglob("iteration-*.npz"):
        with suppress(FileNotFoundError):
            assert path.stat().st_mode & 0o077 == 0
    killed.kill()
    killed.wait()
    until(lambda: not processes_with(str(tmp_path / "pdml-spdz-")))  # the parties notice, and end
    subprocess.run([*words, "2", transport], env=environment, check=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pdml-spdz-logs-new", "run.py"]


def test_error_after_a_kill_names_the_killed(tmp_path: Path) -> None:
    def kill(m: int, event: dict[str, Any]) -> None:
        if event["event"] == "iteration" and m == 1:
            for pid in processes_with(f"{tmp_path}/rows-1.npy"):
                os.kill(pid, 9)

    with pytest.raises(PeerError) as caught:
        run_local(local_run(tmp_path, [slow_rows(), slow_rows()], **ENDLESS, notify=kill))
    assert "P1: killed by signal SIGKILL" in str(caught.value)
    assert "P0 (exit code 7): P1 closed the connection" in str(caught.value)
    assert caught.value.culprit == 1


@pytest.mark.parametrize("settings", [{}, {"engine": "plain"}, EMBEDDED], ids=["secsum", "plain", "embedded"])
def test_command_ends_when_a_party_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str]
) -> None:
    """The other one gives it up after the study's time-out; the stopped process is ended, and said to be the reason."""
    monkeypatch.setattr(supervisor, "LINGER", 0.5)

    def stop(m: int, event: dict[str, Any]) -> None:
        if event["event"] == "iteration" and event["t"] == 3:
            (number,) = processes_with(f"{tmp_path}/rows-1.npy")
            os.kill(number, signal.SIGSTOP)

    times = Timeouts(connect=30, round=3)
    with pytest.raises(PeerError) as caught:
        run_local(local_run(tmp_path, [slow_rows(), slow_rows()], **(ENDLESS | settings), timeouts=times, notify=stop))
    assert "P0 (exit code 7): P1 sent nothing for" in str(caught.value)
    assert "P1: it was stopped, by a signal, a debugger or a batch system" in str(caught.value)
    assert caught.value.culprit == 1
    assert processes_with(str(tmp_path)) == []


@pytest.mark.parametrize("ends_well", [False, True])
def test_party_that_stays_is_ended_after_a_failure_and_not_after_success(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ends_well: bool
) -> None:
    """P0 ends at once; P1 takes longer than parties have after a failure, and does not listen when asked to end."""
    monkeypatch.setattr(supervisor, "LINGER", 0.2)
    monkeypatch.setattr(process, "start", of_program)
    first = 'print(\'{"event": "report", "report": {}}\')' if ends_well else "sys.exit(3)"
    second = "signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1.5 if ends_well else 60)"
    report = 'print(\'{"event": "report", "report": {}}\')'
    texts = [first, f"ends_well = {ends_well}; {second}; {report}"]
    commands = supervisor.PartyCommands(local_study(2, **SETTINGS), tmp_path, lambda m, study: [texts[m]])
    if ends_well:
        assert supervisor.supervise(commands) == [{}, {}]
        return
    with pytest.raises(PdmlError, match=r"P0: exit code 3(.|\n)*P1: it did not end with the others"):
        supervisor.supervise(commands)


def test_command_ends_when_all_parties_are_stopped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nobody is left to give anybody up."""
    monkeypatch.setattr(process, "start", of_program)
    study = local_study(2, **(SETTINGS | {"timeouts": Timeouts(connect=1, round=1)}))
    text = "import os; os.kill(os.getpid(), signal.SIGSTOP)"
    with pytest.raises(PeerError, match=r"P0: it was stopped(.|\n)*P1: it was stopped"):
        supervisor.supervise(supervisor.PartyCommands(study, tmp_path, lambda m, path: [text]))


def of_program(arguments: list[str], *, log: Path, **_: Any) -> subprocess.Popen[str]:
    """A program of Python in the place of a party."""
    command = [sys.executable, "-c", f"import signal, sys, time; {arguments[0]}"]
    log.touch()
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_logs_that_a_message_names_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those of a run that was given no directory."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    run = replace(local_run(tmp_path, [rows(0), np.full((2, 6), np.inf)]), out=None)
    with pytest.raises(InputError) as caught:
        run_local(run)
    named = re.search(r"the logs are in (.*)/party-\*", str(caught.value))
    assert named is not None
    assert sorted(path.parent.name for path in Path(named[1]).glob("party-*/log")) == ["party-0", "party-1"]


@pytest.mark.parametrize("bad", [False, True], ids=["success", "failure"])
def test_keys_go_with_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: bool) -> None:
    (private := tmp_path / "private").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(private))
    seen: list[Path] = []
    run = local_run(
        tmp_path,
        [rows(0), rows(1) * (np.nan if bad else 1.0)],
        notify=lambda m, event: seen.extend(private.rglob("*.key")),
    )
    if bad:
        with pytest.raises(InputError):
            run_local(run)
    else:
        run_local(run)
    assert {path.name for path in seen} == {"P0.key", "P1.key"}
    assert list(private.iterdir()) == []


def test_finished_run_is_kept(tmp_path: Path) -> None:
    run = local_run(tmp_path, [rows(0), rows(1)])
    run_local(run)
    before = {path: path.read_bytes() for path in run.out.rglob("*") if path.is_file()}
    with pytest.raises(StorageError, match=r"already holds a finished run(.|\n)*--force to replace it, or --resume"):
        run_local(run)
    assert {path: path.read_bytes() for path in run.out.rglob("*") if path.is_file()} == before


def iterated(X: np.ndarray, V: np.ndarray, iterations: int, jolt: float = 0.0, seed: int = 0) -> np.ndarray:
    """The block power iteration on one machine, with sums that are off by `jolt`, up or down."""
    rng = np.random.default_rng(seed)
    for _ in range(iterations):
        V = np.linalg.qr(X.T @ (X @ V) + jolt * rng.choice([-1.0, 1.0], V.shape))[0]
    return V


def rounding(X: np.ndarray, V: np.ndarray, iterations: int, unit: float) -> float:
    """How far sums that are off by `unit` may turn the result: measured on the twin, with much larger errors."""
    V_t, factor = iterated(X, V, iterations), 1e4
    return 2 * max(sine(V_t, iterated(X, V, iterations, factor * unit, seed)) for seed in range(3)) / factor


def test_resume_with_fresh_keys_and_ports(tmp_path: Path) -> None:
    settings = {"solver": "power", "tol": 0.0, "start": "seed", "seed": 5, "bound": "1000"}
    X = [rows(m) for m in range(2)]
    run_local(local_run(tmp_path, X, iterations=3, **settings))
    result = run_local(local_run(tmp_path, X, iterations=6, resume=True, **settings))
    assert result.report["iterations"] == 6
    V_0, pooled = np.load(result.out / "party-0" / "V0.npy"), np.vstack(X)
    allowed = rounding(pooled, V_0, 6, Format.for_bound(1000.0, 2).tolerance)
    assert sine(iterated(pooled, V_0, 6), result.V) <= allowed <= 1e-8


def agreed(result: LocalResult) -> np.ndarray:
    """V, after a look whether all parties have the same bytes of it."""
    assert len({(result.out / f"party-{r['party_id']}" / "V.npy").read_bytes() for r in result.party_reports}) == 1
    return result.V


def product(environment: dict[str, str]) -> str:
    """How a process with these settings rounds a matrix product."""
    code = "import numpy as np; A = np.random.default_rng(0).normal(size=(300, 300)); print(np.sum(A @ A).hex())"
    return subprocess.check_output([sys.executable, "-c", code], env=os.environ | environment, text=True)


KERNELS = ({"OPENBLAS_CORETYPE": "Haswell"}, {"OPENBLAS_CORETYPE": "Nehalem"})
THREADS = tuple(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), n) for n in "12")


@pytest.mark.parametrize("environments", [THREADS, KERNELS], ids=["threads", "kernels"])
def test_parties_with_different_linear_algebra_agree(tmp_path: Path, environments: tuple[dict[str, str], ...]) -> None:
    if environments is KERNELS and len(set(map(product, KERNELS))) == 1:
        pytest.skip("OPENBLAS_CORETYPE makes no difference here")
    X = [np.random.default_rng(m).standard_normal((400, 300)) * 0.98 ** np.arange(300) for m in range(2)]
    result = run_local(local_run(tmp_path, X, rank=8, tol=1e-9, iterations=60, environment=lambda m: environments[m]))
    assert agreed(result).shape == (300, 8)


def test_aggregator_gives_the_same_result(parties: Callable[..., Parties]) -> None:
    """With six parties "auto" is party 0; sums differ by what is dropped of them at random."""
    V, sent = {}, {}
    for aggregator in ("auto", "none"):
        site = parties(6, aggregator=aggregator, start="seed", seed=3, bound="1000")
        for end in site.run():
            end.well()
        assert len({(site.results(m) / "V.npy").read_bytes() for m in range(6)}) == 1
        V[aggregator] = np.load(site.results(0) / "V.npy")
        report = json.loads((site.results(0) / "report.json").read_text())
        sent[aggregator] = json.loads((site.results(1) / "report.json").read_text())["bytes_sent"]
    pooled, V_0 = np.vstack([rows(m) for m in range(6)]), np.load(site.results(0) / "V0.npy")
    allowed = rounding(pooled, V_0, report["iterations"], Format.for_bound(1000.0, 6).tolerance)
    assert sine(V["auto"], V["none"]) <= 2 * allowed <= 1e-8
    assert sent["auto"] < sent["none"]
