"""The two ends of one ordered pair, for tests of the OT protocols."""

from __future__ import annotations

import numpy as np
from scipy import stats

from pdml_spdz.ot import extension, vole
from tests.threads import run_threads

ALPHA = 1e-6  # a uniformity test fails by chance once in a million runs


def ot_ends(M: int = 2, session: bytes = b"test") -> list[extension.Ends]:
    return run_threads(M, lambda link: extension.set_up(link, session))


def ot_pair(ends: list[extension.Ends]) -> tuple[extension.Sender, extension.Receiver]:
    """The ends of the ordered pair (0, 1)."""
    return ends[0].senders[1], ends[1].receivers[0]


def vole_pairs(
    ends: list[extension.Ends], bits: int, *, count: int = 1, kappa: int = vole.KAPPA
) -> list[tuple[vole.VoleSender, vole.VoleReceiver]]:
    """`count` VOLEs of the ordered pair (0, 1)."""
    made = run_threads(2, lambda link: vole.set_up(link, ends[link.me], bits, count=count, kappa=kappa))
    return [(ours.senders[1], theirs.receivers[0]) for ours, theirs in zip(*made, strict=True)]


def bytes_are_uniform(raw: bytes | np.ndarray) -> bool:
    """Chi-square over the 256 values."""
    data = np.frombuffer(raw, np.uint8) if isinstance(raw, bytes) else np.ascontiguousarray(raw).view(np.uint8)
    return bool(stats.chisquare(np.bincount(data.reshape(-1), minlength=256)).pvalue > ALPHA)


def words_are_uniform(words: np.ndarray) -> bool:
    """Kolmogorov-Smirnov of 64-bit words against the uniform distribution."""
    return bool(stats.kstest(words.reshape(-1).astype(np.float64) / 2.0**64, "uniform").pvalue > ALPHA)
