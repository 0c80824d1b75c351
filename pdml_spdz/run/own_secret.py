"""A secret that a party keeps on its disk and shows nobody: what must be the same in every run is drawn from it."""

from __future__ import annotations

import fcntl
import os
import secrets
from pathlib import Path

import platformdirs

from pdml_spdz.errors import StorageError
from pdml_spdz.system.files import writing

SIZE = 32


def default_path() -> Path:
    return Path(platformdirs.user_state_dir("pdml-spdz")) / "own-secret"


def of_local_party(me: int) -> Path:
    """Where several parties run on one machine, as one user's: each has its own, as it would have elsewhere."""
    path = default_path()
    return path.with_name(f"{path.name}-{me}")


def load(path: Path | None = None) -> bytes:
    """The secret, drawn from the operating system's generator at the first use."""
    path = path or default_path()
    with writing(path, "make it writable for this user, or set XDG_STATE_HOME to a directory that is"):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)  # two runs at once must not draw two
        secret = os.read(file, SIZE + 1)
        if not secret:
            secret = secrets.token_bytes(SIZE)
            with writing(path):
                os.write(file, secret)
                os.fsync(file)
        if len(secret) != SIZE:
            raise StorageError(
                f"{path} has {len(secret)} bytes.",
                f"the {SIZE} bytes that were written to it",
                "restore it; without it, remove it: the next run with a blurred exponent then blurs anew",
            )
        return secret
    finally:
        os.close(file)
