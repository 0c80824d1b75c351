"""Files of a run: written whole or not at all, and an error in words when the disk will not have them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.errors import PdmlError, StorageError

KEPT = "free some room or choose another --out; finished iterations are kept, `--resume` goes on from them"


@contextmanager
def writing(path: Path, do: str = KEPT) -> Iterator[None]:
    """Turn the operating system's error into ours."""
    try:
        yield
    except PdmlError:  # some of ours are the system's errors too
        raise
    except OSError as error:
        raise StorageError(
            f"{path} cannot be written ({error.strerror or error}).",
            "room and the right to write there",
            do,
        ) from None


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place when the block ends well."""
    temporary = path.with_name(f".{path.name}.new")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield temporary
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


def save_array(path: Path, array: NDArray[Any]) -> None:
    with replaced(path) as temporary, temporary.open("wb") as file:
        np.save(file, array, allow_pickle=False)


def save_json(path: Path, content: Any, *, private: bool = False) -> None:
    """private : for its owner only, whatever the umask, from the first byte"""
    with replaced(path) as temporary:
        temporary.unlink(missing_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(json.dumps(content, indent=2) + "\n")
