"""PD-SVD, PD-PCA and PD-NMF as scikit-learn transformers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_non_negative

from pdml_spdz.algorithms.rri import Penalties, part
from pdml_spdz.applications.low_rank import coordinates
from pdml_spdz.estimators.base import Distributed
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.rows.base import RowsLike
from pdml_spdz.study.levels import NORMED, SUM
from pdml_spdz.study.model import NmfSettings


class PDSVD(Distributed):
    """Truncated SVD of the rows of several parties (PD-SVD).

    Parameters
    ----------
    n_components : number of singular vectors, at most the number of features
    max_iter, tol : iterations at most (None: 60, with "power" 300); stop when a bound of the vectors' sines is below
    (None: 1e-7), with "power" when the subspace changes by less (None: 1e-9)
    solver : None or "krylov", block Lanczos; "power", the paper's block power iteration
    engine : "embedded" or "mp-spdz" (singular values are hidden); "secsum" (sums are seen, and so are they); "plain"
    bound : "auto" (none is shown, or with "secsum" the sum of the parties' norms), or the largest ||X_m^T X_m||_F of a
    party, "rows:R,N", or another that a study may have
    random_state : None for a start that all parties draw together; otherwise it makes a public seed
    transport : "processes", one for each party, as between hosts; "threads", the same without sockets: faster
    record_transcript : keep what a party sees (with a RecordingWarning), for `pdml_spdz.privacy.attack_run.attack`

    Attributes
    ----------
    components_ : (n_components, n_features); fewer rows if the data have a smaller rank
    Columns of a table (pandas, Arrow) are those of the table that was fitted, by name, whatever their order.
    singular_values_ : (n_components,) with engine "secsum" or "plain", else None
    n_iter_, n_features_in_, feature_names_in_; report_ : what the run did, revealed and cost
    transcript_ : what any party saw of a recorded run, else None
    """

    _algorithm = "svd"

    def __init__(
        self,
        n_components: int = 2,
        *,
        max_iter: int | None = None,
        tol: float | None = None,
        solver: str | None = None,
        engine: str = NORMED.engine,
        bound: str | float = "auto",
        random_state: Any = None,
        transport: str = "processes",
        record_transcript: bool = False,
    ) -> None:
        super().__init__(n_components, max_iter, tol, engine, bound, random_state, transport, record_transcript)
        self.solver = solver

    def fit(self, X: Any, y: Any = None, *, parties: Sequence[Any] | None = None) -> Self:
        """parties : numbers of consecutive rows, or a label for each row; by default three equal parts"""
        done = self._fit(X, parties, solver=self.solver)
        self.components_ = done.V.T
        sigma = done.report["singular_values"]
        self.singular_values_ = None if sigma is None else np.array(sigma)
        return self

    def transform(self, X: Any) -> Reals:
        """X V, of shape (n, n_components)."""
        return coordinates(self._rows(X), self.components_.T)

    def inverse_transform(self, X: Any) -> Reals:
        """Rows that have these coordinates."""
        return self._coordinates(X) @ self.components_


class PDPCA(Distributed):
    """Principal components of the rows of several parties (PD-PCA): parameters and attributes as in PDSVD.

    Parameters
    ----------
    centre : "open", and all parties see the mean; "hidden", and nobody does (engine "embedded" or "mp-spdz"); "none"
    variance : reveal the explained variance where the engine hides it
    scale : "agreed", by the rows' own units, or "secsum", by deviations, which all parties see
    The number of all rows is revealed to all parties.

    Attributes
    ----------
    mean_ : (n_features,), or None if it is hidden: coordinates are then off by a constant, those of the mean
    scale_ : (n_features,), or None; explained_variance_ : (n_components,), or None if it was not revealed
    """

    _algorithm = "pca"

    def __init__(
        self,
        n_components: int = 2,
        *,
        max_iter: int | None = None,
        tol: float | None = None,
        centre: str = "open",
        variance: bool = False,
        scale: str = "agreed",
        solver: str | None = None,
        engine: str = NORMED.engine,
        bound: str | float = "auto",
        random_state: Any = None,
        transport: str = "processes",
        record_transcript: bool = False,
    ) -> None:
        super().__init__(n_components, max_iter, tol, engine, bound, random_state, transport, record_transcript)
        self.solver = solver
        self.centre = centre
        self.variance = variance
        self.scale = scale

    def fit(self, X: Any, y: Any = None, *, parties: Sequence[Any] | None = None) -> Self:
        """parties : numbers of consecutive rows, or a label for each row; by default three equal parts"""
        own = {name: getattr(self, name) for name in ("solver", "centre", "variance", "scale")}
        done = self._fit(X, parties, **own)
        self.components_, self.mean_, self.scale_ = done.V.T, done.mean, done.scale
        sigma, variance = done.report["singular_values"], done.report.get("explained_variance")
        self.singular_values_ = None if sigma is None else np.array(sigma)
        self.explained_variance_ = None if variance is None else np.array(variance)
        return self

    def transform(self, X: Any) -> Reals:
        """(X - mean) / scale V, of shape (n, n_components)."""
        rows, V = self._rows(X), self.components_.T
        return coordinates(rows, V if self.scale_ is None else V / self.scale_[:, None], self.mean_)

    def inverse_transform(self, X: Any) -> Reals:
        """Rows that have these coordinates."""
        rows = self._coordinates(X) @ self.components_
        if self.scale_ is not None:
            rows = rows * self.scale_
        return rows if self.mean_ is None else rows + self.mean_


class PDNMF(Distributed):
    """Non-negative factorisation of the rows of several parties (PD-NMF): X is about W T.

    Parameters
    ----------
    n_components : number of topics, at most the number of features
    max_iter, tol : sweeps at most; stop when no topic changes by more in a sweep (l1)
    init : "pd" (from the parties' own topics), "random", or "nnsvd" (by PD-SVD); random_state takes its place
    weighted : entries that a sparse X does not store are missing, not zero
    alpha, beta, gamma, delta : penalties on ||T||_1, ||T||_F^2/2, ||W||_1, ||W||_F^2/2
    engine : "secsum" or "plain"; bound, random_state, transport, record_transcript as in PDSVD

    Attributes
    ----------
    components_ : (n_components, n_features), T; n_iter_, n_features_in_, feature_names_in_, report_, transcript_
    """

    _algorithm = "nmf"

    def __init__(
        self,
        n_components: int = 2,
        *,
        max_iter: int = 200,
        tol: float = 1e-6,
        init: str = "pd",
        weighted: bool = False,
        alpha: float = 0.0,
        beta: float = 0.0,
        gamma: float = 0.0,
        delta: float = 0.0,
        engine: str = SUM.engine,
        bound: str | float = "auto",
        random_state: Any = None,
        transport: str = "processes",
        record_transcript: bool = False,
    ) -> None:
        super().__init__(n_components, max_iter, tol, engine, bound, random_state, transport, record_transcript)
        self.init = init
        self.weighted = weighted
        self.alpha = alpha
        self.beta = beta
        self.gamma = gamma
        self.delta = delta

    def fit(self, X: Any, y: Any = None, *, parties: Sequence[Any] | None = None) -> Self:
        """parties : numbers of consecutive rows, or a label for each row; by default three equal parts"""
        penalties = {name: getattr(self, name) for name in ("alpha", "beta", "gamma", "delta")}
        nmf = NmfSettings(init=self.init, weighted=self.weighted, **penalties)
        self.components_ = self._fit(X, parties, nmf=nmf).V
        return self

    def transform(self, X: Any) -> Reals:
        """W >= 0 of shape (n, n_components): the best fit of W T to X, with the penalties on W."""
        rows = self._rows(X)
        check_non_negative(rows, "PDNMF.transform")
        local = part(rows, self._n_features_out, weighted=self.weighted)
        local.fit(self.components_, Penalties(gamma=self.gamma, delta=self.delta))
        return local.W

    def inverse_transform(self, X: Any) -> Reals:
        """W T."""
        return self._coordinates(X) @ self.components_

    def _check_rows(self, X: RowsLike) -> None:
        super()._check_rows(X)
        check_non_negative(X, "PDNMF.fit")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags
