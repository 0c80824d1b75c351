"""What the page of `privacy assess|report` says, from what was measured: the same for people and as JSON."""

from __future__ import annotations

import tomllib
from dataclasses import asdict
from functools import cache
from typing import Any

import numpy as np

from pdml_spdz.privacy import lights, measures
from pdml_spdz.programs.render import template_directory
from pdml_spdz.results.page_words import in_words

RISKY = 15
USELESS = 0.5  # of sealed runs that end without a result: then the level shows less than the result would
SEALED = "sealed run"
Json = dict[str, Any]


@cache
def words() -> Json:
    """What the page says, beside the figures."""
    return tomllib.loads((template_directory() / "privacy.toml").read_text(encoding="utf-8"))


def content(ksdp: Json | None, attack: Json | None, own: Json | None) -> Json:
    """ksdp, attack, own : as `privacy ksdp`, `attack` and `assess` have left them, None if they have not"""
    settings, run = (ksdp or {}).get("settings", {}), (attack or {}).get("run") or {}
    algorithm = settings.get("algorithm") or run.get("algorithm") or settings.get("mechanism", {}).get("name", "svd")
    named = words()["algorithms"].get(algorithm, words()["algorithms"]["svd"])
    result = named["without_mean"] if run.get("centre") == "hidden" and not settings else named["result"]
    views = [_completed(v) for v in (ksdp or {}).get("views", [])]
    levels = _levels(algorithm, result, views, settings)
    useless = _useless(settings)
    findings = [*(own or {}).get("findings", []), *(attack or {}).get("findings", [])]
    attacks = _attacks(algorithm, list({f["attack"]: f for f in findings}.values()))
    first = views[0] if views else {}
    return {
        "algorithm": algorithm,
        "what": named["what"],
        "file": settings.get("file"),
        "headline": _headline(levels),
        "levels": levels,
        "uneven": _uneven([line for line in levels if not (useless and line["view"] == SEALED)]),
        "legend": [{"colour": colour, "word": word, "means": means} for colour, word, means in lights.LEGEND],
        "power": _power(views),
        "records": len(first["records"]) if views else 0,
        "rows": settings.get("rows"),
        "chosen": settings.get("chosen"),
        "samples": first.get("samples"),
        "closed": settings.get("closed"),
        "useless": useless,
        "advice": _advice(levels, attacks, useless),
        "assumptions": settings.get("assumptions", []) + _run_words(attack, named),
        "views": views,
        "wanted_pi": first.get("wanted_pi"),
        "level": first.get("level"),
        "resolved": first.get("tpr_resolved"),
        "risky": _risky(views, levels, settings.get("names", {})),
        "attacks": attacks,
        "recorded": attack is not None,
        "seen": [in_words(line) for line in run.get("observables") or []],
        "sizes": (attack or {}).get("sizes") or (own or {}).get("sizes") or [],
        "own": own,
        "not_covered": words()["not_covered"],
    }


def _completed(view: Json) -> Json:
    records = view["records"]
    limit = measures.epsilon_limit(view["samples"], delta=view["delta"], level=view["level"] / len(records))
    return view | {
        "short": words()["observers"].get(view["name"], view["name"]),
        "power": lights.power(view),
        "mean_auc": float(np.mean([r["auc"] for r in records])),
        "largest_epsilon": max(r["epsilon_family"] for r in records),
        "epsilon_limit": max(limit, 0.0),
    }


def _levels(algorithm: str, result: str, views: list[Json], settings: Json) -> list[Json]:
    """One line for each level of the algorithm, tested or not; then observers that are no level."""
    by_name = {view["name"]: view for view in views}
    lines = [level for level in words()["levels"] if algorithm in level["of"]]
    lines += [other for other in words()["others"] if other["view"] in by_name]
    found = []
    for line in lines:
        view = by_name.get(line.get("view", ""))
        light = lights.of_view(view, settings.get("rows"), settings.get("chosen"))
        if "view" not in line:
            light = lights.Light(lights.GREY, "not available", "")
        if line.get("view") == SEALED and _useless(settings) and light.colour != lights.RED:
            light = lights.Light(lights.GREY, "no result", "most sealed runs of these rows would end without one")
        told, of = (len(view["flagged"]), len(view["records"])) if view else (0, 0)
        found.append(
            {
                "name": line["name"],
                "setting": line.get("setting"),
                "view": line.get("view"),
                "default": line.get("default", False),
                "is_level": "of" in line,
                "sees": line["sees"].format(result=result),
                "told": told if view else None,
                "of": of if view else None,
                "share": lights.share(told, of, settings.get("rows"), settings.get("chosen")) if view else "",
                "light": asdict(light),
            }
        )
    return found


def _useless(settings: Json) -> bool:
    return (settings.get("closed") or 0.0) > USELESS


