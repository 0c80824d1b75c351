"""Runs that open no bound: the window, what lies outside it, and what an error says has been seen."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.sparse import csr_array

from pdml_spdz.engines.openings.base import public_integers
from pdml_spdz.engines.transcript import Transcript
from pdml_spdz.errors import QuotaError, RangeExceeded
from pdml_spdz.fits import prepare
from pdml_spdz.local.joint import LocalResult, local_study
from pdml_spdz.local.threads import run_in_threads
from pdml_spdz.numerics import ring
from pdml_spdz.numerics.linalg import sine
from pdml_spdz.primitives.normed_sum import OwnMean, missing, rounding_of_rho
from pdml_spdz.programs.precision import BELOW_BITS, FULL_G, Precision
from pdml_spdz.rows.base import as_rows
from pdml_spdz.rows.covariance import GramMatrix, covariance_around_own_mean
from pdml_spdz.study.checks import WIDE_RANGE
from tests.unit.test_svd import with_spectrum

N, D, K, TOL = 40, 8, 2, 1e-7


def rows(scale: float = 1.0, mean: float = 0.0) -> list[np.ndarray]:
    X = scale * (with_spectrum(N, D, np.array([4.0, 2.0, 1.0, 0.5])) + mean)
    return [X[:10], X[10:]]


def run(tables: list[np.ndarray], **settings: object) -> LocalResult:
    study = local_study(2, **({"rank": K, "iterations": 60, "tol": TOL} | settings))
    return run_in_threads(tables, study, record_transcript=True)


def steps(transcript: Transcript | None) -> set[str]:
    assert transcript is not None
    return {entry.step for entry in transcript.entries}


def pooled(tables: list[np.ndarray], *, centred: bool = False) -> np.ndarray:
    X = np.vstack(tables)
    return np.linalg.svd(X - X.mean(axis=0) if centred else X)[2][:K].T


def allowed(q: float) -> float:
    """As for any fit on shares: what the stop rule leaves, and an iteration's noise; q = lambda_(k+1)/lambda_k."""
    each = (2 + 1) * 2.0**-31 * np.sqrt(D)
    return (max(TOL, 2 * each) * q + 2 * np.sqrt(K) * each) / (1 - q)


@pytest.mark.parametrize("exponent", [-15, 0, 29])
def test_rows_of_any_ordinary_size_give_the_pooled_result_and_show_no_bound(exponent: int) -> None:
    """sigma_1^2 = 2^(2 exponent + 4), from 2^-26 to 2^62."""
    tables = rows(2.0**exponent)
    found = run(tables)
    assert sine(pooled(tables), found.V) <= allowed(0.25)
    assert (found.report["bound"]["source"], found.report["bound"]["total"]) == ("window", 2.0**64)
    assert not any("bound" in line for line in found.report["observables"])
    assert steps(found.transcript) == {"sum:start", "columns", "V"}


def test_scale_of_the_rows_leaves_no_trace_in_what_is_opened() -> None:
    """Rows times a power of two: the same y to its last bits, whatever the power, because scaling is exact."""
    seen = []
    for exponent in (-10, 20):
        found = run(rows(2.0**exponent), iterations=1, seed=3, start="seed")
        assert found.transcript is not None
        seen.append(next(e.arrays["scaled"] for e in found.transcript.entries if e.step == "columns"))
    # Each is off by M dithers of a unit.
    assert np.abs(seen[0] - seen[1]).max() <= 2 * 2 * 2.0**-31


