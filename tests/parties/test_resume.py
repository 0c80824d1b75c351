"""Runs that were cut off, and what is left of them."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from pdml_spdz.errors import InputError, PeerAborted, ResumeError, StorageError
from tests.parties.helpers import EMBEDDED, Parties, slow_rows

# Without a stop by tolerance, and from a public start: every run of as many iterations ends with the same V.
FIXED = {"rank": 1, "solver": "power", "tol": 0.0, "start": "seed", "seed": 7, "bound": "2"}


def uninterrupted(site: Parties) -> np.ndarray:
    """V as one machine with all rows computes it, in as many iterations, from the same V_0."""
    S = site.M * slow_rows().T @ slow_rows()
    V = np.load(site.results(0) / "V0.npy")
    for _ in range(site.study.iterations):
        V = S @ V
        V /= np.linalg.norm(V)
    return V * np.sign(V[np.argmax(np.abs(V))])


def resumed(site: Parties, after: int) -> None:
    """All parties go on from the same iteration (`after` or later) and reach what an uninterrupted run reaches."""
    ends = site.run("--resume")
    for end in ends:
        end.well()
    report = json.loads((site.results(0) / "report.json").read_text())
    assert report["iterations"] == site.study.iterations
    started = [
        int(process.out.partition("resuming after iteration ")[2].split()[0]) for process in site.processes.values()
    ]
    assert len(set(started)) == 1
    assert started[0] >= after
    for m in range(site.M):
        np.testing.assert_allclose(np.load(site.results(m) / "V.npy"), uninterrupted(site), atol=tolerance(site))


def tolerance(site: Parties) -> float:
    """An iteration rounds every one of d entries by at most M units of the last place; nothing amplifies that."""
    # secsum: 44 bits below a bound of 2; embedded: 31 fraction bits of a vector that is no shorter than 1.
    unit = 2.0**-31 if site.study.engine == "embedded" else 2.0**-43
    return site.study.iterations * site.M * np.sqrt(6) * (unit + np.finfo(float).eps)


@pytest.mark.parametrize(
    ("victims", "settings"), [([1], {}), ([0, 1], {}), ([1], EMBEDDED)], ids=["one", "all", "embedded"]
)
def test_resume_after_kill(parties: Callable[..., Parties], victims: list[int], settings: dict[str, str]) -> None:
    site = parties(**FIXED, iterations=10**4, **settings)
    site.start_endless(t=20)
    for m in victims:
        site.processes[m].signal(signal.SIGKILL)
    site.end()
    newest = [site.last_iteration(m) for m in range(2)]
    site.change_studies(iterations=max(newest) + 30)
    resumed(site, after=min(newest) - 1)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parties]:
    """A run of five iterations that used them all up."""
    site = Parties(tmp_path_factory.mktemp("finished") / "site", 2, **FIXED, iterations=5)
    for m in range(2):
        site.give(m, slow_rows())
    for end in site.run():
        end.well()
    yield site
    site.clear_away()


@pytest.fixture
def site(finished: Parties, tmp_path: Path) -> Iterator[Parties]:
    """A copy of that run, to be spoilt."""
    copy = finished.copy(tmp_path / "site")
    yield copy
    copy.clear_away()


def results(site: Parties) -> dict[Path, bytes]:
    return {path: path.read_bytes() for m in range(2) for path in site.results(m).rglob("*") if path.is_file()}


def test_resume_with_more_iterations(site: Parties) -> None:
    site.change_studies(iterations=12)
    resumed(site, after=5)


@pytest.mark.parametrize("damage", [slice(0, 0), slice(0, 300), slice(100, None)], ids=["empty", "head", "tail"])
def test_resume_with_the_newest_checkpoint_damaged(site: Parties, damage: slice) -> None:
    site.change_studies(iterations=12)
    newest = site.checkpoints(0)[-1]
    newest.write_bytes(newest.read_bytes()[damage])
    resumed(site, after=4)
    assert "resuming after iteration 4" in site.processes[1].out


def change_rows(site: Parties) -> None:
    site.give(1, slow_rows() * [2, 1, 1, 1, 1, 1])


def lose_run(site: Parties) -> None:
    shutil.rmtree(site.results(1))


@pytest.mark.parametrize(
    ("change", "phrases"),
    [
        (change_rows, ["the data differ from those that the run began with", "would reveal the difference"]),
        (lose_run, ["out/party-1/checkpoint holds no run to resume", "Do this: start without --resume"]),
    ],
)
def test_resume_refused_by_one_party(site: Parties, change: Callable[[Parties], None], phrases: list[str]) -> None:
    change(site)
    before = results(site)
    told, ended = site.run("--resume")
    ended.failed(ResumeError, *phrases)
    told.failed(PeerAborted, "P1 ended the run: it cannot resume from its checkpoint")
    assert results(site) == before


def test_resume_refused_with_another_rank(site: Parties) -> None:
    site.change_studies(rank=2)
    before = results(site)
    for end in site.run("--resume"):
        end.failed(ResumeError, "the study differs", "Wanted: the same algorithm, rank", "Do this: restore the study")
    assert results(site) == before


def test_resume_refused_without_a_common_iteration(site: Parties) -> None:
    site.change_studies(iterations=12)
    for path in site.checkpoints(1):
        path.unlink()
    before = results(site)
    for end in site.run("--resume"):
        end.failed(ResumeError, "the parties have no checkpoint in common", "start anew without --resume")
    assert results(site) == before


def test_resume_refused_with_checkpoints_of_an_older_version(site: Parties) -> None:
    """They hold V_t alone: without the last S V there is no Rayleigh-Ritz at the end."""
    for m in range(2):
        path = site.results(m) / "checkpoint" / "run.json"
        path.write_text(json.dumps({k: v for k, v in json.loads(path.read_text()).items() if k != "format"}))
    before = results(site)
    for end in site.run("--resume"):
        end.failed(ResumeError, "written by another version", "Do this: start anew without --resume")
    assert results(site) == before


def test_finished_run_is_not_replaced(site: Parties) -> None:
    shutil.rmtree(site.results(0))
    before = results(site)
    told, ended = site.run()
    ended.failed(StorageError, "out/party-1 already holds a finished run", "--force to replace it, or --resume")
    told.failed(PeerAborted, "P1 ended the run")
    assert results(site) == before


def test_finished_run_is_replaced_by_force(site: Parties) -> None:
    before = results(site)
    site.give(1, slow_rows()[:1])
    for end in site.run("--force"):
        end.well()
    V = site.results(1) / "V.npy"
    assert V.read_bytes() != before[V]


def test_finished_run_survives_a_forced_one_that_cannot_start(site: Parties) -> None:
    site.give(1, np.full((3, 6), np.nan))
    before = results(site)
    told, ended = site.run("--force")
    ended.failed(InputError, "missing values")
    told.failed(PeerAborted, "P1 ended the run: it could not use its own input file")
    assert results(site) == before
