"""KS distributional privacy, measured. [PDML Alg. "Measuring pi-KSDP"]

1. for every document x and j = 1 .. t: a random database with x and one without; the mechanism on each
2. every statistic of what is seen, and of x: t numbers with x, t without
3. the Kolmogorov-Smirnov test of the two; pi is the smallest p of all documents and statistics

The paper's number is the mean over documents of the smallest p. Beside it stand what it hides: the worst record, what
so many tests show by chance, how sure one can be, and how much would have gone unnoticed.

Random databases have a seed of their own each: the same however often a run is resumed.
"""

from __future__ import annotations

import json
import multiprocessing as mp
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pdml_spdz.errors import InputError, ResumeError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.privacy.mechanism import Content, Mechanism, Statistic, evaluate, load_statistic
from pdml_spdz.rows.base import RowsLike, as_rows
from pdml_spdz.rows.data import Data
from pdml_spdz.system.files import reading, replaced, save_json, writing

Progress = Callable[[int, int], None]
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Experiment:
    """X : the population that databases are drawn from; user : more statistics, functions or "file.py:function"

    store : where samples are kept for resuming and for further statistics; None: nowhere
    whole : all of each sample is kept; or only its statistics, which are all that resuming needs
    """

    X: RowsLike
    plan: SamplePlan
    mechanism: Mechanism
    user: tuple[Statistic | str, ...] = ()
    store: Path | None = None
    whole: bool = True


@dataclass(frozen=True)
class Samples:
    """names : of statistics, "<view>/<name>"; values : (documents, statistics, 2 arms, samples)

    features : for each view (documents, 2 arms, samples, features), for the learned attacker
    """

    names: tuple[str, ...]
    values: Reals
    features: dict[str, Reals] = field(default_factory=dict)


Outcome = tuple[list[dict[str, float]], list[dict[str, Reals]]]


def compute(experiment: Experiment, unit: Unit) -> Outcome:
    """Statistics and features of one sample, for every document of its group; the sample, or what was made of it, comes
    from the store, or is made now.
    """
    store = None if experiment.store is None else Store(experiment.store)
    kept = None if store is None else store.load(unit)
    if kept is not None and not experiment.whole:
        return _unpacked(kept)
    content = _sample(experiment, unit) if kept is None else kept
    if store is not None and kept is None and experiment.whole:
        store.save(unit, content)  # before anybody works on it
    found = _judged(experiment, unit, content)
    if store is not None and not experiment.whole:
        store.save(unit, _packed(found))
    return found


def _sample(experiment: Experiment, unit: Unit) -> Content:
    plan, mechanism = experiment.plan, experiment.mechanism
    rng = generator(plan, unit)
    X = experiment.X[np.sort(database(plan, experiment.X.shape[0], unit, rng))]
    if unit.arm == WITH:
        return mechanism.sample_with(X, experiment.X[plan.documents_of(unit)], rng)
    return mechanism.sample_without(X, rng)


def _judged(experiment: Experiment, unit: Unit, content: Content) -> Outcome:
    mechanism, documents = experiment.mechanism, experiment.plan.documents_of(unit)
    user = [load_statistic(s) if isinstance(s, str) else s for s in experiment.user]
    values, features = [], []
    for i, document in enumerate(documents):
        x = as_rows(experiment.X[[document]]).dense()[0]
        seen = mechanism.observables(content, i if unit.arm == WITH else None, x)
        values.append(evaluate(mechanism, user, seen, x, f"document {document}, sample {unit.j} ({unit.name})"))
        features.append(mechanism.features(seen, x))
    return values, features


def _packed(found: Outcome) -> Content:
    values, features = found
    numbers = {f"of {view}": np.array([f[view] for f in features]) for view in features[0]}
    return {"names": np.array([*values[0]]), "values": np.array([[*v.values()] for v in values]), **numbers}


def _unpacked(content: Content) -> Outcome:
    views = {name.removeprefix("of "): numbers for name, numbers in content.items() if name.startswith("of ")}
    values = [dict(zip(content["names"].tolist(), v.tolist(), strict=True)) for v in content["values"]]
    return values, [{view: numbers[i] for view, numbers in views.items()} for i in range(len(values))]


