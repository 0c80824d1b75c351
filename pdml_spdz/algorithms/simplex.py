"""The nearest point of the probability simplex."""

from __future__ import annotations

import numpy as np

from pdml_spdz.numerics.fixedpoint import Reals


def project(x: Reals) -> Reals:
    """argmin ||y - x||_2 over y >= 0 with sum(y) = 1, exactly: y = [x - theta]_+ for the theta that makes the sum 1.

    Only numbers above max(x) - 1 can stay positive (what is cut off them sums to 1). The theta of a set that contains
    those that stay is never too large, so what is not above it goes; when nothing goes, it is theta. No sorting.
    Ref: Michelot, J. Optim. Theory Appl. 1986; the filter as in Condat, Math. Programming 2016.
    """
    x = x - x.max()  # for accuracy: the same theta, shifted, for numbers of any size
    kept, count = x[x > -1.0], 0
    while len(kept) != count:
        count = len(kept)
        theta = (kept.sum() - 1.0) / count  # below 0, which is the largest number: it never goes
        kept = kept[kept > theta]
    y = np.maximum(x - theta, 0.0)
    return np.asarray(y / y.sum())
