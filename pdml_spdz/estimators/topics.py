"""PD-NMF as a scikit-learn transformer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from sklearn.utils.validation import check_non_negative

from pdml_spdz.algorithms.rri import Penalties, part
from pdml_spdz.estimators.base import Distributed
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.rows.base import RowsLike
from pdml_spdz.study.engines import DEFAULTS
from pdml_spdz.study.model import NmfSettings


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
        engine: str = DEFAULTS["sum"],
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
