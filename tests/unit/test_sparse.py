"""scipy.sparse is there for those who have something sparse, and only for them."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import numpy as np
import pytest
import scipy.sparse

from pdml_spdz.numerics import sparse


def test_it_knows_what_scipy_knows() -> None:
    for X in (scipy.sparse.csr_array((2, 3)), scipy.sparse.coo_matrix((2, 3)), np.zeros((2, 3)), [[1.0]], None):
        assert sparse.issparse(X) == scipy.sparse.issparse(X)
    assert sparse.csr_array is scipy.sparse.csr_array
    with pytest.raises(AttributeError):
        sparse.no_such_thing  # noqa: B018


def test_nothing_is_sparse_while_scipy_is_on_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.sparse", ModuleType("scipy.sparse"))  # another thread imports it
    assert not sparse.issparse(np.zeros(1))


def test_dense_rows_do_not_import_it() -> None:
    code = (
        "import sys, numpy as np; from pdml_spdz.numerics.linalg import as_rows, covariance;"
        "covariance(as_rows(np.ones((3, 2))), 1, 1); assert 'scipy' not in sys.modules;"
        "from pdml_spdz.numerics import sparse; assert sparse.issparse(sparse.csr_array((2, 2)))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
