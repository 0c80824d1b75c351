"""All that crosses the wire in a PD-NMF: which steps, how many bytes, and none of what is a party's own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from pdml_spdz.algorithms.nmf import SweepSettings, SweepState, pd_nmf_iter
from pdml_spdz.algorithms.rri import part
from pdml_spdz.engines.secsum import SecSumEngine
from pdml_spdz.errors import QuotaError
from pdml_spdz.local.joint import local_study
from pdml_spdz.numerics import ring
from pdml_spdz.numerics.fixedpoint import WORD, Format
from pdml_spdz.primitives.agree import Agreement
from pdml_spdz.primitives.sec_sum import ClearSum, MaskedSum
from pdml_spdz.rows.base import RowsLike
from pdml_spdz.rows.data import Data
from pdml_spdz.run import handshake
from pdml_spdz.run.context import PartyRun
from pdml_spdz.run.party import run_fit
from pdml_spdz.study.model import NmfSettings
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.inprocess import mesh
from tests.embedded.helpers import Wire
from tests.threads import run_threads

D, K, INIT, TAU = 9, 3, 2, 4
FORM = Format.for_bound(1.0, 3)


def whole_fit(tables: Sequence[RowsLike], out: Path, wire: Wire | None = None, **settings: Any) -> list[dict[str, Any]]:
    """A party's whole run but for its files and sockets, at every party: the reports."""
    study = local_study(len(tables), **settings)

    def party(link: Link) -> dict[str, Any]:
        run = PartyRun(study, link.me, Path(f"rows-{link.me}"), Path("certs"), out)
        with run.output():
            data = Data(tables[link.me], None, run.data.name)
            agreed = handshake.meet(link, study, (), resume=False)
            data = handshake.compare_features(link, data, study, agreed)
            return run_fit(run, data, link, agreed, None)  # type: ignore[arg-type]

    links = mesh(study.M)
    return run_threads(study.M, party, wire.tap(links) if wire else links)


def nmf_fit(tables: Sequence[RowsLike], out: Path, *, nmf: dict[str, Any] | None = None, **settings: Any) -> Wire:
    """PD-NMF with as many sweeps as it may make; what crossed the wire."""
    wire = Wire()
    chosen = NmfSettings(**{"init_iterations": INIT} | (nmf or {}))
    whole_fit(tables, out, wire, algorithm="nmf", nmf=chosen, **{"rank": K, "iterations": TAU, "tol": 0.0} | settings)
    return wire


def irregular(seed: int, *sizes: int) -> list[np.ndarray]:
    """Rows of numbers that occur once."""
    rng = np.random.default_rng(seed)
    return [rng.gamma(0.5, size=(n, D)) for n in sizes]


def very_different() -> list[RowsLike]:
    """More rows, sparse ones, a party with one row, one with only zeros, other sizes.

    Not by more than four: the party with one row would have too few bits for some starts (`check_bits`).
    """
    first, second, third = irregular(1, 300, 1, 5)
    return [sp.csr_array(4.0 * first * (first > 1.0)), second, 0.0 * third]


def lengths(wire: Wire) -> dict[tuple[int, int], list[tuple[str, int]]]:
    """But for the bound, which everyone sees: how many rounds it takes follows from it."""
    return {
        pair: [(step, len(data)) for step, data in frames if not step.endswith(":bound")]
        for pair, frames in wire.frames.items()
    }


def expected(sender: int) -> list[str]:
    """Keys, bound, T_0, the sweeps on the local topics, the sweeps on the rows, the digest of the result."""
    agreed = ["agree"] * (sender == 0)
    sweep = ["sum:topic"] * K + agreed
    return ["hello", "features", "keys", "sum:bound", "sum:start", *agreed, *sweep * (INIT + TAU), "digest:result"]


def test_steps_are_those_of_the_sweeps_and_no_others(tmp_path: Path) -> None:
    wire = nmf_fit(irregular(0, 20, 3, 8), tmp_path)
    for (sender, _), frames in wire.frames.items():
        steps = [step for step, _ in frames]
        seen = [step for step, last in zip(steps, ["", *steps], strict=False) if (step, last) != ("sum:bound",) * 2]
        assert seen == expected(sender)
    assert {len(data) for data in wire.payloads(1, 2, "sum:topic")} == {6 * (D + 1)}


@pytest.mark.parametrize("init", ["pd", "random", "nnsvd"])
@pytest.mark.parametrize("M", [3, 6], ids=["mesh", "aggregator"])
def test_frames_are_of_the_same_sizes_whatever_the_rows_are(tmp_path: Path, M: int, init: str) -> None:
    others = irregular(2, 2, 3, 4)[: M - 3]
    # One iteration of PD-SVD for nnsvd: of more it might save some, as public numbers tell it.
    settings: dict[str, Any] = {"nmf": {"init": init, "init_iterations": 1}}
    one = nmf_fit([*irregular(0, 20, 3, 8), *others], tmp_path / "one", **settings)
    other = nmf_fit([*very_different(), *others], tmp_path / "other", **settings)
    assert lengths(one) == lengths(other)


def words(data: bytes) -> set[bytes]:
    return {data[i : i + 8] for i in range(0, len(data) - 7, 8)}


def own_words(x: np.ndarray) -> set[bytes]:
    """The numbers as they are in memory, but for zero and one."""
    x = np.ascontiguousarray(x)
    return {number.tobytes() for number in x.reshape(-1) if number not in (0, 1)}


