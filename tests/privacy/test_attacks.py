"""Attacks on recorded runs: what they get where they can, and that they get nothing where they cannot."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from pdml_spdz.engines.transcript import RESUMED, Entry, Transcript, load
from pdml_spdz.errors import InputError
from pdml_spdz.privacy.assess import effective_size, effective_sizes, own_risks
from pdml_spdz.privacy.attack_run import attack
from pdml_spdz.privacy.attacks import Finding, directions, norm_ratios, scaled_covariance
from pdml_spdz.privacy.known import Known
from pdml_spdz.programs.precision import Precision
from pdml_spdz.study.model import NmfSettings
from tests.privacy.recorded import record

D, K = 12, 3


def tables(honest: int = 40) -> list[np.ndarray]:
    rng = np.random.default_rng(honest)
    return [rng.normal(size=(n, D)) * np.geomspace(3, 0.3, D) for n in (honest, 50, 60)]


def svd(out: Path, rows: list[Any], **settings: Any) -> Transcript:
    usual = {"rank": K, "solver": "power", "iterations": 8, "tol": 0.0, "engine": "embedded"}
    return record(rows, out, **usual | settings)


def findings(seen: Transcript, rows: list[Any]) -> dict[str, Finding]:
    return {f.attack: f for f in attack(seen, Known(rows[1:], rows[:1]))}


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of a recorded run on secret shares."""
    out = tmp_path_factory.mktemp("embedded")
    svd(out, tables())
    return out


def check_covariance(seen: Transcript, tolerance: float) -> None:
    # The sums show the norms anyway; on secret shares no bound is opened.
    shown = ["sum:bound"] if seen.facts["reveal"] == "sum" else []
    assert [e.step for e in seen.entries[: len(shown) + 2]] == [*shown, "sum:start", "columns"]
    assert seen.counts()["columns"]["times"] == 8
    assert any("recorded" in warning for warning in seen.facts["warnings"])
    found = findings(seen, tables())["c S from the transcript"]
    # K columns and 8 iterations span all of D = 12.
    assert found.figures["dimensions"] == D
    assert found.figures["relative_error"] < tolerance


@pytest.mark.parametrize("engine", ["plain", "secsum"])
def test_transcript_determines_the_covariance(tmp_path: Path, engine: str) -> None:
    check_covariance(svd(tmp_path, tables(), engine=engine), 1e-8)
    assert (tmp_path / "party-0" / "transcript.npz").stat().st_mode & 0o077 == 0
    assert not (tmp_path / "party-1" / "transcript.npz").exists()


def test_transcript_of_secret_shares_determines_it_up_to_one_factor(embedded: Path) -> None:
    # 31 bits, through a fit that leaves out directions below 1e-6 and so magnifies rounding a thousandfold here.
    check_covariance(load(embedded / "party-0" / "transcript.npz"), 1e-3)


def test_transcript_of_krylov_shows_it_to_more_digits_in_fewer_openings(tmp_path: Path) -> None:
    seen = record(tables(), tmp_path, rank=K, engine="embedded", solver="krylov")
    found = findings(seen, tables())["c S from the transcript"]
    times = seen.counts()["columns"]["times"]
    assert times < 8
    assert seen.facts["iterations"] == times
    # K + 2 orthonormal columns at a time: nothing is magnified, and 31 bits below each column's own size are left.
    assert found.figures["dimensions"] == D
    assert found.figures["relative_error"] < 12 * 3 * 2.0**-31


def hidden_scale(seen: Transcript, c: float) -> Transcript:
    """The plain twin of a run with a secret scale: c S V to 31 bits from a run that showed S V."""
    entries = []
    for entry in seen.entries:
        arrays = dict(entry.arrays)
        if entry.step == "columns":
            arrays["scaled"] = np.rint(np.ldexp(c * arrays["scaled"], 31)) * 2.0**-31
        entries.append(Entry(entry.step, arrays))
    return Transcript(entries, seen.facts | {"reveal": "normed", "precision": asdict(Precision(3))})


def test_columns_normalised_one_by_one_give_their_ratios_away(tmp_path: Path) -> None:
    rows = tables()
    seen = svd(tmp_path, rows, engine="secsum")
    V, Y, common = directions(seen)
    assert common
    norms = np.linalg.norm(Y, axis=0)
    ratios = norm_ratios(V, Y / norms)  # what --normalise per-column would show
    assert ratios / ratios[0] == pytest.approx(norms / norms[0], rel=1e-6)


