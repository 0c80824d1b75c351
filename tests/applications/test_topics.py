"""Coherence by hand on tiny corpora, jointly as pooled; perplexity of models whose perplexity is known."""

from __future__ import annotations

from itertools import combinations
from math import log

import numpy as np
import pytest
import scipy.sparse as sp

from pdml_spdz.applications import topics
from pdml_spdz.errors import InputError

# Words 0 and 1 together in two of four documents, 2 alone in one, 3 nowhere; -1 is a word without a column.
CORPUS = [np.array(document) for document in ([0, -1, 1], [1, 0, 0], [2, -1], [-1])]


def corpus(n: int, length: int, words: int, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.integers(-1, words, size=rng.integers(1, length)) for _ in range(n)]


def slow_windows(documents: list[np.ndarray], size: int) -> list[set[int]]:
    windows = []
    for document in documents:
        count = max(1, len(document) - size + 1)
        windows += [set(document[i : i + size].tolist()) for i in range(count)]
    return windows


def slow_npmi(windows: list[set[int]], a: int, b: int) -> float:
    def share(*words: int) -> float:
        return sum(set(words) <= window for window in windows) / len(windows)

    both = share(a, b) + 1e-12
    return log(both / (share(a) * share(b))) / -log(both)


def test_npmi_by_hand() -> None:
    seen = topics.occurrences(CORPUS, np.array([0, 1, 2]))
    assert seen.windows == 4
    assert seen.together.tolist() == [[2, 2, 0], [2, 2, 0], [0, 0, 1]]
    # P(0, 1) = P(0) = P(1) = 1/2: log(2)/log(2) = 1. P(0, 2) = 0: log(1e-12/(1/8))/-log(1e-12).
    never = log(8e-12) / -log(1e-12)
    assert topics.npmi(np.array([[0, 1]]), seen) == pytest.approx([1.0])
    assert topics.npmi(np.array([[0, 1, 2]]), seen) == pytest.approx([(1.0 + 2 * never) / 3])


def test_words_that_never_or_always_occur() -> None:
    seen = topics.occurrences(CORPUS, np.array([0, 3]))
    assert topics.npmi(np.array([[0, 3]]), seen) == pytest.approx([0.0])
    seen = topics.occurrences([np.array([0, 1])], np.array([0, 1]))
    assert topics.npmi(np.array([[0, 1]]), seen) == pytest.approx([1.0])
    assert topics.c_v(np.array([[0, 1]]), seen) == pytest.approx([1.0])


def test_c_v_by_hand() -> None:
    seen = topics.occurrences(CORPUS, np.array([0, 1, 2]), topics.C_V_WINDOW)
    a = log(8e-12) / -log(1e-12)
    vectors = np.array([[1.0, 1.0, a], [1.0, 1.0, a], [a, a, 1.0]])
    whole = vectors.sum(axis=0)
    cosines = [v @ whole / np.linalg.norm(v) / np.linalg.norm(whole) for v in vectors]
    assert topics.c_v(np.array([[0, 1, 2]]), seen) == pytest.approx([np.mean(cosines)], abs=1e-9)


@pytest.mark.parametrize("size", [1, 4, 110])
def test_windows_are_counted_as_one_by_one(size: int) -> None:
    documents = corpus(40, 150 if size == 110 else 20, 6)
    windows = slow_windows(documents, size)
    seen = topics.occurrences(documents, np.arange(6), size)
    assert seen.windows == len(windows)
    for a, b in combinations(range(6), 2):
        assert seen.together[a, b] == sum({a, b} <= window for window in windows)
    if size > 1:
        wanted = np.mean([slow_npmi(windows, a, b) for a, b in combinations(range(4), 2)])
        assert topics.npmi(np.arange(4)[None, :], seen) == pytest.approx([wanted], abs=1e-9)


