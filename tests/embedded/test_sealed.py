"""A sealed fit: V is right, or is not opened; and nothing else is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_breast_cancer

from pdml_spdz.engines import sealed_program
from pdml_spdz.engines.embedded.matrix_party import MatrixParty
from pdml_spdz.engines.embedded.sealed_run import sealed_plan
from pdml_spdz.engines.sealed_program import haar
from pdml_spdz.errors import StudyError
from pdml_spdz.numerics.linalg import sine
from pdml_spdz.offline import mask_products
from pdml_spdz.offline.mask_products import Integers, MaskPlace, MaskProducts
from pdml_spdz.primitives.sec_sum import MaskedSum
from pdml_spdz.privacy import sealed_shows
from pdml_spdz.privacy.rank_one import Eigen
from pdml_spdz.privacy.sealed_shows import SealedSettings
from pdml_spdz.programs.precision import SIGMA
from pdml_spdz.programs.sealed_precision import FIRST, POWERS, RING, SealedPrecision, iterations_for
from pdml_spdz.programs.steps import Family
from tests.embedded.test_simulation import WithoutZeroSharing
from tests.sealed_fits import SealedFit, of_spectrum, sealed_fit, split_psd, start

LEVEL = 1e-6  # a dozen tests a run
P = SealedPrecision(2, 6, 2, 4, goal_bits=14, iterations=9)
HALF = P.columns * (P.columns + 1) // 2
VALUES = [1.0, 0.6, 0.1, 0.05, 0.02, 0.01]


def unit(V: np.ndarray) -> np.ndarray:
    return np.linalg.qr(V)[0]


def found(fit: SealedFit, Q: np.ndarray, k: int) -> float:
    assert fit.last.V is not None
    assert all(np.array_equal(seen[-1].V, fit.last.V) for seen in fit.seen)  # every party has the same
    return sine(unit(fit.last.V), Q[:, :k])


def test_real_rows_of_three_uneven_parties_one_with_fewer_rows_than_components() -> None:
    X = load_breast_cancer().data
    X = (X - X.mean(0)) / X.std(0)
    parts = [rows.T @ rows for rows in np.split(X, [2, 150])]
    p = SealedPrecision(3, 30, 3, 6)
    values, vectors = np.linalg.eigh(X.T @ X)
    fit = sealed_fit(parts, p)
    assert found(fit, vectors[:, ::-1], 3) < 2.0**-p.goal_bits
    assert fit.last.ritz is not None
    assert np.allclose(fit.last.ritz[:3] / fit.last.ritz[0], values[:-4:-1] / values[-1], rtol=1e-8)


@pytest.mark.parametrize("M", [2, pytest.param(5, marks=pytest.mark.long)])
def test_small_gap_within_the_block(M: int) -> None:
    # lambda_(k+1) = 0.98 lambda_k, lambda_(b+1) = 0.5 lambda_k: columns beyond k make up for the gap.
    S, Q = of_spectrum([1.0, 0.8, 0.784, 0.7, 0.4, 0.4, 0.3, 0.3, 0.2, 0.1])
    shares = [0.5, *([0.5 / (M - 1)] * (M - 1))]
    p = SealedPrecision(M, 10, 2, 4)
    assert found(sealed_fit(split_psd(S, shares), p), Q, 2) < 2.0**-p.goal_bits


def test_ritz_values_are_those_of_the_same_steps_without_shares() -> None:
    S, _ = of_spectrum([1.0, 0.9, 0.5, 0.45, 0.4, 0.3, 0.2, 0.1])
    p = SealedPrecision(2, 8, 3, 6)
    (plain,) = sealed_shows.sealed(Eigen.of(S), np.zeros((1, 8)), start(8, 6), p)
    fit = sealed_fit(split_psd(S, [0.4, 0.6]), p)
    # H has up to M lost carries in the last place of each number.
    assert fit.last.ritz is not None
    assert np.abs(fit.last.ritz - plain.ratios).max() < p.columns * p.M * 2.0**-p.f_open


def test_chebyshev_polynomials_are_never_worse_than_powers() -> None:
    rng = np.random.default_rng(11)
    better = 0
    for _ in range(60):
        d, k = int(rng.integers(12, 40)), int(rng.integers(1, 6))
        tail = rng.uniform(0.2, 0.95) if rng.random() < 0.5 else rng.uniform(0.7, 0.99) ** np.arange(d - k)
        theta = np.concatenate([np.sort(1 + 3 * rng.random(k))[::-1], tail * np.ones(d - k)])
        V = np.linalg.qr(rng.normal(size=(d, 2 * k)))[0]
        C, first = theta / np.linalg.norm(theta), 1 + (iterations_for(1e-6, 0.6) - FIRST) // POWERS
        (found,) = sealed_shows.sealed(
            Eigen(theta, np.eye(d)), np.zeros((1, d)), V, SealedSettings(2 * k).precision(2, d, k)
        )
        for i in range(first):
            V = np.linalg.qr(C[:, None] ** (POWERS if i else FIRST) * V)[0]
        passed = sine(np.eye(d)[:, :k], V @ np.linalg.eigh(V.T @ (C[:, None] * V))[1][:, : -k - 1 : -1]) < 1e-6
        assert found.checkpoint == 0 or not passed
        better += found.checkpoint == 0 and not passed
    assert better > 5


def test_rank_of_the_rows_is_that_asked_for() -> None:
    S, Q = of_spectrum([1.0, 0.5, 0.0, 0.0, 0.0, 0.0])
    assert found(sealed_fit(split_psd(S, [0.3, 0.7]), SealedPrecision(2, 6, 2, 4, iterations=9)), Q, 2) < 1e-6


@pytest.mark.parametrize(
    "values",
    [
        [1.0, 0.5, 0.0, 0.0, 0.0, 0.0],  # fewer directions than asked for
        [1.0, 0.9, *0.85 * 0.97 ** np.arange(4)],  # no convergence within four times the iterations
        [1.0, 0.9, 2.0**-11, 2.0**-12, 0.0, 0.0],  # the third is beyond the reach
    ],
)
def test_gate_stays_closed_rather_than_open_a_wrong_v(values: list[float]) -> None:
    S, _ = of_spectrum(values)
    fit = sealed_fit(split_psd(S, [0.3, 0.7]), SealedPrecision(2, 6, 3, 4, iterations=5))
    assert [(s.normal, s.ritz is None, s.passed, s.V) for s in fit.seen[0]] == [(True, False, False, None)] * 3


@pytest.mark.parametrize(("values", "bound"), [([0.0] * 6, 1.0), (VALUES, 2.0**40), (VALUES, 2.0**60)])
def test_nothing_but_a_bit_is_opened_of_rows_that_cannot_be_normalised(
    values: list[float], bound: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Opened(monkeypatch)
    S, _ = of_spectrum(values)
    fit = sealed_fit(split_psd(S, [0.3, 0.7]), P, bound=bound)
    assert [(s.normal, s.ritz, s.passed, s.V) for s in fit.seen[0]] == [(False, None, False, None)]
    assert set(opened.sums) == {"matrix"}


def test_second_checkpoint_finds_what_the_first_has_not() -> None:
    S, Q = of_spectrum([1.0, 0.9, 0.5, 0.4, 0.3, 0.2])
    p = SealedPrecision(2, 6, 2, 3, goal_bits=14, iterations=5)
    fit = sealed_fit(split_psd(S, [0.5, 0.5]), p)
    assert [s.passed for s in fit.seen[0]] == [False, True]
    assert found(fit, Q, 2) < 2.0**-14


def test_scale_may_be_far_below_the_bound() -> None:
    S, Q = of_spectrum([1.0, 0.5, 0.2, 0.1, 0.05, 0.02])
    p = SealedPrecision(2, 6, 2, 4, iterations=13)
    fit = sealed_fit(split_psd(S, [0.5, 0.5]), p, bound=2.0**24)  # a blurred exponent leaves 2^17, and M
    assert found(fit, Q, 2) < 2.0**-p.goal_bits


@pytest.mark.parametrize("size", [1.0, 1000.0])  # up to a thousand times the deviations
def test_mean_that_nobody_knows(size: float) -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 6)) * [4, 2, 1, 0.5, 0.3, 0.1] + np.array([3, -2, 5, 1, 0, 2]) * size
    blocks = np.split(X, [20])
    p = SealedPrecision(2, 6, 2, 4, hidden_mean=True)
    around = [block - block.mean(axis=0) for block in blocks]
    scale = float(np.sum(X**2) / sum(np.sum(block**2) for block in around))
    fit = sealed_fit([block.T @ block for block in around], p, rows=blocks, bound=2 * scale)
    centred = X - X.mean(axis=0)
    Q = np.linalg.svd(centred)[2].T
    assert found(fit, Q, 2) < 2.0**-p.goal_bits


@pytest.mark.parametrize(("d", "columns", "hidden"), [(4, 4, False), (9, 3, True)])
def test_inputs_have_their_own_bits_where_rotations_are_as_large(d: int, columns: int, hidden: bool) -> None:
    # The dealer refuses numbers that are longer than was said: S_m as long as it can be, beside rotations of f_a bits.
    rng = np.random.default_rng(6)
    X = rng.normal(size=(40, d)) * np.linspace(3, 0.2, d)
    blocks = np.split(X, [10])
    parts = [block.T @ block for block in blocks]
    if hidden:
        parts = [np.cov(block.T, bias=True) * len(block) for block in blocks]
    p = SealedPrecision(2, d, 1, columns, goal_bits=14, hidden_mean=hidden)
    assert sealed_fit(parts, p, rows=blocks if hidden else None).last.passed


@pytest.mark.parametrize("hidden_ratios", [False, True])
def test_bit_budget_of_fifteen_parties(hidden_ratios: bool) -> None:
    for d, k, b in ((3, 1, 2), (64, 7, 14), (1024, 32, 64)):
        p = SealedPrecision(15, d, k, b, hidden_ratios=hidden_ratios)
        # An eigenvalue that is 0 comes out of a truncation as a few units below (on the average M - 1 carries are lost
        # half of the time), and of the steps within the two spare bits that numbers have.
        t = 0.0
        for alpha, beta in p.steps_of_rows:
            lost = (p.M - 1) / 2 * max(p.blocks) * 2.0**-p.f_a
            t = (t - lost) * ((alpha - beta * t) / 1024) ** 2
        assert -4.0 < t < 0.0
    with pytest.raises(StudyError, match="carries of a step needs 105 bits of 48"):
        SealedPrecision(15, 64, 7, 14, block=4, hidden_ratios=hidden_ratios)


@pytest.mark.parametrize("d", [4, 64, 256, 1024])
def test_trace_that_is_too_small_is_not_taken_for_normalised(d: int) -> None:
    p = SealedPrecision(3, d, 1, 3)
    for bits in np.arange(p.trace_reach, p.trace_reach + 4, 0.02):
        t = 2.0**-bits
        for step in p.steps_of_trace:
            t = Family.at(step, t)
        if bits == p.trace_reach:
            assert abs(1 - t) < 2.0**-50
        if bits > p.trace_reach + 1:
            assert abs(1 - t) > 2.0**-p.normal_bits


# ---- nothing else is opened


ONE, _ = of_spectrum(VALUES)
OTHER, _ = of_spectrum([0.9, 0.7, 0.08, 0.02, 0.01, 0.001], seed=8)


class Opened:
    """What the parties open, as every one of them sees it: the sums, by purpose."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sums: dict[str, list[list[int]]] = {}
        original = MaskedSum.wide

        def wide(this: MaskedSum, z: list[int], purpose: str, bits: int, drop: int = 0) -> list[int]:
            opened = original(this, z, purpose, bits, drop)
            if this.link.me == 0:
                self.sums.setdefault(purpose, []).append(opened)
            return opened

        monkeypatch.setattr(MaskedSum, "wide", wide)


