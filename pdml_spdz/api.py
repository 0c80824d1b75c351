"""The Python interface: the commands as functions of arrays, tables or paths."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from pdml_spdz.local.calls import Parties, Progress, checking_keywords, run_all, run_party
from pdml_spdz.local.returned import NMFResult, NormedSumResult, PCAResult, SVDResult
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.rows.reading import Reading, RowSettings
from pdml_spdz.study.model import NmfSettings, PartyEntry, PrecisionSettings, Study, Timeouts

__all__ = [
    "NMFResult",
    "NmfSettings",
    "NormedSumResult",
    "PCAResult",
    "PartyEntry",
    "PrecisionSettings",
    "Reading",
    "RowSettings",
    "SVDResult",
    "Study",
    "Timeouts",
    "nmf",
    "normed_sum",
    "pca",
    "run_party",
    "svd",
]


@checking_keywords
def svd(
    parties: Parties,
    *,
    rank: int,
    iterations: int | None = None,
    tol: float | None = None,
    solver: str | None = None,
    memory: float = 1.0,
    engine: str | None = None,
    reveal: str | None = None,
    accuracy_goal: float = 1e-6,
    decay: float = 0.6,
    block: int = 0,
    ratios: str = "open",
    bound: str | float = "auto",
    seed: int | None = None,
    start: str | None = None,
    columns: str = "name",
    features: Sequence[str] = (),
    d: int = 0,
    offsets: Any = (),
    offset_features: Sequence[str] = (),
    scales: Any = (),
    scale_features: Sequence[str] = (),
    scale: str = "agreed",
    normalise: str = "fit",
    online: str = "stream",
    offline: str = "auto",
    vole: str = "lpn",
    protocol: str = "",
    program: str = "projection",
    insecure_benchmark: bool = False,
    rows: RowSettings = RowSettings(),  # noqa: B008
    aggregator: str | int = "auto",
    precision: PrecisionSettings = PrecisionSettings(),  # noqa: B008 - frozen
    timeouts: Timeouts = Timeouts(),  # noqa: B008
    out: str | Path | None = None,
    resume: bool = False,
    force: bool = False,
    stock: str | Path | None = None,
    mp_spdz: str | Path | None = None,
    record_transcript: bool = False,
    transport: str = "processes",
    reading: Reading = Reading(),  # noqa: B008
    progress: Progress = False,
) -> SVDResult:
    """The top-`rank` right singular vectors of all parties' rows.

    Settings and arrays are checked before any party starts; files are read by their parties. Columns that look like an
    identifier, or that have nearly all of the variance, are told by a UserWarning.

    Parameters
    ----------
    parties : for each party its rows: an array (n_m, d), a scipy.sparse matrix, a pandas or Arrow table, or a path that
        `pdml-spdz svd` would take; columns that have names are matched by them, in the order of party 0
    rank : number of singular vectors
    iterations : maximum number of iterations; by default 60 with krylov, 300 with power
    tol : krylov: stop when every vector and their span are known to that (a bound of their sines; default 1e-7); power:
        stop when the subspace changes by less (sine of the largest angle; default 1e-9)
    solver : "krylov" (block Lanczos: far fewer openings) or "power" (the paper's block power iteration); by default
        krylov, where all columns of a fit have one scale
    memory : GB that krylov may keep of what was opened
    engine : "embedded" (secret shares; the default), "mp-spdz", "secsum" (masks that cancel), "plain" (INSECURE)
    reveal : "normed" (the covariance up to one factor), "sum" (the covariance) or "sealed" (V, and few numbers of the
        way to it: docs/levels.md); by default what the engine does
    accuracy_goal : sealed: sine of V's error that its gate lets pass; V is opened no finer
    decay : sealed: lambda_(b+1) / lambda_k that the number of iterations is meant for
    block : sealed: b, the columns that are iterated; 0: twice the rank
    ratios : sealed: "open", all parties see the ratios of b Ritz values; "hidden", nobody does, at about twice the cost
    bound : "auto", "window", "exponent", "secsum", a number or "rows:R,N", as `--bound`
    seed : start from a public seed instead of one drawn by all parties
    start : "secsum" or "seed"; by default "seed" if there is a seed
    columns : "name", or "position": names are not looked at
    features : names of the features, in the order of V; by default in the order of party 0
    d : number of features; 0: that of the rows
    offsets : one public number for each feature, subtracted first: numbers, a file, a pandas Series or a one-row table
    offset_features : names of the offsets, where they have none of their own
    scales : one public number for each feature to divide by, given as offsets are
    scale_features : names of the scales
    scale : "agreed" (by `scales`), or "secsum": deviations by SecSum, which every party sees
    normalise : "fit" (one secret scale for the fit) or "per-column" (one for each column and iteration)
    online : "stream" (all columns of an iteration in one call) or "per-column"
    offline : "auto" (a stock if one fits), "stock" or "on-demand" (made in the run)
    vole : "lpn" (expand correlations under the LPN assumption) or "ot" (OT only, slower)
    protocol : protocol of MP-SPDZ; "": its default
    program : "projection", or "paper": the paper's own program (mp-spdz)
    insecure_benchmark : accept a timing build of MP-SPDZ. INSECURE
    rows : columns that are taken, left out or encoded, and what becomes of missing values
    aggregator : party that adds up the sums; "auto": party 0 with more than five parties; "none"
    precision : fraction bits of what is opened, and the range of the sums
    timeouts : seconds until all parties have met, without a sign of life from a party, and while it says that it works;
        bytes a second of a message
    out : directory for reports and checkpoints; by default nothing is kept
    resume : go on from the last finished iteration in `out`
    force : replace a finished run in `out`
    stock : directory of offline stocks
    mp_spdz : directory of MP-SPDZ
    record_transcript : keep what a party sees in the result's `transcript` (and in party-<i>/transcript.npz of `out`),
        for `pdml_spdz.privacy.attack_run.attack`; with a RecordingWarning
    transport : "processes" (one for each party, with TLS between them) or "threads" (of this process)
    reading : how the parties' files are written: separator, decimals, encoding, identifiers, triplets
    progress : True: a bar on standard error; or a function that is called with a party's number and an event, such as
        {"event": "iteration", "t": 3, "of": 60, "change": 0.02} (None for a sealed fit, of which nobody knows it) or
        {"event": "note", "text": ...}

    Examples
    --------
    >>> import numpy as np, pdml_spdz
    >>> X = np.random.default_rng(0).normal(size=(90, 5)) * [5, 3, 1, 1, 1]
    >>> pdml_spdz.svd([X[:20], X[20:50], X[50:]], rank=2, seed=1, transport="threads", engine="secsum").V.shape
    (5, 2)
    """
    return cast(SVDResult, run_all("svd", locals()))


@checking_keywords
def pca(
    parties: Parties,
    *,
    rank: int,
    centre: str = "open",
    variance: bool = False,
    iterations: int | None = None,
    tol: float | None = None,
    solver: str | None = None,
    memory: float = 1.0,
    engine: str | None = None,
    reveal: str | None = None,
    accuracy_goal: float = 1e-6,
    decay: float = 0.6,
    block: int = 0,
    ratios: str = "open",
    bound: str | float = "auto",
    seed: int | None = None,
    start: str | None = None,
    columns: str = "name",
    features: Sequence[str] = (),
    d: int = 0,
    offsets: Any = (),
    offset_features: Sequence[str] = (),
    scales: Any = (),
    scale_features: Sequence[str] = (),
    scale: str = "agreed",
    normalise: str = "fit",
    online: str = "stream",
    offline: str = "auto",
    vole: str = "lpn",
    protocol: str = "",
    program: str = "projection",
    insecure_benchmark: bool = False,
    rows: RowSettings = RowSettings(),  # noqa: B008
    aggregator: str | int = "auto",
    precision: PrecisionSettings = PrecisionSettings(),  # noqa: B008
    timeouts: Timeouts = Timeouts(),  # noqa: B008
    out: str | Path | None = None,
    resume: bool = False,
    force: bool = False,
    stock: str | Path | None = None,
    mp_spdz: str | Path | None = None,
    record_transcript: bool = False,
    transport: str = "processes",
    reading: Reading = Reading(),  # noqa: B008
    progress: Progress = False,
) -> PCAResult:
    """The top-`rank` principal components of all parties' rows.

    The number of all rows is seen by every party, unless centre is "none" and neither variance nor scale asks for it.
    Parameters that are not listed are those of `svd`.

    Parameters
    ----------
    rank : number of components
    centre : "open" (every party sees the mean), "hidden" (nobody does; engines embedded and mp-spdz) or "none"
    variance : reveal the explained variance
    scale : "agreed" (by `scales`), or "secsum": components of the correlation matrix
    """
    return cast(PCAResult, run_all("pca", locals()))


@checking_keywords
def nmf(
    parties: Parties,
    *,
    rank: int,
    nmf: NmfSettings = NmfSettings(),  # noqa: B008
    iterations: int = 200,
    tol: float = 1e-6,
    engine: str | None = None,
    reveal: str | None = None,
    bound: str | float = "auto",
    seed: int | None = None,
    start: str | None = None,
    columns: str = "name",
    features: Sequence[str] = (),
    d: int = 0,
    scales: Any = (),
    scale_features: Sequence[str] = (),
    scale: str = "agreed",
    rows: RowSettings = RowSettings(),  # noqa: B008
    aggregator: str | int = "auto",
    timeouts: Timeouts = Timeouts(),  # noqa: B008
    out: str | Path | None = None,
    resume: bool = False,
    force: bool = False,
    record_transcript: bool = False,
    transport: str = "processes",
    reading: Reading = Reading(),  # noqa: B008
    progress: Progress = False,
) -> NMFResult:
    """`rank` topics of all parties' non-negative rows. Parameters that are not listed are those of `svd`.

    Parameters
    ----------
    rank : number of topics
    nmf : start, penalties, missing entries
    iterations : maximum number of sweeps
    tol : stop when no topic changes by more in a sweep (l1)
    engine : "secsum" (the default) or "plain" (INSECURE)
    reveal : "sum"
    seed : start from a public seed instead of `nmf.init`
    """
    return cast(NMFResult, run_all("nmf", locals()))


@checking_keywords
def normed_sum(
    parties: Parties,
    *,
    engine: str | None = None,
    reveal: str | None = None,
    bound: str | float = "auto",
    columns: str = "name",
    features: Sequence[str] = (),
    d: int = 0,
    offline: str = "auto",
    vole: str = "lpn",
    protocol: str = "",
    program: str = "projection",
    insecure_benchmark: bool = False,
    rows: RowSettings = RowSettings(),  # noqa: B008
    aggregator: str | int = "auto",
    precision: PrecisionSettings = PrecisionSettings(),  # noqa: B008
    timeouts: Timeouts = Timeouts(),  # noqa: B008
    out: str | Path | None = None,
    force: bool = False,
    stock: str | Path | None = None,
    mp_spdz: str | Path | None = None,
    record_transcript: bool = False,
    transport: str = "processes",
    reading: Reading = Reading(),  # noqa: B008
    progress: Progress = False,
) -> Reals:
    """The direction s/||s||, of shape (d,), of the sum s of one vector from each party.

    Parameters that are not listed are those of `svd`.

    Parameters
    ----------
    parties : for each party its vector: an array (d,), a pandas Series or a table of one row, whose names are matched
        with those of party 0, or a path that `pdml-spdz normed-sum` would take
    bound : "auto", "window", "exponent", "secsum", or a number: the largest norm of any party's vector
    """
    return cast(NormedSumResult, run_all("normed-sum", locals() | {"rank": 1})).u
