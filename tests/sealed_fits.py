"""Sealed fits between threads, with dealt products of masks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from pdml_spdz.engines.base import OwnRows, SealedCheckpoint, SealedWatch
from pdml_spdz.engines.embedded.sealed_run import SealedRun
from pdml_spdz.primitives.masks import Keys
from pdml_spdz.primitives.sec_sum import MaskedSum
from pdml_spdz.programs.sealed_precision import RING, SealedPrecision
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.inprocess import between_threads, mesh
from tests.embedded.helpers import Wire
from tests.mask_dealer import MaskDealer


@dataclass
class SealedFit:
    """What every party has seen, by checkpoint; what was on the wire, and how many rounds there were."""

    seen: list[list[SealedCheckpoint]]
    wire: Wire
    rounds: list[int]
    sent: list[int]

    @property
    def last(self) -> SealedCheckpoint:
        return self.seen[0][-1]


def start(d: int, b: int, seed: int = 1) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(d, b)))[0]


def sealed_fit(
    parts: list[np.ndarray],
    p: SealedPrecision,
    *,
    V: np.ndarray | None = None,
    rows: list[np.ndarray] | None = None,
    bound: float = 1.0,
    make_sum: Callable[[Link, Keys], MaskedSum] = MaskedSum,
) -> SealedFit:
    """parts : every party's S_m; they are divided by the trace of their sum, times `bound`

    rows : theirs, for a mean that nobody knows; parts are around the party's own means then
    """
    M, scale = len(parts), bound * (float(sum(np.trace(S) for S in parts)) or 1.0)
    dealer, wire = MaskDealer(M, RING), Wire()
    V = start(p.d, p.columns) if V is None else V

    def party(link: Link) -> tuple[list[SealedCheckpoint], int, int]:
        run, seen = SealedRun(make_sum(link, Keys.agree(link, b"test")), p, dealer.maker(link.me)), []
        own = OwnRows(parts[link.me] / scale)
        if rows is not None:
            n, mine = sum(map(len, rows)), rows[link.me]
            own = OwnRows(own.S, mine.sum(axis=0) / np.sqrt(n * scale), Fraction(n, len(mine)))
        run(own, V, SealedWatch(seen.append))
        return seen, link.traffic.rounds, sum(link.traffic.sent.values())

    results = between_threads(M, party, wire.tap(mesh(M)))
    return SealedFit([r[0] for r in results], wire, [r[1] for r in results], [r[2] for r in results])


def split_psd(S: np.ndarray, shares: list[float]) -> list[np.ndarray]:
    return [share * S for share in shares]


def of_spectrum(values: list[float] | np.ndarray, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """A matrix with these eigenvalues, and its eigenvectors."""
    Q = np.linalg.qr(np.random.default_rng(seed).normal(size=(len(values), len(values))))[0]
    return Q * np.array(values) @ Q.T, Q
