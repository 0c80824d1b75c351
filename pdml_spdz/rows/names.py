"""Names of columns: what is a name, and which column of one table is which of another."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.errors import InputError

Names: TypeAlias = tuple[str, ...]
SHOWN = 5  # names that a message lists
INDEX = re.compile(r"Unnamed: \d+|__index_level_\d+__")  # what pandas calls an index that has no name
NO_INDEX = "leave the index of pandas out (index=False), or give the column a name if it is a feature"


def listed(names: Iterable[object], total: int | None = None) -> str:
    """The first names, and how many more there are."""
    texts = [n if isinstance(n, str) else repr(n) for n in names]
    more = (len(texts) if total is None else total) - SHOWN
    return ", ".join(texts[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def quoted(names: Iterable[str]) -> str:
    return listed([repr(name) for name in names])


def column(names: Names | None, j: int) -> str:
    """What a message calls column j."""
    return f"column {j + 1}" if names is None else f"column {names[j]!r}"


def check(names: Names, d: int, where: str) -> None:
    """One name for each of d columns, all different, none of them that of an index."""
    if len(names) != d:
        raise InputError(f"{where} names {len(names)} features for {d} columns.", "one name for each column")
    unnamed = [str(j + 1) for j, name in enumerate(names) if not name.strip()]
    if unnamed:
        last = unnamed == [str(d)] and d > 1
        do = "take the separators at the end of the lines out, or give that column a name" if last else NO_INDEX
        raise InputError(f"{where} has columns without a name: number {listed(unnamed)}.", "a name for each", do)
    refuse_index([name for name in names if INDEX.fullmatch(name)], where)
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InputError(f"{where} names features twice: {listed(sorted(twice))}.", "distinct names")


def refuse_index(found: Sequence[str], where: str) -> None:
    if found:
        raise InputError(f"{where} has an index of pandas among its columns: {quoted(found)}.", "features", NO_INDEX)


def positions(own: Names, wanted: Names, where: str, whose: str) -> NDArray[np.int64]:
    """Where each name that is wanted is among `own`; both must be the same names, in whatever order."""
    place = {name: j for j, name in enumerate(own)}
    missing = [name for name in wanted if name not in place]
    extra = sorted(set(own) - set(wanted))
    if missing or extra:
        said = [f"{what}: {quoted(names)}" for what, names in (("missing", missing), ("not known", extra)) if names]
        found = f"{where} has other names than {whose}; {'; '.join(said)}."
        raise InputError(found, "the same names, in any order", look_alike(missing, extra))
    return np.array([place[name] for name in wanted], np.int64)


def look_alike(some: Iterable[str], others: Iterable[str]) -> str:
    """What to do about names that a person may take for the same; nothing if there are none."""
    seen = {_looks(name): name for name in some}
    pairs = [(seen[looks], name) for name in others if (looks := _looks(name)) in seen]
    if not pairs:
        return ""
    said = ", ".join(f"{a!a} and {b!a}" for a, b in pairs[:SHOWN])
    return f"write names alike: {said} differ in capitals, spaces, signs that are not seen, or how accents are written"


def _looks(name: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFKC", name).casefold() if c.isalnum())


def digest(names: Sequence[str], key: bytes) -> str:
    """Of a list, for those who have the same key: of no use in a table, and another in every run."""
    return hashlib.blake2b(json.dumps(list(names)).encode(), key=key, digest_size=32).hexdigest()
