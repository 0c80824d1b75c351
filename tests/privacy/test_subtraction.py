"""Opened sums less one's own addends: with one honest party left exactly that party's; and a warning that says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner

from pdml_spdz.cli.app import cli
from pdml_spdz.estimators import PDPCA
from pdml_spdz.local.joint import local_study
from pdml_spdz.local.threads import run_in_threads, run_on_link
from pdml_spdz.privacy.attack_run import attack
from pdml_spdz.privacy.attacks import Finding
from pdml_spdz.privacy.known import Known
from pdml_spdz.run.output import two_parties
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.inprocess import between_threads, mesh
from tests.privacy.recorded import record

D = 5
# A sum is opened to 44 bits of its bound or more, and the bound is at most 2^10 of what is left of it.
EXACT = 2.0**-34


def tables(M: int) -> list[np.ndarray]:
    rng = np.random.default_rng(M)
    return [rng.normal(loc=m + 1.0, size=(20 + 7 * m, D)) * np.geomspace(10, 1, D) for m in range(M)]


def found(out: Path, rows: list[Any], own: int, **settings: Any) -> dict[str, Finding]:
    seen = record(rows, out, **{"rank": 2, "iterations": 3, "tol": 0.0, "engine": "secsum"} | settings)
    return {f.attack: f for f in attack(seen, Known(rows[:own], rows[own:]))}


@pytest.mark.parametrize(("M", "own"), [(2, 1), (3, 2), (3, 1)])
@pytest.mark.parametrize("settings", [{}, {"offsets": (1.0, 2.0, 3.0, 4.0, 5.0), "scales": (2.0,) * D}])
def test_mean_less_own_rows_is_the_others_mean(tmp_path: Path, M: int, own: int, settings: dict[str, Any]) -> None:
    rows = tables(M)
    mean = found(tmp_path, rows, own, algorithm="pca", **settings)["mean less own rows"]
    assert mean.figures["rows"] == sum(len(X) for X in rows[own:])
    assert mean.figures["relative_error"] < EXACT
    assert mean.success == (M - own == 1)
    assert ("the other party's mean" in mean.got) == (M - own == 1)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("algorithm", ["svd", "pca"])
def test_deviations_and_sums_less_own_rows_are_the_others(tmp_path: Path, kind: Any, algorithm: str) -> None:
    rows = [kind(X) for X in tables(2)]
    findings = found(tmp_path, rows, 1, algorithm=algorithm, scale="secsum")
    assert ("mean less own rows" in findings) == (algorithm == "pca")
    for name in ("deviations less own rows", "sums less own rows"):
        assert findings[name].success
        assert findings[name].figures["relative_error"] < EXACT


def test_hidden_mean_leaves_nothing_to_subtract_from(tmp_path: Path) -> None:
    findings = found(tmp_path, tables(2), 1, algorithm="pca", centre="hidden", engine="embedded")
    assert not any("less own" in name for name in findings)


def test_open_mean_of_a_private_run_shows_no_other_sum(tmp_path: Path) -> None:
    findings = found(tmp_path, tables(2), 1, algorithm="pca", engine="embedded")
    assert [name for name in findings if "less own" in name] == ["mean less own rows"]


def test_vector_of_the_other_party_is_the_sum_less_ones_own(tmp_path: Path) -> None:
    rows = [X[:1] for X in tables(2)]
    vector = found(tmp_path, rows, 1, algorithm="normed-sum", rank=1)["sums less own rows"]
    assert vector.figures["relative_error"] < EXACT


def test_resumed_run_still_shows_its_mean(tmp_path: Path) -> None:
    rows = tables(2)
    found(tmp_path, rows, 1, algorithm="pca")
    assert found(tmp_path, rows, 1, algorithm="pca", iterations=5, resume=True)["mean less own rows"].success


CASES: list[tuple[dict[str, Any], list[str]]] = [
    ({"algorithm": "pca"}, ["the number of its rows", "their mean", "--centre hidden"]),
    ({"algorithm": "pca", "centre": "hidden"}, ["the number of its rows"]),
    ({"algorithm": "pca", "scale": "secsum"}, ["their mean", "the mean square of each feature"]),
    ({"algorithm": "pca", "variance": True}, ["the variance of its rows along each component"]),
    ({"algorithm": "nmf"}, ["its W_t^T R_t"]),
    ({"algorithm": "svd", "reveal": "sum"}, ["its S_m V_t in every iteration", "the norm of its rows"]),
    ({"algorithm": "nmf"}, ["the norm of its rows"]),
    ({"algorithm": "normed-sum", "reveal": "sum"}, ["its vector"]),
    ({"algorithm": "svd", "bound": "secsum"}, ["the norm of its rows"]),
]


@pytest.mark.parametrize(("settings", "parts"), CASES)
def test_warning_names_what_two_parties_show_each_other(settings: dict[str, Any], parts: list[str]) -> None:
    (warning,) = two_parties(local_study(2, rank=1, **settings))
    assert all(part in warning for part in parts)
    assert two_parties(local_study(3, rank=1, **settings)) == []


@pytest.mark.parametrize("settings", [{"algorithm": "svd"}, {"algorithm": "pca", "centre": "none"}])
def test_no_warning_where_no_sum_of_the_data_is_opened(settings: dict[str, Any]) -> None:
    assert two_parties(local_study(2, rank=1, bound="1000", **settings)) == []


def test_warning_is_given_before_anything_is_opened(tmp_path: Path) -> None:
    study, rows, notes = local_study(2, algorithm="pca", rank=1, engine="secsum"), tables(2), []

    def party(link: Link) -> dict[str, Any]:
        def heard(event: dict[str, Any]) -> None:
            if link.me == 1 and event["event"] == "note":
                notes.append(event["text"])

        return run_on_link(link, study, rows[link.me], tmp_path, heard)

    reports = between_threads(2, party, mesh(2))
    (warning,) = two_parties(study)
    assert notes.index(warning) < next(i for i, text in enumerate(notes) if "centring by the mean" in text)
    assert all(warning in report["warnings"] for report in reports)


def test_warning_is_on_every_surface(tmp_path: Path) -> None:
    rows = tables(2)
    for m, X in enumerate(rows):
        np.save(tmp_path / f"{m}.npy", X)
    text = "with two parties an opened sum less one's own part is the other's"
    out = tmp_path / "out"
    files = [str(tmp_path / f"{m}.npy") for m in range(2)]
    arguments = ["pca", *files, "--rank", "1", "--engine", "secsum", "--out", str(out)]
    shown = CliRunner().invoke(cli, arguments, catch_exceptions=False, env={"COLUMNS": "400"}).output
    assert text in shown
    for report in (out / "report.json", out / "party-1" / "report.json"):
        assert text in " ".join(json.loads(report.read_text())["warnings"])
    fitted = PDPCA(n_components=1, engine="secsum", transport="threads")
    fitted.fit(np.vstack(rows), parties=[len(X) for X in rows])
    assert text in " ".join(fitted.report_["warnings"])
    alone = run_in_threads(tables(3), local_study(3, algorithm="pca", rank=1, engine="secsum"))
    assert text not in " ".join(alone.report["warnings"])
