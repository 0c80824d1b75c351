"""What the transformers have in common: checks, the parties, a run, and what is kept of it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from pdml_spdz.applications.finished import FinishedRun
from pdml_spdz.engines.transcript import warn_of_recording
from pdml_spdz.errors import InputError, StudyError
from pdml_spdz.fits.prepare import check_rank
from pdml_spdz.local.joint import LocalResult, LocalRun, local_study, run_local
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.rows.base import RowsLike
from pdml_spdz.rows.data import Data
from pdml_spdz.rows.frames import CONVERT, check_table, column_names, column_texts, is_table
from pdml_spdz.rows.names import Names, check, positions, quoted
from pdml_spdz.rows.suspects import warn_of_columns

PARTIES = 3  # by default, for want of fewer rows
FITTED = "the table that was fitted"


class Distributed(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """What the three have in common: checks, the parties, a run, and what is kept of it."""

    _algorithm: str
    _texts: Names | None  # what the columns of the table that was fitted are called

    def __init__(
        self,
        n_components: int | float,
        max_iter: int | None,
        tol: float | None,
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

    def _fit(self, X: Any, parties: Sequence[Any] | None, rank: int | None = None, **settings: Any) -> LocalResult:
        """rank : if not n_components"""
        rank = _whole(self.n_components, "n_components") if rank is None else rank
        X = _numbers(X)
        self._texts, names = (column_texts(X, "X"), column_names(X, "X")) if is_table(X) else (None, None)
        self._numbered = _numbered(X)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, ensure_min_samples=2)
        self._check_rows(X)
        check_rank(rank, X.shape[1], "X")  # before a process is started for it
        if names is not None:
            check(names, X.shape[1], "X")
        tables = [Data(X[rows], names, "X") for rows in split(X.shape[0], parties)]
        if self.random_state is not None:
            seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
            settings |= {"start": "seed", "seed": seed}
        study = local_study(
            len(tables),
            algorithm=self._algorithm,
            rank=rank,
            iterations=None if self.max_iter is None else _whole(self.max_iter, "max_iter"),
            tol=self.tol,
            engine=self.engine,
            bound=str(self.bound),
            **settings,
        )
        run = LocalRun(tables, study, transport=self.transport, record_transcript=bool(self.record_transcript))
        if self.record_transcript:
            warn_of_recording()
        done = run_local(run)
        self.report_, self.transcript_ = done.report, done.transcript
        self.n_iter_ = int(done.report["iterations"])
        self._warn(rank)
        return done

    @classmethod
    def from_run(cls, directory: str | Path) -> Self:
        """The transformer that a finished run makes: its components, means and scales, of parties wherever they were.

        directory : the --out of a run, or a party's own directory in it
        """
        run = FinishedRun.load(Path(directory))
        if run.spec.name != cls._algorithm:
            raise InputError(f"{directory} is a run of {run.spec.name}.", f"a run of {cls._algorithm}")
        report, features = run.report, run.report["features"]
        made = cls(n_components=report["rank"])  # type: ignore[call-arg]  # all others have a default
        made.report_, made.transcript_, made.n_iter_ = report, None, int(report["iterations"])
        made.n_features_in_, made._texts, made._numbered = int(report["d"]), None, False
        if features is not None:
            made.feature_names_in_, made._texts = np.array(features, object), tuple(features)
        made._take(run)
        return made

    def _take(self, run: FinishedRun) -> None:
        """What is fitted, from a run."""
        raise NotImplementedError

    def _check_rows(self, X: RowsLike) -> None:
        """Whether an algorithm can use rows."""

    def _as_given(self, X: Any, Z: Reals, columns: Sequence[Any] | None) -> Any:
        """Z as a DataFrame, if X is one and no other output is configured; columns : their names"""
        output = getattr(self, "_sklearn_output_config", {}).get("transform") or get_config()["transform_output"]
        if not (is_table(X) and hasattr(X, "iloc")) or output != "default":
            return Z
        names = [str(j) for j in range(Z.shape[1])] if columns is None else list(columns)
        return type(X)(Z, index=X.index, columns=names)

    def _warn(self, rank: int) -> None:
        report, who = self.report_, type(self).__name__
        if report["asked"]["tol"] > 0 and not report["converged"]:
            text = f"{who} has not converged in {self.n_iter_} iterations: raise max_iter or tol"
            warnings.warn(text, ConvergenceWarning, stacklevel=4)
        if report["rank_found"] < rank:
            found = f"{who} found {report['rank_found']} of {rank} components: the rows have no more"
            warnings.warn(found, UserWarning, stacklevel=4)
        warn_of_columns(report["warnings"], 4)

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def _rows(self, X: Any) -> RowsLike:
        """X as numbers; a table's columns in the order of the table that was fitted, whatever theirs."""
        check_is_fitted(self)
        X = _in_order(_numbers(X), self._texts)
        named = is_table(X) and column_names(X, "X") is not None
        if self._texts is not None and named and (self._numbered or _numbered(X)):
            positions(column_texts(X, "X"), self._texts, "X", FITTED)  # refuses other names
        return validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)

    def _coordinates(self, X: Any) -> Reals:
        """Coordinates as numbers; a table's columns in the order of the components, if they have their names."""
        check_is_fitted(self)
        X = _numbers(X)
        components = tuple(self.get_feature_names_out())
        found = column_names(X, "X") if is_table(X) else None
        if found is not None and set(found) != set(components):
            raise InputError(
                f"X has the columns {quoted(found)}.", f"the components {quoted(components)}, in any order"
            )
        Z: Reals = check_array(_in_order(X, components), dtype=np.float64)
        if Z.shape[1] != self._n_features_out:
            raise InputError(f"X has {Z.shape[1]} columns.", f"{self._n_features_out}, one for each component")
        return Z

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _in_order(X: Any, wanted: Names | None) -> Any:
    """A table's columns in the order of `wanted`, if they are called so; else X as it is, for others to judge."""
    if not is_table(X) or wanted is None or sorted(found := column_texts(X, "X")) != sorted(wanted):
        return X
    order = positions(found, wanted, "X", FITTED)
    return X.iloc[:, order] if hasattr(X, "iloc") else X.select(order.tolist())


def _numbered(X: Any) -> bool:
    """Whether a table's columns have names that are, at least in part, numbers: scikit-learn does not look at them."""
    named = is_table(X) and column_names(X, "X") is not None
    return named and hasattr(X, "iloc") and not all(isinstance(label, str) for label in X.columns)


def _numbers(X: Any) -> Any:
    """X, if it holds numbers: dates, texts and the like would become some; a table as scikit-learn knows one."""
    if is_table(X):
        return check_table(X, "X")
    given = np.asarray(X) if isinstance(X, list | tuple) else X
    kind = getattr(getattr(given, "dtype", None), "kind", "")
    texts = kind == "O" and any(isinstance(x, str | bytes) for x in getattr(given, "flat", ()))
    if texts or kind in tuple("MmUS"):
        raise InputError(f"X holds entries of type {'text' if texts else given.dtype}.", "real numbers", CONVERT)
    return X


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
