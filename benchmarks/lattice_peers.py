"""The same product by MP-SPDZ's hemi."""

from __future__ import annotations


def hemi(M: int, d: int, c: int, w: int, ours: float) -> None:
    raise SystemExit("not yet")
