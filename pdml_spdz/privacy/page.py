"""One page on the privacy of a data set in a study, for people who decide; and the same as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import date
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pdml_spdz import __version__
from pdml_spdz.errors import InputError
from pdml_spdz.privacy import report_content
from pdml_spdz.privacy.assess import EffectiveSize, OwnRisks
from pdml_spdz.privacy.attacks import Finding
from pdml_spdz.privacy.verdict import Observer
from pdml_spdz.programs.render import environment
from pdml_spdz.results.charts import Curve, chart
from pdml_spdz.results.page_words import with_code
from pdml_spdz.system.files import parse_json, replaced, save_json

if TYPE_CHECKING:
    import jinja2

KSDP, ATTACK, OWN, PAGE, CONTENT = "ksdp.json", "attack.json", "own.json", "privacy.html", "privacy.json"
TITLE = "What would the others learn of single records?"


def save_ksdp(directory: Path, settings: dict[str, Any], views: Sequence[Observer]) -> dict[str, Any]:
    content = {"version": __version__, "settings": settings, "views": [v.to_json() for v in views]}
    save_json(directory / KSDP, content)
    return content


def save_attack(
    directory: Path, facts: dict[str, Any], findings: Sequence[Finding], sizes: Sequence[EffectiveSize]
) -> dict[str, Any]:
    kept = ("algorithm", "engine", "protocol", "reveal", "parties", "d", "rank", "iterations", "bound")
    run = {
        name: facts.get(name)
        for name in (*kept, "centre", "transcript", "bytes_sent", "bytes_received", "rounds", "observables")
    }
    content = {
        "version": __version__,
        "run": run,
        "findings": [asdict(f) for f in findings],
        "sizes": [asdict(s) for s in sizes],
    }
    save_json(directory / ATTACK, content)
    return content


def save_own(directory: Path, own: OwnRisks, sizes: Sequence[EffectiveSize], findings: Sequence[Finding] = ()) -> None:
    content = asdict(own) | {"sizes": [asdict(s) for s in sizes], "findings": [asdict(f) for f in findings]}
    save_json(directory / OWN, content)


def read(directory: Path, name: str) -> dict[str, Any] | None:
    path = directory / name
    if not path.is_file():
        return None
    try:
        content: dict[str, Any] = parse_json(path.read_text(encoding="utf-8"))
    except ValueError:
        raise InputError(f"{path} cannot be read.", "what `pdml-spdz privacy` wrote") from None
    return content


def write(directory: Path) -> Path:
    """directory/privacy.html and privacy.json from what `privacy ksdp`, `assess` and `attack` left there."""
    ksdp, attack, own = (read(directory, name) for name in (KSDP, ATTACK, OWN))
    if ksdp is None and attack is None:
        raise InputError(
            f"{directory} holds no measurement.",
            f"{KSDP} or {ATTACK}",
            "run `pdml-spdz privacy assess`, `ksdp` or `attack` with that directory first",
        )
    heading: dict[str, Any] = {"title": TITLE, "version": __version__, "made": f"{date.today():%d %B %Y}"}
    content = heading | report_content.content(ksdp, attack, own)
    save_json(directory / CONTENT, content)
    with replaced(directory / PAGE) as temporary:
        temporary.write_text(_template().render(**content, charts=_charts(content["views"])), encoding="utf-8")
    return directory / PAGE


@cache
def _template() -> jinja2.Template:
    page = environment()
    page.autoescape = True
    page.filters |= {"p": _p, "code": with_code}
    return page.get_template("privacy.html.j2")


def _p(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.1e}" if 0 < abs(value) < 1e-3 else f"{value:.3f}"


def _charts(views: list[dict[str, Any]]) -> list[str]:
    if not views:
        return []
    curves, areas = [], []
    low = min(max(r["p"], 1e-12) for v in views for r in v["records"]) / 10
    for v in views:
        p = np.sort([max(r["p"], 1e-12) for r in v["records"]])
        share = np.arange(1, len(p) + 1) / len(p)
        curves.append(Curve(v["short"], [low, *p, 1.0], [0.0, *share, 1.0], "steps"))
        auc = np.sort([r["auc"] for r in v["records"]])
        areas.append(Curve(v["short"], list(share), list(auc), "dots"))
    m = len(views[0]["statistics"])
    at = np.geomspace(low, 1.0, 200)
    curves.append(Curve("by chance", list(at), list(1.0 - (1.0 - at) ** m), dashed=True))
    areas.append(Curve("guessing", [0.0, 1.0], [0.5, 0.5], dashed=True))
    return [
        chart("Smallest p of each record", curves, "p (further left is worse)", "share of records", x_log=True),
        chart("AUC of each record, sorted", areas, "share of records", "AUC", top=1.0),
    ]
