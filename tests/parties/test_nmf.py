"""PD-NMF with real processes: results, files, bytes, resumed runs, input that cannot be used."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from pdml_spdz.errors import InputError, PeerAborted, StudyError
from pdml_spdz.fits.nmf import settings_of
from pdml_spdz.local.joint import local_study
from pdml_spdz.numerics.linalg import EPS
from pdml_spdz.rows.base import RowsLike
from pdml_spdz.study.model import NmfSettings
from pdml_spdz.transport.base import HEADER
from tests.nmf.helpers import best_error, centralised, dense_rows, rounding
from tests.parties.helpers import Parties, Process, rows, run, until
from tests.properties.test_nmf_transcript import whole_fit

NMF: dict[str, Any] = {"algorithm": "nmf", "tol": 0.0}
SEEDED: dict[str, Any] = NMF | {"start": "seed", "seed": 7}


def positive(m: int) -> np.ndarray:
    return np.abs(rows(m))


def site_of(parties: Callable[..., Parties], **settings: Any) -> Parties:
    site = parties(**settings)
    for m in range(site.M):
        site.give(m, positive(m))
    return site


# ---- results


def test_command_makes_the_topics_of_centralised_iterations(tmp_path: Path) -> None:
    X = dense_rows()
    np.save(tmp_path / "a.npy", X[:4])
    sp.save_npz(tmp_path / "b.npz", sp.csr_array(X[4:25]))
    np.savetxt(tmp_path / "c.csv", X[25:], delimiter=",", header=",".join("abcdefghi"), comments="", fmt="%.17g")
    options = ["--rank", "3", "--iterations", "6", "--tol", "0", "--objective", "--json", "--out", "out"]
    ended = run("nmf", "a.npy", "b.npz", "c.csv", *options, "--columns-by", "position", cwd=tmp_path)
    ended.well()
    report, out = json.loads(ended.out), tmp_path / "out"
    T_0, T = np.load(out / "party-0" / "T0.npy"), np.load(out / "T.npy")
    W = [np.load(out / f"party-{m}" / "W.npy") for m in range(3)]
    study = local_study(3, algorithm="nmf", rank=3, iterations=6, tol=0.0)
    settings = settings_of(study, report["bound"]["addend"])
    W_exact, T_exact = centralised(X, T_0, settings)
    of_W, of_T = rounding(X, T_0, settings, 3)
    assert np.abs(T - T_exact).max() <= of_T
    assert report["accuracy"]["largest_difference"] <= of_T
    assert np.abs(np.vstack(W) - W_exact).max() <= of_W
    # Squares of the rows are added up and taken away again.
    error = float(np.sum((X - np.vstack(W) @ T) ** 2))
    assert abs(report["squared_error"] - error) <= X.size * EPS * np.sum(X**2)
    # With the best W for T: no better than that, and no worse than the run's own.
    squared, rounded = report["accuracy"]["relative_error"] ** 2 * np.sum(X**2), X.size * EPS * np.sum(X**2)
    assert 2 * best_error(X, T) - rounded <= squared <= error + rounded
    for m in range(3):
        np.testing.assert_array_equal(np.load(out / f"party-{m}" / "T.npy"), T)
    w_is_only_in_its_partys_directory(out, W)


def w_is_only_in_its_partys_directory(out: Path, W: list[np.ndarray]) -> None:
    assert sorted(path.parent.name for path in out.rglob("W.npy")) == ["party-0", "party-1", "party-2"]
    for m, W_m in enumerate(W):
        elsewhere = [path for path in out.rglob("*") if path.is_file() and f"party-{m}" not in path.parts]
        content = b"|".join(path.read_bytes() for path in elsewhere)
        numbers = [number for number in W_m.reshape(-1) if number > 0]
        assert numbers
        assert not any(number.tobytes() in content for number in numbers)
        assert not any(repr(float(number)).encode() in content for number in numbers)


@pytest.mark.parametrize(
    ("init", "w_start"),
    [("pd", "zero"), ("random", "nnls"), ("nnsvd", "zero"), ("best_of_M", "zero"), ("seed", "zero")],
)
def test_every_start_ends_in_a_fit(tmp_path: Path, init: str, w_start: str) -> None:
    X = dense_rows(n=60)
    start: dict[str, Any] = {"start": "seed", "seed": 3} if init == "seed" else {}
    chosen = NmfSettings(init="random" if init == "seed" else init, w_start=w_start, objective=True)
    tables: list[RowsLike] = [X[:20], sp.csr_array(X[20:])]
    reports = whole_fit(tables, tmp_path, algorithm="nmf", rank=3, iterations=60, tol=1e-4, nmf=chosen, **start)
    T = np.load(tmp_path / "party-0" / "T.npy")
    W = np.vstack([np.load(tmp_path / f"party-{m}" / "W.npy") for m in range(2)])
    assert np.all(T >= 0)
    assert np.all(W >= 0)
    np.testing.assert_allclose(T.sum(axis=1), 1.0, rtol=9 * EPS)
    error = float(np.sum((X - W @ T) ** 2))
    assert abs(reports[0]["squared_error"] - error) <= X.size * EPS * np.sum(X**2)
    # Never better than three directions of any sign; and no local minimum is as bad as a single one.
    left = [np.sum(np.linalg.svd(X, compute_uv=False)[k:] ** 2) for k in (3, 1)]
    assert left[0] <= error < left[1]
    assert reports[0]["start"]["kind"] == init
    assert reports[0]["insecure"] == (init == "best_of_M") == any("NOT PRIVATE" in w for w in reports[0]["warnings"])


# ---- bytes


def sweep_bytes(M: int, d: int, k: int) -> list[int]:
    """What each party sends in a sweep: a vector of d + 1 numbers for each topic, to all or by way of party 0, and
    party 0 the topics.
    """
    vector = HEADER.size + 6 * (d + 1)
    to = [1 if M > 5 and m > 0 else M - 1 for m in range(M)]
    sent = [k * vector * peers for peers in to]
    sent[0] += (M - 1) * (HEADER.size + 8 * (4 + k) + 8 * d * k)
    return sent


def bytes_of(tables: list[np.ndarray], k: int, sweeps: int, out: Path) -> list[int]:
    chosen = NmfSettings(init="random")
    settings = NMF | {"rank": k, "iterations": sweeps, "nmf": chosen}
    return [report["bytes_sent"] for report in whole_fit(tables, out / str(sweeps), **settings)]


@pytest.mark.parametrize(("M", "d", "k"), [(2, 9, 3), (2, 40, 6), (5, 9, 2), (7, 9, 2)])
def test_bytes_of_a_sweep_are_of_the_order_of_parties_features_topics(tmp_path: Path, M: int, d: int, k: int) -> None:
    tables = [dense_rows(3 + m, d, m) for m in range(M)]
    one, three = (bytes_of(tables, k, sweeps, tmp_path) for sweeps in (1, 3))
    assert [(b - a) / 2 for a, b in zip(one, three, strict=True)] == sweep_bytes(M, d, k)


def test_traffic_does_not_depend_on_the_number_of_rows(parties: Callable[..., Parties]) -> None:
    found = []
    for n in (20, 20_000):
        site = parties(**NMF, iterations=5)
        for m in range(2):
            site.give(m, dense_rows(n, 6, m))
        for end in site.run():
            end.well()
        reports = [json.loads((site.results(m) / "report.json").read_text()) for m in range(2)]
        found.append([(r["bytes_sent"], r["bytes_received"], r["rounds"], r["iterations"]) for r in reports])
    assert found[0] == found[1]


# ---- resumed runs


def test_resume_after_kill_gives_the_same_topics(parties: Callable[..., Parties]) -> None:
    # With a stated bound all numbers of a run follow from rows and seed, but for what is dropped of the sums at random.
    settings = SEEDED | {"bound": "1000"}
    site = site_of(parties, **settings, iterations=10**4)
    for m in range(2):
        site.start(m)
    until(lambda: all(site.checkpoints(m) and site.last_iteration(m) >= 20 for m in range(2)))
    site.processes[1].signal(signal.SIGKILL)
    site.end()
    reached = max(site.last_iteration(m) for m in range(2))
    site.change_studies(iterations=reached + 20)
    for end in site.run("--resume"):
        end.well()
    whole = site_of(parties, **settings, iterations=reached + 20)
    for end in whole.run():
        end.well()
    X, T_0 = np.vstack([positive(m) for m in range(2)]), np.load(whole.results(0) / "T0.npy")
    off_W, off_T = rounding(X, T_0, settings_of(whole.study, 2 * 1000.0), 2)
    for m in range(2):
        assert "resuming after sweep" in site.processes[m].out
        for name, off in (("T.npy", off_T), ("W.npy", off_W)):
            one, other = (np.load(s.results(m) / name) for s in (site, whole))
            assert np.abs(one - other).max() <= 2 * off <= 1e-6 * np.abs(one).max()


# ---- what cannot be used


def negative(sparse: bool) -> RowsLike:
    X = positive(1)
    X[2, 3] = X[5, 0] = -1.0
    return sp.csr_array(X) if sparse else X


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_negative_entries_at_one_party(parties: Callable[..., Parties], sparse: bool) -> None:
    site = site_of(parties, **NMF)
    if sparse:
        sp.save_npz(site.home(1) / "rows.npz", negative(sparse))
    else:
        site.give(1, negative(sparse))
    site.start(0)
    site.start(1, data="rows.npz" if sparse else "rows.npy")
    told, ended = site.end()
    ended.failed(InputError, "has 2 negative entries", "Wanted: non-negative rows", "Do this: use svd or pca")
    told.failed(PeerAborted, "P1 ended the run: it could not use its own input file")
    assert not any((site.results(m) / name).exists() for m in range(2) for name in ("T.npy", "W.npy", "report.json"))


def test_negative_entries_at_every_party(parties: Callable[..., Parties]) -> None:
    site = parties(**NMF)
    for end in site.run():
        end.failed(InputError, "negative entries", "Wanted: non-negative rows")


@pytest.mark.parametrize(
    ("changes", "phrases"),
    [
        (
            {'engine = "secsum"': 'engine = "embedded"', 'reveal = "sum"': 'reveal = "normed"'},
            ["`reveal` is 'normed' for nmf", "Wanted: sum, which the engine embedded or secsum or plain can do"],
        ),
        ({'init = "pd"': 'init = "best"'}, ["`nmf.init` is 'best'", "Wanted: one of pd, random, nnsvd, best_of_M"]),
        ({"delta = 0.0": "delta = -1.0"}, ["`nmf.delta` is -1.0", "Wanted: zero or a positive number"]),
        ({"delta = 0.0": "detla = 1.0"}, ["[nmf] has an unknown key `detla`", "did you mean `delta`?"]),
    ],
    ids=["engine", "init", "penalty", "key"],
)
def test_a_study_that_cannot_be_meant(
    parties: Callable[..., Parties], changes: dict[str, str], phrases: list[str]
) -> None:
    site = site_of(parties, **NMF)
    for m in range(2):
        path = site.home(m) / "study.toml"
        text = path.read_text()
        for old, new in changes.items():
            assert old in text
            text = text.replace(old, new)
        path.write_text(text)
    for end in site.run():
        end.failed(StudyError, *phrases)


@pytest.mark.parametrize(
    ("options", "phrase"),
    [
        (["--engine", "mp-spdz"], "'mp-spdz' is not one of 'embedded', 'secsum', 'plain'"),
        (["--init", "best"], "'best' is not one of 'pd', 'random', 'nnsvd', 'best_of_M'"),
        (["--delta", "-1"], "-1.0 is not in the range x>=0"),
    ],
)
def test_options_that_do_not_exist(tmp_path: Path, options: list[str], phrase: str) -> None:
    ended = Process("nmf", "a.npy", "b.npy", "--rank", "2", *options, cwd=tmp_path).end()
    assert ended.code == 2
    assert phrase in " ".join(ended.err.replace("│", " ").split())
