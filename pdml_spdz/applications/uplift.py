"""What a party gains by joining: the error of its own model and of the common one, on the same held-out rows.

The model of its own is made by the same code with one party, so that nothing but the rows differs. Nothing is sent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pdml_spdz.algorithms import krylov, nmf
from pdml_spdz.algorithms.nmf_start import fitted_error, own_topics
from pdml_spdz.algorithms.rri import Penalties, part
from pdml_spdz.algorithms.solver import Fitting, SvdSettings, start_by_seed
from pdml_spdz.applications import low_rank, recommender
from pdml_spdz.applications.recommender import RatingScale
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.primitives.normed_sum import Alone, own_directions
from pdml_spdz.rows.base import RowsLike, as_rows
from pdml_spdz.rows.covariance import centred_covariance, covariance
from pdml_spdz.transport.base import Clock


@dataclass(frozen=True)
class Uplift:
    """Errors on held-out rows: of the party's own model, and of the common one."""

    local: float
    joint: float

    @property
    def percent(self) -> float:
        """The percentage by which joining decreases the error; negative if it increases it."""
        if self.local == 0:
            return 0.0 if self.joint == 0 else -np.inf
        return 100.0 * (self.local - self.joint) / self.local


def local_svd(X: RowsLike, k: int, *, mean: Reals | None = None, tol: float = 1e-9) -> Reals:
    """V (d, k) of one party's rows (less a mean): krylov with one party."""
    k, d, tau = min(k, *X.shape), X.shape[1], krylov.KRYLOV.iterations
    S = covariance(X, k, tau) if mean is None else centred_covariance(X, mean, k, tau)
    V = start_by_seed(d, krylov.block_size(k, d), 0, Alone())
    settings = SvdSettings(k, tau, tol)
    return krylov.pd_krylov(Fitting(S, own_directions, Alone(), Clock()), krylov.start(V), settings).V


def local_pca(X: RowsLike, k: int, *, tol: float = 1e-9) -> tuple[Reals, Reals]:
    """(V, mean) of one party's rows: the same, less their mean."""
    mean = as_rows(X).column_sums() / X.shape[0]
    return local_svd(X, k, mean=mean, tol=tol), mean


def local_topics(X: RowsLike, k: int, settings: nmf.SweepSettings) -> Reals:
    """T (k, d) of one party's rows: PD-NMF with one party, from its own singular vectors."""
    return own_topics(X, k, settings)[1]


def own_settings(X: RowsLike, tau: int, tol: float, penalties: Penalties | None, weighted: bool) -> nmf.SweepSettings:
    """Settings of PD-NMF for rows that are not sent anywhere: their own size is the bound."""
    bound = max(part(X, 1, weighted=weighted).norm(), 1.0)
    return nmf.SweepSettings(tau, tol, bound, penalties or Penalties(), weighted)


def low_rank_uplift(X: RowsLike, held_out: RowsLike, V: Reals) -> Uplift:
    """||X - X V V^T||_F on held-out rows with the party's own V, and with the common one."""
    V_m = local_svd(X, V.shape[1])
    return Uplift(low_rank.reconstruction_error(held_out, V_m), low_rank.reconstruction_error(held_out, V))


def topics_uplift(X: RowsLike, held_out: RowsLike, T: Reals, *, tau: int = 200, tol: float = 1e-6) -> Uplift:
    """min over W >= 0 of ||X - W T||_F on held-out rows, with the party's own topics, and with the common T."""
    T_m = local_topics(X, len(T), own_settings(X, tau, tol, None, False))
    return Uplift(topics_error(held_out, T_m), topics_error(held_out, T))


def topics_error(X: RowsLike, T: Reals) -> float:
    """||X - W T||_F for the W >= 0 that fits best. Local."""
    return float(np.sqrt(fitted_error(X, T, Penalties())))


def recommender_uplift(
    ratings: RowsLike,
    held_out: RowsLike,
    T: Reals,
    scale: RatingScale,
    penalties: Penalties | None = None,
    *,
    tau: int = 200,
) -> Uplift:
    """RMSE on held-out ratings of the party's users with topics of their own ratings, and with the common T."""
    settings = own_settings(scale.check(ratings), tau, 1e-6, penalties, True)
    T_m = local_topics(ratings, len(T), settings)
    errors = [recommender.rmse(ratings, held_out, topics, scale, penalties) for topics in (T_m, T)]
    return Uplift(*errors)