@pytest.mark.parametrize("algorithm", ["svd", "pca"])
def test_rows_beyond_the_window_end_the_run_before_anything_is_opened(
    algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(Transcript, "see", lambda self, step, **arrays: seen.append(step))
    with pytest.raises(QuotaError, match="it was not sent") as error:
        run_in_threads(rows(2.0**31), local_study(2, rank=K, algorithm=algorithm), record_transcript=True)
    assert "Every party has seen" not in str(error.value)
    assert not seen


def test_rows_below_the_window_end_at_the_gate_and_the_error_says_how_to_go_on() -> None:
    with pytest.raises(RangeExceeded, match="the sum is too small for the agreed bound and range") as error:
        run(rows(2.0**-40))
    assert "agree on a smaller --bound" in str(error.value)
    # A bound that the parties agree on moves the window.
    moved = rows(2.0**-40)
    assert sine(pooled(moved), run(moved, bound=str(2.0**-70)).V) <= allowed(0.25)


def test_error_after_an_opening_says_what_was_opened() -> None:
    with pytest.raises(RangeExceeded) as error:
        run(rows(2.0**-40, mean=1.0), algorithm="pca")
    said = str(error.value)
    assert "Every party has seen by now: n, the number of all rows, to every party; an exponent up to 7 above" in said
    assert "to every party; the mean of all rows, to every party" in said


def test_error_between_mean_and_scales_says_that_the_mean_was_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object) -> None:
        raise QuotaError("a number to be summed is too large.")

    monkeypatch.setattr(prepare, "deviations", gone)
    with pytest.raises(QuotaError) as error:
        run(rows(mean=1.0), algorithm="pca", scale="secsum")
    assert "to every party; the mean of all rows, to every party" in str(error.value)


def test_quota_of_pca_is_checked_before_the_mean_is_opened() -> None:
    """||X_m||_F^2 of the rows as they are; the centred rows would keep to it."""
    tables = rows(1.0, mean=10.0)
    centred = max(float(np.sum((X - np.vstack(tables).mean(axis=0)) ** 2)) for X in tables)
    with pytest.raises(QuotaError, match="it was not sent") as error:
        run(tables, algorithm="pca", bound=str(2 * centred))
    assert "Every party has seen" not in str(error.value)


def test_centred_fit_takes_its_bound_from_public_numbers() -> None:
    tables = rows(1.0, mean=1.0)
    quota = max(float(np.sum(X**2)) for X in tables)
    found = run(tables, algorithm="pca", bound=str(2 * quota))
    assert (found.report["bound"]["source"], found.report["bound"]["total"]) == ("agreed", 4 * quota)
    of_mean = {"sum:rows", "rows", "sum:mean", "fineness", "mean"}
    assert steps(found.transcript) == of_mean | {"sum:start", "columns", "V"}
    assert sine(pooled(tables, centred=True), found.V) <= allowed(0.25)


def test_open_mean_without_a_bound_shows_one_exponent_for_it() -> None:
    tables = rows(1.0, mean=3.0)
    found = run(tables, algorithm="pca")
    assert sine(pooled(tables, centred=True), found.V) <= allowed(0.25)
    assert found.mean is not None
    # 44 bits below a bound that is at most 2^9 times the largest norm of a party's own sums.
    largest = max(float(np.linalg.norm(X.sum(axis=0))) for X in tables)
    assert np.abs(found.mean - np.vstack(tables).mean(axis=0)).max() <= 2 * 2.0 ** (9 - 44) * largest / N + 1e-15
    assert "an exponent up to 7 above" in " ".join(found.report["observables"])


def test_scales_by_secsum_need_no_bound() -> None:
    """Rows over their deviations have a trace of n d, which everybody knows."""
    tables = [X * np.geomspace(1e-6, 1e6, D) for X in rows(1.0, mean=1.0)]
    found = run(tables, algorithm="pca", scale="secsum", iterations=300)
    X = np.vstack(tables)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    sigma, V = np.linalg.svd(X)[1:]
    assert sine(V[:K].T, found.V) <= allowed((sigma[K] / sigma[K - 1]) ** 2)
    assert found.report["bound"]["source"] == "public"


