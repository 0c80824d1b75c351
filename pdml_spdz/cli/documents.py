"""pdml-spdz documents: texts to rows, with columns that all parties have agreed on."""

from __future__ import annotations

from pathlib import Path

import click

from pdml_spdz.applications import text as texts
from pdml_spdz.applications.text import Features, Hashed, Terms, column_words, document_frequencies, idf, tf_idf
from pdml_spdz.cli import sections
from pdml_spdz.cli.words import echo


@sections.command()
@click.argument("source", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The .npz file to write.")
@click.option("--vocabulary", type=click.Path(path_type=Path), help="The agreed list: one word a line.")
@click.option("--hashed", type=click.IntRange(1), metavar="D", help="Instead of a list: D columns by a public hash.")
@click.option("--language", default="english", show_default=True, help="Language of the stemmer; none: no stemming.")
@click.option(
    "--tf-idf/--counts", "weighted", default=False, help="Weights of this party's own documents, rows of length 1."
)
@click.option(
    "--words",
    type=click.Path(path_type=Path),
    help="Also write this party's most frequent word of each column, one a line: to read topics by, for its own eyes.",
)
def documents(
    source: Path,
    out: Path,
    vocabulary: Path | None,
    hashed: int | None,
    language: str,
    weighted: bool,
    words: Path | None,
) -> None:
    """Count the words of this party's documents in SOURCE: a directory, .txt or .jsonl file (also .gz).

    Nothing is sent. Words are stemmed and stop words left out. The file that is written has the names of its columns,
    which the parties compare before a run: with --vocabulary an agreed list, with --hashed a number, which says
    nothing of which words a party has. Terms may share a hashed column.

    \b
    Examples:
      pdml-spdz documents mails/ --vocabulary agreed.txt --out a.npz
      pdml-spdz documents posts.jsonl.gz --hashed 4096 --tf-idf --out a.npz --words a-words.txt
      pdml-spdz nmf a.npz b.npz c.npz --rank 20
    """
    if (vocabulary is None) == (hashed is None):
        raise click.UsageError("one of --vocabulary and --hashed is needed: all parties must have the same columns")
    chosen = None if language == "none" else language
    terms = Terms(chosen)
    features: Features = texts.vocabulary(vocabulary, terms) if vocabulary is not None else Hashed(hashed or 1)
    rows, outside, seen = texts.counted(texts.read(source), terms, features)
    if weighted:
        rows = tf_idf(rows, idf(*document_frequencies(rows)))
    texts.save(out, rows, texts.names(features, chosen))
    if words is not None:
        texts.save_words(words, column_words(seen, features))
    echo(f"wrote {out}: {rows.shape[0]:,} documents, {rows.shape[1]:,} columns; {outside:.1%} of the words have none")
