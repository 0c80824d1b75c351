"""From documents to rows: words, stems, columns that the parties agree on without showing documents, TF-IDF.

A file of rows has the names of its columns, and the parties compare them before a run: an agreed list of terms, or
hashed features, of which nobody says which terms it has. Words are stemmed by Snowball: pip install snowballstemmer.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pdml_spdz.errors import InputError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.rows.base import RowsLike, as_rows
from pdml_spdz.rows.formats import save_npz
from pdml_spdz.system.files import replaced

WORD = re.compile(r"[^\W\d_]{2,}")  # two letters or more of any alphabet

Columns = NDArray[np.int64]


@cache
def stop_words() -> frozenset[str]:
    """English words that say nothing of a document's topic: the list in this package."""
    text = resources.files("pdml_spdz.applications").joinpath("stop_words.txt").read_text(encoding="utf-8")
    return frozenset(text.split())


def tokenise(text: str) -> list[str]:
    """The words of a text in lower case, in their order."""
    return WORD.findall(text.lower())


def _stemmer(language: str) -> Any:
    try:
        import snowballstemmer
    except ImportError:
        found = "stemming needs the package snowballstemmer, which is not installed."
        do = "pip install snowballstemmer, or leave words as they are (--language none)"
        raise InputError(found, do=do) from None
    if language not in (known := sorted(snowballstemmer.algorithms())):
        raise InputError(f"there is no stemmer for {language!r}.", f"one of {', '.join(known)}, or none")
    return snowballstemmer.stemmer(language)


class Terms:
    """Documents as terms: words without stop words, stemmed (Snowball). Local; one for each thread, it remembers stems.

    language : of the stemmer, or None to leave words as they are
    """

    def __init__(self, language: str | None = "english", stop: frozenset[str] | None = None) -> None:
        self.stop = stop_words() if stop is None else stop
        self._stemmer = None if language is None else _stemmer(language)
        self._known: dict[str, str] = {}

    def __call__(self, text: str) -> list[str]:
        return [self._stem(word) for word in tokenise(text) if word not in self.stop]

    def _stem(self, word: str) -> str:
        if self._stemmer is None:
            return word
        if word not in self._known:
            self._known[word] = str(self._stemmer.stemWord(word))
        return self._known[word]


class Features(Protocol):
    """Which column a term counts in; the same at every party."""

    @property
    def d(self) -> int: ...

    def column(self, term: str) -> int:
        """From 0 to d - 1, or -1 for a term that counts nowhere."""
        ...


@dataclass(frozen=True)
class Vocabulary:
    """Columns for the terms of a public list, which the parties agreed on."""

    terms: tuple[str, ...]
    _columns: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        columns = {term: i for i, term in enumerate(self.terms)}
        if len(columns) != len(self.terms) or not columns:
            raise InputError(f"the vocabulary has {len(self.terms)} terms, {len(columns)} distinct.", "distinct terms")
        object.__setattr__(self, "_columns", columns)

    @property
    def d(self) -> int:
        return len(self.terms)

    def column(self, term: str) -> int:
        return self._columns.get(term, -1)


@dataclass(frozen=True)
class Hashed:
    """Columns by a public hash of the term: all parties have the same, and none has said which terms it has.

    Terms may share a column: of v terms about v^2/(2 d) pairs do.
    """

    d: int

    def column(self, term: str) -> int:
        return int.from_bytes(hashlib.blake2b(term.encode(), digest_size=8).digest(), "little") % self.d


def columns(documents: Iterable[Sequence[str]], features: Features) -> list[Columns]:
    """Each document as the columns of its terms, in their order; -1 for a term that has none. Local."""
    known: dict[str, int] = {}

    def column(term: str) -> int:
        if term not in known:
            known[term] = features.column(term)
        return known[term]

    return [np.array([column(term) for term in document], np.int64) for document in documents]


def term_counts(documents: Sequence[Columns], d: int) -> RowsLike:
    """(n, d) CSR: how often each document has a term of each column. Local."""
    kept = [document[document >= 0] for document in documents]
    rows = np.repeat(np.arange(len(kept)), [len(document) for document in kept])
    places = np.concatenate([*kept, np.zeros(0, np.int64)])
    counts = sp.coo_array((np.ones(len(rows)), (rows, places)), shape=(len(kept), d)).tocsr()
    counts.sum_duplicates()
    return counts


def column_words(seen: Counter[str], features: Features) -> list[str]:
    """For each column the most frequent of the seen terms in it, or none: to read topics by. Local; shows own terms."""
    words = [""] * features.d
    for term, _ in sorted(seen.items(), key=lambda item: (-item[1], item[0])):
        column = features.column(term)
        if column >= 0 and not words[column]:
            words[column] = term
    return words


def document_frequencies(counts: RowsLike) -> tuple[Reals, int]:
    """(df, n): in how many of a party's own n documents each column occurs. Local."""
    present = as_rows(counts).present()
    return np.bincount(present.indices, minlength=counts.shape[1]).astype(np.float64), counts.shape[0]


def idf(df: Reals, n: int, *, smooth: bool = True) -> Reals:
    """(d,): ln((1 + n)/(1 + df)) + 1, or ln(n/df) + 1 (df = 0 counts as 1). From local or global frequencies.

    Ref: as in scikit-learn's TfidfTransformer.
    """
    ratio = (1.0 + n) / (1.0 + df) if smooth else n / np.maximum(df, 1.0)
    return np.asarray(np.log(ratio) + 1.0)


def tf_idf(counts: RowsLike, weights: Reals, *, sublinear: bool = False, unit_rows: bool = True) -> RowsLike:
    """counts times weights, column by column, rows scaled to length 1; `sublinear`: 1 + ln(count) for count. Local."""
    rows = as_rows(counts).csr().copy()
    if rows.shape[1] != len(weights):
        raise InputError(f"there are {len(weights)} weights for {rows.shape[1]} columns.", "one for each column")
    rows.eliminate_zeros()
    if sublinear:
        rows.data = 1.0 + np.log(rows.data)
    rows.data *= weights[rows.indices]
    if unit_rows:
        lengths = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1))).reshape(-1)
        rows.data /= np.repeat(np.where(lengths > 0, lengths, 1.0), np.diff(rows.indptr))
    return rows


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
