"""Documents to rows: against scikit-learn's counts and TF-IDF, and jointly against the pooled corpus."""

from __future__ import annotations

import sys
from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer

from pdml_spdz.applications import text
from pdml_spdz.errors import InputError

DOCUMENTS = [
    "The striker scored; the goalkeeper's gloves were running away from goals, goals and goals.",
    "Banks and bankers: interest rates rise, and banking markets fall!",
    "Über-markets aren't what 1990s traders traded. Goals?",
    "the of and",
]


def test_words_are_letters_in_lower_case() -> None:
    assert text.tokenise("A Über-goal, 3 x_y: isn't") == ["über", "goal", "isn"]


def test_terms_are_stemmed_and_without_stop_words() -> None:
    terms = text.Terms()
    assert terms("They were running; the runner runs") == ["run", "runner", "run"]
    assert terms(DOCUMENTS[3]) == []
    assert text.Terms(None, frozenset({"goals"}))("Goals scored") == ["scored"]


def test_stop_words_are_words_that_the_tokeniser_makes() -> None:
    assert len(text.stop_words()) > 250
    assert all(text.tokenise(word) == [word] for word in text.stop_words() - {"a"})


def test_unknown_language_is_refused() -> None:
    with pytest.raises(InputError, match="no stemmer for 'klingon'"):
        text.Terms("klingon")


def test_counts_equal_scikit_learn() -> None:
    theirs = CountVectorizer(analyzer=text.Terms())
    wanted = theirs.fit_transform(DOCUMENTS)
    vocabulary = text.Vocabulary(tuple(theirs.get_feature_names_out()))
    own = text.columns(map(text.Terms(), DOCUMENTS), vocabulary)
    assert np.array_equal(text.term_counts(own, vocabulary.d).toarray(), wanted.toarray())


def test_terms_outside_the_vocabulary_keep_their_place() -> None:
    (columns,) = text.columns([["b", "x", "a"]], text.Vocabulary(("a", "b")))
    assert columns.tolist() == [1, -1, 0]
    assert text.term_counts([columns], 2).toarray().tolist() == [[1.0, 1.0]]


def test_a_vocabulary_has_distinct_terms() -> None:
    with pytest.raises(InputError, match="2 terms, 1 distinct"):
        text.Vocabulary(("a", "a"))


def test_hashed_columns_are_the_same_everywhere_and_for_ever() -> None:
    # blake2b of 8 bytes, little endian, mod d: parties of any version and machine must agree.
    features = text.Hashed(1000)
    assert [features.column(term) for term in ("goal", "über")] == [381, 71]
    spread = np.bincount([text.Hashed(10).column(str(i)) for i in range(1000)], minlength=10)
    assert spread.min() > 60


def test_column_words_are_the_most_frequent_seen_terms() -> None:
    assert text.column_words(Counter("bab"), text.Hashed(1)) == ["b"]
    assert text.column_words(Counter("ba"), text.Hashed(1)) == ["a"]  # of equal ones the first of the alphabet
    assert text.column_words(Counter("zb"), text.Vocabulary(("a", "b"))) == ["", "b"]


@pytest.mark.parametrize("smooth", [True, False])
@pytest.mark.parametrize("sublinear", [True, False])
@pytest.mark.parametrize("norm", ["l2", None])
def test_tf_idf_equals_scikit_learn(smooth: bool, sublinear: bool, norm: str | None) -> None:
    table = np.random.default_rng(0).poisson(0.7, size=(20, 9)).astype(float)
    table[3] = 0.0  # a document without words
    counts = sp.csr_array(table)
    wanted = TfidfTransformer(norm=norm, smooth_idf=smooth, sublinear_tf=sublinear).fit_transform(counts)
    weights = text.idf(*text.document_frequencies(counts), smooth=smooth)
    ours = text.tf_idf(counts, weights, sublinear=sublinear, unit_rows=norm == "l2")
    np.testing.assert_allclose(ours.toarray(), wanted.toarray(), rtol=1e-12)


def test_without_the_stemmer_it_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "snowballstemmer", None)
    assert text.Terms(None)("Some words") == ["words"]
    with pytest.raises(InputError, match=r"needs the package snowballstemmer[^$]*pip install snowballstemmer"):
        text.Terms()


def test_weights_fit_the_columns() -> None:
    with pytest.raises(InputError, match="3 weights for 2 columns"):
        text.tf_idf(sp.csr_array(np.ones((2, 2))), np.ones(3))