def test_scale_falls_to_colluders_where_the_honest_party_has_few_rows(tmp_path: Path) -> None:
    rows = tables(honest=2)
    found = findings(hidden_scale(svd(tmp_path, rows, engine="secsum"), 1e-3), rows)
    sign = found["scale from positive semidefiniteness"]
    assert sign.success
    assert sign.figures["c"] == pytest.approx(1e-3, rel=1e-4)
    assert not found["scale from zero columns"].success


def test_scale_falls_to_colluders_where_the_honest_party_has_a_zero_column(tmp_path: Path) -> None:
    rows = tables()
    rows[0][:, 4] = 0.0
    found = findings(hidden_scale(svd(tmp_path, rows, engine="secsum"), 1e-3), rows)["scale from zero columns"]
    assert found.success
    assert found.figures["c"] == pytest.approx(1e-3, rel=1e-4)


def test_scale_is_only_bounded_where_the_honest_party_has_rows_enough(embedded: Path) -> None:
    found = findings(load(embedded / "party-0" / "transcript.npz"), tables())
    assert not found["scale from zero columns"].success
    assert not found["norm from the grid"].success
    bound = found["scale from positive semidefiniteness"]
    assert not bound.success
    assert bound.figures["relative_error"] > 1e-2


def test_pca_is_attacked_less_its_public_mean(tmp_path: Path) -> None:
    rows = [X + 5.0 for X in tables()]
    seen = svd(tmp_path, rows, algorithm="pca", engine="secsum")
    assert findings(seen, rows)["c S from the transcript"].figures["relative_error"] < 1e-6


def test_nmf_shows_features_that_only_honest_rows_have(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [sp.csr_array(rng.gamma(0.5, size=(n, D))) for n in (20, 20, 30)]
    rows[1] = sp.csr_array(rows[1].toarray() * (np.arange(D) != 7))
    rows[2] = sp.csr_array(rows[2].toarray() * (np.arange(D) != 7))
    seen = record(rows, tmp_path, algorithm="nmf", rank=K, iterations=4, tol=0.0, nmf=NmfSettings(init="random"))
    assert seen.counts()["T"]["times"] == 4
    found = findings(seen, rows)["features of the honest parties"]
    assert found.success
    assert found.figures == {"features": 1, "recall": 1.0, "precision": 1.0}


def test_resumed_part_of_a_transcript_stands_alone() -> None:
    seen = Transcript()
    seen.see("columns", V=np.eye(2), scaled=np.eye(2))
    seen.see(RESUMED)
    seen.see("columns", V=np.eye(2), scaled=3 * np.eye(2))  # with another secret scale
    assert scaled_covariance(seen).core == pytest.approx(3 * np.eye(2))


def test_resumed_run_goes_on_with_its_transcript(tmp_path: Path) -> None:
    rows = tables()
    first = svd(tmp_path, rows, engine="secsum", iterations=3)
    whole = svd(tmp_path, rows, engine="secsum", iterations=5, resume=True)
    steps = [entry.step for entry in whole.entries]
    assert steps[: len(first.entries)] == [entry.step for entry in first.entries]
    assert steps[len(first.entries) :] == [RESUMED, "columns", "columns", "V"]
    assert len(list(whole.steps("columns"))) == 2


def test_file_that_is_no_transcript_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        load(tmp_path / "transcript.npz")
    (tmp_path / "transcript.npz").write_bytes(b"nothing")
    with pytest.raises(InputError, match="is damaged"):
        load(tmp_path / "transcript.npz")


def test_effective_size_is_that_of_the_parties_outside_of_the_coalition() -> None:
    assert effective_size([10, 20, 30], 0, [2]) == 30
    assert [s.rows for s in effective_sizes([10, 20, 30], 0)] == [60, 30, 10]
    with pytest.raises(InputError, match="victim"):
        effective_size([10, 20], 0, [0])


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_own_risks_name_rows_that_stand_alone(kind: Any) -> None:
    X = np.zeros((8, 4))
    X[:, 0] = np.arange(8) + 1.0
    X[2, 1] = 5.0  # a feature that only row 2 has; it is that direction by itself
    X[:, 3] = 1.0
    found = own_risks(kind(X))
    assert (found.empty, found.few) == (1, False)
    assert found.alone == ((2, 1),)
    assert [row for row, _ in found.heavy] == [2]
