"""Rows of whatever a caller has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from pdml_spdz.rows.base import Rows
from pdml_spdz.rows.dense import Dense

RowsLike: TypeAlias = Any  # Rows, or what `as_rows` makes them of: an array, or a matrix of scipy.sparse


def is_sparse(given: RowsLike) -> bool:
    """Whether it is a matrix of scipy.sparse, which takes a tenth of a second to load and is not loaded for others."""
    return hasattr(given, "tocsr")


def as_rows(given: RowsLike, *, order: Literal["K", "C"] = "K") -> Rows:
    """An array, or anything that makes one, or a matrix of scipy.sparse as rows; rows of any kind as they are.

    What is float64 already (and in CSR, if it is sparse) is not copied; order : as of `numpy.asarray`
    """
    if isinstance(given, Rows):
        return given
    if is_sparse(given):
        import scipy.sparse as sp

        from pdml_spdz.rows.sparse import Sparse

        return Sparse(sp.csr_array(given, dtype=np.float64))
    return Dense(np.asarray(given, np.float64, order=order))


def stacked(tables: Sequence[RowsLike]) -> Rows:
    """All of them in one table, sparse if one of them is."""
    parts = [as_rows(table) for table in tables]
    if not any(rows.sparse for rows in parts):
        return Dense(np.vstack([rows.dense() for rows in parts]))
    import scipy.sparse as sp

    from pdml_spdz.rows.sparse import Sparse

    return Sparse(sp.csr_array(sp.vstack([rows.csr() for rows in parts])))
