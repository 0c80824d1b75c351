"""scipy.sparse, imported by whoever first makes or reads something sparse: dense rows do without it.

Half of what a party with dense rows would import is scipy.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any


def issparse(X: object) -> bool:
    """Whether X is sparse. Without scipy.sparse there is nothing that could be; nor while another thread imports it."""
    found = getattr(sys.modules.get("scipy.sparse"), "issparse", None)
    return found is not None and bool(found(X))


def __getattr__(name: str) -> Any:
    return getattr(importlib.import_module("scipy.sparse"), name)
