"""How a party's file becomes rows: what the party says of its own file, and what all parties agree on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from pdml_spdz.errors import StudyError, did_you_mean
from pdml_spdz.rows.names import Names, quoted

PARTYS = re.compile(r"(\d{1,4})=(.+)")  # what is said for one party
Categories: TypeAlias = tuple[tuple[str, Names], ...]  # of each column that is encoded
REFUSE, DROP_ROWS, MEAN = MISSING = ("refuse", "drop-rows", "mean")
SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t"}
DECIMALS = {"point": ".", "comma": ","}
ENCODINGS = {"utf-8": "utf-8-sig", "utf-16": "utf-16", "latin-1": "latin-1"}  # as Python calls them


@dataclass(frozen=True)
class RowSettings:
    """What changes the features, and so is the same at every party: part of the study.

    columns : names of the columns that are taken, in this order; (): all
    drop : names of columns that are left out
    encode : for a column of categories, by its name, the list of them: a feature of zeros and ones for each
    missing : what becomes of missing values: "refuse", "drop-rows" (rows that have any are left out), or "mean" (the
        mean of all parties' values of that column, by SecSum: sums and counts are seen by every party)
    """

    columns: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    encode: Categories = ()
    missing: str = REFUSE

    def __post_init__(self) -> None:
        for name in ("columns", "drop"):
            object.__setattr__(self, name, _names(getattr(self, name), name))
        object.__setattr__(self, "encode", _categories(self.encode))
        _check(self)

    @property
    def plain(self) -> bool:
        """Columns are taken as they are."""
        return not (self.columns or self.drop or self.encode)

    def lists(self) -> dict[str, Names]:
        """The categories by column."""
        return dict(self.encode)


@dataclass(frozen=True)
class Reading:
    """What one party says of its own file; nobody else hears of it.

    sep : what stands between columns: "comma", "semicolon", "tab"; "": found in the first line
    decimal : what stands before the decimals: "point" or "comma"
    encoding : "utf-8", "utf-16" or "latin-1"; "": UTF-8, or UTF-16 where the file's first bytes say so
    id_column : name of the column that says whose row it is: kept aside, never a feature
    triplets : names of the columns of a file with one entry a line: row, feature, value
    exclude : files that name rows to be left out, one a line, by their ids or their numbers from 0; "I=FILE" is for
        party I alone
    dask : where the workers are (`rows.cluster`), for rows that are not loaded whole; "": threads of this process
    dask_plaintext : allow a scheduler beyond this machine without TLS
    dask_certs : directory with ca.pem, cert.pem and key.pem for a scheduler with TLS
    """

    sep: str = ""
    decimal: str = "point"
    encoding: str = ""
    id_column: str = ""
    triplets: Names = ()
    exclude: Names = ()
    dask: str = ""
    dask_plaintext: bool = False
    dask_certs: str = ""

    def __post_init__(self) -> None:
        for name, known in (("sep", SEPARATORS), ("decimal", DECIMALS), ("encoding", ENCODINGS)):
            value = getattr(self, name)
            if value and value not in known:
                signs = {sign: word for word, sign in known.items()}
                if value not in signs:
                    wanted, hint = f"one of {', '.join(known)}", did_you_mean(value, known)
                    raise StudyError(f"`{name}` is {value!r}.", wanted, hint)
                object.__setattr__(self, name, signs[value])
        if self.triplets and len(set(self.triplets)) != 3:
            found = f"`triplets` is {', '.join(self.triplets)!r}."
            raise StudyError(found, "the names of three columns: row, feature, value")
        if DECIMALS[self.decimal] == SEPARATORS.get(self.sep):
            raise StudyError("`sep` and `decimal` are both a comma.", "two different signs")

    def of(self, party: int) -> Reading:
        """As it is for one party: without what is said for others."""
        told = [(PARTYS.fullmatch(text), text) for text in self.exclude]
        own = tuple(found[2] if found else text for found, text in told if not found or int(found[1]) == party)
        return replace(self, exclude=own)

    def options(self) -> list[str]:
        """As words of a command line."""
        given = {name: getattr(self, name) for name in type(self).__dataclass_fields__}
        usual = type(self)()
        words: list[str] = []
        for name, value in given.items():
            if value == getattr(usual, name):
                continue
            option = f"--{name.replace('_', '-')}"
            if name == "exclude":
                words += [word for path in value for word in (option, path)]
                continue
            words += [option] if value is True else [option, ",".join(value) if name == "triplets" else str(value)]
        return words


READ_AS_FOUND = Reading()


@dataclass(frozen=True)
class RowsWanted:
    """What is wanted of a file or a table: as its party reads it, as all parties agreed.

    features : names that the study lists; of triplets, which feature is which column
    ids : the column of identifiers of an earlier run: kept aside where it is there and its party names none
    """

    reading: Reading = field(default_factory=Reading)
    agreed: RowSettings = field(default_factory=RowSettings)
    features: Names = ()
    ids: str = ""


def _names(given: Any, what: str) -> Names:
    if isinstance(given, str) or not isinstance(given, Sequence) or not all(isinstance(name, str) for name in given):
        raise StudyError(f"`rows.{what}` is {given!r}.", "a list of names")
    return tuple(given)


def _categories(given: Any) -> Categories:
    pairs = given.items() if isinstance(given, Mapping) else given
    try:
        return tuple((str(name), _names(list(values), f"encode.{name}")) for name, values in pairs)
    except (TypeError, ValueError):
        raise StudyError(f"`rows.encode` is {given!r}.", "for each column a list of its categories") from None


def _check(agreed: RowSettings) -> None:
    encoded, taken = agreed.lists(), agreed.columns
    if agreed.missing not in MISSING:
        hint = did_you_mean(agreed.missing, MISSING)
        raise StudyError(f"`rows.missing` is {agreed.missing!r}.", f"one of {', '.join(MISSING)}", hint)
    for what, names in (("columns", taken), ("drop", agreed.drop), ("encode", [name for name, _ in agreed.encode])):
        if len(set(names)) != len(names):
            raise StudyError(f"`rows.{what}` has a name twice.", "distinct names")
    both = sorted(set(agreed.drop) & {*taken, *encoded})
    if both:
        raise StudyError(f"`rows.drop` has columns that are asked for elsewhere: {quoted(both)}.", "one of the two")
    left = [name for name in encoded if taken and name not in taken]
    if left:
        raise StudyError(f"`rows.encode` has columns that `rows.columns` has not: {quoted(left)}.", "both, or neither")
    for name, values in encoded.items():
        if not values or len(set(values)) != len(values) or not all(value.strip() for value in values):
            wanted = "distinct categories, none of them empty"
            raise StudyError(f"`rows.encode` of {name!r} is {list(values)!r}.", wanted)
