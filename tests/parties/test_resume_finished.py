"""--resume of runs that have come to their end: left as they are, or carried on to what one run would have reached."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdml_spdz.errors import InputError, PeerAborted, ResumeError
from pdml_spdz.fits.svd import SvdFit
from pdml_spdz.numerics.linalg import fix_signs, orthonormalise
from pdml_spdz.rows.data import from_rows
from pdml_spdz.run.context import PartyRun
from pdml_spdz.run.party import run_fit
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.certs import Identity
from pdml_spdz.transport.inprocess import between_threads, mesh
from tests.embedded.test_svd import noise
from tests.parties.helpers import EMBEDDED, Parties
from tests.parties.test_commands import command as to_its_end

K, D, SIGMA = 3, 6, [5.0, 4.9, 3.0, 2.0, 1.0, 0.5]  # slow for single columns, 0.44 for their span
SEEDED: dict[str, Any] = {"rank": K, "tol": 0.0, "start": "seed", "seed": 7, "bound": "60", "iterations": 10}
SEEDED |= {"solver": "power"}
SETTINGS: dict[str, dict[str, Any]] = {
    "sum": SEEDED,
    "embedded": SEEDED | EMBEDDED,
    "per-column": SEEDED | EMBEDDED | {"normalise": "per-column", "iterations": 4},
    "pca": SEEDED | {"algorithm": "pca"},
    "nmf": SEEDED | {"algorithm": "nmf", "bound": "1000"},
    "normed-sum": {"algorithm": "normed-sum", "rank": 1, "bound": "100"},
}


def rows(m: int) -> np.ndarray:
    """Party m's half of rows with the singular values SIGMA."""
    rng = np.random.default_rng(0)
    U, V = (np.linalg.qr(rng.standard_normal((n, D)))[0] for n in (20, D))
    return ((U * SIGMA) @ V.T)[10 * m : 10 * (m + 1)]


def made(directory: Path, name: str) -> Parties:
    site = Parties(directory, 2, **SETTINGS[name])
    for m in range(2):
        X = np.abs(rows(m)) if name == "nmf" else rows(m)
        site.give(m, X[:1] if name == "normed-sum" else X)
    return site


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Parties]]:
    """A finished run of each kind, made when it is first asked for."""
    kept: dict[str, Parties] = {}

    def finished(name: str) -> Parties:
        if name not in kept:
            kept[name] = made(tmp_path_factory.mktemp(name) / "site", name)
            for end in kept[name].run():
                end.well()
        return kept[name]

    yield finished
    for site in kept.values():
        site.clear_away()


@pytest.fixture
def copied(sites: Callable[[str], Parties], tmp_path: Path) -> Iterator[Callable[[str], Parties]]:
    made: list[Parties] = []

    def copy(name: str) -> Parties:
        made.append(sites(name).copy(tmp_path / "site"))
        return made[-1]

    yield copy
    for site in made:
        site.clear_away()


def files(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def held(site: Parties) -> dict[Path, bytes]:
    return files(site.results(0)) | files(site.results(1))


def report(site: Parties, m: int = 0) -> dict[str, Any]:
    return dict(json.loads((site.results(m) / "report.json").read_text()))


@pytest.mark.parametrize("name", SETTINGS)
def test_finished_run_is_left_as_it_is(copied: Callable[[str], Parties], name: str) -> None:
    site = copied(name)
    before = held(site)
    for m, end in enumerate(site.run("--resume", "--json")):
        end.well()
        assert json.loads(end.out) == report(site, m)
    assert held(site) == before
    site.change_studies(iterations=2)
    for end in site.run("--resume"):
        end.well()
        assert "it is left as it is" in " ".join(end.out.split())
    assert held(site) == before


def ended_here(X: np.ndarray, V: np.ndarray, t: int) -> tuple[np.ndarray, np.ndarray]:
    """Singular vectors and values as one machine with all rows has them after t iterations from V, Rayleigh-Ritz and
    all."""
    S = X.T @ X
    for _ in range(t):
        before, (V, _) = V, orthonormalise(S @ V)
    values, Q = np.linalg.eigh(before.T @ S @ before)
    return fix_signs(orthonormalise(S @ before @ Q[:, ::-1])[0]), np.sqrt(values[::-1])


def tolerance(site: Parties) -> float:
    """Of a column: the error of the sums in each of t iterations, relative to lambda_3 = 9, over the smallest gap of
    the Rayleigh-Ritz step, 25 - 24.01; for --normalise per-column the ratios of norms, off by as much in each iteration
    and once more over the products that show them, which are not below 1/50 here, over the same gap.
    """
    e = noise(2, D, 31) if site.study.engine == "embedded" else 2.0**-50
    of_ratios = 50.0 if site.study.normalise == "per-column" else 1.0
    return site.study.iterations * K * e * (25 / 9) * (25 / 0.99) * of_ratios


def check(site: Parties) -> None:
    """All parties have what one uninterrupted run comes to."""
    X = np.concatenate([rows(m) for m in range(2)])
    X = X - X.mean(axis=0) if site.study.algorithm == "pca" else X
    V, sigma = ended_here(X, np.load(site.results(0) / "V0.npy"), site.study.iterations)
    for m in range(2):
        assert report(site, m)["iterations"] == site.study.iterations
        np.testing.assert_allclose(np.load(site.results(m) / "V.npy"), V, atol=tolerance(site))
        if site.study.engine == "secsum":
            np.testing.assert_allclose(report(site, m)["singular_values"], sigma, rtol=tolerance(site))


@pytest.mark.parametrize("name", ["sum", "embedded", "per-column", "pca"])
def test_more_iterations_reach_what_one_run_reaches(copied: Callable[[str], Parties], name: str) -> None:
    site = copied(name)
    check(site)
    for more in (1, 5) if name == "embedded" else (2,):  # one alone has only the first call with a fresh scale
        site.change_studies(iterations=site.study.iterations + more)
        for end in site.run("--resume"):
            end.well()
            assert f"resuming after iteration {site.study.iterations - more}" in " ".join(end.out.split())
        check(site)


def lose_results(site: Parties, m: int) -> None:
    """As if party m had been killed after its last iteration, before it wrote anything of its results."""
    for path in [site.results(m) / "report.json", *site.results(m).glob("[VTW].npy"), site.results(m) / "mean.npy"]:
        path.unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("name", "victims"),
    [("sum", [1]), ("sum", [0, 1]), ("embedded", [0, 1]), ("per-column", [0, 1]), ("pca", [0, 1]), ("nmf", [0, 1])],
)
def test_run_killed_after_its_last_iteration_ends_with_the_same_result(
    copied: Callable[[str], Parties], name: str, victims: list[int]
) -> None:
    site = copied(name)
    arrays = {path: content for path, content in held(site).items() if path.suffix == ".npy"}
    before = report(site)
    for m in victims:
        lose_results(site, m)
    for end in site.run("--resume"):
        end.well()
    assert {path: path.read_bytes() for path in arrays} == arrays
    for key in ("iterations", "converged", "stop_reason", "singular_values", "column_errors", "warnings"):
        assert report(site).get(key) == before.get(key)


