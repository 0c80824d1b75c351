"""Results on the disk: one run to a directory, and no mark of a finished run without everything it stands for."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdml_spdz.engines.transcript import Transcript
from pdml_spdz.errors import StorageError
from pdml_spdz.local.joint import local_study
from pdml_spdz.local.threads import run_on_link
from pdml_spdz.run import output as results
from pdml_spdz.system.files import locked
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.inprocess import between_threads
from tests.parties.helpers import rows


class Killed(BaseException):
    """SIGKILL: from here on nothing more is done, nor cleared away."""


class Disk:
    """Counts what changes names on the disk, and kills at the step of a given number."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kill: int = -1) -> None:
        self.kill, self.steps = kill, 0
        for name in ("replace", "unlink", "fsync"):
            monkeypatch.setattr(os, name, self._wrapped(getattr(os, name)))

    def _wrapped(self, real: Callable[..., None]) -> Callable[..., None]:
        def step(*arguments: Any, **options: Any) -> None:
            self.steps += 1
            if 0 <= self.kill < self.steps:
                raise Killed
            real(*arguments, **options)

        return step


OLD = {"V.npy": np.zeros((3, 2)), "scale.npy": np.zeros(3)}
NEW = {"V.npy": np.ones((3, 2)), "mean.npy": np.ones(3)}


def test_no_mark_of_a_finished_run_without_its_files_wherever_it_is_killed(tmp_path: Path) -> None:
    """A finished run is replaced by one that has other arrays; killed before any step, the mark means what it says."""
    kill, seen = 0, set()
    while True:
        (out := tmp_path / str(kill)).mkdir()
        results.commit(out, OLD, {"algorithm": "pca", "of": "old"}, Transcript())
        with pytest.MonkeyPatch.context() as monkeypatch:
            disk = Disk(monkeypatch, kill)
            with suppress(Killed):
                results.commit(out, NEW, {"algorithm": "pca", "of": "new"}, Transcript())
        mark = out / "report.json"
        found = json.loads(mark.read_text())["of"] if mark.exists() else None
        seen.add(found)
        if found is not None:
            arrays = {path.name: np.load(path) for path in out.glob("*.npy")}
            wanted = OLD if found == "old" else NEW
            assert set(arrays) == set(wanted), kill
            assert all(np.array_equal(arrays[name], wanted[name]) for name in wanted), kill
        if disk.steps <= kill:
            break
        kill += 1
    assert seen == {"old", None, "new"}


SETTINGS: dict[str, dict[str, Any]] = {
    "svd": {"scale": "secsum"},
    "pca": {"scale": "secsum"},
    "nmf": {"iterations": 3},
    "normed-sum": {},
}


@pytest.mark.parametrize("algorithm", SETTINGS)
def test_report_is_written_after_everything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, algorithm: str
) -> None:
    d, engine = 6, "embedded" if algorithm == "normed-sum" else "secsum"
    study = local_study(
        2, algorithm=algorithm, rank=1 if algorithm == "normed-sum" else 2, engine=engine, **SETTINGS[algorithm]
    )
    written: list[Path] = []
    real = os.replace

    def replace(source: Path, target: Path, **options: Any) -> None:
        written.append(Path(target))
        real(source, target, **options)

    monkeypatch.setattr(os, "replace", replace)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))

    def party(link: Link) -> dict[str, Any]:
        X = np.abs(rows(link.me, 1 if algorithm == "normed-sum" else 12, d))
        return run_on_link(link, study, X, tmp_path / "out", transcript=Transcript())

    reports = between_threads(2, party)
    for m in range(2):
        directory = tmp_path / "out" / f"party-{m}"
        own = [path.name for path in written if path.parent == directory]
        arrays = {path.name for path in directory.glob("*.npy")}
        assert own[-1] == "report.json"
        assert own.count("report.json") == 1
        assert arrays | {"transcript.npz"} <= set(own[:-1])
        assert json.loads((directory / "report.json").read_text()) == json.loads(json.dumps(reports[m]))


def test_locked_directory_is_refused_with_the_holder(tmp_path: Path) -> None:
    with locked(tmp_path / "out"):
        for shared in (False, True):
            with pytest.raises(StorageError) as caught, locked(tmp_path / "out", shared=shared):
                pass
            assert f"out is in use by another run (process {os.getpid()})." in str(caught.value)
            assert "--force and --resume do not change that" in str(caught.value)
            assert "choose another --out" in str(caught.value)
    with locked(tmp_path / "out"):
        assert list((tmp_path / "out").iterdir()) == []  # nothing is left behind


def test_shared_lock_keeps_out_who_wants_all(tmp_path: Path) -> None:
    with locked(tmp_path, shared=True), locked(tmp_path, shared=True):
        refused = pytest.raises(StorageError, match="in use by another run")
        with refused, locked(tmp_path):
            pass


def test_directory_on_nfs_is_locked_by_a_file_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = fcntl.flock

    def flock(descriptor: int, kind: int) -> None:
        if os.fstat(descriptor).st_mode & 0o040000:
            raise OSError(errno.EBADF, "Bad file descriptor")  # NFS: a directory cannot be opened for writing
        real(descriptor, kind)

    monkeypatch.setattr(fcntl, "flock", flock)
    with locked(tmp_path), pytest.raises(StorageError, match="in use by another run"), locked(tmp_path):
        pass
    with locked(tmp_path):
        pass
