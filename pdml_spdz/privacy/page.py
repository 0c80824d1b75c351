"""One page on the privacy of a data set in a study, for people who decide; and the same as JSON."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import asdict
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from pdml_spdz import __version__
from pdml_spdz.errors import InputError
from pdml_spdz.privacy.assess import EffectiveSize, OwnRisks
from pdml_spdz.privacy.attacks import Finding
from pdml_spdz.privacy.verdict import Observer
from pdml_spdz.programs.render import environment, template_directory
from pdml_spdz.results.charts import Curve, chart
from pdml_spdz.system.files import parse_json, replaced, save_json

KSDP, ATTACK, OWN, PAGE, CONTENT = "ksdp.json", "attack.json", "own.json", "privacy.html", "privacy.json"
RISKY = 15


def save_ksdp(directory: Path, settings: dict[str, Any], views: Sequence[Observer]) -> dict[str, Any]:
    content = {"version": __version__, "settings": settings, "views": [v.to_json() for v in views]}
    save_json(directory / KSDP, content)
    return content


def save_attack(
    directory: Path, facts: dict[str, Any], findings: Sequence[Finding], sizes: Sequence[EffectiveSize]
) -> dict[str, Any]:
    kept = ("algorithm", "engine", "protocol", "reveal", "parties", "d", "rank", "iterations", "bound", "transcript")
    run = {name: facts.get(name) for name in (*kept, "bytes_sent", "bytes_received", "rounds", "observables")}
    content = {
        "version": __version__,
        "run": run,
        "findings": [asdict(f) for f in findings],
        "sizes": [asdict(s) for s in sizes],
    }
    save_json(directory / ATTACK, content)
    return content


def save_own(directory: Path, own: OwnRisks, sizes: Sequence[EffectiveSize]) -> None:
    save_json(directory / OWN, asdict(own) | {"sizes": [asdict(s) for s in sizes]})


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
    content = _content(ksdp, attack, own)
    save_json(directory / CONTENT, content)
    page = environment()
    page.autoescape = True
    page.filters["p"] = _p
    with replaced(directory / PAGE) as temporary:
        temporary.write_text(
            page.get_template("privacy.html.j2").render(**content, charts=_charts(content["views"])), encoding="utf-8"
        )
    return directory / PAGE


@cache
def words() -> dict[str, Any]:
    """What the page says, beside the figures."""
    return tomllib.loads((template_directory() / "privacy.toml").read_text(encoding="utf-8"))


def _p(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.1e}" if 0 < abs(value) < 1e-3 else f"{value:.3f}"


def _content(ksdp: dict[str, Any] | None, attack: dict[str, Any] | None, own: dict[str, Any] | None) -> dict[str, Any]:
    views = [_completed(v) for v in (ksdp or {}).get("views", [])]
    findings = (attack or {}).get("findings", [])
    first = views[0] if views else {}
    names = (ksdp or {}).get("settings", {}).get("names", {})
    return {
        "title": "Privacy report",
        "version": __version__,
        "made": f"{date.today():%d %B %Y}",
        "file": (ksdp or {}).get("settings", {}).get("file"),
        "summary": _summary(views, findings, own),
        "advice": _advice(views, findings),
        "assumptions": (ksdp or {}).get("settings", {}).get("assumptions", []) + _run_words(attack),
        "views": views,
        "powers": [
            (text, [v["short"] for v in views if v["power"] == text]) for text in {v["power"]: 0 for v in views}
        ],
        "samples": first.get("samples"),
        "wanted_pi": first.get("wanted_pi"),
        "level": first.get("level"),
        "resolved": first.get("tpr_resolved"),
        "risky": [
            record | {"name": names.get(str(record["document"]), record["document"])}
            for record in _risky(views)[:RISKY]
        ],
        "attacks": [finding | {"meaning": words()["meaning"].get(finding["attack"], "")} for finding in findings],
        "seen": ((attack or {}).get("run") or {}).get("observables") or [],
        "sizes": (attack or {}).get("sizes") or (own or {}).get("sizes") or [],
        "own": own,
        "not_covered": words()["not_covered"],
    }


def _completed(view: dict[str, Any]) -> dict[str, Any]:
    records, least = view["records"], view["detectable"]
    power = "so few samples cannot show anything after the correction: pass more --samples."
    if least["distance"] is not None:
        power = (
            f"{view['samples']} samples find (in 80 of 100 cases) a record that shifts a statistic by "
            f"{least['shift']:.2f} standard deviations, an AUC of {least['auc']:.2f}; smaller effects may have gone "
            "unnoticed."
        )
    if view["constant"]:
        power += f" Statistics that never changed and so say nothing: {', '.join(view['constant'])}."
    return view | {
        "observer": words()["observers"].get(view["name"], [view["name"]])[0],
        "short": words()["observers"].get(view["name"], [view["name"]])[-1],
        "power": power,
        "mean_auc": float(np.mean([r["auc"] for r in records])),
        "largest_epsilon": max(r["epsilon_family"] for r in records),
    }


def _summary(views: list[dict[str, Any]], findings: list[dict[str, Any]], own: dict[str, Any] | None) -> list[str]:
    lines = []
    for v in views:
        told, of = len(v["flagged"]), len(v["records"])
        verdict = f"{told or 'none'} of {of} records are distinguishable"
        line = f"Who sees {v['observer']}: {verdict} (smallest p {_p(v['pi'])})"
        if v["largest_epsilon"] > 0:
            line += f"; as differential privacy counts, ε is at least {v['largest_epsilon']:.2f}"
        lines.append(f"{line}.")
    won = [f["attack"] for f in findings if f["success"]]
    if findings:
        lines.append(f"Attacks that succeeded on the recorded run: {', '.join(won) if won else 'none'}.")
    if own and own["alone"]:
        lines.append("Some rows have features that no other row has: look at them before joining.")
    return lines


def _advice(views: list[dict[str, Any]], findings: list[dict[str, Any]]) -> list[str]:
    """What a decision may rest on."""
    won = {f["attack"] for f in findings if f["success"]}
    flagged = any(v["flagged"] for v in views)
    given = {
        "exclude": flagged,
        "nothing": bool(views) and not flagged,
        "attacks": bool(won),
        "scale": "scale from the bound" in won,
        "mean": "mean less own rows" in won,
    }
    return [words()["advice"][name] for name, is_so in given.items() if is_so]


def _risky(views: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One line for each record, by the observer to whom it shows most; and to how many it shows at all."""
    worst: dict[int, dict[str, Any]] = {}
    for v in views:
        for record in v["records"]:
            line = record | {"view": v["short"], "told": int(record["adjusted"] <= v["level"])}
            old = worst.get(record["document"])
            if old is not None:
                line["told"] += old["told"]
                if (old["adjusted"], old["p"]) <= (line["adjusted"], line["p"]):
                    line = old | {"told": line["told"]}
            worst[record["document"]] = line
    return sorted(worst.values(), key=lambda r: (r["adjusted"], r["p"]))


def _run_words(attack: dict[str, Any] | None) -> list[str]:
    if attack is None:
        return []
    run = attack["run"]
    what = f"{run['algorithm']} of {run['parties']} parties, engine {run['engine']}, d = {run['d']}, rank {run['rank']}"
    bound = (run.get("bound") or {}).get("source")
    return [
        f"The recorded run: {what}, {run['iterations']} iterations, bound: {bound}; the coalition follows the protocol."
    ]


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