class Addends:
    """What each party gave to its sums, as numbers and as they are encoded, in order."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.reals: dict[int, list[np.ndarray]] = {}
        self.encoded: dict[int, list[np.ndarray]] = {}
        for kind in (MaskedSum, ClearSum):
            patch.setattr(kind, "__call__", self._listening(kind.__call__))

    def _listening(self, original: Any) -> Any:
        def call(sec_sum: Any, x: np.ndarray, bound: float, purpose: str) -> np.ndarray:
            if purpose == "topic":
                link = sec_sum.link
                self.reals.setdefault(link.me, []).append(x.copy())
                self.encoded.setdefault(link.me, []).append(Format.for_bound(bound, link.M).encode(x))
            return original(sec_sum, x, bound, purpose)  # type: ignore[no-any-return]

        return call


@pytest.mark.parametrize("engine", ["secsum", "plain"])
def test_no_number_of_a_party_is_on_the_wire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    """Not of its rows, not of its W, not of its addends; that the engine plain sends the latter shows that the test
    would see them.
    """
    tables, addends = irregular(0, 20, 3, 8), Addends(monkeypatch)
    wire = nmf_fit(tables, tmp_path, engine=engine)
    for m, X in enumerate(tables):
        sent = [data for (sender, _), frames in wire.frames.items() if sender == m for _, data in frames]
        seen = set().union(*map(words, sent))
        W = np.load(tmp_path / f"party-{m}" / "W.npy")
        assert W.shape == (len(X), K)
        assert not seen & (own_words(X) | own_words(W))
        given = set().union(*map(own_words, addends.reals[m] + addends.encoded[m]))
        assert bool(seen & given) == (engine == "plain")


def test_no_two_addends_have_the_same_mask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two frames under one mask would differ by what their addends differ, and those change little near the end."""
    addends = Addends(monkeypatch)
    wire = nmf_fit(irregular(0, 20, 3, 8), tmp_path)
    for m in range(3):
        frames = [
            ring.unpack_words(data, D + 1, WORD - FORM.drop) for data in wire.payloads(m, (m + 1) % 3, "sum:topic")
        ]
        assert len(frames) == len(addends.encoded[m]) == K * (INIT + TAU)
        # What is sent of a mask, but for one carry.
        masks = [frame - (z >> np.uint64(FORM.drop)) for frame, z in zip(frames, addends.encoded[m], strict=True)]
        high = np.unique(np.concatenate(masks) & ring.low(WORD - FORM.drop))
        assert len(high) == K * (INIT + TAU) * (D + 1)
        assert np.diff(high).min() > 1


@pytest.mark.parametrize("init", ["random", "nnsvd", "pd"])
def test_a_bound_that_leaves_too_few_bits_is_refused_before_anything_is_sent(tmp_path: Path, init: str) -> None:
    """Rows of squares around 100 and a bound of 10^12: topics would be of nothing but what opening leaves."""
    wire = Wire()
    settings = {"rank": K, "iterations": TAU, "bound": "1e12", "nmf": NmfSettings(init=init)}
    with pytest.raises(QuotaError, match=r"leaves \d+ bits for the largest sum of this party(.|\n)*a smaller --bound"):
        whole_fit(irregular(0, 20, 13, 8), tmp_path, wire, algorithm="nmf", **settings)
    assert wire.steps() <= {"hello", "features", "keys"}


def test_a_party_whose_rows_are_lost_beside_the_others_is_told(tmp_path: Path) -> None:
    first, second = irregular(0, 20, 13)
    settings = {"rank": K, "iterations": TAU, "nmf": NmfSettings(init="random")}
    with pytest.raises(QuotaError, match=r"nothing of it was sent(.|\n)*too small beside theirs"):
        whole_fit([first, 1e-5 * second], tmp_path / "small", algorithm="nmf", **settings)
    whole_fit([first, 1e-2 * second], tmp_path / "enough", algorithm="nmf", **settings)
    whole_fit([first, 0.0 * second], tmp_path / "zeros", algorithm="nmf", **settings)


def test_a_start_whose_sums_keep_too_few_bits_is_refused() -> None:
    """The size of the rows is well within the bound; what the first topic leaves of them is not."""
    X, T, wire = np.array([[1.0, 1e-8]] * 4), np.array([[1e-7, 1.0 - 1e-7]]), Wire()

    def party(link: Link) -> None:
        sec_sum = SecSumEngine(link, b"test", "auto").sec_sum
        pd_nmf_iter(part(X, 1), SweepState(T), SweepSettings(1, 0.0, 8.0), sec_sum, Agreement(link), clock=link.clock)

    with pytest.raises(QuotaError, match="nothing of it was sent"):
        run_threads(2, party, wire.tap(mesh(2)))
    assert wire.steps() == {"keys"}


def test_a_sum_beyond_the_bound_is_not_sent() -> None:
    """Party 1's rows are larger than the bound that was agreed on."""
    tables = [np.eye(3), 100.0 * np.eye(1, 3)]
    wire, T = Wire(), np.full((1, 3), 1 / 3)

    def party(link: Link) -> None:
        sec_sum = SecSumEngine(link, b"test", "auto").sec_sum
        settings = SweepSettings(1, 0.0, 3.0)
        pd_nmf_iter(part(tables[link.me], 1), SweepState(T), settings, sec_sum, Agreement(link), clock=link.clock)

    with pytest.raises(QuotaError, match="nothing of it was sent"):
        run_threads(2, party, wire.tap(mesh(2)))
    assert [step for step, _ in wire.frames[1, 0]] == ["keys"]
