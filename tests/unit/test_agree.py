"""Party 0's bytes for all: accepted if they say the same, refused if not."""

from __future__ import annotations

import numpy as np
import pytest

from pdml_spdz.errors import ProtocolError
from pdml_spdz.primitives.agree import Agreement
from tests.threads import run_threads

V = np.linalg.qr(np.random.default_rng(0).normal(size=(9, 3)))[0]
TURN = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
TOLERANCE = np.full(3, 1e-10)


def test_last_bits_are_party_0s() -> None:
    own = [V, V * (1 + 1e-15)]
    results = run_threads(2, lambda link: Agreement(link)(own[link.me], (4, 1), TOLERANCE))
    assert all(np.array_equal(agreed, V) and verdict == (4, 1) for agreed, verdict in results)


@pytest.mark.parametrize("other", [V + 1e-9, V[:, ::-1], V[:, :2], np.full_like(V, np.nan)])
def test_other_basis_is_refused(other: np.ndarray) -> None:
    own = [other, V]
    with pytest.raises(ProtocolError, match="another basis"):
        run_threads(2, lambda link: Agreement(link)(own[link.me], (), TOLERANCE[: own[link.me].shape[1]]))


def test_turned_basis_of_the_same_subspace_is_accepted() -> None:
    own = [V @ TURN, V]
    results = run_threads(2, lambda link: Agreement(link).subspace(own[link.me], 1e-10))
    assert all(np.array_equal(agreed, V @ TURN) for agreed in results)


@pytest.mark.parametrize("other", [V + 1e-6, 2 * V, np.full_like(V, np.nan)])
def test_other_subspace_is_refused(other: np.ndarray) -> None:
    own = [other, V]
    with pytest.raises(ProtocolError, match="another subspace"):
        run_threads(2, lambda link: Agreement(link).subspace(own[link.me], 1e-10))


def test_coin_is_common_and_fresh() -> None:
    first, second = (run_threads(3, lambda link: Agreement(link).coin()) for _ in range(2))
    assert len(set(first)) == 1
    assert first[0] != second[0]


def test_other_digest_is_refused() -> None:
    with pytest.raises(ProtocolError, match="another result"):
        run_threads(2, lambda link: Agreement(link).digest("result", bytes([link.me])))
