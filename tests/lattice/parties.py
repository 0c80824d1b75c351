"""M parties that multiply, in threads, and the same on integers of Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.lattice.parameters import Parameters
from pdml_spdz.lattice.product import share_product
from pdml_spdz.numerics import ring
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.inprocess import between_threads, mesh


def integers(a: NDArray[np.uint64]) -> NDArray[Any]:
    """Numbers with limbs in the last axis, as integers of Python."""
    return np.array(ring.to_ints(a.reshape(-1, a.shape[-1])), object).reshape(a.shape[:-1])


def numbers(a: NDArray[Any], w: int) -> NDArray[np.uint64]:
    return ring.from_ints([int(x) for x in a.reshape(-1)], w).reshape(*a.shape, -1)


def products(
    S: Sequence[NDArray[Any]], R: Sequence[NDArray[np.uint64]], p: Parameters, links: Sequence[Link] | None = None
) -> list[NDArray[np.uint64]]:
    """Every party's share."""
    M = len(S)
    ends = links or mesh(M, timeout=60.0)
    return between_threads(M, lambda link: share_product(link, S[link.me], R[link.me], p), ends)


def assert_shares(shares: list[NDArray[np.uint64]], S: Sequence[Any], R: Sequence[Any], w: int) -> None:
    """The shares add up to (sum S)(sum R) mod 2^w; S integers of Python or int64."""
    left, right = sum(np.asarray(s, object) for s in S), sum(integers(r) for r in R)
    found = sum(integers(share) for share in shares)
    assert not np.any((found - left @ right) % (1 << w))
