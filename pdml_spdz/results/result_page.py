"""The page of a finished run, result.html, which needs nothing else, and its tables as CSV.

A party's own page is for its owner only; that of all parties has nothing but what every party has seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pdml_spdz import __version__
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.programs.render import environment
from pdml_spdz.results.charts import Curve, chart
from pdml_spdz.results.page_words import in_words, with_code
from pdml_spdz.results.pictures import bars, heat_map
from pdml_spdz.results.sheets import write_table
from pdml_spdz.study.algorithm import ALGORITHMS, PAGE, Algorithm
from pdml_spdz.system.files import save_text

if TYPE_CHECKING:
    import jinja2

MAPPED, LISTED = 40, 100  # features in the heat map and in the table; loadings.csv has them all
CHARTS, BARS = 12, 10  # components with a chart of their own, and bars in each


@dataclass(frozen=True)
class Loadings:
    """names : of the features; labels : of the components; values : (features, components)"""

    names: list[str]
    labels: list[str]
    values: Reals

    def largest(self, count: int) -> Loadings:
        """Those of the features that have the largest loading on any component, in their order."""
        if len(self.names) <= count:
            return self
        order = np.argsort(-np.abs(self.values).max(axis=1), kind="stable")[:count]
        kept = np.sort(order)
        return Loadings([self.names[i] for i in kept], self.labels, self.values[kept])


def loadings_of(report: dict[str, Any], result: Reals) -> Loadings:
    """result : the array of the algorithm's file"""
    spec = ALGORITHMS[report["algorithm"]]
    values = result.reshape(len(result), -1)
    values = values.T if spec.by_row else values
    names = report["features"] or [f"feature {j + 1}" for j in range(len(values))]
    labels = [spec.label] if spec.vector else [f"{spec.label}{i + 1}" for i in range(values.shape[1])]
    return Loadings(list(names), labels, values)


def write(
    directory: Path, report: dict[str, Any], result: Reals, *, private: bool, pictures: Sequence[str] = ()
) -> None:
    """loadings.csv (or topics.csv) and result.html in the directory of a finished run.

    private : a party's own, for its owner only
    pictures : SVG of this party's own rows
    """
    spec, loadings = ALGORITHMS[report["algorithm"]], loadings_of(report, result)
    write_table(directory / spec.table, ["feature", *loadings.labels], loadings.names, loadings.values)
    save_text(directory / PAGE, page(report, loadings, private=private, pictures=pictures), private=private)


def page(report: dict[str, Any], loadings: Loadings, *, private: bool, pictures: Sequence[str] = ()) -> str:
    spec = ALGORITHMS[report["algorithm"]]
    mapped, listed = loadings.largest(MAPPED), loadings.largest(LISTED)
    own = report.get("warnings_own", [])
    return _template().render(
        title=f"{spec.title} of {report['parties']} parties",
        version=__version__,
        made=f"{date.today():%d %B %Y}",
        report=report,
        spec=spec,
        private=private,
        names=report.get("names") or [],
        warnings=[*([spec.note] if spec.note else []), *(w for w in report["warnings"] if private or w not in own)],
        variance=_variance(report),
        heat=heat_map(
            f"{'Weight' if spec.by_row else 'Size and sign'} of each feature",
            mapped.names,
            mapped.labels,
            mapped.values,
        ),
        bars=_bars(loadings),
        mapped=len(mapped.names),
        listed=list(zip(listed.names, listed.values.tolist(), strict=True)),
        labels=loadings.labels,
        d=len(loadings.names),
        convergence=_convergence(report, spec),
        costs=_costs(report),
        pictures=pictures,
    )


def load() -> None:
    """The page's template, ahead of its use: to compile it takes longer than to write a page."""
    _template()


@cache
def _template() -> jinja2.Template:
    pages = environment()
    pages.autoescape = True
    pages.filters |= {"in_words": in_words, "code": with_code}
    return pages.get_template("result.html.j2")


def _bars(loadings: Loadings) -> list[str]:
    drawn = []
    for j, label in enumerate(loadings.labels[:CHARTS]):
        column = loadings.values[:, j]
        order = np.argsort(-np.abs(column), kind="stable")[:BARS]
        drawn.append(bars(label, [loadings.names[i] for i in order], [float(column[i]) for i in order]))
    return drawn


def _variance(report: dict[str, Any]) -> str:
    """The scree plot, of what was revealed of it; "" if nothing was."""
    for key, title, label in (
        ("explained_variance_ratio", "Explained variance", "share of all variance"),
        ("explained_variance", "Explained variance", "variance"),
        ("singular_values", "Singular values", "singular value"),
    ):
        values = report.get(key)
        if values:
            at = [float(i + 1) for i in range(len(values))]
            curves = [Curve("each", at, values), Curve("", at, values, "dots")]
            if key == "explained_variance_ratio":
                curves.append(Curve("together", at, np.cumsum(values).tolist(), dashed=True))
            return chart(title, curves, "component", label)
    return ""


def _convergence(report: dict[str, Any], spec: Algorithm) -> str:
    history = report.get("history") or []
    if len(history) < 2:
        return ""
    at, change = [float(t) for t, _ in history], [max(float(c), 1e-16) for _, c in history]
    curves = [Curve("change, or bound of the error", at, change)]
    if report["asked"]["tol"] > 0:
        curves.append(Curve("tol", [at[0], at[-1]], [report["asked"]["tol"]] * 2, dashed=True))
    return chart("Convergence", curves, "iteration", "sine" if spec.label != "topic" else "l1", y_log=True)


def _costs(report: dict[str, Any]) -> list[dict[str, Any]]:
    """One line for each party whose costs this page knows: seconds by phase, megabytes, rounds."""
    of_all = report.get("by_party")
    times = of_all["seconds"] if of_all else [report["seconds"]]
    sent = of_all["bytes_sent"] if of_all else [report["bytes_sent"]]
    rounds = of_all["rounds"] if of_all else [report["rounds"]]
    first = 0 if of_all else report["party_id"]
    return [
        {
            "who": f"P{first + m}",
            "local": s["local"],
            "wait": s["online"]["wait"],
            "transport": s["online"]["transport"],
            "crypto": s["online"]["crypto"],
            "offline": s["offline"],
            "total": s["total"],
            "sent": sent[m] / 1e6,
            "rounds": rounds[m],
        }
        for m, s in enumerate(times)
    ]
