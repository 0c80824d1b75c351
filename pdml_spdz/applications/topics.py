"""How good topics are: coherence of their top words, perplexity of held-out documents; alone, or jointly by SecSum."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from pdml_spdz.algorithms.rri import MakePart, Penalties, part
from pdml_spdz.applications.low_rank import Score
from pdml_spdz.applications.text import Columns
from pdml_spdz.errors import InputError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.rows.base import RowsLike, as_rows

TOP = 10  # words of a topic that coherence looks at
C_V_WINDOW = 110
EPSILON = 1e-12  # Roeder et al.: keeps the logarithm of no common window finite
ENTRIES = 1 << 17  # probabilities are computed so many at a time


def top_words(T: Reals, count: int = TOP) -> Columns:
    """(k, count): the columns of each topic's largest entries, largest first (of equal ones the first column)."""
    if T.shape[1] < count:
        raise InputError(f"topics have {T.shape[1]} features.", f"at least the {count} whose coherence is wanted")
    return np.argsort(-T, axis=1, kind="stable")[:, :count]


@dataclass(frozen=True)
class Occurrences:
    """words : (u,) columns, sorted; together : (u, u), windows that have both words (on the diagonal: that have one);
    windows : how many there are
    """

    words: Columns
    together: Reals
    windows: int


def occurrences(documents: Iterable[Columns], words: Columns, window: int | None = None) -> Occurrences:
    """Count, in one party's documents, the windows of so many words in a row that have each pair of `words`. Local.

    documents : columns of the terms in their order, -1 for a term without one (`text.columns`)
    window : a document that is no longer is one window; None: every document is
    """
    words = np.unique(words)
    together, windows = np.zeros((len(words), len(words))), 0
    for document in documents:
        if len(document) == 0:
            continue
        size = len(document) if window is None else min(window, len(document))
        count = len(document) - size + 1
        index = np.minimum(np.searchsorted(words, document), len(words) - 1)
        places = np.flatnonzero(words[index] == document)
        found, which = np.unique(index[places], return_inverse=True)
        # A word at place p is in the windows that begin at p - size + 1 .. p, as far as there are such.
        begins = np.zeros((count + 1, len(found)), np.int64)
        np.add.at(begins, (np.maximum(places - size + 1, 0), which), 1)
        np.add.at(begins, (np.minimum(places, count - 1) + 1, which), -1)
        has = (np.cumsum(begins, axis=0)[:-1] > 0).astype(np.float64)
        together[np.ix_(found, found)] += has.T @ has
        windows += count
    return Occurrences(words, together, windows)


