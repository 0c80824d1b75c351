"""Where MP-SPDZ is installed."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

VARIABLE = "MP_SPDZ_HOME"


def find_home(given: Path | None = None) -> Path | None:
    """The first of: the path given, MP_SPDZ_HOME, the user's data directory, that holds MP-SPDZ's compiler."""
    candidates = [given, Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None]
    candidates.append(Path(platformdirs.user_data_dir("pdml-spdz")) / "mp-spdz")
    for path in candidates:
        if path is not None and (path / "compile.py").is_file() and (path / "Compiler").is_dir():
            return path.resolve()
    return None
