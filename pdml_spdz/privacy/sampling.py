"""Random databases with and without a record, each from a seed of its own: the same however often a run is resumed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pdml_spdz.errors import InputError, ResumeError
from pdml_spdz.rows.base import RowsLike
from pdml_spdz.rows.data import Data
from pdml_spdz.system.files import replaced, save_json, writing

WITH, WITHOUT = 0, 1
ARMS = ("with", "without")


@dataclass(frozen=True)
class Plan:
    """Everything that determines the samples.

    documents : rows of the population whose privacy is measured; size : rows of the victim's database
    samples : databases in each arm
    group : so many documents share their databases, of which none contains any of them
    """

    documents: tuple[int, ...]
    size: int
    samples: int
    seed: int
    group: int = 0

    def groups(self) -> list[tuple[int, ...]]:
        """Positions in `documents`, group by group."""
        step = self.group or len(self.documents)
        return [tuple(range(i, min(i + step, len(self.documents)))) for i in range(0, len(self.documents), step)]

    def units(self) -> list[Unit]:
        return [
            Unit(g, arm, j) for g in range(len(self.groups())) for arm in (WITH, WITHOUT) for j in range(self.samples)
        ]


@dataclass(frozen=True)
class Unit:
    """Sample j of an arm, for the documents of group g."""

    g: int
    arm: int
    j: int

    @property
    def name(self) -> str:
        return f"{ARMS[self.arm]}-{self.g}-{self.j}.npz"


def make_plan(n: int, documents: Sequence[int], size: int, samples: int, seed: int, group: int = 0) -> Plan:
    """A plan that the population of n rows has room for."""
    if samples < 4:
        raise InputError(f"there are {samples} samples in an arm.", "at least 4: half of them choose, half judge")
    documents = tuple(int(i) for i in documents)
    if not documents or min(documents) < 0 or max(documents) >= n or len(set(documents)) < len(documents):
        raise InputError("the documents are not distinct rows of the data.", f"numbers from 0 to {n - 1}, each once")
    # Databases are drawn from rows that are not in the group: leave it most of the population.
    group = group or max(1, min(len(documents), (n - size) // 4))
    pool = n - min(group, len(documents))
    if not 2 <= size < pool:
        raise InputError(
            f"{n} rows are too few to draw databases of {size} rows from.",
            f"a size from 2 to {max(2, n - 2)}, better at most half of the rows",
            "pass a smaller --size",
        )
    return Plan(documents, size, samples, seed, group)


def generator(plan: Plan, unit: Unit) -> np.random.Generator:
    """Of this sample alone: what was computed before it, or in which order, changes nothing."""
    return np.random.default_rng(np.random.SeedSequence(plan.seed, spawn_key=(unit.g, unit.arm, unit.j)))


def database(plan: Plan, n: int, unit: Unit, rng: np.random.Generator) -> Any:
    """Rows of the population in this sample: without x all of them, with x all but x itself."""
    group = [plan.documents[i] for i in plan.groups()[unit.g]]
    pool = np.setdiff1d(np.arange(n), group)
    if unit.arm == WITH:
        return rng.choice(pool, plan.size - 1, replace=False)
    # The paper has a random row in the place of x, or a new database: the same in law, as one population is drawn from.
    return rng.choice(pool, plan.size, replace=False)


@dataclass(frozen=True)
class Store:
    """Samples on disk, one file each, written whole: a run that was interrupted goes on with those that are missing."""

    directory: Path

    def begin(self, plan: Plan, settings: dict[str, Any], population: str) -> None:
        """Start, or go on with the same plan; refuse another one."""
        content = {
            "plan": asdict(plan) | {"documents": list(plan.documents)},
            "mechanism": settings,
            "data": population,
        }
        path = self.directory / "plan.json"
        if path.is_file():
            if json.loads(path.read_text(encoding="utf-8")) != json.loads(json.dumps(content)):
                raise ResumeError(
                    f"{self.directory} holds samples of another plan.",
                    "the same data, documents, size, samples, seed and mechanism",
                    "choose another --out, or remove the directory",
                )
            return
        with writing(self.directory):
            self.directory.mkdir(parents=True, exist_ok=True)
            self.directory.chmod(0o700)
        save_json(path, content)

    def load(self, unit: Unit) -> dict[str, Any] | None:
        path = self.directory / unit.name
        if not path.is_file():
            return None
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}

    def save(self, unit: Unit, content: dict[str, Any]) -> None:
        with replaced(self.directory / unit.name) as temporary, temporary.open("wb") as file:
            np.savez(file, **content)


def digest(X: RowsLike) -> str:
    """Of the population: samples of other rows are not these samples."""
    return Data(X, None, "population").digest(b"")