@pytest.fixture(scope="module")
def converged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parties]:
    site = made(tmp_path_factory.mktemp("converged") / "site", "sum")
    site.change_studies(tol=1e-3, iterations=100)
    for end in site.run():
        end.well()
    yield site
    site.clear_away()


def test_smaller_tol_goes_on_and_a_larger_one_does_not(converged: Parties, tmp_path: Path) -> None:
    site = converged.copy(tmp_path / "site")
    try:
        t, before = report(site)["iterations"], held(site)
        assert report(site)["converged"]
        for tol, iterations in ((1e-3, 200), (1e-2, 100)):  # one run would have stopped at the same place
            site.change_studies(tol=tol, iterations=iterations)
            for end in site.run("--resume"):
                end.well()
            assert held(site) == before
        site.change_studies(tol=1e-6, iterations=100)
        for end in site.run("--resume"):
            end.well()
        assert report(site)["converged"]
        assert report(site)["iterations"] > t
        site.change_studies(tol=1e-9, iterations=t)  # nothing left to do, and it is not called converged for that
        for end in site.run("--resume"):
            end.well()
        assert not report(site)["converged"]
    finally:
        site.clear_away()


def test_local_run_is_left_as_it_is_with_all_of_its_parties(tmp_path: Path) -> None:
    for m in range(2):
        np.save(tmp_path / f"{m}.npy", rows(m))
    arguments = ["svd", "0.npy", "1.npy", "--rank", "3", "--iterations", "20", "--tol", "0", "--reveal", "sum"]
    command = [*arguments, "--out", "r", "--json"]
    first = to_its_end(*command, cwd=tmp_path)
    first.well()
    before = files(tmp_path / "r")
    again = to_its_end(*command, "--resume", cwd=tmp_path)
    again.well()
    assert json.loads(again.out) == json.loads(first.out)
    assert files(tmp_path / "r") == before
    # Killed when all parties had ended, and before the results of all of them were written.
    (tmp_path / "r" / "report.json").unlink()
    (tmp_path / "r" / "V.npy").unlink()
    to_its_end(*command, "--resume", cwd=tmp_path).well()
    after = files(tmp_path / "r")
    assert after == before


def test_killed_run_on_other_rows_leaves_nothing_for_an_older_run_to_go_on_with(
    copied: Callable[[str], Parties], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A finished PCA, replaced with --force by one of other rows that is killed when it has the mean of these: the mean
    must not be taken off the older run's rows."""
    site = copied("pca")

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(SvdFit, "fitted", killed)
    replacing = [PartyRun(site.study, m, site.home(m), site.home(m), site.home(m) / "out", force=True) for m in (0, 1)]

    def replace(link: Link) -> None:
        other = from_rows(rows(link.me)[:, ::-1] - 0.2, "other rows")
        with pytest.raises(KeyboardInterrupt):
            run_fit(replacing[link.me], other, link, b"", Identity(link.me, site.home(link.me), {}))

    between_threads(2, replace, mesh(2))
    assert all((site.results(m) / "centre.npz").is_file() for m in (0, 1))
    site.change_studies(iterations=site.study.iterations + 2)
    for end in site.run("--resume"):
        end.failed(ResumeError, "the data differ")


def test_mean_that_is_damaged_ends_the_run_with_words(copied: Callable[[str], Parties]) -> None:
    site = copied("pca")
    damaged = site.results(0) / "centre.npz"
    raw = bytearray(damaged.read_bytes())
    raw[len(raw) // 2] ^= 1
    damaged.write_bytes(raw)
    site.change_studies(iterations=site.study.iterations + 2)
    first, second = site.run("--resume")
    first.failed(InputError, "centre.npz is damaged")
    second.failed(PeerAborted, "P0 ended the run")