@pytest.mark.parametrize(("same", "gate"), [(1e-3, "the sum is too small"), (1e5, "too large beside their deviations")])
def test_rows_that_are_all_the_same_end_at_a_gate_with_a_hidden_mean(same: float, gate: str) -> None:
    """What rounding leaves of them lies below the window, or in it: then the second gate is needed."""
    tables = [same * (1.0 + np.arange(D) / 7.0) * np.ones((n, 1)) for n in (4, 3)]
    with pytest.raises(RangeExceeded, match=gate):
        run(tables, algorithm="pca", centre="hidden")


def test_hidden_mean_in_the_window_gives_the_components_of_the_centred_rows() -> None:
    tables = rows(1e3, mean=5.0)
    found = run(tables, algorithm="pca", centre="hidden")
    assert sine(pooled(tables, centred=True), found.V) <= allowed(0.25)
    assert steps(found.transcript) == {"sum:rows", "rows", "sum:start", "columns", "V"}


@pytest.mark.parametrize("seed", range(20))
def test_rho_is_not_negative_however_unlucky_the_start(seed: int) -> None:
    """Rows of rank one and a start that is orthogonal to them up to rounding: v.S v is rounding alone, of any sign."""
    rng, d, M = np.random.default_rng(seed), 50, 3
    w = rng.standard_normal(d)
    X = [np.outer(rng.standard_normal(5), w) for _ in range(M)]
    v = rng.standard_normal(d)
    v -= w * (v @ w) / (w @ w)
    V = (v / np.linalg.norm(v))[:, None]
    p = Precision(M, 31, WIDE_RANGE, f_g=FULL_G)
    rho = 0
    for X_m in X:
        x = GramMatrix(X_m).times(V)
        x = (x + missing(x, V) * V)[:, 0] * 2.0**-64
        rho += ring.dot(ring.from_float(x, p.f_in, p.vector_bits), public_integers(V, p.f_g))
    unit = 1 << (p.f_rho - p.f_in)  # x is converted to f_in bits: half a unit for each entry, whatever was added
    converted = M * float(np.abs(V).sum()) / 2 * unit
    assert converted < 2.0 ** (p.f_rho - p.R - BELOW_BITS)  # far from what would harm
    assert -converted <= rho


def asymmetry(found: LocalResult) -> float:
    """What the first opening has of V_0 that the second has not: v.S w and w.S v of the two, which are the same if
    both are of one S, compared along v.w.
    """
    assert found.transcript is not None
    (V, y), (W, z) = ((e.arrays["V"], e.arrays["scaled"]) for e in found.transcript.entries if e.step == "columns")
    along = W.T @ V
    return float(np.vdot(along, W.T @ y - (V.T @ z).T) / np.vdot(along, along))


def test_first_opening_has_nothing_that_later_ones_have_not() -> None:
    """What would make rho positive is opened with it. In proportion to the rows around zero, it would show how far
    away a hidden mean is; in proportion to their number, how many a party has.
    """
    d, rng = 60, np.random.default_rng(1)
    X = rng.normal(size=(120, d))
    X += 100.0 * np.linspace(0.5, 1.0, d)
    found = run([X[:40], X[40:]], algorithm="pca", solver="power", centre="hidden", iterations=2, tol=0.0)
    # Entries of W^T y and V^T z are off by a deviation of sqrt(M/6) units, and those of z as much over kappa, which is
    # v.C v over ||C v||; v.w is that, too. Six deviations.
    along = 0.5 * np.sqrt(120 / (120 + d))
    assert abs(asymmetry(found)) < 6 * np.sqrt(2 / 6) * 2.0**-31 * np.sqrt(2) / along**2


def exact_dot(a: np.ndarray, b: np.ndarray) -> Fraction:
    return sum((Fraction(float(p)) * Fraction(float(q)) for p, q in zip(a, b, strict=True)), Fraction(0))


