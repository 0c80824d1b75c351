"""The Python interface: the local commands as functions of arrays or paths."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pdml_spdz.engines.transcript import Transcript, warn_of_recording
from pdml_spdz.local.processes import LocalResult, local_study, run_on_rows
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.rows import suspects
from pdml_spdz.rows.make import RowsLike
from pdml_spdz.rows.names import Names
from pdml_spdz.study.model import USUAL
from pdml_spdz.study.model import NmfSettings as NmfSettings  # for users


class _Named:
    """The result of a run with a report."""

    report: dict[str, Any]

    @property
    def features(self) -> Names | None:
        """Names of the features, in the order of the result; None if the parties' rows have none."""
        return None if self.report["features"] is None else tuple(self.report["features"])


@dataclass(frozen=True)
class SVDResult(_Named):
    """V : (d, k) right singular vectors of the pooled rows; features : names of the d features, in the order of V;
    singular_values : (k,) if the run revealed them, else None; scale : (d,) found with scale="secsum";
    transcript : what any party saw, if the run was recorded.
    """

    V: Reals
    singular_values: Reals | None
    report: dict[str, Any]
    scale: Reals | None = None
    transcript: Transcript | None = None


def svd(
    parties: Sequence[RowsLike | str | Path],
    *,
    rank: int,
    out: str | Path | None = None,
    record_transcript: bool = False,
    **settings: Any,
) -> SVDResult:
    """The top-`rank` right singular vectors of all parties' rows, computed by one process for each party.

    parties : for each party its rows: an array (n_m, d), a scipy.sparse matrix, a pandas or Arrow table, or a path
    that `pdml-spdz svd` would take; columns that have names are matched by them, in the order of party 0
    out : directory for reports and checkpoints; none is kept by default
    record_transcript : keep what a party sees in the result's `transcript` (and in party-<i>/transcript.npz of `out`),
    for `pdml_spdz.privacy.attack_run.attack`; with a RecordingWarning
    settings : any setting of a study: iterations, tol, engine, bound, start, seed, aggregator, columns ("position":
    names are not looked at), ...
    Columns that look like an identifier, or that have nearly all of the variance, are told by a UserWarning.

    >>> import numpy as np, pdml_spdz
    >>> X = np.random.default_rng(0).normal(size=(90, 5)) * [5, 3, 1, 1, 1]
    >>> result = pdml_spdz.svd([X[:20], X[20:50], X[50:]], rank=2)  # doctest: +SKIP
    >>> result.V.shape  # doctest: +SKIP
    (5, 2)
    """
    result = _run(_Call("svd", parties, rank, out, record_transcript), settings)
    sigma = result.report["singular_values"]
    values = None if sigma is None else np.array(sigma)
    return SVDResult(result.V, values, result.report, result.scale, result.transcript)


@dataclass(frozen=True)
class PCAResult(_Named):
    """V : (d, k) principal components of the pooled rows; mean : (d,) their mean, or None if it is hidden;
    explained_variance : (k,) if the run revealed it, else None; scale, features, transcript as in SVDResult.
    """

    V: Reals
    mean: Reals | None
    explained_variance: Reals | None
    report: dict[str, Any]
    scale: Reals | None = None
    transcript: Transcript | None = None


def pca(
    parties: Sequence[RowsLike | str | Path],
    *,
    rank: int,
    out: str | Path | None = None,
    record_transcript: bool = False,
    **settings: Any,
) -> PCAResult:
    """The top-`rank` principal components of all parties' rows; n is seen by every party, unless
    centre is "none" and neither variance nor scale asks for it.

    Arguments as for `svd`; among the settings are centre ("open": every party sees the mean; "hidden"; "none"),
    variance (reveal the explained variance), offsets, scales (numbers, a file, or with names a pandas Series or a table
    of one row), and scale ("secsum": deviations by SecSum).
    """
    result = _run(_Call("pca", parties, rank, out, record_transcript), settings)
    variance = result.report.get("explained_variance")
    explained = None if variance is None else np.array(variance)
    return PCAResult(result.V, result.mean, explained, result.report, result.scale, result.transcript)


@dataclass(frozen=True)
class NMFResult(_Named):
    """T : (k, d) topics, common to all; W : for each party its own coefficients (n_m, k);
    scale, features, transcript as in SVDResult.
    """

    T: Reals
    W: list[Reals]
    report: dict[str, Any]
    scale: Reals | None = None
    transcript: Transcript | None = None


def nmf(
    parties: Sequence[RowsLike | str | Path],
    *,
    rank: int,
    out: str | Path | None = None,
    record_transcript: bool = False,
    nmf: NmfSettings | None = None,
    **settings: Any,
) -> NMFResult:
    """`rank` topics of all parties' non-negative rows.

    nmf : start, penalties, missing entries (`pdml_spdz.NmfSettings`); other arguments as for `svd`
    """
    settings = USUAL["nmf"] | settings | {"nmf": nmf or NmfSettings()}
    result = _run(_Call("nmf", parties, rank, out, record_transcript), settings)
    return NMFResult(result.V, result.arrays["W.npy"], result.report, result.scale, result.transcript)


@dataclass(frozen=True)
class _Call:
    """What the three functions have in common."""

    algorithm: str
    parties: Sequence[RowsLike | str | Path]
    rank: int
    out: str | Path | None
    record_transcript: bool


def _run(call: _Call, settings: dict[str, Any]) -> LocalResult:
    if settings.get("seed") is not None:
        settings.setdefault("start", "seed")
    study = local_study(len(call.parties), algorithm=call.algorithm, rank=call.rank, **settings)
    if call.record_transcript:
        warn_of_recording()
    result = run_on_rows(call.parties, study, call.out, record_transcript=call.record_transcript)
    for text in suspects.among(result.report["warnings"]):
        warnings.warn(text, UserWarning, stacklevel=3)
    return result


def normed_sum(parties: Sequence[RowsLike | str | Path], **settings: Any) -> Reals:
    """The direction s/||s|| of the sum of one vector from each party, computed by one process for each party.

    parties : for each party its vector: an array (d,), a pandas Series or a table of one row, whose names are matched
    with those of party 0, or a path that `pdml-spdz normed-sum` would take
    settings : any setting of a study: engine, bound, precision, offline, ...
    """
    return run_on_rows(parties, local_study(len(parties), rank=1, algorithm="normed-sum", **settings)).V
