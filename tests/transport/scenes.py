"""What the parties are about when one of them sends something wrong: whole runs, and protocols by themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pdml_spdz.engines.mp_spdz.place import Place
from pdml_spdz.local.joint import local_study
from pdml_spdz.offline.from_stock import claim
from pdml_spdz.offline.material import Plan
from pdml_spdz.offline.numbers import NumberStock
from pdml_spdz.ot import extension, triples, vole
from pdml_spdz.primitives.largest import largest
from pdml_spdz.rows.data import Data
from pdml_spdz.run.context import PartyRun
from pdml_spdz.run.party import run_party
from pdml_spdz.transport.base import Link
from tests.stocks import fake_kind, fake_part

NAMES = ("a", "b", "c", "d")


@dataclass(frozen=True)
class Scene:
    """party(link, directory) is what each of M parties does."""

    M: int
    party: Callable[[Link, Path], Any]


def rows(m: int) -> np.ndarray:
    return np.abs(np.random.default_rng(m).standard_normal((7, len(NAMES)))) * 2.0 ** -np.arange(len(NAMES))


def fit(M: int = 2, *, named: bool = True, again: bool = False, **settings: Any) -> Scene:
    """A whole run, from the greeting to the results. again : it is resumed when it has finished."""
    settings = {"rank": 2, "iterations": 2, "tol": 1e-12, "engine": "secsum"} | settings
    study = local_study(M, **settings)

    def party(link: Link, directory: Path) -> Any:
        X = rows(link.me)
        # Each has its columns in an order of its own.
        order = np.roll(np.arange(len(NAMES)), link.me) if named else np.arange(len(NAMES))
        data = Data(X[:, order], tuple(NAMES[i] for i in order) if named else None, f"rows of P{link.me}")
        where: dict[str, Any] = {"repeats": directory / "repeats.json", "own_secret": directory / "secret"}
        run = PartyRun(study, link.me, data, directory, directory, **where)
        report = run_party(run, link)
        if again:
            more = local_study(M, **(settings | {"iterations": 3}))
            report = run_party(PartyRun(more, link.me, data, directory, directory, resume=True, **where), link)
        return report

    return Scene(M, party)


def _material(link: Link, directory: Path) -> Any:
    ots = extension.set_up(link, b"session")
    made = triples.make(link, ots, 2, 64)
    (ends,) = vole.set_up(link, ots, 64)
    return made, vole.extend(link, ends, ends.random(4))


def _claims(link: Link, directory: Path) -> Any:
    fake_part(directory, 2, link.me)
    material = claim(link, NumberStock.find(directory, fake_kind(2), link.me), Plan(4, (3,)), b"run")
    return material.triples(4)


def _ports(link: Link, directory: Path) -> Any:
    here = Place.__new__(Place)
    object.__setattr__(here, "link", link)
    object.__setattr__(here, "ports", [0, 0])
    object.__setattr__(here, "hosts", ["127.0.0.1"] * 2)
    with here.meeting_point() as found:
        return found


SCENES = {
    "svd": fit(),
    "pca": fit(algorithm="pca", scale="secsum", named=False),
    "nmf": fit(algorithm="nmf"),
    "plain": fit(engine="plain", named=False),
    "exponent": fit(bound="exponent", named=False),
    "aggregator": fit(3, aggregator="0", named=False),
    "resumed": fit(again=True, named=False, solver="power"),
    "power": fit(named=False, solver="power"),
    "embedded": fit(engine="embedded", named=False, bound="100", iterations=1, rank=1),
    "material": Scene(2, _material),
    "claims": Scene(2, _claims),
    "largest": Scene(2, lambda link, _: largest(link, 3 + link.me, 0, 8)),
    "ports": Scene(2, _ports),
}
