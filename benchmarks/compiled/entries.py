"""The stored entries of rows as compiled sweeps read them, in as few bytes as they can be told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.compiled.loops import Numbers, Scales, unsigned
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.rows.base import RowsLike


@dataclass(frozen=True)
class Entries:
    """X_ic = by_row_i values_e by_column_gc of the rows i of group g, as `loops` says."""

    ends: Numbers
    columns: Numbers
    values: Numbers
    scales: Scales

    @property
    def all(self) -> tuple[Numbers, Numbers, Numbers, Scales]:
        return self.ends, self.columns, self.values, self.scales


def plain(X: Any) -> Entries:
    """X, in CSR, as it is."""
    n, d = X.shape
    return _entries(X, X.data, (np.ones(n), np.array([0, n]), np.ones((1, d))))


def of_counts(tables: Sequence[RowsLike], weights: Sequence[Reals], rows: Sequence[Reals] | None = None) -> Entries:
    """Rows that `text.tf_idf` makes of these counts, table by table, each with its own weights.

    rows : what the rows of each table are multiplied by besides
    """
    C = sp.csr_array(sp.vstack(tables))
    C.eliminate_zeros()
    by_row = np.concatenate([_over_lengths(table, w) for table, w in zip(tables, weights, strict=True)])
    if rows is not None:
        by_row *= np.concatenate(rows)
    groups = np.cumsum([0, *(table.shape[0] for table in tables)])
    whole = np.uint8 if C.nnz == 0 or C.data.max() < 256 else np.uint16 if C.data.max() < 65536 else np.float64
    return _entries(C, C.data.astype(whole), (by_row, groups, np.array(weights)))


def _over_lengths(counts: Any, weights: Reals) -> Reals:
    squares = np.asarray((counts * counts) @ (weights * weights))
    return np.asarray(1.0 / np.sqrt(np.where(squares > 0.0, squares, 1.0)))


def _entries(X: Any, values: Numbers, scales: Scales) -> Entries:
    return Entries(*unsigned(X.indptr, X.indices, X.shape[1]), values, scales)
