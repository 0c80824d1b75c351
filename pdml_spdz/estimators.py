"""PD-SVD, PD-PCA and PD-NMF as scikit-learn transformers: the rows of one X are split among local parties.

For trying out, for pipelines and for comparison with scikit-learn's own; parties on hosts of their own use the command
`pdml-spdz party`. Needs scikit-learn: pip install 'pdml-spdz[sklearn]'.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from pdml_spdz.algorithms.rri import Penalties, part
from pdml_spdz.errors import InputError, StudyError
from pdml_spdz.fixedpoint import Reals
from pdml_spdz.linalg import Rows
from pdml_spdz.local import LocalRun, local_study, run_local
from pdml_spdz.study import NmfSettings, Study
from pdml_spdz.threads_run import ThreadsResult, run_in_threads

try:
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.utils import check_random_state
    from sklearn.utils.validation import check_array, check_is_fitted, check_non_negative, validate_data
except ImportError as error:
    raise ImportError(
        "pdml_spdz.estimators needs scikit-learn 1.6 or newer: pip install 'pdml-spdz[sklearn]'"
    ) from error

PARTIES = 3  # by default, for want of fewer rows
TRANSPORTS = ("processes", "threads")


class _Distributed(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """What the three have in common: checks, the parties, a run, and what is kept of it."""

    _algorithm: str

    def _fit(self, X: Any, parties: Sequence[Any] | None, **settings: Any) -> ThreadsResult:
        rank = _whole(self.n_components, "n_components")
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, ensure_min_samples=2)
        self._check_rows(X)
        tables = [X[rows] for rows in split(X.shape[0], parties)]
        if self.random_state is not None:
            seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
            settings |= {"start": "seed", "seed": seed}
        study = local_study(
            len(tables),
            algorithm=self._algorithm,
            rank=rank,
            iterations=_whole(self.max_iter, "max_iter"),
            tol=self.tol,
            engine=self.engine,
            bound=str(self.bound),
            **settings,
        )
        if self.transport not in TRANSPORTS:
            raise StudyError(f"`transport` is {self.transport!r}.", f"one of {', '.join(TRANSPORTS)}")
        run = run_in_threads if self.transport == "threads" else _run_processes
        done = run(tables, study)
        self.report_ = done.report
        self.n_iter_ = int(done.report["iterations"])
        self._warn()
        return done

    def _check_rows(self, X: Rows) -> None:
        if self.n_components > X.shape[1]:
            raise InputError(
                f"n_components = {self.n_components} with n_features = {X.shape[1]}.", "at most n_features"
            )

    def _warn(self) -> None:
        report, who = self.report_, type(self).__name__
        if self.tol > 0 and not report["converged"]:
            text = f"{who} has not converged in {self.n_iter_} iterations: raise max_iter or tol"
            warnings.warn(text, ConvergenceWarning, stacklevel=4)
        if report["rank_found"] < self.n_components:
            found = f"{who} found {report['rank_found']} of {self.n_components} components: the rows have no more"
            warnings.warn(found, UserWarning, stacklevel=4)

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def _rows(self, X: Any) -> Rows:
        check_is_fitted(self)
        return validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)

    def _coordinates(self, X: Any) -> Reals:
        check_is_fitted(self)
        Z: Reals = check_array(X, dtype=np.float64)
        if Z.shape[1] != self._n_features_out:
            raise InputError(f"X has {Z.shape[1]} columns.", f"{self._n_features_out}, one for each component")
        return Z

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class PDSVD(_Distributed):
    """Truncated SVD of the rows of several parties (PD-SVD).

    Parameters
    ----------
    n_components : number of singular vectors, at most the number of features
    max_iter, tol : iterations at most; stop when the subspace changes by less
    engine : "secsum" (the sums are revealed, and so singular values), "embedded" or "mp-spdz" (they are not), "plain"
    bound : largest ||X_m^T X_m||_F of a party, "rows:R,N", or "secsum" to find one
    random_state : None for a start that all parties draw together; otherwise it makes a public seed
    transport : "processes", one for each party, as between hosts; "threads", the same without sockets: faster

    Attributes
    ----------
    components_ : (n_components, n_features); fewer rows if the data have a smaller rank
    singular_values_ : (n_components,), or None if the engine hides them
    n_iter_, n_features_in_, feature_names_in_; report_ : what the run did, revealed and cost
    """

    _algorithm = "svd"

    def __init__(
        self,
        n_components: int = 2,
        *,
        max_iter: int = 300,
        tol: float = 1e-9,
        engine: str = "secsum",
        bound: str | float = "secsum",
        random_state: Any = None,
        transport: str = "processes",
    ) -> None:
        self.n_components = n_components
        self.max_iter = max_iter
        self.tol = tol
        self.engine = engine
        self.bound = bound
        self.random_state = random_state
        self.transport = transport

    def fit(self, X: Any, y: Any = None, *, parties: Sequence[Any] | None = None) -> Self:
        """parties : numbers of consecutive rows, or a label for each row; by default three equal parts"""
        done = self._fit(X, parties)
        self.components_ = done.result.T
        sigma = done.report["singular_values"]
        self.singular_values_ = None if sigma is None else np.array(sigma)
        return self

    def transform(self, X: Any) -> Reals:
        """X V, of shape (n, n_components)."""
        return np.asarray(self._rows(X) @ self.components_.T)

    def inverse_transform(self, X: Any) -> Reals:
        """Rows that have these coordinates."""
        return self._coordinates(X) @ self.components_


class PDPCA(_Distributed):
    """Principal components of the rows of several parties (PD-PCA): parameters and attributes as in PDSVD.

    The number of all rows and their mean are revealed to all parties.

    Attributes
    ----------
    mean_ : (n_features,); explained_variance_ : (n_components,), or None if the engine hides it
    """

    _algorithm = "pca"

    def __init__(
        self,
        n_components: int = 2,
        *,
        max_iter: int = 300,
        tol: float = 1e-9,
        engine: str = "secsum",
        bound: str | float = "secsum",
        random_state: Any = None,
        transport: str = "processes",
    ) -> None:
        self.n_components = n_components
        self.max_iter = max_iter
        self.tol = tol
        self.engine = engine
        self.bound = bound
        self.random_state = random_state
        self.transport = transport

    def fit(self, X: Any, y: Any = None, *, parties: Sequence[Any] | None = None) -> Self:
        """parties : numbers of consecutive rows, or a label for each row; by default three equal parts"""
        done = self._fit(X, parties)
        assert done.mean is not None  # PD-PCA has one
        self.components_, self.mean_ = done.result.T, done.mean
        sigma = done.report["singular_values"]
        self.singular_values_ = None if sigma is None else np.array(sigma)
        self.explained_variance_ = None if sigma is None else np.array(sigma) ** 2 / (done.report["rows_all"] - 1)
        return self

    def transform(self, X: Any) -> Reals:
        """(X - mean) V, of shape (n, n_components)."""
        # Dense rows are centred first: X V and mean V may both be much larger than their difference.
        rows, V = self._rows(X), self.components_.T
        return np.asarray(rows @ V - self.mean_ @ V if sp.issparse(rows) else (rows - self.mean_) @ V)

    def inverse_transform(self, X: Any) -> Reals:
        """Rows that have these coordinates."""
        return self._coordinates(X) @ self.components_ + self.mean_


class PDNMF(_Distributed):
    """Non-negative factorisation of the rows of several parties (PD-NMF): X is about W T.

    Parameters
    ----------
    n_components : number of topics
    max_iter, tol : sweeps at most; stop when no topic changes by more in a sweep (l1)
    init : "pd" (from the parties' own topics), "random", or "nnsvd" (by PD-SVD); random_state takes its place
    weighted : entries that a sparse X does not store are missing, not zero
    alpha, beta, gamma, delta : penalties on ||T||_1, ||T||_F^2/2, ||W||_1, ||W||_F^2/2
    engine : "secsum" or "plain"; bound, random_state, transport as in PDSVD

    Attributes
    ----------
    components_ : (n_components, n_features), T; n_iter_, n_features_in_, feature_names_in_, report_
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
        engine: str = "secsum",
        bound: str | float = "secsum",
        random_state: Any = None,
        transport: str = "processes",
    ) -> None:
        self.n_components = n_components
        self.max_iter = max_iter
        self.tol = tol
        self.init = init
        self.weighted = weighted
        self.alpha = alpha
        self.beta = beta
        self.gamma = gamma
        self.delta = delta
        self.engine = engine
        self.bound = bound
        self.random_state = random_state
        self.transport = transport

    def fit(self, X: Any, y: Any = None, *, parties: Sequence[Any] | None = None) -> Self:
        """parties : numbers of consecutive rows, or a label for each row; by default three equal parts"""
        penalties = {name: getattr(self, name) for name in ("alpha", "beta", "gamma", "delta")}
        nmf = NmfSettings(init=self.init, weighted=self.weighted, **penalties)
        self.components_ = self._fit(X, parties, nmf=nmf).result
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

    def _check_rows(self, X: Rows) -> None:
        check_non_negative(X, "PDNMF.fit")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags


