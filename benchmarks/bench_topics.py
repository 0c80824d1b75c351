"""Are topics from the command line as coherent as those of scikit-learn on the pooled documents?

    PDML_DATA=DIR python -m benchmarks.bench_topics [--parties 3] [--rank 20] [--words 4000] [--documents 6000]

20 newsgroups, without headers, split among the parties at random. Every step is a command of `pdml-spdz` in a process:
`documents --vocabulary --tf-idf` at each party, `nmf`, `topics`. scikit-learn's NMF has the same rows, in one table.
Measured is the mean NPMI of the ten words that each topic is read by, in all documents; wanted is 0.95 of theirs.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.decomposition import NMF

from pdml_spdz.applications.text import Terms, Vocabulary, columns, tokenise
from pdml_spdz.applications.topics import npmi, occurrences, top_words
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.rows.data import load

WANTED = 0.95


def texts(directory: Path, count: int) -> list[str]:
    """Bodies of posts: headers name their newsgroup."""
    with gzip.open(directory / "newsgroups20.jsonl.gz", "rt", encoding="utf-8") as lines:
        bodies = [json.loads(line)["text"].partition("\n\n")[2] for line in lines]
    chosen = np.random.default_rng(0).permutation(len(bodies))[:count]
    return [body for body in (bodies[i] for i in chosen) if len(body) > 200]


def agreed_words(documents: list[str], count: int) -> list[str]:
    """A list that the parties could agree on: words that neither nearly all nor very few posts have."""
    terms, seen = Terms(None), Counter[str]()
    for text in documents:
        seen.update(set(terms(text)))
    usual = [(word, n) for word, n in seen.most_common() if 10 <= n <= 0.3 * len(documents) and len(word) > 2]
    return [word for word, _ in usual[:count]]


def say(home: Path, *words: str) -> str:
    command = [sys.executable, "-m", "pdml_spdz", *words]
    return subprocess.run(command, cwd=home, check=True, capture_output=True, text=True).stdout


def by_command(home: Path, parties: int, rank: int, init: str) -> list[list[str]]:
    """The words of each topic, as `pdml-spdz topics` prints them."""
    for m in range(parties):
        say(home, "documents", f"{m}.jsonl", "--vocabulary", "agreed.txt", "--tf-idf", "--out", f"{m}.npz")
    files = [f"{m}.npz" for m in range(parties)]
    say(home, "nmf", *files, "--rank", str(rank), "--init", init, "--out", "run", "--no-accuracy")
    return [line.split(", ") for line in re.findall(r"^topic \d+: (.+)$", say(home, "topics", "run"), re.MULTILINE)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, usual in (("parties", 3), ("rank", 20), ("words", 4000), ("documents", 6000)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--init", default="pd", help="of the command; scikit-learn starts from its nndsvd")
    given = parser.parse_args()
    documents = texts(Path(os.environ["PDML_DATA"]), given.documents)
    with tempfile.TemporaryDirectory(prefix="pdml-spdz-") as directory:
        home = Path(directory)
        (home / "agreed.txt").write_text("\n".join(agreed_words(documents, given.words)), encoding="utf-8")
        for m in range(given.parties):
            lines = [json.dumps({"text": text}) + "\n" for text in documents[m :: given.parties]]
            (home / f"{m}.jsonl").write_text("".join(lines), encoding="utf-8")
        began = time.perf_counter()
        found = by_command(home, given.parties, given.rank, given.init)
        seconds = time.perf_counter() - began
        read = [load(home / f"{m}.npz") for m in range(given.parties)]
    names = read[0].features
    assert names is not None
    place = {name: j for j, name in enumerate(names)}
    ours = np.array([[place[word] for word in words[:10]] for words in found])
    model = NMF(given.rank, init="nndsvd", max_iter=400).fit(sp.vstack([data.X for data in read]).tocsr())
    theirs = top_words(model.components_)
    terms = Terms("english")
    seen_in = columns((terms(" ".join(tokenise(text))) for text in documents), Vocabulary(names))
    seen = occurrences(seen_in, np.unique([ours, theirs]))
    scores: list[Reals] = [npmi(one, seen) for one in (ours, theirs)]
    means = [float(score.mean()) for score in scores]
    print(
        f"{len(documents):,} posts, {len(names):,} terms, {given.parties} parties, rank {given.rank}: {seconds:.1f} s"
    )
    print(f"NPMI of ten words: by command {means[0]:.4f}, scikit-learn {means[1]:.4f}, ratio {means[0] / means[1]:.3f}")
    print(f"wanted: a ratio of at least {WANTED}: {'reached' if means[0] >= WANTED * means[1] else 'MISSED'}")
    for words in found[:5]:
        print("  ", ", ".join(words))


if __name__ == "__main__":
    main()
