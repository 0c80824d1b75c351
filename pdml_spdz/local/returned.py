"""What the functions of the Python interface return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from pdml_spdz.engines.transcript import Transcript
from pdml_spdz.local.joint import LocalResult, summary
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.rows.names import Names


class RunResult:
    """A run with a report."""

    report: dict[str, Any]

    @property
    def features(self) -> Names | None:
        """Names of the features, in the order of the result; None if the parties' rows have none."""
        return None if self.report["features"] is None else tuple(self.report["features"])

    def loadings(self) -> Any:
        """The result as a DataFrame of pandas: features by components, with the names that loadings.csv has."""
        import pandas as pd  # type: ignore[import-untyped]

        from pdml_spdz.results.result_page import loadings_of

        first = next(f.name for f in fields(self))  # type: ignore[arg-type]
        found = loadings_of(self.report, getattr(self, first))
        return pd.DataFrame(found.values, index=found.names, columns=found.labels)

    def __repr__(self) -> str:
        """Shapes and names, never the data."""
        name, *others = (f.name for f in fields(self) if f.name != "report")  # type: ignore[arg-type]
        shown = [other for other in others if getattr(self, other) is not None]
        line = summary(name, getattr(self, name), self.report)
        return f"{type(self).__name__}({line}{'; ' if shown else ''}{', '.join(shown)})"


@dataclass(frozen=True, repr=False)
class SVDResult(RunResult):
    """The right singular vectors of the pooled rows.

    V : (d, k) right singular vectors
    singular_values : (k,) if the run revealed them, else None
    report : what the run did, revealed and cost, as in report.json
    scale : (d,) what each feature was divided by, with scale="secsum"
    transcript : what any party saw, if the run was recorded
    features : names of the d features, in the order of V, or None
    """

    V: Reals
    singular_values: Reals | None
    report: dict[str, Any]
    scale: Reals | None = None
    transcript: Transcript | None = None


@dataclass(frozen=True, repr=False)
class PCAResult(RunResult):
    """The principal components of the pooled rows.

    V : (d, k) principal components
    mean : (d,) mean of the pooled rows, or None if it is hidden
    explained_variance : (k,) if the run revealed it, else None
    report : as in SVDResult
    scale : as in SVDResult
    transcript : as in SVDResult
    features : as in SVDResult
    """

    V: Reals
    mean: Reals | None
    explained_variance: Reals | None
    report: dict[str, Any]
    scale: Reals | None = None
    transcript: Transcript | None = None


@dataclass(frozen=True, repr=False)
class NMFResult(RunResult):
    """A non-negative factorisation of the pooled rows.

    T : (k, d) topics, common to all parties
    W : (n_m, k) own coefficients of each party that ran on this machine
    report : as in SVDResult
    scale : as in SVDResult
    transcript : as in SVDResult
    features : as in SVDResult
    """

    T: Reals
    W: list[Reals]
    report: dict[str, Any]
    scale: Reals | None = None
    transcript: Transcript | None = None


@dataclass(frozen=True, repr=False)
class NormedSumResult(RunResult):
    """The direction of the sum of the parties' vectors.

    u : (d,) of length one
    report : as in SVDResult
    transcript : as in SVDResult
    features : as in SVDResult
    """

    u: Reals
    report: dict[str, Any]
    transcript: Transcript | None = None


KINDS: dict[str, type[RunResult]] = {
    "svd": SVDResult,
    "pca": PCAResult,
    "nmf": NMFResult,
    "normed-sum": NormedSumResult,
}


def result_of(done: LocalResult) -> Any:
    """The result class of the run's algorithm, with what the run found."""
    kind = KINDS.get(done.study.algorithm)
    if kind is None:  # an algorithm of another package
        return done
    report = done.report
    found: Mapping[str, Any] = {
        "V": done.V,
        "T": done.V,
        "u": done.V,
        "W": done.arrays.get("W.npy"),
        "mean": done.mean,
        "scale": done.scale,
        "singular_values": _numbers(report.get("singular_values")),
        "explained_variance": _numbers(report.get("explained_variance")),
        "report": report,
        "transcript": done.transcript,
    }
    return kind(**{f.name: found[f.name] for f in fields(kind)})  # type: ignore[arg-type]


def _numbers(values: Sequence[float] | None) -> Reals | None:
    return None if values is None else np.array(values)