def test_coherent_topics_score_higher() -> None:
    rng = np.random.default_rng(0)
    documents = [rng.integers(0, 10, size=30) + 10 * rng.integers(2) for _ in range(60)]
    good = np.arange(20).reshape(2, 10)
    mixed = np.arange(20).reshape(10, 2).T
    seen = topics.occurrences(documents, np.arange(20))
    assert topics.npmi(good, seen).min() > 0.5 > 0 > topics.npmi(mixed, seen).max()
    seen = topics.occurrences(documents, np.arange(20), topics.C_V_WINDOW)
    assert topics.c_v(good, seen).min() > topics.c_v(mixed, seen).max()


def test_top_words_are_the_largest_entries() -> None:
    T = np.array([[0.1, 0.5, 0.1, 0.3], [0.0, 0.0, 1.0, 0.0]])
    assert topics.top_words(T, 3).tolist() == [[1, 3, 0], [2, 0, 1]]
    with pytest.raises(InputError, match="at least the 10"):
        topics.top_words(T)


def test_a_word_that_was_not_counted_is_refused() -> None:
    with pytest.raises(InputError, match="was not counted"):
        topics.npmi(np.array([[0, 5]]), topics.occurrences(CORPUS, np.array([0, 1])))


def test_halves_are_equal_and_make_the_document() -> None:
    counts = sp.csr_array(np.random.default_rng(0).poisson(1.0, size=(30, 12)).astype(float))
    first, second = topics.split_documents(counts, seed=1)
    assert np.array_equal((first + second).toarray(), counts.toarray())
    lengths = counts.sum(axis=1)
    assert np.array_equal(first.sum(axis=1), lengths // 2)
    assert first.min() >= 0
    assert second.min() >= 0
    again = topics.split_documents(counts, seed=2)[0]
    assert not np.array_equal(again.toarray(), first.toarray())
    with pytest.raises(InputError, match="whole numbers"):
        topics.split_documents(counts * 0.5)


def test_perplexity_of_uniform_words_is_their_number() -> None:
    counts = sp.csr_array(np.full((3, 8), 4.0))
    score = topics.log_likelihood(*topics.split_documents(counts), np.full((1, 8), 1 / 8))
    assert score.count == 48
    assert topics.perplexity(score) == pytest.approx(8.0)


def test_perplexity_of_documents_of_one_topic_each() -> None:
    # Two topics on four words each: once W has found the topic, four words are left.
    T = np.kron(np.eye(2), np.full((1, 4), 0.25))
    counts = sp.csr_array(np.kron(np.eye(2), np.full((1, 4), 6.0)))
    score = topics.log_likelihood(*topics.split_documents(counts), T, smoothing=0.2)
    assert topics.perplexity(score) == pytest.approx(1 / (0.8 / 4 + 0.2 / 8))
    # A single word: nothing is known of its document.
    single = topics.split_documents(sp.csr_array(np.eye(8)[:1]))
    assert topics.perplexity(topics.log_likelihood(*single, T)) == pytest.approx(8.0)


def test_perplexity_takes_weights_out_again() -> None:
    rng = np.random.default_rng(0)
    T = rng.dirichlet(np.ones(8), 2)
    weights = rng.uniform(1.0, 3.0, 8)
    # Documents that are exactly 10 (1, 3) T: the fit is exact with and without weights, and so is p.
    whole = sp.csr_array(np.tile(10.0 * np.array([1.0, 3.0]) @ T, (2, 1)))
    plain = topics.log_likelihood(whole, whole, T)
    weighted = topics.log_likelihood(whole, whole, T * weights, weights=weights)
    assert weighted.total == pytest.approx(plain.total, rel=1e-6)


def test_halves_must_fit_the_topics() -> None:
    with pytest.raises(InputError, match="equal shapes"):
        topics.log_likelihood(np.ones((2, 3)), np.ones((2, 3)), np.ones((1, 4)))
    with pytest.raises(InputError, match="smoothing is 0"):
        topics.log_likelihood(np.ones((2, 3)), np.ones((2, 3)), np.ones((1, 3)), smoothing=0.0)
