"""The hidden scale from the bound: found where data went into the bound as a sum, hidden where none did."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from pdml_spdz.cli.app import cli
from pdml_spdz.engines.transcript import Transcript
from pdml_spdz.errors import InputError
from pdml_spdz.primitives.bound import BLUR, SHOWN_BITS, exponent_of
from pdml_spdz.primitives.sec_sum import positive_tolerance
from pdml_spdz.privacy import page
from pdml_spdz.privacy.attack_run import attack
from pdml_spdz.privacy.attacks import Finding
from pdml_spdz.privacy.known import Known
from pdml_spdz.privacy.scale import CentredOwnRows, PublicBound, size_from_bound
from tests.privacy.recorded import record

D, K, SCALES = 12, 3, 500
HIDDEN = 12.0  # what the scale of a run is to be off by, at least, in the median


def tables(M: int, shift: float = 0.0) -> list[np.ndarray]:
    rng = np.random.default_rng(M)
    return [rng.normal(size=(60 + 10 * m, D)) * np.geomspace(3, 0.3, D) + shift for m in range(M)]


def run(out: Path, rows: list[np.ndarray], **settings: Any) -> Transcript:
    return record(rows, out, **{"rank": K, "iterations": 6, "tol": 0.0, "engine": "embedded"} | settings)


def scale(seen: Transcript, rows: list[np.ndarray], own: int = 1, repeats: tuple[Transcript, ...] = ()) -> Finding:
    findings = attack(seen, Known(rows[:own], rows[own:]), repeats)
    return next(f for f in findings if f.attack == "scale from the bound")


def off(estimate: float, true: float) -> float:
    return max(estimate / true, true / estimate)


def norms(rows: list[np.ndarray]) -> tuple[np.ndarray, float]:
    """||S_m||_F of every party, and ||S||_F."""
    covariances = [X.T @ X for X in rows]
    return np.array([np.linalg.norm(S_m) for S_m in covariances]), float(np.linalg.norm(sum(covariances)))


def expected_ratio(own: np.ndarray, M: int) -> float:
    """sum_m ||S_m||_F / ||S||_F for M parties like this one."""
    like = CentredOwnRows([own]).moments
    return M * like.norm(len(own), "frobenius") / like.norm(M * len(own), "frobenius")


def exponents(rows: list[np.ndarray], s: float, shift: int) -> int:
    """What a run with these rows, times the root of s, opens."""
    return max(exponent_of(float(s * n)) for n in norms(rows)[0]) + shift


def scales(rng: np.random.Generator) -> np.ndarray:
    return np.exp2(rng.uniform(-60, 60, size=SCALES))


@pytest.mark.parametrize("M", [2, 3, 5])
def test_sum_of_norms_gives_the_scale_away(M: int) -> None:
    rows = tables(M)
    sizes, true = norms(rows)
    ratio = expected_ratio(rows[0], M)
    for s in scales(np.random.default_rng(M)):
        found = size_from_bound(PublicBound("secsum", s * sizes.sum(), M, M - 1), ratio)
        assert found is not None
        assert np.sqrt(off(found, s * true)) < 1.06  # every sigma_i


@pytest.mark.parametrize("kind", ["window", "agreed"])
@pytest.mark.parametrize("M", [2, 3, 5])
def test_bound_without_data_gives_nothing_to_work_with(M: int, kind: str) -> None:
    assert {size_from_bound(PublicBound(kind, 1.0, M, M - 1), 1.0) for _ in range(SCALES)} == {None}


def errors_by_exponent(M: int, repeats: int = 1) -> np.ndarray:
    """By how many octaves the guess of ||S||_F is off, for 500 scales; the blur is the same in all repeats."""
    rng, rows = np.random.default_rng(7 + M), tables(M)
    true, ratio = norms(rows)[1], expected_ratio(rows[0], M)
    found = []
    for s in scales(rng):
        shift = int(rng.integers(BLUR))
        E = float(np.mean([exponents(rows, s, shift) for _ in range(repeats)]))
        size = size_from_bound(PublicBound("exponent", E, M, M - 1), ratio)
        assert size is not None
        found.append(np.log2(off(size, s * true)))
    return np.array(found)


@pytest.mark.parametrize("M", [2, 3, 5])
def test_blurred_exponent_hides_the_scale_however_many_parties_there_are(M: int) -> None:
    assert np.exp2(np.median(errors_by_exponent(M))) > HIDDEN


@pytest.mark.parametrize("M", [2, 3, 5])
def test_repeats_of_a_blurred_exponent_give_nothing_more(M: int) -> None:
    assert np.array_equal(errors_by_exponent(M), errors_by_exponent(M, repeats=10))


def test_powers_of_two_have_exact_exponents() -> None:
    exact = (-1074, -1022, -3, 0, 52, 1023)
    assert tuple(exponent_of(2.0**e) for e in exact) == exact
    assert exponent_of(np.nextafter(8.0, 9.0)) == 4


@pytest.mark.parametrize("settings", [{"iterations": 2}, {"algorithm": "pca", "centre": "hidden"}])
def test_one_party_alone_finds_the_scale_of_a_run_with_bound_secsum(tmp_path: Path, settings: dict[str, Any]) -> None:
    rows = tables(3, shift=1.0)
    found = scale(run(tmp_path, rows, bound="secsum", **settings), rows)
    assert found.success
    assert found.figures["kind"] == "secsum"
    assert found.figures["relative_error"] < 0.06


def test_scale_is_exact_where_one_norm_is_unknown_or_traces_are_added(tmp_path: Path) -> None:
    rows = tables(2)
    two = scale(run(tmp_path / "two", rows, bound="secsum"), rows)
    wide = [np.random.default_rng(m).normal(size=(6, D)) for m in range(3)]  # few rows: no party forms its Gram matrix
    traces = run(tmp_path / "traces", wide, bound="secsum")
    assert traces.facts["bound"]["measure"] == "trace"
    # B has 20 bits, and what is left of c S after 31 bits are divided by the smallest direction kept, 1e-6, is 1e-3.
    assert two.figures["relative_error"] < 1e-3
    assert scale(traces, wide).figures["relative_error"] < 1e-3


def test_run_with_an_agreed_bound_gives_nothing_and_its_repeats_neither(tmp_path: Path) -> None:
    rows = tables(2)
    first = run(tmp_path / "0", rows, bound="1e6")
    others = tuple(run(tmp_path / str(k), rows, bound="1e6", rank=k) for k in (1, 2))
    for found in (scale(first, rows), scale(first, rows, repeats=others)):
        assert not found.success
        assert found.got.startswith("nothing to work with: the bound was agreed on")
    # One run that opens its bound is enough for all of them.
    careless = run(tmp_path / "4", rows, bound="secsum")
    assert scale(first, rows, repeats=(*others, careless)).success


@pytest.mark.parametrize("M", [2, 3, 5])
def test_default_run_gives_nothing_to_work_with(tmp_path: Path, M: int) -> None:
    rows = tables(M)
    seen = run(tmp_path, rows, iterations=2)
    assert "sum:bound" not in seen.counts()
    assert scale(seen, rows).got == "nothing to work with: no bound was opened"


def test_exponent_is_the_same_in_every_run_on_the_same_rows_and_tells_little(tmp_path: Path) -> None:
    """Repeats and other settings give nothing more: they all show one exponent."""
    rows = tables(2)
    others = ({}, {"rank": 1}, {"seed": 1, "start": "seed"}, {"normalise": "per-column"})
    seen = [run(tmp_path / str(i), rows, bound="exponent", iterations=2, **more) for i, more in enumerate(others)]
    assert len({run.facts["bound"]["exponent"] for run in seen}) == 1
    one, all_of_them = scale(seen[0], rows), scale(seen[0], rows, repeats=tuple(seen[1:3]))
    assert one.figures["value"] == all_of_them.figures["value"]
    assert one.figures["sigma"][0] == pytest.approx(all_of_them.figures["sigma"][0])


def test_blurred_exponent_of_a_recorded_run_is_off_by_its_blur(tmp_path: Path) -> None:
    rows = tables(2)
    seen = run(tmp_path, rows, bound="secsum")
    found = []
    for shift in (0, BLUR - 1):
        E = exponents(rows, 1.0, shift)
        facts = seen.facts | {"bound": seen.facts["bound"] | {"source": "exponent", "exponent": E}}
        found.append(scale(replace(seen, facts=facts), rows))
    assert not any(f.success for f in found)
    ratio = found[1].figures["sigma"][0] / found[0].figures["sigma"][0]
    assert np.log2(ratio**2) == pytest.approx(BLUR - 1)


@pytest.mark.parametrize("signs", [(1, 1), (1, -1)])
def test_norm_of_a_normed_sum_falls_to_the_only_other_party(tmp_path: Path, signs: tuple[int, int]) -> None:
    rng = np.random.default_rng(3)
    rows = [sign * np.abs(rng.normal(size=(1, D))) * (m + 1) for m, sign in enumerate(signs)]
    seen = record(rows, tmp_path, algorithm="normed-sum", rank=1, engine="embedded", bound="secsum")
    found = scale(seen, rows)
    assert found.success
    s, other = (rows[0] + rows[1])[0], rows[1][0]
    true = float(np.linalg.norm(s))
    # t of ||t u - own|| = rest moves by rest/(u.other) for each unit of rest; B is opened to 20 bits, and raised by
    # as much as it may be too small.
    moves = np.linalg.norm(other) / abs(s @ other / true)
    allowed = 2.0 * moves * 2.0 * positive_tolerance(2, SHOWN_BITS) * sum(float(np.linalg.norm(x)) for x in rows)
    assert min(abs(found.figures[name] - true) for name in ("norm", "or")) < allowed


def test_page_says_what_the_bound_gave_away(tmp_path: Path) -> None:
    rows = tables(2, shift=3.0)
    for m, X in enumerate(rows):
        np.save(tmp_path / f"{m}.npy", X)
    files = [str(tmp_path / f"{m}.npy") for m in range(2)]
    pages = {}
    for bound in ("secsum", "1e6"):
        out = tmp_path / bound
        run(out, rows, bound=bound, algorithm="pca")
        arguments = ["privacy", "attack", str(out), "--own", files[0], "--honest", files[1], "--json"]
        result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
        findings = {f["attack"]: f for f in json.loads(result.stdout)["findings"]}
        assert findings["scale from the bound"]["success"] == (bound == "secsum")
        assert findings["mean less own rows"]["success"]
        pages[bound] = page.write(out).read_text()
    assert "One party alone finds the size of the data, which the protocol hides" in pages["secsum"]
    assert "nothing to work with: the bound was agreed on" in pages["1e6"]
    assert "One party alone finds the size" not in pages["1e6"]
    repeated = [*arguments[:-1], "--repeat", str(tmp_path / "secsum")]
    assert "2 runs" in CliRunner().invoke(cli, repeated, catch_exceptions=False, env={"COLUMNS": "300"}).output


def test_more_parties_than_the_run_had_are_an_error(tmp_path: Path) -> None:
    rows = tables(2)
    seen = run(tmp_path, rows, engine="secsum")
    for known in (Known(rows), Known(rows[:1], [*rows[1:], rows[0]])):
        with pytest.raises(InputError, match="and the run had 2"):
            attack(seen, known)