def npmi_matrix(seen: Occurrences, words: Columns) -> Reals:
    """log(P(i, j)/(P(i) P(j))) / -log P(i, j) for all pairs of `words`; 0 where a word never occurs.

    A pair that every window has would be 0/0: it counts 1, as every pair that occurs only together.
    """
    if seen.windows == 0:
        raise InputError("there are no documents to count words in.", "at least one document with a word")
    index = np.searchsorted(seen.words, words)
    if not np.array_equal(seen.words[np.minimum(index, len(seen.words) - 1)], words):
        raise InputError("a topic has a word that was not counted.", "occurrences of the top words of all topics")
    P = seen.together[np.ix_(index, index)] / seen.windows
    p = np.diag(P)
    joint = np.minimum(P + EPSILON, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.log(joint / np.outer(p, p)) / -np.log(joint)
    value = np.where(P >= 1.0, 1.0, value)
    return np.where(np.outer(p, p) > 0, value, 0.0)


def npmi(topics: Columns, seen: Occurrences) -> Reals:
    """(k,): the mean NPMI of all pairs of each topic's words; from occurrences in documents (window None).

    Ref: Roeder, Both, Hinneburg, WSDM 2015 (C_NPMI with Boolean documents).
    """
    pairs = np.triu_indices(topics.shape[1], 1)
    return np.array([npmi_matrix(seen, words)[pairs].mean() for words in topics])


def c_v(topics: Columns, seen: Occurrences) -> Reals:
    """(k,): the mean cosine between each word's vector of NPMIs and the sum of all words' vectors.

    `seen` comes from windows of 110 words. Ref: Roeder, Both, Hinneburg, WSDM 2015 (C_V).
    """
    coherence = []
    for words in topics:
        vectors = npmi_matrix(seen, words)
        whole = vectors.sum(axis=0)
        lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(whole)
        cosines = np.divide(vectors @ whole, lengths, out=np.zeros(len(words)), where=lengths > 0)
        coherence.append(cosines.mean())
    return np.array(coherence)


def split_documents(counts: RowsLike, seed: int = 0) -> tuple[RowsLike, RowsLike]:
    """(first, second) half of every document's words, at random; an odd word is in the second. Local."""
    counts = as_rows(counts).csr()
    times = counts.data.astype(np.int64)
    if np.any(times != counts.data) or np.any(times < 0):
        raise InputError("the counts are not whole numbers.", "how often each word occurs, before any weighting")
    entry = np.repeat(np.arange(counts.nnz), times)
    row = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))[entry]
    order = np.lexsort((np.random.default_rng(seed).random(len(entry)), row))
    lengths = np.bincount(row, minlength=counts.shape[0])
    place = np.arange(len(entry)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    first = order[place < np.repeat(lengths // 2, lengths)]
    taken = np.bincount(entry[first], minlength=counts.nnz).astype(np.float64)
    halves = [
        sp.csr_array((data, counts.indices, counts.indptr), shape=counts.shape) for data in (taken, times - taken)
    ]
    return halves[0], halves[1]


def log_likelihood(
    first: RowsLike,
    second: RowsLike,
    T: Reals,
    *,
    weights: Reals | None = None,
    smoothing: float = 0.01,
    make: MakePart = part,
) -> Score:
    """Sum of ln p(word) over the words of `second`, p from W fitted to `first`; `perplexity` of it is the measure.

    1. W <- argmin ||first - W T||_F, W >= 0
    2. p_i <- (1 - smoothing) (W T)_i / sum (W T)_i + smoothing / d, for each document i

    weights : (d,), what counts were multiplied by before T was learnt (IDF): the fit is made with them, and p without
    smoothing : T has zeros, and a word that a topic model holds impossible would make all of it worthless

    Reveals: nothing; `score.joint` of it shows the sum over all parties. Cost: nothing is sent.
    Ref: [PDML §Experiments: perplexity], Griffiths, Steyvers, PNAS 2004.
    """
    d = T.shape[1]
    if not 0.0 < smoothing <= 1.0:
        raise InputError(f"smoothing is {smoothing}.", "above 0 and at most 1")
    if first.shape != second.shape or first.shape[1] != d:
        raise InputError(f"the halves are {first.shape} and {second.shape}, T has {d} features.", "equal shapes")
    w = np.ones(d) if weights is None else weights
    local = make(as_rows(first).csr().multiply(w[None, :]), len(T))
    local.fit(T, Penalties())
    words = np.divide(T, w, out=np.zeros_like(T), where=w > 0)
    sizes = local.W @ words.sum(axis=1)
    W, by_word = np.ascontiguousarray(local.W), np.ascontiguousarray(words.T)  # a row for each entry that is looked up
    scored = as_rows(second).csr().tocoo()
    total = 0.0
    for begin in range(0, scored.nnz, ENTRIES):
        chosen = slice(begin, begin + ENTRIES)
        rows, columns, times = scored.row[chosen], scored.col[chosen], scored.data[chosen]
        share = np.einsum("ek,ek->e", W[rows], by_word[columns])
        size = sizes[rows]
        p = np.divide(share, size, out=np.full(len(share), 1.0 / d), where=size > 0)  # nothing known: any word
        total += float(times @ np.log((1.0 - smoothing) * p + smoothing / d))
    return Score(total, round(float(scored.data.sum())))


def perplexity(likelihood: Score) -> float:
    """exp of minus the mean of ln p: how many equally likely words the model hesitates between."""
    return float(np.exp(-likelihood.mean))
