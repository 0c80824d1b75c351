"""Principal component regression in the common subspace, by each party for itself or by all together. [PDML §PCR]"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pdml_spdz.applications.low_rank import Score, coordinates
from pdml_spdz.errors import InputError, QuotaError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.numerics.linalg import EPS
from pdml_spdz.primitives.sec_sum import SecSum
from pdml_spdz.rows.base import RowsLike

CLEAR = 256.0  # a direction whose moment is not known to 8 bits is none


@dataclass(frozen=True)
class Regression:
    """y is about offset + (x - mean) V beta. V, mean : common; beta (k,), offset : the party's own

    digits : to how many digits beta is known, of its length, by what was opened; None: nothing was
    """

    V: Reals
    mean: Reals | None
    beta: Reals
    offset: float
    digits: int | None = None

    def predict(self, X: RowsLike) -> Reals:
        return self.offset + coordinates(X, self.V, self.mean) @ self.beta

    def score(self, X: RowsLike, y: Reals) -> Score:
        """The squared errors on held-out rows; `.rmse` is the paper's measure."""
        residual = _targets(y, X) - self.predict(X)
        return Score(float(residual @ residual), len(residual))

    def rmse(self, X: RowsLike, y: Reals) -> float:
        return self.score(X, y).rmse


@dataclass(frozen=True)
class Scales:
    """Public: no row of coordinates is longer than `row`, no target larger than `target`, no party has more than
    `most` rows
    """

    row: float
    target: float
    most: int

    def check(self, Xhat: Reals, y: Reals) -> None:
        found = float(np.linalg.norm(Xhat, axis=1).max()), float(np.abs(y).max()), len(y)
        if not all(f <= agreed for f, agreed in zip(found, (self.row, self.target, self.most), strict=True)):
            raise QuotaError(
                f"this party's longest row, largest target and number of rows are {found[0]:.6g}, {found[1]:.6g} and "
                f"{found[2]}; nothing was sent.",
                f"at most the agreed {self.row:.6g}, {self.target:.6g} and {self.most}",
                "agree on larger scales, or leave out rows that are too long",
            )


def fit(X: RowsLike, y: Reals, V: Reals, mean: Reals | None = None, *, as_printed: bool = False) -> Regression:
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


def fit_jointly(X: RowsLike, y: Reals, V: Reals, mean: Reals | None, sec_sum: SecSum, *, scales: Scales) -> Regression:
    """beta of all parties' rows, the same at every party; party m's view.

    1. V, mean <- PD-PCA                                            done before: common
    2. A <- (X_m - 1 mean^T) V / row, 1, y / target, side by side   local
    3. G <- SecSum(A^T A / most), its upper triangle without y^T y  one call
    4. beta, offset <- the solution of G's normal equations         the same at every party, and so are `digits`

    Reveals: second moments of the coordinates and their products with y, summed over all rows; sum of y; n.
    Cost: one SecSum of (k + 1)(k + 2)/2 + k + 1 numbers.
    Ref: [PDML §Experiments: "using PD-SVD and the combined X"].
    """
    y, Xhat = _targets(y, X), coordinates(X, V, mean)
    scales.check(Xhat, y)
    A = np.column_stack([Xhat / scales.row, np.ones(len(y)), y / scales.target])
    k = V.shape[1]
    upper = np.triu_indices(k + 2)
    sent = upper[0] <= k  # all but y^T y
    moments = np.zeros((k + 2, k + 2))
    moments[upper[0][sent], upper[1][sent]] = sec_sum((A.T @ A)[upper][sent] / scales.most, 1.0, "moments")
    G = moments[: k + 1, : k + 1]
    G = G + np.triu(G, 1).T
    # G is off by up to so much in the spectral norm: of what is not well above it, the shortest solution takes nothing.
    off = (k + 1) * sec_sum.accuracy(1.0).tolerance
    least = max(CLEAR * off / np.linalg.norm(G, 2), (k + 1) * EPS)
    solution, _, rank, values = np.linalg.lstsq(G, moments[: k + 1, k + 1], rcond=least)
    off += (k + 1) * EPS * np.sqrt(scales.most)
    # G dx = db - dG (x + dx), in which db and dG are no longer than `off`. Nothing is known along what was left out.
    error = off * (1.0 + np.linalg.norm(solution)) / (values[-1] - off) if rank > k else np.inf
    known = min(1.0, error / max(float(np.linalg.norm(solution[:k])), EPS))
    beta, offset = solution[:k] * scales.target / scales.row, float(solution[k] * scales.target)
    return Regression(V, mean, beta, offset, int(-np.log10(known)))


def _targets(y: Reals, X: RowsLike) -> Reals:
    y = np.asarray(y, np.float64)
    if y.shape != (X.shape[0],) or not len(y):
        raise InputError(f"the targets have the shape {y.shape} for {X.shape[0]} rows.", "one target for each row")
    if not np.all(np.isfinite(y)):
        raise InputError("some targets are not finite.", "finite numbers", "drop rows without a target")
    return y
