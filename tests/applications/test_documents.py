"""Documents to files of rows: forms, agreed columns, and parties whose columns differ."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from pdml_spdz.applications import text
from pdml_spdz.cli.app import cli
from pdml_spdz.errors import InputError, MismatchError
from pdml_spdz.rows import data
from tests.parties.helpers import run

TEXTS = ["The bankers banked on banks.", "Goals, goals and a goalkeeper!", "Banks score goals"]


def made(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["documents", *map(str, arguments)])


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The same three documents in every form, and a list of words."""
    (tmp_path / "lines.txt").write_text("\n".join(TEXTS) + "\n\n")
    with gzip.open(tmp_path / "lines.jsonl.gz", "wt") as lines:
        lines.writelines(json.dumps({"id": i, "text": t}) + "\n" for i, t in enumerate(TEXTS))
    (tmp_path / "mails" / "inbox").mkdir(parents=True)
    for i, t in enumerate(TEXTS):
        (tmp_path / "mails" / "inbox" / f"{i}.").write_text(t)
    (tmp_path / "agreed.txt").write_text("goal\nbanking\nbanks\n")
    return tmp_path


@pytest.mark.parametrize("source", ["lines.txt", "lines.jsonl.gz", "mails"])
def test_every_form_gives_the_same_rows(place: Path, source: str) -> None:
    done = made(place / source, "--vocabulary", place / "agreed.txt", "--out", place / "a.npz")
    assert done.exit_code == 0, done.output
    found = data.load(place / "a.npz")
    assert found.features == ("goal", "bank")  # banking and banks have one stem
    # banker and goalkeep are stems of their own.
    assert found.X.toarray().tolist() == [[0, 2], [2, 0], [1, 1]]
    assert "3 documents, 2 columns; 33.3% of the words have none" in done.output


def test_hashed_columns_are_named_by_their_number_and_language(place: Path) -> None:
    for name, language in (("a", "english"), ("b", "none")):
        assert (
            made(place / "lines.txt", "--hashed", 64, "--language", language, "--out", place / f"{name}.npz").exit_code
            == 0
        )
    a, b = (data.load(place / f"{name}.npz") for name in "ab")
    assert a.d == b.d == 64
    assert a.features is not None
    assert a.features != b.features  # stems and words are not the same columns
    assert a.X.sum() == b.X.sum() == 9
    assert not any("goal" in name for name in a.features)


def test_words_of_the_columns_are_written_beside_for_this_party(place: Path) -> None:
    done = made(place / "lines.txt", "--hashed", 64, "--out", place / "a.npz", "--words", place / "words.txt")
    assert done.exit_code == 0, done.output
    words = (place / "words.txt").read_text().splitlines()
    assert len(words) == 64
    used = data.load(place / "a.npz").X.sum(axis=0) > 0
    for word, count in zip(words, used, strict=True):
        assert bool(word) == count
    assert all(text.Hashed(64).column(word) == i for i, word in enumerate(words) if word)
    assert {"goal", "bank"} <= set(words)


def test_tf_idf_is_that_of_the_own_documents(place: Path) -> None:
    arguments = (place / "lines.txt", "--vocabulary", place / "agreed.txt", "--out")
    made(*arguments, place / "counts.npz")
    made(*arguments, place / "weighted.npz", "--tf-idf")
    counts, weighted = (data.load(place / f"{name}.npz").X for name in ("counts", "weighted"))
    wanted = text.tf_idf(counts, text.idf(*text.document_frequencies(counts)))
    np.testing.assert_array_equal(weighted.toarray(), wanted.toarray())


def test_parties_with_other_lists_are_told_before_anything_is_sent(place: Path) -> None:
    (place / "other.txt").write_text("goal\nscore\n")
    made(place / "lines.txt", "--vocabulary", place / "agreed.txt", "--out", place / "a.npz")
    made(place / "lines.txt", "--vocabulary", place / "other.txt", "--out", place / "b.npz")
    ended = run("nmf", "a.npz", "b.npz", "--rank", "1", "--out", "out", cwd=place)
    ended.failed(MismatchError, "another set of feature names", "the same names at every party, in any order")
    assert not (place / "out" / "party-0" / "T.npy").exists()


@pytest.mark.parametrize(
    ("name", "content", "wanted"),
    [
        ("a.txt", "\n\n", "has no documents"),
        ("a.doc", "text", "an ending that is not known"),
        ("a.jsonl", '{"text": "x"}\n{"body": "y"}\n', "line 2 of"),
        ("a.jsonl", "not json\n", "line 1 of"),
    ],
)
def test_files_that_hold_no_documents(tmp_path: Path, name: str, content: str, wanted: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=wanted):
        text.read(tmp_path / name)


def test_absent_files_and_missing_choices(place: Path) -> None:
    with pytest.raises(InputError, match="is not there"):
        text.read(place / "nothing.txt")
    assert isinstance(
        made(place / "mails", "--vocabulary", place / "no", "--out", place / "a.npz").exception, InputError
    )
    for wrong in ([], ["--hashed", 8, "--vocabulary", place / "agreed.txt"]):
        done = made(place / "mails", *wrong, "--out", place / "a.npz")
        assert done.exit_code == 2
        assert "one of --vocabulary and --hashed" in done.output
