"""The nearest point of the probability simplex."""

from __future__ import annotations

import numpy as np

from pdml_spdz.fixedpoint import Reals


def project(x: Reals) -> Reals:
    """argmin ||y - x||_2 over y >= 0 with sum(y) = 1, exactly: y = [x - theta]_+ for the theta that makes the sum 1.

    Only numbers above max(x) - 1 can stay positive (what is cut off them sums to 1), which leaves few to be sorted.
    Ref: Held, Wolfe, Crowder, Math. Programming 1974; the filter as in Condat, Math. Programming 2016.
    """
    x = x - x.max()  # for accuracy: the same theta, shifted, for numbers of any size
    candidates = np.sort(x[x > -1.0])[::-1]
    above = np.cumsum(candidates) - 1.0
    count = np.arange(1, len(candidates) + 1)
    last = np.flatnonzero(candidates * count > above)[-1]
    y = np.maximum(x - above[last] / count[last], 0.0)
    return np.asarray(y / y.sum())
