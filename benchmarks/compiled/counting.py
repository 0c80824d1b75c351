"""Which words stand together in windows, counted word by word as a window moves on. As `topics.occurrences`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from benchmarks.compiled.loops import Numbers, compiled
from pdml_spdz.applications.text import Columns


def together_in(documents: Sequence[Columns], d: int, window: int | None) -> tuple[sp.csr_array, int]:
    """(d, d): windows that have both words, of all d; and how many windows there are. window None: documents"""
    together = np.zeros((d, d), np.int32)
    windows = 0
    for document in documents:
        if len(document):
            size = len(document) if window is None else min(window, len(document))
            found, places = np.unique(document, return_inverse=True)  # -1: words that are not counted
            _count(found, places.astype(np.int64), size, together)
            windows += len(document) - size + 1
    return sp.csr_array(together).astype(np.float64), windows


@compiled
def _count(words: Numbers, places: Numbers, size: int, together: Numbers) -> None:
    """words : (u,), columns; places : of every word of the document among them

    A pair is counted when one of its words leaves the window: since[i, j], the window that has had both first, says in
    how many they were. So a window costs as much as it has words, not pairs of them.
    """
    u, length = len(words), len(places)
    since, times = np.zeros((u, u), np.int32), np.zeros(u, np.int32)
    inside, where, count = np.empty(u, np.int64), np.empty(u, np.int64), 0
    for step in range(length + size):
        # Window s has the words s .. s + size - 1: the first that has word p is p - size + 1, or 0.
        if step < length:
            i = places[step]
            if words[i] >= 0:
                times[i] += 1
                if times[i] == 1:
                    now = max(step - size + 1, 0)
                    inside[count], where[i] = i, count
                    count += 1
                    for p in range(count):
                        since[i, inside[p]] = now
                        since[inside[p], i] = now
        # After window s the word s leaves; after the last one all do.
        gone = step - size + 1
        if gone < 0:
            continue
        last = gone >= length - size
        for q in range(gone, length if last else gone + 1):
            i = places[q]
            if words[i] < 0:
                continue
            times[i] -= 1
            if times[i] == 0:
                for p in range(count):
                    j = inside[p]
                    by = gone + 1 - since[i, j]
                    together[words[i], words[j]] += by
                    if j != i:
                        together[words[j], words[i]] += by
                count -= 1
                inside[where[i]] = inside[count]
                where[inside[count]] = where[i]
        if last:
            break
