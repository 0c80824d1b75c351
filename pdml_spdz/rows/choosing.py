"""Which columns of a table become which features, and which one says whose row it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from pdml_spdz.errors import InputError, did_you_mean
from pdml_spdz.rows.names import Names, check, listed, quoted
from pdml_spdz.rows.reading import RowsWanted


@dataclass(frozen=True)
class ColumnSource:
    """Column j of the table: a number, or one feature for each of its categories."""

    j: int
    categories: Names | None = None


@dataclass(frozen=True)
class ColumnPlan:
    """What is made of a table's columns.

    names : of all columns of the table
    sources : of the features, in their order
    aside : columns that are kept aside, as texts: identifiers; users and items of triplets
    """

    where: str
    names: Names
    sources: tuple[ColumnSource, ...]
    aside: tuple[int, ...] = ()

    @cached_property
    def features(self) -> Names:
        return tuple(
            name if source.categories is None else f"{name}={category}"
            for source in self.sources
            for name, category in [(self.names[source.j], c) for c in source.categories or ("",)]
        )

    @property
    def d(self) -> int:
        return len(self.features)

    @cached_property
    def read(self) -> tuple[int, ...]:
        """The columns that have to be read, in the order of the table."""
        return tuple(sorted({*self.aside, *(source.j for source in self.sources)}))

    def within(self) -> ColumnPlan:
        """The same of a table that has nothing but the columns that have to be read."""
        place = {j: at for at, j in enumerate(self.read)}
        sources = tuple(ColumnSource(place[source.j], source.categories) for source in self.sources)
        return ColumnPlan(
            self.where, tuple(self.names[j] for j in self.read), sources, tuple(place[j] for j in self.aside)
        )

    @property
    def texts(self) -> set[int]:
        """Columns that are no numbers."""
        return {*self.aside, *(s.j for s in self.sources if s.categories is not None)}

    @property
    def numbers(self) -> list[int]:
        return [source.j for source in self.sources if source.categories is None]


def plan(names: Names, wanted: RowsWanted, where: str) -> ColumnPlan:
    """Which columns are taken, left out, encoded and kept aside; a name that is asked for and not there is an error."""
    own, agreed = wanted.reading, wanted.agreed
    if own.triplets:
        _refuse_unknown(own.triplets, names, "--triplets", where)
        user, item, value = (names.index(name) for name in own.triplets)
        return ColumnPlan(where, names, (ColumnSource(value),), (user, item))
    asked = {"--id-column": [own.id_column] if own.id_column else [], "--columns": agreed.columns}
    asked |= {"--drop": agreed.drop, "--encode": [name for name, _ in agreed.encode]}
    for option, these in asked.items():
        _refuse_unknown(these, names, option, where)
    if own.id_column in {*agreed.columns, *agreed.lists()}:
        found = f"{where}: the column {own.id_column!r} is both an identifier and a feature."
        raise InputError(found, "one of the two", "leave it out of --id-column, or out of --columns and --encode")
    known = wanted.ids in names and wanted.ids not in {*agreed.columns, *agreed.lists()}
    ids = own.id_column or (wanted.ids if known else "")
    aside = (names.index(ids),) if ids else ()
    place, categories = {name: j for j, name in enumerate(names)}, agreed.lists()
    order = [place[name] for name in agreed.columns] or [j for j, name in enumerate(names) if name not in agreed.drop]
    made = ColumnPlan(
        where, names, tuple(ColumnSource(j, categories.get(names[j])) for j in order if j not in aside), aside
    )
    taken = tuple(names[source.j] for source in made.sources)
    check(taken, len(taken), where)
    check(made.features, made.d, where)
    if not taken:
        raise InputError(f"{where} has no columns left to be features.", "at least one", "check --columns and --drop")
    return made


def _refuse_unknown(asked: Sequence[str], names: Names, option: str, where: str) -> None:
    known = set(names)
    unknown = [name for name in asked if name not in known]
    if unknown:
        hint = did_you_mean(unknown[0], names)
        raise InputError(
            f"{where} has no column {quoted(unknown)}, which {option} names.",
            f"names among {listed(names)}",
            hint or "check the spelling: capitals and spaces count",
        )
    twice = [name for name in asked if names.count(name) > 1] if len(known) < len(names) else []
    if twice and option != "--drop":  # which leaves out all of them
        found = f"{where} has several columns called {quoted(twice)}, which {option} names."
        raise InputError(found, "distinct names", "rename one of them")
