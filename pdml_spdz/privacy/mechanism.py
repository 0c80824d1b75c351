"""What KSDP measures: a mechanism makes observables of a victim's database; statistics make numbers of them."""

from __future__ import annotations

import importlib.util
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from pdml_spdz.errors import InputError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.rows.base import RowsLike

Observables: TypeAlias = Mapping[str, Any]
# A statistic is a plain function of what is seen and of the record x (d,): a number, or several by name.
Statistic: TypeAlias = Callable[[Observables, Reals], float | Mapping[str, float]]
Content: TypeAlias = dict[str, Any]  # arrays of one sample, as they are stored

USER = "user"


class Mechanism(ABC):
    """The protocol as one coalition sees it, with the other parties' rows fixed.

    Names of statistics are "<view>/<name>": a view is what one kind of observer sees, and each view is judged alone.
    A sample is one random database: `sample_without` observes it as it is, `sample_with` with one more row, for each of
    several records. Both return arrays, of which `observables` makes what statistics get.
    """

    name: str

    @abstractmethod
    def sample_without(self, X: RowsLike, rng: np.random.Generator) -> Content: ...

    @abstractmethod
    def sample_with(self, X: RowsLike, records: RowsLike, rng: np.random.Generator) -> Content: ...

    @abstractmethod
    def observables(self, content: Content, i: int | None, x: Reals) -> Observables:
        """Of record i in a sample with it, or (None) of a sample without any of the records."""

    @abstractmethod
    def statistics(self, seen: Observables, x: Reals) -> dict[str, float]:
        """The built-in statistics, of all views."""

    def features(self, seen: Observables, x: Reals) -> dict[str, Reals]:
        """For each view numbers that a learned attacker gets besides the statistics."""
        return {}

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """What identifies the mechanism, for the report and for resuming."""


def load_statistic(spec: str) -> Statistic:
    """The function that "path/to/file.py:name" or "package.module:name" names."""
    where, colon, name = spec.rpartition(":")
    if not colon:
        raise InputError(f"the statistic is {spec!r}.", "file.py:function or module:function")
    try:
        if where.endswith(".py"):
            path = Path(where).resolve()
            found = importlib.util.spec_from_file_location(f"pdml_spdz_statistic_{path.stem}", path)
            assert found is not None
            assert found.loader is not None
            module = importlib.util.module_from_spec(found)
            sys.modules[found.name] = module
            found.loader.exec_module(module)
        else:
            module = importlib.import_module(where)
        function: Statistic = getattr(module, name)
    except (OSError, ImportError, AttributeError) as error:
        raise InputError(f"the statistic {spec!r} cannot be loaded ({error}).", "file.py:function") from None
    return function


def evaluate(
    mechanism: Mechanism, user: Sequence[Statistic], seen: Observables, x: Reals, where: str
) -> dict[str, float]:
    """All statistics of one record in one sample; NaN ends the measurement and says where it comes from."""
    values = dict(mechanism.statistics(seen, x))
    for statistic in user:
        name = getattr(statistic, "__name__", "statistic")
        found = statistic(seen, x)
        if isinstance(found, Mapping):
            values |= {f"{USER}/{name} {key}": float(value) for key, value in found.items()}
        else:
            values[f"{USER}/{name}"] = float(found)
    for name, value in values.items():
        if not np.isfinite(value):
            raise InputError(
                f"the statistic {name!r} is {value} for {where}.",
                "a finite number for every record and sample",
                "let the statistic return a number there, or leave it out",
            )
    return values