def test_openings_are_masked_but_for_the_observables(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Opened(monkeypatch)
    fit = sealed_fit(split_psd(ONE, [0.4, 0.6]), P)
    roundings = sealed_plan(P)[1][0].roundings
    assert set(opened.sums) == {"matrix", "open"}
    assert [s.ritz is not None for s in fit.seen[0]] == [True]
    assert [len(x) for x in opened.sums["open"]] == [HALF, P.d * P.rank]  # H, which is symmetric, and V
    assert [len(x) for x in opened.sums["matrix"]] == [r.n for r in roundings]
    assert fit.wire.steps() == {
        "keys", "sum:matrix", "sum:open", "offer", "zero:key", "zero:shares", "zero:mix"
    }  # fmt: skip
    assert masks_hide(opened, P)
    assert stats.kstest(sent(fit, P), "uniform").pvalue > LEVEL


def sent(fit: SealedFit, p: SealedPrecision) -> np.ndarray:
    """What party 0 has sent of its shares, each number over its modulus."""
    numbers = []
    for frame, r in zip(fit.wire.payloads(0, 1, "sum:matrix"), sealed_plan(p)[1][0].roundings, strict=True):
        bits, size = r.bits + SIGMA + p.M.bit_length(), len(frame) // r.n
        parts = [int.from_bytes(frame[i : i + size], "little") for i in range(0, len(frame), size)]
        numbers += [x / 2.0**bits for x in parts]
    return np.array(numbers)


def masks_hide(opened: Opened, p: SealedPrecision) -> bool:
    """Whether openings are distributed as the masks alone are: a simulator needs nothing else."""
    roundings = sealed_plan(p)[1][0].roundings
    real = np.concatenate(
        [np.array(z, float) / 2.0 ** (r.bits + SIGMA) for z, r in zip(opened.sums["matrix"], roundings, strict=True)]
    )
    fake = np.random.default_rng().random((p.M, len(real))).sum(axis=0)
    return float(stats.ks_2samp(real, fake).pvalue) > LEVEL


def test_masks_left_out_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Opened(monkeypatch)
    monkeypatch.setattr(mask_products, "random_integers", lambda n, bits: np.zeros(n, object))
    sealed_fit(split_psd(ONE, [0.4, 0.6]), P)
    assert not masks_hide(opened, P)


@pytest.mark.parametrize(("make_sum", "hidden"), [(MaskedSum, True), (WithoutZeroSharing, False)])
def test_shares_without_zero_sharing_are_noticed(make_sum: type[MaskedSum], hidden: bool) -> None:
    # The first product is one with a public V: a party's share of it is its own share of C times V, and its mask.
    before = sum(r.n for r in sealed_plan(P)[1][0].roundings[: sv_roundings()[0]])
    fits = [sealed_fit(split_psd(ONE, [0.4, 0.6]), P, make_sum=make_sum) for _ in range(5)]
    first = np.concatenate([sent(fit, P)[before : before + P.d * P.columns] for fit in fits])
    assert (stats.kstest(first, "uniform").pvalue > LEVEL) == hidden


@pytest.mark.parametrize("twice", [False, True])
def test_mask_that_is_used_twice_shows_a_difference(twice: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Opened(monkeypatch)
    first, second = sv_roundings()
    original = MaskProducts._made

    def reusing(this: MaskProducts, products: list[tuple[MaskPlace, MaskPlace]]) -> list[Integers]:
        if twice:
            this._masks[second] = this._masks[first]
        return original(this, products)

    monkeypatch.setattr(MaskProducts, "_made", reusing)
    sealed_fit(split_psd(ONE, [0.4, 0.6]), P)
    a, b = (opened.sums["matrix"][j] for j in (first, second))
    bits = sealed_plan(P)[1][0].roundings[first].bits
    small = all(abs(x - y) < 2 ** (bits + 1) for x, y in zip(a, b, strict=True))
    assert small == twice


def sv_roundings() -> tuple[int, int]:
    """The first two truncations of C V."""
    roundings = sealed_plan(P)[1][0].roundings
    found = [j for j, r in enumerate(roundings) if r.bits == P.f_c + P.f_v + 2 and r.n == P.d * P.columns]
    return found[0], found[1]


@pytest.mark.parametrize("identity", [False, True])
def test_rotation_hides_eigenvectors(identity: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Opened(monkeypatch)
    if identity:
        one = np.array([[int(i == j) << P.f_a for j in range(P.columns)] for i in range(P.columns)], object)
        monkeypatch.setattr(sealed_program, "haar", lambda n, f: one)
    matrices = []
    for _ in range(2):
        sealed_fit(split_psd(ONE, [0.4, 0.6]), P)
        numbers = opened.sums["open"][-2]
        size = 1 << 8 * -(-(P.f_open + 6) // 8)
        matrix = np.zeros((P.columns, P.columns))
        matrix[np.triu_indices(P.columns)] = [(x + size // 2) % size - size // 2 for x in numbers]
        matrices.append((matrix + np.triu(matrix, 1).T) * 2.0**-P.f_open)
    a, b = matrices
    assert np.allclose(np.linalg.eigvalsh(a), np.linalg.eigvalsh(b), atol=1e-9)
    assert np.allclose(a, b, atol=1e-6) == identity


def test_haar_rotations() -> None:
    n, f = 4, 80
    turns = [haar(n, f) for _ in range(300)]
    one = np.array([[int(i == j) << 2 * f for j in range(n)] for i in range(n)], object)
    assert max(abs(x) for Q in turns[:10] for x in (Q.T.dot(Q) - one).flat) < 2 ** (f + 4)
    entries = np.array([float(Q[0, 0]) for Q in turns]) * 2.0**-f
    # Of a uniform unit vector in four dimensions: (x + 1) / 2 has the beta distribution with 3/2, 3/2.
    assert stats.kstest((entries + 1) / 2, stats.beta(1.5, 1.5).cdf).pvalue > LEVEL
    assert 60 < sum(np.linalg.det(Q.astype(float) * 2.0**-f) > 0 for Q in turns) < 240


@pytest.mark.parametrize("M", [2, 3])
def test_traffic_is_the_same_for_any_rows_of_one_shape(M: int) -> None:
    shares = [0.4, *[0.6 / (M - 1)] * (M - 1)]
    one, other = (sealed_fit(split_psd(S, shares), replace(P, M=M)) for S in (ONE, OTHER))
    assert one.last.passed
    assert other.last.passed
    assert (one.rounds, one.sent) == (other.rounds, other.sent)
    lengths = [
        {pair: [(step, len(data)) for step, data in frames] for pair, frames in fit.wire.frames.items()}
        for fit in (one, other)
    ]
    assert lengths[0] == lengths[1]


def test_every_number_stays_within_its_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    spectra = [[1.0] * 6, [1.0, 0, 0, 0, 0, 0], [1.0, 0.9, 0.8, 0, 0, 0], [0.0] * 6, [1.0, 1e-4, 1e-4, 1e-8, 1e-8, 0]]
    assert numbers_within_masks(monkeypatch, P, spectra) > 1000


def numbers_within_masks(monkeypatch: pytest.MonkeyPatch, p: SealedPrecision, spectra: list[list[float]]) -> int:
    """How many roundings two parties do. A number beyond its bits would show through its mask."""
    values: dict[int, list[tuple[np.ndarray, int, int]]] = {0: [], 1: []}
    original = MatrixParty.round

    def recording(this: MatrixParty, x, bits, shift):  # type: ignore[no-untyped-def]
        rounded = original(this, x, bits, shift)
        values[this.me].append((rounded.share, bits, shift))
        return rounded

    monkeypatch.setattr(MatrixParty, "round", recording)
    for spectrum in spectra:
        sealed_fit(split_psd(of_spectrum(spectrum)[0], [0.4, 0.6]), p)
    for (a, bits, shift), (b, _, _) in zip(values[0], values[1], strict=True):
        assert all(abs(x + y) < 1 << bits - shift for x, y in zip(a, b, strict=True))
        assert bits + SIGMA + p.M.bit_length() + 1 <= RING
    return len(values[0])
