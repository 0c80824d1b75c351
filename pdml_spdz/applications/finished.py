"""A finished run, from its directory: coordinates of rows in its components, and rows from coordinates. Local."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import UndefinedError

from pdml_spdz.algorithms.rri import Penalties, part
from pdml_spdz.applications.low_rank import coordinates
from pdml_spdz.errors import InputError, PdmlError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.results.result_page import Loadings, loadings_of
from pdml_spdz.rows.base import Rows, RowsLike, as_rows
from pdml_spdz.rows.coefficients import read_parquet_parts
from pdml_spdz.rows.data import Data, ending_of, in_pieces, load
from pdml_spdz.rows.formats import TABLES
from pdml_spdz.rows.names import Names, column, listed
from pdml_spdz.rows.reading import READ_AS_FOUND, Reading, RowSettings, RowsWanted
from pdml_spdz.run.output import REPORT, finished, kept_array, kept_result
from pdml_spdz.study.algorithm import ALGORITHMS, IDS, Algorithm
from pdml_spdz.system.files import parse_json


@dataclass(frozen=True)
class FinishedRun:
    """What a run has left.

    directory : of all parties, or of one
    report : what the run did
    result : the array of the algorithm's file
    mean : (d,) what was taken off the rows, in their units; None if it is hidden, or nothing was
    scale : (d,) what each feature was divided by, with scale = "secsum"; else None
    """

    directory: Path
    report: dict[str, Any]
    result: Reals
    mean: Reals | None
    scale: Reals | None

    @classmethod
    def load(cls, directory: Path) -> FinishedRun:
        """directory : the --out of a run, or a party's own directory in it"""
        found = _place(directory)
        report = finished(found)
        if report is None:
            raise InputError(
                f"{directory} holds no finished run.",
                "the --out of a run, or party-<i> in it",
                "`pdml-spdz pca a.csv b.csv --rank 2 --out runs/mine` makes one",
            )
        result = kept_result(found, report)
        return cls(found, report, result, *(_array(found, name, report) for name in ("mean.npy", "scale.npy")))

    @property
    def spec(self) -> Algorithm:
        return ALGORITHMS[self.report["algorithm"]]

    @property
    def loadings(self) -> Loadings:
        return loadings_of(self.report, self.result)

    @property
    def topics(self) -> Reals:
        """T (k, d)."""
        if not self.spec.by_row:
            raise InputError(f"{self.directory} is a run of {self.spec.name}.", "topics: a run of nmf")
        return self.result

    @property
    def shift(self) -> Reals | None:
        """(d,) what is taken off a row; None if nothing is."""
        offsets = self.report.get("offsets")
        return self.mean if self.mean is not None or offsets is None else np.array(offsets)

    @property
    def unit(self) -> Reals:
        """(d,) what each feature is then divided by."""
        agreed = self.report.get("scales")
        unit: Reals = np.ones(self.report["d"]) if agreed is None else np.array(agreed)
        return unit if self.scale is None else unit * self.scale

    def read(self, path: Path, reading: Reading = READ_AS_FOUND, also: Names = ()) -> Data:
        """A file as the run read its files: the same columns, and others that are asked for. Nothing is missing in it.

        Missing values of the run's features get what the run has filled in.

        also : names of columns that the run has not
        """
        features = self.report["features"]
        agreed = RowSettings(**self.report.get("rows", {}))
        table = in_pieces(path, reading) or ending_of(path) in TABLES.lines
        by_name = self.report["columns"] == "name" and features and table and not reading.triplets
        if by_name and agreed.encode:
            taken = (*agreed.columns, *also) if agreed.columns else ()
            agreed = replace(agreed, columns=taken, drop=tuple(name for name in agreed.drop if name not in also))
        elif by_name:
            agreed = replace(agreed, columns=(*features, *also), drop=())
        else:
            agreed = replace(agreed, columns=(), drop=()) if not also else agreed
        wanted = RowsWanted(reading, agreed, tuple(features or ()), self.report.get("id_column", ""))
        data = load(path, wanted=wanted).looked_at(agreed.missing)
        if not data.holes:
            return data
        fill, names = self.own("fill.npy"), data.features or range(data.d)
        of_run = features if by_name else [name for name in names if name not in also]
        known = dict(zip(of_run, () if fill is None else fill, strict=False))
        values = np.array([known.get(name, np.nan) for name in names])
        if empty := [column(data.features, int(j)) for j in np.flatnonzero(np.isnan(values) & (data.missing() > 0))]:
            found = f"{path} has missing values for which {self.directory} has none to fill in: {listed(empty)}."
            raise InputError(found, "a number in every entry", "leave these rows out of the file")
        return replace(data, rows=data.rows.filled(values), holes=False)

    def rows(self, data: Data) -> Rows:
        """The rows with the run's columns in its order; columns that the run has not are left out."""
        wanted, found = self.report.get("features"), data.features
        if self.report.get("columns") == "name" and wanted and found and set(wanted) < set(found):
            place = {name: j for j, name in enumerate(found)}
            data = data.permuted(np.array([place[name] for name in wanted]))
        rows = data.as_in(self.report).rows
        if rows.shape[1] != self.report["d"]:
            raise InputError(f"{data.source} has {rows.shape[1]} columns.", f"the run's {self.report['d']}")
        return rows

    def project(self, data: Data) -> Reals:
        """(n, k): svd, pca: (x - shift) / unit V; nmf: the W >= 0 that fits best, with the run's penalties on W."""
        if self.spec.vector:
            raise InputError(f"{self.directory} is a run of {self.spec.name}.", "components: a run of svd, pca or nmf")
        rows, unit = self.rows(data), self.unit
        if not self.spec.by_row:
            return coordinates(rows, self.result / unit[:, None], self.shift)
        return self.weights(rows.over(unit) if np.any(unit != 1.0) else rows)

    def weights(self, rows: RowsLike) -> Reals:
        """W (n, k) of rows in the run's units."""
        penalties = self.report["penalties"]
        local = part(as_rows(rows), len(self.topics), weighted=self.report["weighted"])
        local.fit(self.topics, Penalties(gamma=penalties["gamma"], delta=penalties["delta"]))
        return local.W

    def reconstruct(self, scores: Reals) -> Reals:
        """(n, d): the rows that have these coordinates, in their own units."""
        components = self.result if self.spec.by_row else self.result.T
        rows: Reals = (scores @ components) * self.unit
        return rows if self.shift is None else rows + self.shift

    def own(self, name: str) -> Reals | None:
        """An array of the party's own directory, if this is one."""
        return _array(self.directory, name, self.report)

    def own_weights(self) -> Reals | None:
        """(n, k): W of the party's own rows in the run, if this is its directory."""
        whole = (self.directory / "W").is_dir()
        weights = read_parquet_parts(self.directory / "W") if whole else self.own("W.npy")
        if weights is not None and weights.shape[1:] != (len(self.topics),):
            raise ValueError("of other topics")
        return weights

    def ids(self, count: int) -> list[str]:
        """What the party's rows in this run are called: their ids, or their numbers from 0."""
        path = self.directory / IDS
        kept = parse_json(path.read_text(encoding="utf-8")) if path.is_file() else None
        return [str(name) for name in kept] if kept is not None else [str(i) for i in range(count)]


def _place(directory: Path) -> Path:
    """`directory`, or the only party's directory in it."""
    if (directory / "report.json").is_file():
        return directory
    parts = [path for path in directory.glob("party-*") if (path / "report.json").is_file()]
    return parts[0] if len(parts) == 1 else directory


def _array(directory: Path, name: str, report: dict[str, Any]) -> Reals | None:
    return kept_array(directory, name, report) if (directory / name).is_file() else None


@contextmanager
def as_written(directory: Path) -> Iterator[None]:
    """What is made of a report, ids and own arrays that were read: what no run has written is an error in words."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, UndefinedError) as error:
        if isinstance(error, PdmlError):
            raise
        raise InputError(
            f"{directory / REPORT}, or a file beside it, is not as a run writes it ({type(error).__name__}).",
            "the files that the run has left",
            "take them from another party's directory or from a copy, or run again",
        ) from error
