"""Runs that were cut off before their first iteration had finished everywhere: what was opened by then is used, or the
parties refuse, all of them, before anything more is opened.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdml_spdz.engines import transcript
from pdml_spdz.errors import InputError, PeerError, ResumeError
from pdml_spdz.numerics.linalg import sine
from pdml_spdz.rows.reading import RowSettings
from tests.parties.helpers import Parties, command, rows

SETTINGS: dict[str, Any] = {"algorithm": "pca", "rows": RowSettings(missing="mean"), "tol": 1e-7}
RECORDED = ("--record-transcript",)
BEFORE = {"sum:counts", "sum:fill", "sum:rows", "sum:mean"}  # what is opened before the first iteration


def with_holes(m: int) -> np.ndarray:
    X = rows(m)
    X[m::4, 1] = np.nan
    return X


def killed_at(name: str, arguments: list[str], cwd: Path, *streams: Path) -> None:
    """The command, killed in the moment before a file of that name is in its place."""

    def kill(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "os.rename" and Path(str(arguments[1])).name == name:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(kill)
    command(arguments, cwd, *streams)


def cut_off(site: Parties, name: str, victims: tuple[int, ...] = (0, 1)) -> None:
    for m in range(site.M):
        site.give(m, with_holes(m))
        site.target = partial(killed_at, name) if m in victims else None
        site.start(m)
    site.target = None
    for m, end in enumerate(site.end()):
        if m in victims:
            assert end.code == -signal.SIGKILL
        else:
            assert end.code == PeerError.code, end.err


def opened(site: Parties, m: int) -> set[str]:
    """What the last run of party m has opened of all rows before its iterations."""
    return {entry.step for entry in transcript.load(site.results(m) / transcript.FILE).entries} & BEFORE


def components(site: Parties) -> np.ndarray:
    X = np.vstack([with_holes(m) for m in range(site.M)])
    X = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
    return np.linalg.svd(X - X.mean(axis=0))[2][: site.study.rank].T


def goes_on(site: Parties) -> None:
    for end in site.run("--resume", *RECORDED):
        end.well()
    for m in range(site.M):
        assert sine(components(site), np.load(site.results(m) / "V.npy")) <= 2e-7  # tol, and what fills are off by


def refused(site: Parties, *phrases: str) -> None:
    """By all parties, with the same words, and with nothing opened or written."""
    before = held(site)
    for end in site.run("--resume"):
        end.failed(ResumeError, *phrases)
        assert "Every party has seen" not in end.err
    assert held(site) == before


def held(site: Parties) -> dict[Path, bytes]:
    return {path: path.read_bytes() for m in range(site.M) for path in site.results(m).rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("name", "again"),
    [("missing.npz", BEFORE), ("centre.npz", {"sum:rows", "sum:mean"}), ("iteration-1.npz", set())],
)
def test_killed_before_the_first_iteration_goes_on_with_what_was_opened(
    parties: Callable[..., Parties], name: str, again: set[str]
) -> None:
    site = parties(**SETTINGS)
    cut_off(site, name)
    kept = {path: content for path, content in held(site).items() if path.suffix == ".npz"}
    goes_on(site)
    assert [opened(site, m) for m in range(2)] == [again, again]
    assert {path: path.read_bytes() for path in kept} == kept


def test_parties_of_which_one_has_finished_the_first_iteration_go_on(parties: Callable[..., Parties]) -> None:
    site = parties(**SETTINGS)
    cut_off(site, "iteration-1.npz", victims=(1,))
    assert not site.checkpoints(1)
    goes_on(site)
    assert opened(site, 0) == opened(site, 1) == set()


def test_one_party_that_has_not_kept_what_was_opened_gets_it_from_another(parties: Callable[..., Parties]) -> None:
    site = parties(**SETTINGS)
    cut_off(site, "centre.npz", victims=(1,))
    refused(site, "centre.npz is there at P0, and not at P1", "Do this: put it back at P1")
    shutil.copy(site.results(0) / "centre.npz", site.results(1))
    goes_on(site)
    assert opened(site, 0) == opened(site, 1) == set()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parties]:
    site = Parties(tmp_path_factory.mktemp("finished") / "site", 2, **SETTINGS | {"solver": "power", "iterations": 3})
    for m in range(2):
        site.give(m, with_holes(m))
    for end in site.run():
        end.well()
    yield site
    site.clear_away()


@pytest.fixture
def site(finished: Parties, tmp_path: Path) -> Iterator[Parties]:
    """A copy of a finished run, of which more is asked."""
    copy = finished.copy(tmp_path / "site")
    copy.change_studies(iterations=6)
    yield copy
    copy.clear_away()


@pytest.mark.parametrize("name", ["missing.npz", "centre.npz"])
def test_file_that_one_party_has_lost_is_refused_and_can_be_put_back(site: Parties, name: str) -> None:
    (site.results(0) / name).unlink()
    refused(site, f"{name} is there at P1, and not at P0", "Do this: put it back at P0", "opened once more")
    shutil.copy(site.results(1) / name, site.results(0))
    for end in site.run("--resume"):
        end.well()


@pytest.mark.parametrize(
    ("lost", "without"), [("missing.npz", "centre.npz"), ("centre.npz", "iteration 3")], ids=["fill", "mean"]
)
def test_file_that_all_parties_have_lost_is_not_opened_anew(site: Parties, lost: str, without: str) -> None:
    for m in range(2):
        (site.results(m) / lost).unlink()
    refused(site, f"no party has the {lost} that {without} was made with", "start anew without --resume")


def test_file_of_another_run_is_refused(site: Parties, parties: Callable[..., Parties]) -> None:
    path = site.results(1) / "centre.npz"
    with np.load(path) as archive:
        numbers = dict(archive)
    np.savez(path, **numbers | {"mu": numbers["mu"] + 1e-9})
    refused(site, "centre.npz is not the same at all parties", "passes the --out of the same run")


def test_file_that_is_damaged_ends_the_run_before_anything_is_opened(site: Parties) -> None:
    (site.results(1) / "missing.npz").write_bytes(b"PK")
    _, second = site.run("--resume")
    second.failed(InputError, "missing.npz is damaged", "put back a copy")
    assert "Every party has seen" not in second.err


def shifted(m: int) -> np.ndarray:
    return with_holes(m) + np.array([0.0, 0.0, 40.0 * (m == 0), 0.0, 0.0, 0.0])


def killed_before_it_begins(arguments: list[str], cwd: Path, *streams: Path) -> None:
    """The command, killed when it has met the others, and nothing of the run before has been removed."""

    def kill(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "os.remove" and Path(str(arguments[0])).name == "report.json":
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(kill)
    command(arguments, cwd, *streams)


def test_what_a_party_has_of_the_run_before_is_not_of_the_one_that_another_has_begun(
    parties: Callable[..., Parties],
) -> None:
    """Of other rows: their fills and means, taken over as the message says, would be wrong ones."""
    site = parties(**SETTINGS)
    cut_off(site, "iteration-1.npz")
    site.give(0, shifted(0))
    site.start(0)
    site.target = killed_before_it_begins
    site.start(1)
    site.target = None
    site.end()
    refused(site, "is not of one run")


def test_a_new_run_removes_what_was_kept_though_the_checkpoints_are_gone(parties: Callable[..., Parties]) -> None:
    site = parties(**SETTINGS)
    cut_off(site, "iteration-1.npz")
    for m in range(2):
        shutil.rmtree(site.results(m) / "checkpoint")
        site.give(m, shifted(m))
        site.target = partial(killed_at, "missing.npz")
        site.start(m)
    site.target = None
    site.end()
    assert not [path for path in held(site) if path.suffix == ".npz"]
    for end in site.run("--resume", *RECORDED):
        end.well()
    assert opened(site, 0) == opened(site, 1) == BEFORE
