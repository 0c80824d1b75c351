"""T alone gives the victim's sums back: what `benchmarks/privacy/only_topics.py` measures, on a tiny corpus."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from benchmarks.privacy import only_topics
from pdml_spdz.algorithms.nmf import new_topic
from pdml_spdz.algorithms.rri import Penalties
from pdml_spdz.rows.base import RowsLike


def documents(n: int, d: int, seed: int) -> RowsLike:
    """Words of three topics, which overlap; a few documents have a few of all words."""
    rng = np.random.default_rng(seed)
    words = np.random.default_rng(0).dirichlet(np.full(d, 0.05), 3)
    return sp.csr_array(np.array([rng.multinomial(25, words[rng.integers(3)]) for _ in range(n)], float))


def test_num_and_den_follow_from_t_of_one_sweep() -> None:
    X, others = documents(12, 300, 1), documents(60, 300, 2)
    victim, adversary, T, settings = only_topics.swept(X, others, 3, 10, 0)
    known = []
    for t in range(3):
        (num, den), (num_A, den_A) = (one.update(t, T, Penalties()) for one in (victim, adversary))
        T[t] = new_topic(T[t], num + num_A, den + den_A, settings)
        D, guess, _, places = only_topics.solved(T, t, num_A)
        if np.linalg.norm(guess - num[places]) < 1e-6 * np.linalg.norm(num[places]):
            known.append((D - den_A[0], den[0]))
    assert len(known) >= 2
    for found, den_of_victim in known:
        assert abs(found / den_of_victim - 1.0) < 1e-6
