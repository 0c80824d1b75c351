"""A directory for private keys, which goes with its run."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pdml_spdz.system.signals import deferrable, whole

PREFIX, LOGS = "pdml-spdz-keys-", "pdml-spdz-logs-"
DAY = 86_400.0  # seconds, for which logs of runs that failed are kept


@contextmanager
def private_directory() -> Iterator[Path]:
    """A temporary directory that no other user can open. It goes when the block ends, whatever signals come.

    What killed processes have left goes now: such a directory is locked as long as its process lives. Logs go, too.
    """
    for prefix, age in ((PREFIX, 0.0), (LOGS, DAY)):
        for left in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
            _sweep(left, age)
    made: list[Path] = []
    locks: list[int] = []
    with deferrable():
        try:
            with whole():
                new = Path(tempfile.mkdtemp(prefix=f".{PREFIX}"))  # nobody looks for that name while it is not locked
                made += [new, path := new.with_name(new.name.removeprefix("."))]
                locks.append(os.open(new, os.O_RDONLY))
                fcntl.flock(locks[0], fcntl.LOCK_EX)
                new.rename(path)
            yield path
        finally:
            with whole():
                for left in made:
                    shutil.rmtree(left, ignore_errors=True)
                for lock in locks:
                    os.close(lock)


def _sweep(path: Path, age: float) -> None:
    with suppress(OSError):
        found = path.lstat()
        if stat.S_ISLNK(found.st_mode) or found.st_uid != os.getuid() or time.time() - found.st_mtime < age:
            return
        lock = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(lock)
