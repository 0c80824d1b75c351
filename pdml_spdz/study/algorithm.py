"""What there is to know of an algorithm before it runs: one descriptor for each, found by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pdml_spdz.registry import Line, Registry

if TYPE_CHECKING:
    from pdml_spdz.study.model import Study

DIRECTIONS, SUMS = "directions", "sums"  # what an algorithm needs of the parties' numbers
GRAM, SQUARES = "||X_m^T X_m||_F", "||X_m||_F^2"
PAGE, IDS = "result.html", "ids.json"  # of every run: a page for people; a party's own: what its rows are called
Want = Callable[[bool, str, str], None]


def _no_check(study: Study, want: Want) -> None:
    """Nothing beyond what every study has to be."""


@dataclass(frozen=True)
class Shape:
    """What a fit will ask for: blocks of k columns of length d, at most tau times.

    expected : how often it is likely to; 0: as often as it may
    lot : how many times offline material is claimed, or made, for at once; 0: for all
    lengths : public, how long the first sums will be, about and up to one factor, where an earlier run has shown it
    """

    d: int
    k: int
    tau: int
    expected: int = 0
    lot: int = 0
    lengths: tuple[float, ...] = ()


def _of_solver(study: Study, d: int) -> Shape:
    solver = study.solver_spec
    return Shape(d, solver.columns(study.rank, d), study.iterations, solver.expected, solver.lot)


@dataclass(frozen=True)
class Algorithm:
    """An algorithm, as studies, commands, engines, reports and directories of results know it.

    name : as a study has it
    fit : fit(run, data, link, engine) -> Fitted, party m's part of it
    result : the file of the result that all parties have
    unit : what the rank counts
    title : of a page about a run
    label : what one column of the result is called, before its number
    table : the file of the result for spreadsheets
    by_row : the result has a row, not a column, for each of what the rank counts
    change : when a fit stops, by `tol`: "stop when ..."
    kept : files that a party may have besides the result
    starts : files that are written when a fit begins
    needs : directions of sums (NormedSecSum), or the sums themselves
    vector : a party has one row, and its columns are not features of many
    signed : rows may have numbers below zero
    own : settings of a study that no other algorithm has, unless it says so too
    idle : settings that it makes no use of
    defaults : settings whose usual value is not that of a Study
    measure : what a party's quota bounds
    check : check(study, want) refuses settings that do not go with it; want(ok, found, wanted) raises unless ok
    accept : accept(study, m, data) refuses rows that party m cannot use, before anything is sent or replaced
    shape : shape(study, d), what a fit with d features asks of NormedSecSum
    reveals : reveals(study), in words, what every party sees of a fit besides its result, what finding a bound and a
    mean shows left out
    of_two : of the other party's numbers, what opened sums show where there are two parties
    reference : reference(result, files), what the report says of the accuracy where one machine has all files
    note : for people who have a result: what it has shown that they may not expect
    help : of the command that runs it on this machine
    """

    name: str
    fit: Callable[..., Any]
    result: str
    unit: str
    title: str = "A joint computation"
    label: str = "component"
    table: str = "loadings.csv"
    by_row: bool = False
    change: str = (
        "V is known to this (krylov: a bound of the sine of every vector's error, and of their span's), or changes by "
        "less (power: sine of the largest angle)"
    )
    kept: tuple[str, ...] = ("scale.npy", "fill.npy")
    starts: tuple[str, ...] = ("centre.npz", "missing.npz")
    needs: str = DIRECTIONS
    vector: bool = False
    signed: bool = True
    own: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    measure: str = GRAM
    check: Callable[[Study, Want], None] = _no_check
    accept: Callable[..., None] = field(default=lambda study, m, data: None)
    shape: Callable[[Study, int], Shape] = _of_solver
    reveals: Callable[[Study], list[str]] = field(default=lambda study: [])
    of_two: Callable[[Study], dict[str, bool]] = field(default=lambda study: {})
    reference: Callable[..., dict[str, Any]] | None = None
    note: str = ""
    help: str = ""

    @property
    def files(self) -> tuple[str, ...]:
        """Everything that a fit writes into its directory, but for the report."""
        return (*self.results, *self.starts)

    @property
    def results(self) -> tuple[str, ...]:
        """Those of them that are there when it has ended."""
        return (self.result, self.table, PAGE, IDS, *self.kept)


ALGORITHMS: Registry[Algorithm] = Registry(
    "algorithm",
    {
        "svd": Line(
            "pdml_spdz.fits.svd:SVD", "The top singular vectors of the rows of all FILES, one party for each file."
        ),
        "pca": Line(
            "pdml_spdz.fits.pca:PCA", "The principal components of the rows of all FILES, one party for each file."
        ),
        "nmf": Line(
            "pdml_spdz.fits.nmf:NMF",
            "Topics: a non-negative factorisation of the rows of all FILES, one party for each file.",
        ),
        "normed-sum": Line(
            "pdml_spdz.fits.normed_sum:NORMED_SUM",
            "The direction s/||s|| of the sum s of one vector from each party, one party for each of FILES.",
        ),
    },
)

DEFAULT = next(iter(ALGORITHMS.lines))  # for whoever names none


def having(setting: str) -> str:
    """The algorithms that have a setting of their own, in words: for a message."""
    return " or ".join(name for name in ALGORITHMS.names() if setting in ALGORITHMS[name].own)