def run(experiment: Experiment, *, jobs: int = 1, progress: Progress = lambda done, of: None) -> Samples:
    """All samples of the plan. What an earlier, interrupted run has stored is taken as it is: every sample has a seed
    of its own, none is ever left out, and nothing is judged before all are there.
    """
    plan = experiment.plan
    if experiment.store is not None:
        kept = {} if experiment.whole else {"kept": "statistics"}
        Store(experiment.store).begin(plan, experiment.mechanism.settings() | kept, digest(experiment.X))
    units = plan.units()
    outcomes: dict[Unit, Outcome] = {}
    for unit, outcome in _computed(experiment, units, jobs):
        outcomes[unit] = outcome
        progress(len(outcomes), len(units))
    return _collected(plan, outcomes)


def _computed(experiment: Experiment, units: Sequence[Unit], jobs: int) -> Iterator[tuple[Unit, Outcome]]:
    if jobs <= 1:
        for unit in units:
            yield unit, compute(experiment, unit)
        return
    with _one_thread_each(), ProcessPoolExecutor(jobs, mp.get_context("spawn")) as pool:
        futures = {pool.submit(compute, experiment, unit): unit for unit in units}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Processes started meanwhile compute with one thread each: there are as many of them as cores."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _collected(plan: SamplePlan, outcomes: dict[Unit, Outcome]) -> Samples:
    first_values, first_features = next(iter(outcomes.values()))
    names = tuple(first_values[0])
    values = np.empty((len(plan.documents), len(names), 2, plan.samples))
    features: dict[str, Any] = {
        view: np.empty((len(plan.documents), 2, plan.samples, len(f))) for view, f in first_features[0].items()
    }
    groups = plan.groups()
    for unit, (found, described) in outcomes.items():
        for position, row, numbers in zip(groups[unit.g], found, described, strict=True):
            values[position, :, unit.arm, unit.j] = [row[name] for name in names]
            for view, f in numbers.items():
                features[view][position, unit.arm, unit.j] = f
    return Samples(names, values, features)


WITH, WITHOUT = 0, 1
ARMS = ("with", "without")


@dataclass(frozen=True)
class SamplePlan:
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

    def documents_of(self, unit: Unit) -> list[int]:
        return [self.documents[i] for i in self.groups()[unit.g]]

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


def make_plan(n: int, documents: Sequence[int], size: int, samples: int, seed: int, group: int = 0) -> SamplePlan:
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
    return SamplePlan(documents, size, samples, seed, group)


def generator(plan: SamplePlan, unit: Unit) -> np.random.Generator:
    """Of this sample alone: what was computed before it, or in which order, changes nothing."""
    return np.random.default_rng(np.random.SeedSequence(plan.seed, spawn_key=(unit.g, unit.arm, unit.j)))


def database(plan: SamplePlan, n: int, unit: Unit, rng: np.random.Generator) -> Any:
    """Rows of the population in this sample: without x all of them, with x all but x itself."""
    pool = np.setdiff1d(np.arange(n), plan.documents_of(unit))
    if unit.arm == WITH:
        return rng.choice(pool, plan.size - 1, replace=False)
    # The paper has a random row in the place of x, or a new database: the same in law, as one population is drawn from.
    return rng.choice(pool, plan.size, replace=False)


@dataclass(frozen=True)
class Store:
    """Samples on disk, one file each, written whole: a run that was interrupted goes on with those that are missing."""

    directory: Path

    def begin(self, plan: SamplePlan, settings: dict[str, Any], population: str) -> None:
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
        do = f"remove it, or {self.directory}: what is missing is made again"
        with reading(path, "samples of an earlier run", do), np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}

    def save(self, unit: Unit, content: dict[str, Any]) -> None:
        with replaced(self.directory / unit.name) as temporary, temporary.open("wb") as file:
            np.savez(file, **content)


def digest(X: RowsLike) -> str:
    """Of the population: samples of other rows are not these samples."""
    return Data(X, None, "population").digest(b"")
