"""The data sets of the paper, from a directory that the user names. Nothing of them is part of this project."""

from __future__ import annotations

import csv
import gzip
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from pdml_spdz.applications.text import Columns, Terms, Vocabulary, columns
from pdml_spdz.fixedpoint import Reals
from pdml_spdz.linalg import Rows


@dataclass(frozen=True)
class Official:
    """file : the name that is looked for; where : what to fetch, and how to name it"""

    file: str
    where: str


OFFICIAL = {
    "20NG": Official(
        "newsgroups20.jsonl.gz",
        "20 Newsgroups (20_newsgroups.tar.gz, UCI KDD archive): one JSON line a post with its `text`",
    ),
    "Enron": Official(
        "enron_mail.jsonl.gz", "Enron mail (CMU, enron_mail_20150507.tar.gz): one JSON line a mail, `text`"
    ),
    "Reuters": Official("reuters21578.jsonl.gz", "Reuters-21578 (reuters21578.tar.gz): one JSON line a story, `body`"),
    "ML-1M": Official("movielens1m_ratings.csv.gz", "MovieLens 1M (ml-1m.zip, ratings.dat) as user,movie,rating"),
    "News": Official("online_news.csv.gz", "Online News Popularity (UCI 332) with its header; the target is `shares`"),
    "Songs": Official("million_songs_subset.csv.gz", "YearPredictionMSD (UCI 203) with a header; the target is `year`"),
    "Blogs": Official(
        "blog_feedback.csv.gz", "BlogFeedback (UCI 304), blogData_train.csv; the target is the last column"
    ),
}


def missing(directory: Path) -> list[str]:
    """What is not there, what to fetch for it and where to put it."""
    return [
        f"{name}: {directory / o.file} is missing. Fetch {o.where}"
        for name, o in OFFICIAL.items()
        if not (directory / o.file).is_file()
    ]


def has(directory: Path, name: str) -> bool:
    return (directory / OFFICIAL[name].file).is_file()


@dataclass(frozen=True)
class Corpus:
    """documents : each as the columns of its terms, in their order; d : number of terms"""

    documents: list[Columns]
    d: int


@cache
def corpus(directory: Path, name: str, terms: int, limit: int) -> Corpus:
    """Stemmed words without stop words; the vocabulary is the most frequent ones, a public list.

    limit : so many documents at most, spread over the file; 0: all
    """
    make = Terms()
    texts = [text for text in _texts(directory / OFFICIAL[name].file) if text.strip()]
    step = max(1, len(texts) // limit) if limit else 1
    documents = [make(text) for text in texts[::step]]
    frequency = Counter(term for document in documents for term in set(document))
    # Terms of one document only say nothing of a topic, those of every second one neither.
    kept = [t for t, c in frequency.most_common() if 3 <= c <= len(documents) / 2][:terms]
    found = columns(documents, Vocabulary(tuple(kept)))
    return Corpus([document for document in found if np.sum(document >= 0) >= 10], len(kept))


def _texts(path: Path) -> Iterator[str]:
    with gzip.open(path, "rt", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            record = json.loads(line)
            text = str(record.get("text") or record.get("body") or "")
            # Mail and news have headers, which are not what a document is about.
            head, blank, body = text.replace("\r\n", "\n").partition("\n\n")
            yield body if blank and ":" in head.split("\n")[0] else text


@cache
def ratings(directory: Path) -> Rows:
    """(users, movies) CSR; what is not stored was not rated."""
    table = np.loadtxt(directory / OFFICIAL["ML-1M"].file, delimiter=",", skiprows=1, dtype=np.int64)
    users, rows = np.unique(table[:, 0], return_inverse=True)
    movies, places = np.unique(table[:, 1], return_inverse=True)
    return sp.csr_array((table[:, 2].astype(np.float64), (rows, places)), shape=(len(users), len(movies)))


@cache
def regression_table(directory: Path, name: str, limit: int) -> tuple[Reals, Reals]:
    """(X, y), columns scaled to deviation 1 by public constants; large targets by their logarithm."""
    path = directory / OFFICIAL[name].file
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = list(csv.reader(lines))
    if name == "Blogs":
        table = np.array(rows, np.float64)
        X, y = table[:, :-1], np.log1p(table[:, -1])
    else:
        head = rows[0]
        target = {"News": "shares", "Songs": "year"}[name]
        used = [i for i, c in enumerate(head) if c.strip() not in ("source", "url", "timedelta", target)]
        X = np.array([[float(row[i]) for i in used] for row in rows[1:]])
        y = np.array([float(row[[c.strip() for c in head].index(target)]) for row in rows[1:]])
        y = np.log(y) if name == "News" else y
    if limit and len(X) > limit:
        kept = np.random.default_rng(0).permutation(len(X))[:limit]
        X, y = X[kept], y[kept]
    deviation = X.std(axis=0)
    return X[:, deviation > 0] / deviation[deviation > 0], y
