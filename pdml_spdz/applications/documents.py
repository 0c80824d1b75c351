"""A party's documents as a file of rows, with columns that all parties have agreed on. Local: nothing is sent.

The names of the columns go into the file, and the parties compare them before a run: an agreed list of terms, or hashed
features, of which nobody says which terms it has.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import numpy as np

from pdml_spdz.applications.text import Features, Terms, Vocabulary, columns, term_counts
from pdml_spdz.errors import InputError
from pdml_spdz.rows.base import RowsLike, as_rows
from pdml_spdz.rows.formats import save_npz
from pdml_spdz.system.files import replaced

FORMS = "a directory of text files, .txt (one document a line) or .jsonl (a `text` in each line), also as .gz"


def read(path: Path) -> list[str]:
    """The documents of a directory or a file, in order; empty ones are left out."""
    if not path.exists():
        raise InputError(f"{path} is not there.", FORMS)
    if path.is_dir():
        files = sorted(p for p in path.rglob("*") if p.is_file())
        documents: Iterator[str] = (p.read_text(encoding="utf-8", errors="replace") for p in files)
    else:
        documents = _lines(path)
    found = [document for document in documents if document.strip()]
    if not found:
        raise InputError(f"{path} has no documents.", FORMS)
    return found


def _lines(path: Path) -> Iterator[str]:
    name = path.name.removesuffix(".gz")
    if not name.endswith((".txt", ".jsonl")):
        raise InputError(f"{path} has an ending that is not known.", FORMS)
    opened: Callable[..., IO[str]] = gzip.open if path.name.endswith(".gz") else Path.open
    with opened(path, "rt", encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            if name.endswith(".txt") or not line.strip():
                yield line
                continue
            try:
                yield str(json.loads(line)["text"])
            except (ValueError, KeyError, TypeError):
                raise InputError(f"line {number} of {path} is no JSON object with a `text`.", FORMS) from None


def vocabulary(path: Path, terms: Terms) -> Vocabulary:
    """The agreed list, one word a line, stemmed as the documents are; words of one stem are one column."""
    if not path.is_file():
        raise InputError(f"{path} is not there.", "a file with one agreed word a line")
    found = (term for line in path.read_text(encoding="utf-8").splitlines() for term in terms(line))
    return Vocabulary(tuple(dict.fromkeys(found)))


def names(features: Features, language: str | None) -> tuple[str, ...]:
    """What the columns are called: the parties compare it, so it says all that must be the same."""
    if isinstance(features, Vocabulary):
        return features.terms
    return tuple(f"{language or 'unstemmed'}-{features.d}-{i}" for i in range(features.d))


def counted(documents: list[str], terms: Terms, features: Features) -> tuple[RowsLike, float, Counter[str]]:
    """(n, d) counts, the share of words that have no column, and how often each term was seen."""
    seen: Counter[str] = Counter()

    def watched() -> Iterator[list[str]]:
        for document in documents:
            seen.update(found := terms(document))
            yield found

    found = columns(watched(), features)
    outside = sum(int(np.sum(document < 0)) for document in found)
    return term_counts(found, features.d), outside / max(seen.total(), 1), seen


def save_words(path: Path, words: list[str]) -> None:
    """A word a line, in the order of the columns."""
    with replaced(path) as temporary:
        temporary.write_text("".join(f"{word}\n" for word in words), encoding="utf-8")


def save(path: Path, X: RowsLike, features: tuple[str, ...]) -> None:
    """A sparse .npz file with the names of its columns, as `pdml-spdz nmf` reads it."""
    with replaced(path) as temporary:
        save_npz(temporary, as_rows(X).csr(), features)
