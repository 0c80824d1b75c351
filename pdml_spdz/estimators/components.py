"""PD-SVD, PD-PCA and PD-NMF as scikit-learn transformers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_non_negative

from pdml_spdz.algorithms.rri import Penalties, part
from pdml_spdz.applications.finished import FinishedRun
from pdml_spdz.applications.low_rank import coordinates
from pdml_spdz.errors import StudyError
from pdml_spdz.estimators.base import Distributed
from pdml_spdz.local.joint import LocalResult
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.rows.base import RowsLike, as_rows
from pdml_spdz.study.levels import NORMED, SUM
from pdml_spdz.study.model import NmfSettings

FIRST = 8  # components of the first fit, where a share of the variance is asked for; then twice as many
RATIO = "explained_variance_ratio"


class Linear(Distributed):
    """Coordinates along components: (X - mean) / scale V, without what is None."""

    components_: Reals
    mean_: Reals | None
    scale_: Reals | None
    singular_values_: Reals | None

    def _seal(self, reveal: str | None, accuracy_goal: float, decay: float, block: int, ratios: str) -> None:
        """Parameters of a sealed fit."""
        self.reveal = reveal
        self.accuracy_goal = accuracy_goal
        self.decay = decay
        self.block = block
        self.ratios = ratios

    def _sealed(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("reveal", "accuracy_goal", "decay", "block", "ratios")}

    def transform(self, X: Any) -> Any:
        """(X - mean) / scale V, of shape (n, n_components); a DataFrame if X is one."""
        rows, V = self._rows(X), self.components_.T
        Z = coordinates(rows, V if self.scale_ is None else V / self.scale_[:, None], self.mean_)
        return self._as_given(X, Z, self.get_feature_names_out())

    def inverse_transform(self, X: Any) -> Any:
        """Rows that have these coordinates; a DataFrame if X is one."""
        rows = self._coordinates(X) @ self.components_
        if self.scale_ is not None:
            rows = rows * self.scale_
        return self._as_given(X, rows if self.mean_ is None else rows + self.mean_, self._texts)

    def _take(self, run: FinishedRun) -> None:
        self.components_, self.mean_ = run.result.T, run.shift
        self.scale_ = None if np.all(run.unit == 1.0) else run.unit
        self._shown(run.report)

    def _shown(self, report: dict[str, Any]) -> None:
        self.singular_values_ = _numbers(report["singular_values"])


def _numbers(values: Sequence[float] | None) -> Reals | None:
    return None if values is None else np.array(values)


class PDSVD(Linear):
    """Truncated SVD of the rows of several parties (PD-SVD).

    Parameters
    ----------
    n_components : number of singular vectors, at most the number of features
    max_iter : maximum number of iterations (None: 60, with "power" 300)
    tol : stop when a bound of the vectors' sines is below (None: 1e-7), with "power" when the subspace changes by less
        (None: 1e-9)
    solver : None or "krylov", block Lanczos; "power", the paper's block power iteration
    engine : "embedded" or "mp-spdz" (singular values are hidden); "secsum" (sums are seen, and so are they); "plain"
    reveal : None, what the engine does; "sealed": V, to `accuracy_goal`, and few other numbers
    accuracy_goal : sealed: sine of V's error that its gate lets pass; V is opened no finer
    decay : sealed: lambda_(b+1) / lambda_k that the number of iterations is meant for
    block : sealed: b, the columns that are iterated; 0: twice the rank
    ratios : sealed: "open", all parties see the ratios of b Ritz values; "hidden", nobody does, at about twice the cost
    bound : "auto" (none is shown, or with "secsum" the sum of the parties' norms), or the largest ||X_m^T X_m||_F of a
        party, "rows:R,N", or another that a study may have
    random_state : None for a start that all parties draw together; otherwise it makes a public seed
    transport : "processes", one for each party, as between hosts; "threads", the same without sockets: faster
    record_transcript : keep what a party sees (with a RecordingWarning), for `pdml_spdz.privacy.attack_run.attack`

    Attributes
    ----------
    components_ : (n_components, n_features); fewer rows if the data have a smaller rank. Columns of a table (pandas,
        Arrow) are those of the table that was fitted, by name, whatever their order
    singular_values_ : (n_components,) with engine "secsum" or "plain", else None
    n_iter_ : iterations of the run
    n_features_in_ : number of features
    feature_names_in_ : their names, if X is a table
    report_ : what the run did, revealed and cost
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
        reveal: str | None = None,
        accuracy_goal: float = 1e-6,
        decay: float = 0.6,
        block: int = 0,
        ratios: str = "open",
        bound: str | float = "auto",
        random_state: Any = None,
        transport: str = "processes",
        record_transcript: bool = False,
    ) -> None:
        super().__init__(n_components, max_iter, tol, engine, bound, random_state, transport, record_transcript)
        self.solver = solver
        self._seal(reveal, accuracy_goal, decay, block, ratios)

    def fit(self, X: Any, y: Any = None, *, parties: Sequence[Any] | None = None) -> Self:
        """parties : numbers of consecutive rows, or a label for each row; by default three equal parts"""
        done = self._fit(X, parties, solver=self.solver, **self._sealed())
        self.components_, self.mean_, self.scale_ = done.V.T, None, None
        self._shown(done.report)
        return self


