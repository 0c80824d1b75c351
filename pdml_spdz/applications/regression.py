"""Principal component regression in the common subspace, by each party for itself. [PDML App. Learning Uplift, PCR]"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pdml_spdz.applications.low_rank import coordinates
from pdml_spdz.applications.score import Score
from pdml_spdz.errors import InputError
from pdml_spdz.fixedpoint import Reals
from pdml_spdz.linalg import Rows


@dataclass(frozen=True)
class Regression:
    """y is about offset + (x - mean) V beta. V, mean : common; beta (k,), offset : the party's own"""

    V: Reals
    mean: Reals | None
    beta: Reals
    offset: float

    def predict(self, X: Rows) -> Reals:
        return self.offset + coordinates(X, self.V, self.mean) @ self.beta

    def score(self, X: Rows, y: Reals) -> Score:
        """The squared errors on held-out rows; `.rmse` is the paper's measure."""
        residual = _targets(y, X) - self.predict(X)
        return Score(float(residual @ residual), len(residual))

    def rmse(self, X: Rows, y: Reals) -> float:
        return self.score(X, y).rmse


def fit(X: Rows, y: Reals, V: Reals, mean: Reals | None = None, *, as_printed: bool = False) -> Regression:
    """beta of one party.

    1. V, mean <- PD-PCA                                            done before: common
    2. Xhat <- (X_m - 1 mean^T) V; y_0 <- y - its own mean          local
    3. beta <- argmin ||Xhat beta - y_0||_2, the shortest of them   local

    As printed, Xhat is not centred by the party's own mean: a party whose rows lie aside of the common mean then fits
    no intercept. Here it is, which is least squares with an intercept; `as_printed` leaves it out.

    Reveals: nothing, beta stays with the party. Cost: nothing is sent.
    Ref: [PDML App. Learning Uplift], Jolliffe, Applied Statistics 1982.
    """
    y, Xhat = _targets(y, X), coordinates(X, V, mean)
    shift = np.zeros(V.shape[1]) if as_printed else Xhat.mean(axis=0)
    y_0 = y - y.mean()
    beta = np.linalg.lstsq(Xhat - shift, y_0, rcond=None)[0]
    return Regression(V, mean, beta, float(y.mean() - shift @ beta))


def _targets(y: Reals, X: Rows) -> Reals:
    y = np.asarray(y, np.float64)
    if y.shape != (X.shape[0],) or not len(y):
        raise InputError(f"the targets have the shape {y.shape} for {X.shape[0]} rows.", "one target for each row")
    if not np.all(np.isfinite(y)):
        raise InputError("some targets are not finite.", "finite numbers", "drop rows without a target")
    return y
