"""The same product for S_m = X_m^T X_m with few rows, in two steps and without forming S_m: X_m^T (X_m R)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.errors import StudyError
from pdml_spdz.lattice import cost
from pdml_spdz.lattice.exact import multiply
from pdml_spdz.lattice.parameters import Parameters
from pdml_spdz.lattice.product import Cross, Progress, added
from pdml_spdz.transport.base import Link


@dataclass(frozen=True)
class TwoSteps:
    """Parameters of X R and of X^T Y.

    rows : an agreed bound of every party's number of rows: what is missing is zero, and nobody sees how many there are
    """

    rows: int
    first: Parameters
    second: Parameters

    @classmethod
    def choose(
        cls, *, M: int, rows: int, d: int, c: int, w: int, bits: int, kind: type[Parameters] = Parameters
    ) -> TwoSteps:
        """bits : of the entries of X"""
        first = kind.choose(M=M, n=rows, i=d, c=c, w=w, bits=bits)
        return cls(rows, first, kind.choose(M=M, n=d, i=rows, c=c, w=w, bits=bits))

    @property
    def sent(self) -> int:
        """Bytes that a party sends."""
        return self.first.sent + self.second.sent

    @property
    def price(self) -> float:
        """Seconds with the network's, to be compared with `cost.price` of the dense product."""
        return sum(cost.price(p.packing, p.M, p.N, p.count, p.travel_bits) for p in (self.first, self.second))


def cheaper(dense: Parameters, steps: TwoSteps) -> Parameters | TwoSteps:
    """Whichever costs less: two steps if there are so few rows that X and its transpose have fewer numbers than S."""
    p = dense
    return steps if steps.price < cost.price(p.packing, p.M, p.N, p.count, p.travel_bits) else dense


def share_product_of_rows(
    link: Link,
    X: NDArray[np.int64],
    R: NDArray[np.uint64],
    steps: TwoSteps,
    *,
    progress: Progress | None = None,
) -> NDArray[np.uint64]:
    """This party's share of (sum_m X_m^T X_m)(sum_l R_l) mod 2^w.

    X : this party's rows, integers, (n_m, d) with n_m <= steps.rows
    R : (d, c, limbs), as in `share_product`

    1. Shares of Y^m = X_m R for each m, by ring-LWE: m has y^m_m, each l has y^m_l.
    2. l encrypts y^m_l for m alone; m returns X_m^T times it, and has X_m^T y^m_m by itself.
    3. What a party has of all m, added up, is its share.

    *Reveals:* nothing but steps.rows, which was agreed; each step is `share_product` on numbers that are shared, hence
    uniform to all but one of the parties.
    *Cost:* both steps; what is encrypted in the second is another matrix for each peer.
    """
    w = steps.first.w
    if X.ndim != 2 or len(X) > steps.rows:
        raise StudyError(f"rows of shape {X.shape}.", f"at most {steps.rows} rows")
    padded = np.zeros((1, steps.rows, X.shape[1]), np.int64)
    padded[0, : len(X)] = X
    masks, of_peers = Cross(link, padded, R[None], steps.first, progress=progress)()
    own = added([multiply(padded, R[None], w), masks])
    back = np.ascontiguousarray(padded.transpose(0, 2, 1))
    masks, decrypted = Cross(link, back, of_peers, steps.second, progress=progress)()
    share: NDArray[np.uint64] = added([multiply(back, own, w), masks, *decrypted.values()])[0]
    return share