class PDPCA(Linear):
    """Principal components of the rows of several parties (PD-PCA): parameters and attributes as in PDSVD, and these.

    The number of all rows is revealed to all parties.

    Parameters
    ----------
    centre : "open", and all parties see the mean; "hidden", and nobody does (engine "embedded" or "mp-spdz"); "none"
    variance : reveal the explained variance where the engine hides it
    scale : "agreed", by the rows' own units, or "secsum", by deviations, which all parties see
    n_components : also a share of the variance, between 0 and 1, with `variance`: fits of 8, 16, ... components until
        they have it; each of them is revealed

    Attributes
    ----------
    mean_ : (n_features,), or None if it is hidden: coordinates are then off by a constant, those of the mean
    scale_ : (n_features,), or None
    explained_variance_ : (n_components,), or None if it was not revealed
    explained_variance_ratio_ : (n_components,), or None if the variance of all rows was not revealed
    """

    _algorithm = "pca"

    def __init__(
        self,
        n_components: int | float = 2,
        *,
        max_iter: int | None = None,
        tol: float | None = None,
        centre: str = "open",
        variance: bool = False,
        scale: str = "agreed",
        solver: str | None = None,
        engine: str = NORMED.engine,
        reveal: str | None = None,
        accuracy_goal: float = 1e-6,
        decay: float = 0.6,
        block: int = 0,
        ratios: str = "open",
        bound: str | float = "auto",
        random_state: Any = None,
        transport: str = "processes",
        record_transcript: bool = False,
    ) -> None:
        super().__init__(n_components, max_iter, tol, engine, bound, random_state, transport, record_transcript)
        self.solver = solver
        self._seal(reveal, accuracy_goal, decay, block, ratios)
        self.centre = centre
        self.variance = variance
        self.scale = scale

    def fit(self, X: Any, y: Any = None, *, parties: Sequence[Any] | None = None) -> Self:
        """parties : numbers of consecutive rows, or a label for each row; by default three equal parts"""
        own = {name: getattr(self, name) for name in ("solver", "centre", "variance", "scale")} | self._sealed()
        share = _share(self.n_components)
        if share is not None and not self.variance:
            raise StudyError(
                f"`n_components` is {share:g} and the variance is hidden.",
                "a number of components, or variance=True, which reveals it",
            )
        done = self._fit(X, parties, None if share is None else min(FIRST, self._width(X)), **own)
        while share is not None and not self._enough(done, share):
            done = self._fit(X, parties, min(2 * int(done.report["rank"]), self._width(X)), **own)
        kept = None if share is None else _least(done.report[RATIO], share)
        self.components_, self.mean_, self.scale_ = done.V.T[:kept], done.mean, done.scale
        self._shown(done.report)
        return self

    def _shown(self, report: dict[str, Any]) -> None:
        k = len(self.components_)
        shown = [_numbers(report.get(name)) for name in ("singular_values", "explained_variance", RATIO)]
        found = [None if values is None else values[:k] for values in shown]
        self.singular_values_, self.explained_variance_, self.explained_variance_ratio_ = found

    @staticmethod
    def _width(X: Any) -> int:
        return int(X.shape[1] if hasattr(X, "shape") else np.shape(X)[1])

    @staticmethod
    def _enough(done: LocalResult, share: float) -> bool:
        """Whether a run has found components of so much variance, or all that there are."""
        report = done.report
        all_found = report["rank_found"] < report["rank"] or report["rank"] >= report["d"]
        return all_found or bool(sum(report[RATIO]) >= share)


def _share(n_components: Any) -> float | None:
    """The share of variance that is asked for in the place of a number of components."""
    share = isinstance(n_components, float | np.floating) and 0.0 < n_components < 1.0
    return float(n_components) if share else None


def _least(ratio: Sequence[float], share: float) -> int:
    """How many of the first have that share together; all, if they have not."""
    return min(int(np.searchsorted(np.cumsum(ratio), share)) + 1, len(ratio))


class PDNMF(Distributed):
    """Non-negative factorisation of the rows of several parties (PD-NMF): X is about W T.

    Parameters
    ----------
    n_components : number of topics, at most the number of features
    max_iter : maximum number of sweeps
    tol : stop when no topic changes by more in a sweep (l1)
    init : "pd" (from the parties' own topics), "random", or "nnsvd" (by PD-SVD); random_state takes its place
    weighted : entries that a sparse X does not store are missing, not zero; and so are the zeros of a dense X
    alpha : penalty on ||T||_1
    beta : penalty on ||T||_F^2/2
    gamma : penalty on ||W||_1
    delta : penalty on ||W||_F^2/2
    engine : "secsum" or "plain"
    bound, random_state, transport, record_transcript : as in PDSVD

    Attributes
    ----------
    components_ : (n_components, n_features), T
    n_iter_, n_features_in_, feature_names_in_, report_, transcript_ : as in PDSVD
    """

    _algorithm = "nmf"
    scale_: Reals | None

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
        self.components_, self.scale_ = self._fit(X, parties, nmf=nmf).V, None
        return self

    def _take(self, run: FinishedRun) -> None:
        self.components_ = run.topics
        self.scale_ = None if np.all(run.unit == 1.0) else run.unit
        self.set_params(weighted=run.report["weighted"], **run.report["penalties"])

    def transform(self, X: Any) -> Any:
        """W >= 0 of shape (n, n_components), the best fit of W T to X; a DataFrame if X is one."""
        rows = self._rows(X)
        check_non_negative(rows, "PDNMF.transform")
        if self.scale_ is not None:
            rows = as_rows(rows).over(self.scale_)
        local = part(rows, self._n_features_out, weighted=self.weighted)
        local.fit(self.components_, Penalties(gamma=self.gamma, delta=self.delta))
        return self._as_given(X, local.W, self.get_feature_names_out())

    def inverse_transform(self, X: Any) -> Any:
        """W T, in the units of the rows; a DataFrame if X is one."""
        rows = self._coordinates(X) @ self.components_
        return self._as_given(X, rows if self.scale_ is None else rows * self.scale_, self._texts)

    def _check_rows(self, X: RowsLike) -> None:
        check_non_negative(X, "PDNMF.fit")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags
