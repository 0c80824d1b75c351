"""How often a party has given the same vector to NormedSecSum.

Each opening has a fresh dither, and many of them average out: N openings of one sum use up log2 N of the guard bits. So
a party stops after LIMIT, across runs.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
from pathlib import Path
from typing import Any

import platformdirs

from pdml_spdz.errors import QuotaError, StorageError
from pdml_spdz.system.files import parse_json, save_json, writing

LIMIT = 512  # 9 of the 16 guard bits


def default_path() -> Path:
    return Path(platformdirs.user_data_dir("pdml-spdz")) / "repeats.json"


def _read(path: Path) -> dict[str, Any]:
    try:
        kept = dict(parse_json(path.read_text()))
        bytes.fromhex(kept["salt"])
        return kept | {"uses": {str(name): int(n) for name, n in kept["uses"].items()}}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise StorageError(
            f"{path} cannot be read: it counts how often vectors were given to normed-sum.",
            "the file as it was written",
            "restore it; removing it forgets what was counted",
        ) from None


def _opened(path: Path) -> int:
    with writing(path, "make it writable for this user, or set XDG_DATA_HOME to a directory that is"):
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)


def check(path: Path | None = None) -> None:
    """Uses can be counted here, or StorageError."""
    os.close(_opened(path or default_path()))


def count(vector: bytes, path: Path | None = None, what: str = "NormedSecSum", limit: int = LIMIT) -> int:
    """Note one more use of `vector` (or matrix; by `what`), before anything is sent, and return how many there are.

    QuotaError beyond the limit. The file, for its owner only, holds a salted digest and a number for each vector.
    """
    path = path or default_path()
    lock = _opened(path)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two runs at once must not count as one
        kept: dict[str, Any] = {"salt": secrets.token_hex(16), "uses": {}}
        if path.exists():
            kept = _read(path)
        name = hashlib.blake2b(vector, key=bytes.fromhex(kept["salt"]), digest_size=16).hexdigest()
        uses = int(kept["uses"].get(name, 0)) + 1
        if uses > limit:
            raise QuotaError(
                f"the same numbers were given to {what} {limit} times already; nothing was sent.",
                "few openings of one sum: their average shows more digits than one of them",
                f"use the result you have; if the numbers are new, remove them from {path}",
            )
        kept["uses"][name] = uses
        save_json(path, kept, private=True)
        return uses
    finally:
        os.close(lock)
