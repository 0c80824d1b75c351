"""How often words occur together in held-out documents: counted once, for the topics of every cell of a corpus."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from benchmarks.compiled.counting import together_in
from pdml_spdz.applications.text import Columns
from pdml_spdz.applications.topics import Occurrences
from pdml_spdz.system.files import replaced


@dataclass(frozen=True)
class Windows:
    """together : (d, d) CSR, windows that have both words; windows : how many there are"""

    together: sp.csr_array
    windows: int

    def of(self, words: Columns) -> Occurrences:
        """Of these words alone, as `topics.occurrences` counts them."""
        words = np.unique(words)
        return Occurrences(words, self.together[words][:, words].toarray(), self.windows)


def counted(documents: Sequence[Columns], d: int, window: int | None, place: Path) -> Windows:
    """Of all d words at a time; kept in a file, since it takes longer than a small cell. Of other columns, another."""
    content = hashlib.sha256(repr((d, window)).encode())
    for document in documents:
        content.update(document.tobytes() + b"|")
    kept = place / f"{content.hexdigest()[:16]}.npz"
    if not kept.is_file():
        place.mkdir(parents=True, exist_ok=True)
        with replaced(kept) as temporary, temporary.open("wb") as file:
            seen, windows = together_in(documents, d, window)
            np.savez(file, data=seen.data, indices=seen.indices, indptr=seen.indptr, windows=windows)
    with np.load(kept) as found:
        together = sp.csr_array((found["data"], found["indices"], found["indptr"]), shape=(d, d))
        return Windows(together, int(found["windows"]))
