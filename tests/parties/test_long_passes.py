"""A pass over rows that takes longer than the others wait for a word: over TLS, with the word and without it."""

from __future__ import annotations

import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest

from pdml_spdz.errors import PeerError
from pdml_spdz.local.joint import local_study
from pdml_spdz.numerics.linalg import EPS
from pdml_spdz.rows.data import Data, from_rows
from pdml_spdz.run.context import PartyRun
from pdml_spdz.run.party import run_party
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.patience import Patience
from tests.transport.meshes import Outcome, mesh

N, D, PIECE = 40, 4, 20
PASS, PATIENCE = 1.5, Patience(0.5, work=60.0)  # seconds of a pass; those after which a silent party is given up


def numbers(m: int) -> np.ndarray:
    return np.random.default_rng(m).normal(size=(N, D)) * 3.0 ** -np.arange(D)


def slow(X: np.ndarray) -> Data:
    """Rows of Dask, of which the second piece takes so long."""

    def piece(block: np.ndarray, block_info: Any = None) -> np.ndarray:
        if block_info and block_info[None]["chunk-location"] != (0, 0):
            time.sleep(PASS)
        return block

    return from_rows(da.from_array(X, chunks=(PIECE, D)).map_blocks(piece, meta=np.empty((0, 0))), "x")


@pytest.mark.parametrize("says", [True, False], ids=["a word", "no word"])
def test_the_others_wait_for_a_long_pass_because_they_are_told_of_it(tmp_path: Path, says: bool) -> None:
    X = [numbers(m) for m in range(2)]
    seen: list[dict[str, Any]] = []
    study = local_study(2, rank=1, engine="secsum", reveal="sum", tol=1e-6)

    def party(link: Link) -> np.ndarray:
        data = slow(X[0]) if link.me == 0 else Data(X[1], None, "y")
        where = tmp_path / f"P{link.me}"
        own: dict[str, Any] = {"repeats": where / "repeats.json", "own_secret": where / "secret"}
        own |= {"notify": seen.append} if link.me == 0 else {}
        run = PartyRun(study, link.me, data, where, where, **own)
        with nullcontext() if says else link.working_while(lambda: False):
            run_party(run, link)
        found: np.ndarray = np.load(where / f"party-{link.me}" / "V.npy")
        return found

    parties = [Outcome(party, link).end for link in mesh(2, PATIENCE)]
    busy, waiting = (end() for end in parties)
    passes = [(event["done"], event["of"]) for event in seen if event["event"] == "rows"]
    if says:
        assert (busy.error, waiting.error) == (None, None)
        assert {(1, 2), (2, 2)} <= set(passes)  # what the bar shows
        v = np.linalg.svd(np.concatenate(X))[2][0]
        assert np.linalg.norm(waiting.value[:, 0] - v * (v @ waiting.value[:, 0])) <= 1e-6 + 100 * N * EPS
    else:
        assert isinstance(waiting.error, PeerError)
        assert "P0 sent nothing for" in str(waiting.error)