@pytest.mark.parametrize("d", [3, 200, 3000])
def test_nothing_is_missing_of_ordinary_rows_and_little_of_a_single_one(d: int) -> None:
    """With a hidden mean, far away; a single row has no deviations, and its part of rho is rounding alone."""
    rng = np.random.default_rng(d)
    V = np.linalg.qr(rng.normal(size=(d, 2)))[0]
    for n, n_m in ((50, 20), (5, 1)):
        X = rng.normal(size=(n_m, d)) + 100.0
        t = X.sum(axis=0) / np.sqrt(n)
        x = X.T @ (X @ V)
        added = missing(x, V, OwnMean(t, n_m / n))
        if n_m > 1:
            assert not added.any()
        around_zero = [exact_dot(x[:, i], V[:, i]) for i in (0, 1)]
        for i in (0, 1):
            rho = around_zero[i] - exact_dot(t, V[:, i]) ** 2 * Fraction(n, n_m)
            assert rho + Fraction(float(added[i])) > 0
        assert sum(added) < 2.0**-40 * float(sum(around_zero))  # the second gate sees no deviations in it


@pytest.mark.parametrize("d", [D, 500])
def test_rows_that_are_all_the_same_are_no_deviations_however_many_features(d: int) -> None:
    tables = [1e5 * (1.0 + np.arange(d) / d) * np.ones((n, 1)) for n in (4, 3)]
    with pytest.raises(RangeExceeded, match="too large beside their deviations"):
        run(tables, algorithm="pca", centre="hidden")


def test_start_across_the_mean_does_not_pass_the_second_gate() -> None:
    """With this seed v.S v has 2^-11 of its average: beside that, rounding passed for deviations, and was opened."""
    tables = [1e5 * (1.0 + np.arange(500) / 500) * np.ones((n, 1)) for n in (4, 3)]
    with pytest.raises(RangeExceeded, match="too large beside their deviations"):
        run(tables, algorithm="pca", centre="hidden", start="seed", seed=2501)


@pytest.mark.parametrize(
    ("M", "d", "k", "n", "sparse"),
    [
        (2, 64, 2, 5, False),
        (3, 500, 7, 4, False),
        (30, 64, 5, 3, False),
        (2, 500, 1, 300, False),
        pytest.param(2, 10, 2, 10**6, True, marks=pytest.mark.long),
        (2, 3, 1, 10**5, True),
    ],
)
def test_rows_that_are_all_the_same_have_no_more_than_rounding(M: int, d: int, k: int, n: int, sparse: bool) -> None:
    """The second gate lets nothing pass that is M + 1 or more; of such rows it sees twice that, whatever the start."""
    same = 1e5 * np.random.default_rng(d).uniform(0.1, 1.0, d)
    tables = [np.tile(same, (n + m % 2, 1)) for m in range(M)]
    rows_of_all = sum(map(len, tables))
    S = [covariance_around_own_mean(csr_array(X) if sparse else X, k, 300) for X in tables]
    own = [
        OwnMean(
            as_rows(csr_array(X) if sparse else X).column_sums() / np.sqrt(rows_of_all),
            len(X) / rows_of_all,
            len(X) * sparse,
        )
        for X in tables
    ]
    for seed in range(5):
        V = np.linalg.qr(np.random.default_rng(seed).standard_normal((d, k)))[0]
        g = np.ldexp(np.rint(np.ldexp(V, FULL_G)), -FULL_G).astype(np.longdouble)
        rounding, around_zero, dots, along = 0.0, np.longdouble(0), np.zeros(k, np.longdouble), np.zeros(k)
        for S_m, mean in zip(S, own, strict=True):
            x = S_m.times(V)
            x = x + missing(x, V, mean) * V
            rounding += float(np.sum(rounding_of_rho(x, V, mean)))
            around_zero += np.sum(g * x)
            dots, along = dots + mean.sums @ g, along + mean.sums @ V
        rho = around_zero - np.sum(dots * along)
        assert 0 < rho <= 2 * rounding
