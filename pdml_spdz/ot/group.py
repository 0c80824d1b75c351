"""The prime-order group ristretto255: libsodium's code, from the package rbcl. Points and scalars are 32 bytes.

rbcl is loaded at the first use, not at import: it unpacks its libsodium into a temporary file and leaves that file
behind, so the loader here removes it (a loaded library needs its name no longer).
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from pdml_spdz.errors import EngineError

SIZE = 32
ZERO = bytes(SIZE)  # the identity
ORDER = 2**252 + 27742317777372353535851937790883648493

_LOADING = threading.Lock()


@functools.cache
def _sodium() -> Any:
    with _LOADING:  # parties may be threads, and what follows must not be done by two at once
        # rbcl tries a top-level module of this name first, which anyone could have put into the working directory.
        blocked = sys.modules.setdefault("_sodium", cast("ModuleType", None)) is cast("ModuleType", None)
        try:
            library = importlib.import_module("rbcl")
        except (ImportError, OSError) as error:
            raise EngineError(
                f"the ristretto255 library could not be loaded ({error}).",
                "the package rbcl, and a temporary directory that may hold shared libraries (not mounted noexec)",
                "`pip install rbcl`; set TMPDIR to a directory of your own if /tmp is mounted noexec",
            ) from error
        finally:
            if blocked:
                del sys.modules["_sodium"]
        unpacked = getattr(sys.modules.get("rbcl._sodium"), "lib_path", None)
        if unpacked is not None:
            with contextlib.suppress(OSError):
                Path(unpacked).unlink()
    return library


def load() -> None:
    """The library, ahead of its first use: it is looked for, and unpacked."""
    _sodium()


def random_scalar() -> bytes:
    return bytes(_sodium().crypto_core_ristretto255_scalar_random())


def scalar(x: int) -> bytes:
    return (x % ORDER).to_bytes(SIZE, "little")


def is_point(p: bytes) -> bool:
    """A canonical encoding of a group element other than the identity (which nobody honest sends)."""
    return len(p) == SIZE and any(p) and bool(_sodium().crypto_core_ristretto255_is_valid_point(p))


def base_times(s: bytes) -> bytes:
    return bytes(_sodium().crypto_scalarmult_ristretto255_base(s))


def times(s: bytes, p: bytes) -> bytes:
    return bytes(_sodium().crypto_scalarmult_ristretto255(s, p))


def add(p: bytes, q: bytes) -> bytes:
    return bytes(_sodium().crypto_core_ristretto255_add(p, q))


def sub(p: bytes, q: bytes) -> bytes:
    return bytes(_sodium().crypto_core_ristretto255_sub(p, q))


def added(points: Sequence[bytes]) -> bytes:
    total, *others = points
    for point in others:
        total = add(total, point)
    return total
