"""States as bytes: an .npz without pickles, with a kind and a version, so that a stock on disk can hold them."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pdml_spdz.errors import StorageError

VERSION = 1


def dump(kind: str, **arrays: ArrayLike) -> bytes:
    out = io.BytesIO()
    contents: dict[str, Any] = {"kind": np.array(f"{kind}/{VERSION}"), **arrays}
    np.savez(out, **contents)
    return out.getvalue()


def load(kind: str, raw: bytes) -> dict[str, NDArray[Any]]:
    try:
        with np.load(io.BytesIO(raw), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        found = str(arrays.pop("kind"))
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise StorageError(f"this is no saved state ({error}).", f"a {kind}/{VERSION}") from error
    if found != f"{kind}/{VERSION}":
        raise StorageError(f"this is a {found}.", f"a {kind}/{VERSION}", "make the stock again with this version")
    return arrays
