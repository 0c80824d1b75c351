"""A sealed fit with hidden ratios: single columns of V are right, or V is not opened; and nothing else is."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from scipy import stats

from pdml_spdz.engines import sealed_program
from pdml_spdz.engines.embedded.sealed_run import SealedRun, sealed_plan
from pdml_spdz.numerics.linalg import fix_signs
from pdml_spdz.privacy import sealed_shows
from pdml_spdz.privacy.rank_one import Eigen
from pdml_spdz.programs.sealed_precision import SealedPrecision
from tests.embedded.test_sealed import LEVEL, Opened, masks_hide, numbers_within_masks, sent
from tests.sealed_fits import SealedFit, of_spectrum, sealed_fit, split_psd, start

P = SealedPrecision(2, 5, 2, 3, goal_bits=14, iterations=5, hidden_ratios=True, relative_gap_bits=6)  # few squarings
VALUES = [1.0, 0.6, 0.02, 0.01, 0.005]
ONE, _ = of_spectrum(VALUES)
OTHER, _ = of_spectrum([0.9, 0.7, 0.01, 0.002, 0.001], seed=8)


def errors(V: np.ndarray | None, Q: np.ndarray) -> float:
    """The largest sine between single columns."""
    assert V is not None
    return float(np.sqrt(1 - np.sum(V / np.linalg.norm(V, axis=0) * Q[:, : V.shape[1]], axis=0) ** 2).max())


def frame_lengths(fit: SealedFit) -> dict[tuple[int, int], list[tuple[str, int]]]:
    return {pair: [(step, len(data)) for step, data in frames] for pair, frames in fit.wire.frames.items()}


def test_columns_are_those_of_the_same_steps_without_shares() -> None:
    S, Q = of_spectrum([1.0, 0.8, 0.79, 0.3, 0.2, 0.1, 0.05])
    p = SealedPrecision(3, 7, 3, 5, hidden_ratios=True, relative_gap_bits=7)
    (plain,) = sealed_shows.sealed(Eigen.of(S), np.zeros((1, 7)), start(7, 5), p)
    fit = sealed_fit(split_psd(S, [0.4, 0.5, 0.1]), p)
    assert [(s.normal, s.ritz, s.passed) for s in fit.seen[0]] == [(True, None, True)] * (plain.checkpoint + 1)
    assert all(np.array_equal(seen[-1].V, fit.last.V) for seen in fit.seen)
    assert errors(fit.last.V, Q) < 2.0**-p.goal_bits
    # V is opened with up to M lost carries in the last place.
    assert plain.V is not None
    assert fit.last.V is not None
    assert np.abs(fix_signs(fit.last.V) - fix_signs(plain.V)).max() < (p.M + 1) * 2.0**-p.f_out


@pytest.mark.parametrize("gap", [2.0**-5, 0.0])
def test_components_that_are_close_are_told_apart_or_not_opened(gap: float) -> None:
    S, Q = of_spectrum([1.0, 1.0 - gap, 0.02, 0.01, 0.005])
    fit = sealed_fit(split_psd(S, [0.4, 0.6]), P)
    if gap > 2.0**-P.relative_gap_bits:
        assert fit.last.passed
    if gap == 0.0:
        assert not fit.last.passed
    if fit.last.passed:
        assert errors(fit.last.V, Q) < 2.0**-P.goal_bits


@pytest.mark.parametrize(
    "values",
    [
        [1.0, 0.9, 0.85, 0.84, 0.83],  # no convergence within four times the iterations
        [1.0, 2.0**-14, 2.0**-15, 2.0**-16, 0.0],  # the second is beyond the reach
    ],
)
def test_gate_stays_closed_rather_than_open_a_wrong_v(values: list[float]) -> None:
    S, _ = of_spectrum(values)
    fit = sealed_fit(split_psd(S, [0.3, 0.7]), P)
    assert [(s.normal, s.ritz, s.passed, s.V) for s in fit.seen[0]] == [(True, None, False, None)] * 3


def test_only_v_is_opened_and_the_rest_is_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Opened(monkeypatch)
    fit = sealed_fit(split_psd(ONE, [0.4, 0.6]), P)
    assert [s.passed for s in fit.seen[0]] == [True]
    assert set(opened.sums) == {"matrix", "open"}
    assert [len(x) for x in opened.sums["open"]] == [P.d * P.rank]
    assert [len(x) for x in opened.sums["matrix"]] == [r.n for r in sealed_plan(P)[1][0].roundings]
    assert fit.wire.steps() == {"keys", "sum:matrix", "sum:open", "zero:key", "zero:shares", "zero:mix"}
    assert masks_hide(opened, P)
    assert stats.kstest(sent(fit, P), "uniform").pvalue > LEVEL
    other = sealed_fit(split_psd(OTHER, [0.5, 0.5]), P)
    assert other.last.passed
    assert frame_lengths(fit) == frame_lengths(other)  # whatever the rows are


def test_signs_are_a_matter_of_every_partys_rotation(monkeypatch: pytest.MonkeyPatch) -> None:
    # With rotations left out, the sign of a column says where V lies in the basis of the last iteration.
    one = np.array([[int(i == j) << P.f_a for j in range(P.columns)] for i in range(P.columns)], object)
    mine, original = threading.local(), SealedRun.__call__

    def opened(*turns: np.ndarray) -> np.ndarray:
        def call(this: SealedRun, *arguments: Any) -> Any:
            mine.turn = turns[this.link.me]
            return original(this, *arguments)

        monkeypatch.setattr(SealedRun, "__call__", call)
        monkeypatch.setattr(sealed_program, "haar", lambda n, f: mine.turn)
        V = sealed_fit(split_psd(ONE, [0.4, 0.6]), P).last.V
        assert V is not None
        return V

    without = opened(one, one)
    last = 4 * P.M * 2.0**-P.f_out
    assert np.allclose(opened(one, one), without, atol=last)
    assert np.allclose(opened(-one, one), -without, atol=last)
    assert np.allclose(opened(one, -one), -without, atol=last)


def test_every_number_stays_within_its_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    assert numbers_within_masks(monkeypatch, P, [[1.0] * 5, [1.0, 1e-4, 1e-4, 1e-8, 0]]) > 1500
