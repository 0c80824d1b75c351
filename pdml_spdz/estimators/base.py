"""What the transformers have in common: checks, the parties, a run, and what is kept of it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from pdml_spdz.errors import InputError, StudyError
from pdml_spdz.fixedpoint import Reals
from pdml_spdz.linalg import Rows
from pdml_spdz.local import local_study, run_on_rows
from pdml_spdz.prepare import check_rank
from pdml_spdz.study import Study
from pdml_spdz.threads_run import ThreadsResult, run_in_threads
from pdml_spdz.transcript import warn_of_recording

PARTIES = 3  # by default, for want of fewer rows
TRANSPORTS = ("processes", "threads")


class Distributed(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """What the three have in common: checks, the parties, a run, and what is kept of it."""

    _algorithm: str

    def __init__(
        self,
        n_components: int,
        max_iter: int,
        tol: float,
        engine: str,
        bound: str | float,
        random_state: Any,
        transport: str,
        record_transcript: bool,
    ) -> None:
        self.n_components = n_components
        self.max_iter = max_iter
        self.tol = tol
        self.engine = engine
        self.bound = bound
        self.random_state = random_state
        self.transport = transport
        self.record_transcript = record_transcript

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
        if self.record_transcript:
            warn_of_recording()
        done = run(tables, study, record_transcript=bool(self.record_transcript))
        self.report_, self.transcript_ = done.report, done.transcript
        self.n_iter_ = int(done.report["iterations"])
        self._warn()
        return done

    def _check_rows(self, X: Rows) -> None:
        check_rank(self.n_components, X.shape[1], "X")  # before a process is started for it

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


def _run_processes(tables: Sequence[Rows], study: Study, *, record_transcript: bool) -> ThreadsResult:
    """The same as in threads, with a process for each party."""
    done = run_on_rows(tables, study, record_transcript=record_transcript)
    return ThreadsResult(done.V, done.mean, done.scale, done.report, transcript=done.transcript)