def _headline(levels: list[Json]) -> str:
    """The answer in one or two sentences."""
    tested = [line for line in levels if line["told"] is not None and line["light"]["colour"] != lights.GREY]
    red = [line for line in tested if line["light"]["colour"] == lights.RED]
    if not tested:
        return "Not tested: nothing can be said about single records."
    of = tested[0]["of"]
    if not red:
        weak = " and the test was weak" if _weak(tested) else ""
        return f"None of {of} records was told at any level that was tested. That is no proof of privacy{weak}."
    worst = max(red, key=lambda line: (line["default"], line["told"]))
    where = "the default level" if worst["default"] else f"“{worst['name']}”"
    most = f"{worst['told']} of {of} records can be told at {where}"
    if levels[0] in red:
        more = "" if worst is levels[0] else f"; {most}"
        return f"Yes, for some. Even “{levels[0]['name']}” tells {levels[0]['told']} of {of} records{more}."
    safe = [f"“{line['name']}”" for line in tested if line not in red]
    return f"It depends on the level: {most}; none was found at {', '.join(safe) or 'no other that was tested'}."


def _weak(levels: list[Json]) -> bool:
    return any(line["light"]["word"] in (lights.WEAK, lights.FEW) for line in levels)


def _uneven(levels: list[Json]) -> bool:
    """Whether a level that shows more told fewer: levels are listed by what they show."""
    told = [line["told"] for line in levels if line["told"] is not None and line["is_level"]]
    return told != sorted(told)


def _power(views: list[Json]) -> list[Json]:
    """What could have been found, once for all observers for whom it is the same."""
    texts = dict.fromkeys(v["power"] for v in views)
    return [{"text": text, "who": [v["short"] for v in views if v["power"] == text]} for text in texts]


def _attacks(algorithm: str, findings: list[Json]) -> list[Json]:
    """Those that were carried out, and then those that were not."""
    known = words()["attacks"]
    nobody: Json = {"of": [], "title": None, "needs": "", "meaning": ""}
    tried = [
        f | known.get(f["attack"], nobody) | {"light": asdict(lights.of_attack(f)), "needs": f["needed"]}
        for f in findings
    ]
    done = {f["attack"] for f in findings}
    grey = asdict(lights.of_attack(None))
    return tried + [
        named | {"attack": name, "success": False, "tried": False, "got": "", "light": grey}
        for name, named in known.items()
        if algorithm in named["of"] and name not in done
    ]


def _advice(levels: list[Json], attacks: list[Json], useless: bool) -> list[str]:
    """What a decision may rest on."""
    won = {a["attack"] for a in attacks if a["success"]}
    colours = [line["light"]["colour"] for line in levels if line["view"] is not None]
    tested = [colour for colour in colours if colour != lights.GREY]
    even_result = bool(tested) and levels[0]["light"]["colour"] == lights.RED
    given = {
        "even_result": even_result,
        "level": lights.RED in colours and not even_result,
        "nothing": bool(tested) and lights.RED not in colours,
        "weak": _weak(levels),
        "untested": lights.GREY in colours,
        "closed": useless,
        "attacks": bool(won),
        "scale": "scale from the bound" in won,
        "mean": "mean less own rows" in won,
    }
    return [words()["advice"][name] for name, is_so in given.items() if is_so]


def _risky(views: list[Json], levels: list[Json], names: dict[str, Any]) -> list[Json]:
    """One line for each record, the worst first: by the observer to whom it shows most, and to whom it shows at all."""
    worst: dict[int, Json] = {}
    told: dict[int, set[str]] = {}
    for v in views:
        for record in v["records"]:
            i, line = record["document"], record | {"view": v["short"]}
            old = worst.get(i)
            if old is None or (line["adjusted"], line["p"]) < (old["adjusted"], old["p"]):
                worst[i] = line
            told.setdefault(i, set()).update([v["name"]] if i in v["flagged"] else [])
    columns = [line["view"] for line in levels if line["told"] is not None]
    ordered = sorted(worst.values(), key=lambda r: (-len(told[r["document"]]), r["adjusted"], r["p"]))
    return [
        r
        | {
            "name": names.get(str(r["document"]), r["document"]),
            "told": len(told[r["document"]]),
            "at": [view in told[r["document"]] for view in columns],
        }
        for r in ordered[:RISKY]
    ]


def _run_words(attack: Json | None, named: Json) -> list[str]:
    if attack is None:
        return []
    run = attack["run"]
    what = f"{named['what']}, {run['parties']} parties, {run['d']} features, rank {run['rank']}"
    how = f"level {run['reveal']}, engine {run['engine']}, {run['iterations']} rounds"
    bound = (run.get("bound") or {}).get("source")
    return [f"The recorded run: {what}; {how}, bound: {bound}. The coalition follows the protocol."]
