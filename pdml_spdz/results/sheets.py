"""Tables of results as CSV, for spreadsheets and for people."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.system.files import save_text

RISKY = ("=", "+", "-", "@", "\t", "\r", "\n")  # how a cell begins that a spreadsheet would execute


def safe(text: str) -> str:
    """A name as a cell: one that a spreadsheet would take for a formula is marked as text, by an apostrophe."""
    return f"'{text}" if text.startswith(RISKY) and not _number(text) else text


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.strip() == text and text[:1] != "="


def csv_text(header: Sequence[str], names: Iterable[str], numbers: Reals | Sequence[Sequence[float]]) -> str:
    """One line for each name: the name, and its numbers with all of their digits."""
    written = io.StringIO()
    out = csv.writer(written, lineterminator="\n")
    out.writerow([safe(cell) for cell in header])
    lines = np.asarray(numbers, np.float64).tolist()
    out.writerows([safe(name), *line] for name, line in zip(names, lines, strict=True))
    return written.getvalue()


def write_table(
    path: Path,
    header: Sequence[str],
    names: Iterable[str],
    numbers: Reals | Sequence[Sequence[float]],
    *,
    private: bool = False,
) -> None:
    """private : for its owner only"""
    save_text(path, csv_text(header, names, numbers), private=private)