def split(n: int, parties: ArrayLike | None = None) -> list[NDArray[np.int64]]:
    """For each party the numbers of its rows, of n in all.

    parties : n labels, one for each row (a party for each distinct one, in sorted order), or numbers of consecutive
    rows that sum to n; None: three equal parts, or as many as there are rows
    """
    if parties is None:
        return list(np.array_split(np.arange(n), min(PARTIES, n)))
    given = np.asarray(parties)
    if given.shape == (n,):
        return [np.flatnonzero(given == label) for label in np.unique(given)]
    if given.ndim != 1 or given.dtype.kind not in "iu" or np.any(given < 1) or given.sum() != n:
        raise InputError(
            f"`parties` has the shape {given.shape} for {n} rows.",
            f"{n} labels, or numbers of rows, each at least 1, that sum to {n}",
        )
    return list(np.split(np.arange(n), np.cumsum(given)[:-1]))


def _whole(value: Any, name: str) -> int:
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        raise StudyError(f"`{name}` is {value!r}.", "a whole number")
    return int(value)


def _run_processes(tables: Sequence[Rows], study: Study) -> ThreadsResult:
    """The same as in threads, with a process for each party."""
    with tempfile.TemporaryDirectory(prefix="pdml-spdz-") as private:
        files = [_save(rows, Path(private) / f"rows-{m}") for m, rows in enumerate(tables)]
        out = Path(private) / "out"
        result = run_local(LocalRun(files, study, out))
        mean = np.load(out / "party-0" / "mean.npy") if study.algorithm == "pca" else None
    return ThreadsResult(result.V, mean, result.report)


def _save(rows: Rows, stem: Path) -> Path:
    if sp.issparse(rows):
        sp.save_npz(path := stem.with_suffix(".npz"), sp.csr_array(rows))
    else:
        np.save(path := stem.with_suffix(".npy"), rows)
    return path
