"""Benchmarks: what becomes of numbers once they are measured."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.performance import kept_rows, mp_spdz, precision, scenarios
from benchmarks.performance.__main__ import LENGTHS, QUESTIONS
from benchmarks.performance.network import CONTINENT, LOOPBACK
from benchmarks.performance.page import section, write
from benchmarks.performance.peers import PEERS
from pdml_spdz.bench.normed_sum import (
    NOTES,
    PAPER,
    STOPPED,
    Framework,
    TableRequest,
    TableRow,
    checks,
    climb,
    kept,
    measure,
    rows,
    to_do,
)
from pdml_spdz.bench.results import (
    R2,
    Cell,
    Check,
    Measurement,
    Quartiles,
    constant,
    exact,
    line,
    load,
    origin,
    scaled,
    spread,
    straight,
)
from pdml_spdz.bench.tables import compare, cost_grid, number, paper_grid, ratio, spread_text
from pdml_spdz.cli.bench import Numbers, Words, bench
from pdml_spdz.errors import EngineError, InputError
from pdml_spdz.numerics.linalg import gaussian, orthonormalise, sine

ORIGIN = {
    "time": "2026-01-01T00:00:00+00:00",
    "commit": "abc",
    "machine": {"processor": "a", "cores": 2, "memory_gb": 8.0, "load": 0.1},
    "versions": {"python": "3.11", "numpy": "2", "openssl": "3"},
    "mp_spdz": None,
}
ROW = TableRow("embedded", "OT", "projection", "cold", 31, 3)


def cell(d: int, seconds: Quartiles | float, row: TableRow = ROW, **values: float) -> Cell:
    online = seconds if isinstance(seconds, Quartiles) else Quartiles(seconds, seconds, seconds, 5)
    return Cell(row.key(d), {"online s": online} | {name.replace("_", " "): exact(v) for name, v in values.items()})


def result(*cells: Cell, checks: list[Check] | None = None) -> Measurement:
    return Measurement("normed-sum", {"k": 7}, list(cells), checks or [], ["a note"], ORIGIN)


# ---- statistics


def test_a_ratio_has_the_bounds_of_both_quartiles() -> None:
    found = ratio(Quartiles(10, 8, 12, 5), Quartiles(5, 4, 6, 7))
    assert (found.median, found.low, found.high, found.n) == (2.0, 8 / 6, 3.0, 5)


def test_spread_of_one_is_that_one() -> None:
    assert spread([3.0]) == (3.0, 3.0, 3.0, 1)
    assert spread([1.0, 2.0, 3.0]) == (2.0, 1.5, 2.5, 3)


@given(st.floats(-1e3, 1e3), st.floats(0.1, 1e3), st.lists(st.integers(1, 10**6), min_size=2, max_size=6, unique=True))
def test_a_straight_line_is_found(intercept: float, slope: float, x: list[int]) -> None:
    found = line(x, [intercept + slope * v for v in x])
    assert found.at(x[0]) == pytest.approx(intercept + slope * x[0], rel=1e-6, abs=1e-6)
    assert found.r2 == pytest.approx(1.0, abs=1e-6)


def test_a_parabola_is_no_line_for_the_lengths_that_are_measured() -> None:
    assert line(LENGTHS, [v**2 for v in LENGTHS]).r2 < R2


# ---- cells that are too long


def test_scaled_seconds_lie_on_the_line_through_the_last_two_cells() -> None:
    """Bytes, rounds and triples are known or not: hemi's come in batches, and are no straight line."""
    cells = [cell(10, 99.0), cell(100, 2.0, offline_MB=5, rounds=7), cell(200, 3.0, offline_MB=7, error_ulp=2)]
    found = scaled(cells, ROW.key(1000), 1000)
    assert found.scaled_from == 200
    assert found.key["d"] == 1000
    assert set(found.values) == {"online s"}
    assert found.values["online s"].median == pytest.approx(11.0)


def test_noise_that_falls_with_d_is_not_taken_for_a_line() -> None:
    found = scaled([cell(100, 3.0), cell(200, 2.0)], ROW.key(1000), 1000)
    assert found.values["online s"].median == pytest.approx(10.0)


def test_quartiles_are_scaled_with_their_median() -> None:
    found = scaled([cell(100, 1.0), cell(200, Quartiles(2.0, 1.0, 4.0, 5))], ROW.key(400), 400).values["online s"]
    assert (found.median, found.low, found.high) == pytest.approx((4.0, 2.0, 8.0))


def nobody(text: str) -> None:
    """Is told."""


def test_beyond_the_limit_cells_are_scaled_and_marked_or_left_out() -> None:
    asked = []

    def measure(row: TableRow, d: int, request: TableRequest) -> Cell:
        asked.append(d)
        return cell(d, 1.0 + 0.01 * d, row)

    known = {c.identity: c for c in (cell(100, 2.0), cell(200, 3.0))}
    request = TableRequest(dims=(1000, 100, 200, 10000), limit=0.0)
    cells = list(climb(ROW, request, nobody, measure, known))
    assert asked == []
    assert [(c.key["d"], c.scaled_from) for c in cells] == [(100, 0), (200, 0), (1000, 200), (10000, 0)]
    assert cells[2].values["online s"].median == pytest.approx(11.0)
    assert cells[3].values == {}  # fifty times the longest: nothing is claimed
    assert "over --limit 0 s" in cells[3].missing
    assert [c.missing[:7] for c in climb(ROW, request, nobody, measure)] == ["not run"] * 4
    assert [c.scaled_from for c in climb(ROW, replace(request, limit=1e9), nobody, measure)] == [0] * 4
    assert asked == [100, 200, 1000, 10000]


def test_cell_that_fails_says_why_and_longer_ones_are_not_tried() -> None:
    def measure(row: TableRow, d: int, request: TableRequest) -> Cell:
        if d == 200:
            raise EngineError("the machine broke.\nits log is somewhere", "a whole one")
        return cell(d, 1.0, row)

    cells = list(climb(ROW, TableRequest(dims=(100, 200, 400), limit=math.inf), nobody, measure))
    assert [c.missing for c in cells] == ["", "failed: the machine broke.", "not run: it failed at d = 200"]


def table(request: TableRequest, known: Sequence[Cell] = (), **measured: Any) -> tuple[Measurement, list[list[Cell]]]:
    """What is measured of a framework, and what was kept after each cell."""
    said: list[list[Cell]] = []

    def run(M: int, d: int, bits: int, repeats: int) -> list[dict[str, Any]]:
        if "at" in measured and measured["at"] == d:
            raise measured["error"]
        return [{"seconds": float(d), "sent": None, "error": 0.0}]

    peer = Framework("other", "any", lambda M: "", run)
    found = measure(request, peers=[peer], known=known, keep=lambda result: said.append(result.cells))
    return found, said


def test_cells_are_kept_as_they_come_and_the_next_call_goes_on_from_them() -> None:
    request = TableRequest((3,), (10, 20, 40), (), outside=(3,), limit=math.inf)
    stopped, said = table(request, at=40, error=KeyboardInterrupt())
    assert STOPPED in stopped.notes
    own = [[c.values["online s"].median for c in cells] for cells in said]
    assert own == [[10.0], [10.0, 20.0]]
    assert stopped.cells == said[-1]
    others = cell(10, 5.0)  # of another request: it stays where it was
    before = [replace(c, values=c.values | {"cpu s": exact(1.0)}) for c in stopped.cells]
    assert len(to_do(request, [*before, others], [Framework("other", "any", lambda M: "", lambda *_: [])])) == 4
    whole, said = table(request, known=[*before, others])
    assert len(said) == len(whole.cells) - 1 == 6
    assert [c.key["d"] for c in whole.cells if "cpu s" in c.values] == [10, 20]
    assert whole.cells[-1] == others
    failed, _ = table(request, at=20, error=EngineError("it broke."))
    assert {c.missing for c in failed.cells} == {"", "failed: it broke.", "not run: it failed at d = 20"}
    again, _ = table(request, known=failed.cells)
    assert not any(c.missing for c in again.cells)


def test_cells_that_were_measured_in_another_way_are_not_mixed(tmp_path: Path) -> None:
    result(cell(10, 1.0)).save(tmp_path / "r.json")
    assert kept(tmp_path / "r.json", TableRequest(k=7)) == [cell(10, 1.0)]
    with pytest.raises(InputError, match=r"was measured with k 7(.|\n)*Wanted: k 3(.|\n)*another --json"):
        kept(tmp_path / "r.json", TableRequest(k=3))


def test_own_engines_run_for_all_parties_and_other_frameworks_where_asked() -> None:
    found = list(rows(TableRequest(parties=(2, 3), outside=(3,), protocols=("semi", "hemi")), PEERS))
    assert {r.engine for r in found if r.M == 2} == {"embedded", "mp-spdz"}
    assert {r.engine for r in found if r.M == 3} == {"embedded", "mp-spdz", "mpyc", "spu"}
    papers = [(r.M, r.protocol, r.where) for r in found if r.program == "paper"]
    assert papers == [(M, protocol, "cold") for M in (2, 3) for protocol in ("semi", "hemi")]


# ---- files


def test_a_result_survives_its_file(tmp_path: Path) -> None:
    check = Check("a", 3.0, 2.0, unit=" times", scaled=True)
    before = result(cell(10, 1.5), replace(cell(100, 2.5), scaled_from=10), checks=[check])
    before.save(tmp_path / "r.json")
    assert load(tmp_path / "r.json") == before
    with (tmp_path / "r.csv").open() as file:
        table = list(csv.DictReader(file))
    assert [(r["d"], r["scaled_from"], r["online s"]) for r in table] == [("10", "", "1.5"), ("100", "10", "2.5")]


@pytest.mark.parametrize("text", ["", "[]", '{"format": 0}', '{"format": 1, "cells": [{}], "checks": []}'])
def test_what_is_no_result_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(InputError, match="not a result of a benchmark"):
        load(tmp_path / "r.json")


# ---- comparison


def test_changes_beyond_noise_are_told_from_noise() -> None:
    a = result(
        cell(10, Quartiles(1.0, 0.9, 1.1, 5)), cell(100, Quartiles(1.0, 0.9, 1.1, 5), rounds=2), cell(1000, exact(1))
    )
    b = result(
        cell(10, Quartiles(1.1, 1.0, 1.2, 5)), cell(100, Quartiles(0.5, 0.4, 0.6, 5), rounds=3), cell(1000, exact(9))
    )
    changes, notes = compare(a, b)
    assert [c.verdict for c in changes] == ["same", "less", "more", "too few"]
    assert changes[1].ratio == pytest.approx((0.5, 0.4 / 1.1, 0.6 / 0.9, 5))
    assert notes == []


def test_scaled_and_measured_are_never_compared() -> None:
    changes, notes = compare(result(cell(10, 1.0)), result(replace(cell(10, 1.0), scaled_from=5)))
    assert changes == []
    assert "scaled in one, measured in the other" in notes[0]


def test_what_makes_a_comparison_doubtful_is_said() -> None:
    a = result(cell(10, 1.0), Cell(ROW.key(20), missing="nothing"))
    machine = ORIGIN["machine"] | {"cores": 64, "load": 9.0}  # type: ignore[operator]
    b = replace(a, origin=ORIGIN | {"machine": machine}, settings={"k": 3})
    _, notes = compare(a, b)
    assert [n for n in notes if "cores: 2 and 64" in n]
    assert [n for n in notes if "load was 0.1" in n]
    assert [n for n in notes if "settings differs in k" in n]
    assert [n for n in notes if "d = 20: not in both" in n]
    with pytest.raises(InputError, match="is of the benchmark normed-sum"):
        compare(a, replace(a, benchmark="svd"))


def test_compare_from_the_command_line(tmp_path: Path) -> None:
    result(cell(10, 1.0)).save(tmp_path / "a.json")
    result(cell(10, 3.0)).save(tmp_path / "b.json")
    done = CliRunner().invoke(bench, ["compare", str(tmp_path / "a.json"), str(tmp_path / "b.json")])
    assert done.exit_code == 0, done.output
    assert "3 (3 .. 3)" in done.output
    assert "more" in done.output


# ---- promises


def promised() -> Measurement:
    """Exactly what was promised, in seconds: MPyC 20 s, cold 1 s online and 5 s in all, ..."""
    fit, spdz = replace(ROW, where="fit"), replace(ROW, engine="mp-spdz", protocol="semi")
    return result(
        cell(10000, 1.0, total_s=5.0, rounds=110.0),
        cell(10000, 0.1, fit, total_s=1.0, iteration_s=4.0, secsum_s=1.0, in_the_window_s=5.5),
        cell(10000, 20.0, replace(ROW, engine="mpyc", bits=24)),
        cell(10000, 1.0, replace(ROW, engine="spu")),
        cell(100, 1.0, fit, offline_MB=1.0),
        cell(100, 300.0, replace(spdz, program="paper"), offline_MB=500.0),
    )


def test_every_promise_is_checked_at_its_bound() -> None:
    found = checks(promised(), 7)
    assert [(c.found, c.wanted) for c in found] == [
        *[(20, 20), (4, 4), (20, 20), (4, 4), (5.5, 5.5), (1, 1), (110, 110)],
        *[(300, 300), (500, 500)],
    ]
    assert all(c.ok for c in found)


@pytest.mark.parametrize("i", range(6))
def test_promises_that_are_not_kept_are_seen(i: int) -> None:
    whole = promised()
    slower = whole.cells[i]
    factor = 0.5 if slower.key["engine"] != "embedded" else 2.0
    values = {n: v.times(factor) if n != "secsum s" else v for n, v in slower.values.items()}
    cells = [*whole.cells[:i], replace(slower, values=values), *whole.cells[i + 1 :]]
    assert not all(c.ok for c in checks(replace(whole, cells=cells), 7))


def test_a_promise_kept_by_a_scaled_cell_says_so() -> None:
    whole = promised()
    cells = [replace(c, scaled_from=10) if c.key["engine"] == "mpyc" else c for c in whole.cells]
    found = checks(replace(whole, cells=cells), 7)
    assert [c.scaled for c in found] == [True] * 3 + [False] * 6
    assert "found ~20 times" in str(found[0])
    assert [c.verdict for c in found] == ["scaled"] * 3 + ["yes"] * 6


def test_growth_is_checked_on_measured_cells_only() -> None:
    cells = [cell(d, 1.0, online_MB=2.0 + 0.5 * d) for d in (10, 100, 1000)]
    (found,) = straight(cells, "d", ("online MB",))
    assert found.ok
    assert found.found == pytest.approx(1.0)
    bent = [*cells[:2], cell(1000, 1.0, online_MB=1e6), cell(300, 1.0, online_MB=2.0)]
    assert not straight(bent, "d", ("online MB",))[0].ok
    assert straight([*cells[:2], replace(cells[2], scaled_from=100)], "d", ("online MB",)) == []


def test_bytes_that_depend_on_rows_are_seen() -> None:
    cells = [Cell({"engine": "secsum", "n": n}, {"fit MB": exact(5.0)}) for n in (10, 1000)]
    assert constant(cells, "n", ("fit MB",))[0].ok
    assert not constant([cells[0], replace(cells[1], values={"fit MB": exact(5.1)})], "n", ("fit MB",))[0].ok


# ---- tables and the page


def test_the_table_has_the_papers_figures_marks_and_missing_engines() -> None:
    missing = Cell(replace(ROW, engine="mpyc").key(100), missing="pip install mpyc")
    grid = paper_grid(result(cell(100, 0.002), replace(cell(1000, 3.0), scaled_from=200), missing))
    assert grid.header == ["engine", "M", "d = 100", "d = 1,000"]
    assert grid.rows[0] == ["the paper (2018)", "3", f"{PAPER[3][100]} s", f"{PAPER[3][1000]} s"]
    assert grid.rows[1] == ["embedded, cold (31 bits)", "3", "2 ms", "~3 s [200]"]
    assert grid.rows[2] == ["mpyc: pip install mpyc", "3", "-", "-"]
    far = Cell(ROW.key(1000), missing="not run: too long")
    assert paper_grid(result(cell(100, 0.002), far)).rows[1][2:] == ["2 ms", "not run: too long"]
    row = replace(ROW, engine="mp-spdz", protocol="mascot")
    (absent,) = paper_grid(result(Cell(row.key(100), missing="not run: too long"))).rows[1:]
    assert absent == ["mp-spdz, mascot, cold (31 bits): not run: too long", "3", "-"]
    assert cost_grid(result(cell(100, 1.0, rounds=178))).rows[0][-1] == "178"


def test_kept_rows_stand_where_the_table_has_none_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spdz, paper = replace(ROW, engine="mp-spdz", protocol="semi"), {"engine": "mp-spdz", "program": "paper"}
    kept = result(
        cell(100, 7.0, spdz), cell(100, 9.0, ROW), cell(100, 900.0, replace(spdz, program="paper"), offline_MB=1)
    )
    kept.save(tmp_path / "kept.json")
    monkeypatch.setattr(mp_spdz, "KEPT", tmp_path / "kept.json")
    fit = cell(100, 1.0, replace(ROW, where="fit"), offline_MB=1)
    own = result(fit, cell(100, 2.0), Cell(spdz.key(100), missing="not installed"))
    whole = mp_spdz.with_kept(own)
    seconds = {(c.key["engine"], c.key["program"], c.key["where"]): c.values["online s"].median for c in whole.cells}
    assert seconds == {
        ("embedded", "projection", "fit"): 1.0,
        ("embedded", "projection", "cold"): 2.0,  # what was measured now, not what was kept
        ("mp-spdz", "projection", "cold"): 7.0,
        ("mp-spdz", "paper", "cold"): 900.0,
    }
    assert whole.find(**paper) is not None
    assert [c.found for c in whole.checks] == [900.0, 1.0]  # the paper's program over the engine embedded


@pytest.mark.parametrize("kept", ["measured", "scaled", "missing"])
@pytest.mark.parametrize("own", ["measured", "scaled", "missing"])
def test_measured_cells_come_before_scaled_ones_and_own_before_kept(own: str, kept: str) -> None:
    def one(known: str, seconds: float) -> Cell:
        if known == "missing":
            return Cell(ROW.key(1000), missing=f"not run: {seconds}")
        return replace(cell(1000, seconds), scaled_from=100 if known == "scaled" else 0)

    a, b = one(own, 1.0), one(kept, 2.0)
    order = ["measured", "scaled", "missing"]
    better = a if own != "missing" and order.index(own) <= order.index(kept) else b
    (found,) = mp_spdz.with_rows(result(a), result(b)).cells
    assert found is better


@pytest.mark.parametrize(("kept_from", "shown"), [(0, 0), (50, 0), (400, 400)])
def test_nothing_scaled_stands_beside_a_longer_measurement(kept_from: int, shown: int) -> None:
    """kept_from : what the kept cell is scaled from, 0 if it is missing; shown : and what the page shows is."""
    own = replace(cell(10_000, 1.0), scaled_from=93)
    kept = replace(cell(10_000, 2.0), scaled_from=kept_from) if kept_from else Cell(ROW.key(10_000), missing="not run")
    (found,) = [c for c in mp_spdz.with_rows(result(own), result(kept, cell(400, 0.1))).cells if c.key == kept.key]
    assert (found.scaled_from, bool(found.missing)) == (shown, shown == 0)
    (alone,) = mp_spdz.with_rows(result(own), result(kept)).cells
    assert alone is (kept if kept_from > 93 else own)


def test_rows_of_mp_spdz_have_one_order_and_say_which_are_kept() -> None:
    semi = replace(ROW, engine="mp-spdz", protocol="semi")
    fit, paper = replace(semi, where="fit"), replace(semi, program="paper")
    own = result(cell(100, 1.0, paper), replace(cell(1000, 1.0, semi), scaled_from=100), cell(100, 1.0, semi))
    kept = replace(result(cell(1000, 2.0, semi), cell(100, 2.0, fit)), origin=ORIGIN)
    whole = mp_spdz.with_rows(own, kept)
    assert [(c.key["program"], c.key["where"], c.key["d"], c.values["online s"].median) for c in whole.cells] == [
        ("projection", "cold", 100, 1.0),
        ("projection", "fit", 100, 2.0),
        ("paper", "cold", 100, 1.0),
        ("projection", "cold", 1000, 2.0),
    ]
    names = "semi, cold (31 bits) at d = 1,000 with M = 3; semi, in a fit (31 bits)."
    assert mp_spdz.whence(whole, kept).endswith(f"Of the rows above: {names}")
    assert mp_spdz.whence(own, kept).endswith("Of the rows above: none.")


def test_kept_rows_are_placed_on_a_page_whose_results_are_gone() -> None:
    """What its tables show is read from them: quartiles, what was scaled and from where, what is missing and why."""
    semi = replace(ROW, engine="mp-spdz", protocol="semi")
    cells = [
        cell(100, Quartiles(0.0021, 0.0019, 0.0025, 5), cpu_s=0.5),
        cell(1000, 12345.0, offline_MB=34602.1, rounds=7.5),
        replace(cell(100, 3e-5, semi, offline_MB=0.5), scaled_from=44),
        cell(100, 9.0, replace(semi, program="paper"), triples=67625),
        Cell(semi.key(1000), missing="not run: nobody has waited for it"),
        *(Cell(replace(ROW, engine="mpyc").key(d), missing="pip install mpyc") for d in (100, 1000)),
    ]

    def page(*cells: Cell, notes: list[str] | None = None) -> str:
        lines = section("normed-sum", "what?", replace(result(*cells), notes=notes or ["an old note"]), [])
        return "\n".join(["# Performance", "", *lines, "", "## other: why?", ""])

    text = page(*cells)
    assert page(*kept_rows.measured(text)) == text
    known = cell(100, Quartiles(0.007, 0.006, 0.008, 3), semi, offline_MB=0.6)
    other = cell(100, 1.0, replace(semi, program="paper"))  # the page has one of its own
    kept = replace(result(known, other), notes=["a new note"])
    whole = mp_spdz.with_rows(result(*cells), kept)
    notes = [*NOTES, "a new note", mp_spdz.whence(whole, kept)]
    figure = "![Figure: what?](performance-normed-sum.svg)\n\n"
    placed = kept_rows.placed(text, kept)
    assert placed.replace(figure, "") == page(*whole.cells, notes=notes)
    assert kept_rows.placed(placed, kept) == placed
    with pytest.raises(InputError, match="the page has no section normed-sum"):
        kept_rows.placed("# Performance\n", kept)


def test_numbers_are_short() -> None:
    assert [number(v, "s") for v in (0.0000123, 0.0123, 1.5, 12345.0)] == ["12.3 µs", "12.3 ms", "1.5 s", "12,345 s"]
    assert spread_text(Quartiles(0.01, 0.008, 0.012, 5), "s") == "10 (8 .. 12) ms"
    assert number(math.nan) == "nan"


def test_the_page_is_written_from_results_alone(tmp_path: Path) -> None:
    promised().save(tmp_path / "normed-sum.json")
    for out in ("a", "b"):
        (tmp_path / out).mkdir()
        files = write(tmp_path, tmp_path / out / "performance.md", QUESTIONS)
        assert {f.suffix for f in files} == {".md", ".png", ".svg"}
    text = (tmp_path / "a" / "performance.md").read_text()
    assert "| embedded, cold (31 bits) | 3 |" in text
    assert "commit abc" in text
    assert "performance-normed-sum.svg" in text
    for name in ("performance.md", "performance-normed-sum.svg"):  # the same results make the same files
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    with pytest.raises(InputError, match="holds no results"):
        write(tmp_path / "a", tmp_path / "c.md", QUESTIONS)


def test_a_page_keeps_what_was_not_measured_again(tmp_path: Path) -> None:
    def page(name: str, commit: str) -> str:
        (results := tmp_path / commit).mkdir(exist_ok=True)
        replace(promised(), benchmark=name, origin=ORIGIN | {"commit": commit}).save(results / f"{name}.json")
        write(results, tmp_path / "page.md", QUESTIONS)
        return (tmp_path / "page.md").read_text()

    assert "# Measured earlier" not in page("growth", "one")
    text = page("svd", "two")
    now, before = text.split("# Measured earlier\n")
    assert ("## svd:" in now, "commit two" in now, "## growth:" in before, "commit one" in before) == (True,) * 4
    assert ("## growth:" in now, "## svd:" in before) == (False, False)
    wanted = [text.count(f" | {part} |") for part in ("growth (earlier)", "svd", "growth", "svd (earlier)")]
    assert wanted == [len(promised().checks)] * 2 + [0, 0]
    assert text.count("| wanted | found |") == 1  # one table
    assert page("svd", "two") == text  # the same results make the same page
    (tmp_path / "one" / "growth.json").rename(tmp_path / "two" / "growth.json")
    assert "# Measured earlier" not in page("svd", "two")


# ---- networks, scenarios, exact arithmetic


def test_a_network_adds_latency_for_rounds_and_bandwidth_for_bytes() -> None:
    assert CONTINENT.seconds(rounds=10, bytes_sent=12.5e6) == pytest.approx(10 * 0.05 + 1.0)
    assert LOOPBACK.seconds(rounds=10, bytes_sent=1e9) == 0.0


def test_forecast_of_a_fit_is_a_line_in_its_iterations() -> None:
    short = {10: scenarios.Totals(2.0, 100.0, 1e6), 30: scenarios.Totals(4.0, 160.0, 3e6)}
    whole = scenarios.forecast(short, 300)
    assert (whole.seconds, whole.rounds, whole.sent) == pytest.approx((31.0, 970.0, 30e6))
    assert whole.over(CONTINENT) == pytest.approx(31.0 + 970 * 0.05 + 2.4)


def test_exact_direction_is_that_of_floats_but_for_their_rounding() -> None:
    rng = np.random.default_rng(0)
    x = [rng.standard_normal(20) * 2.0**-30 for _ in range(3)]
    s = np.sum(x, axis=0)
    assert np.max(np.abs(precision.exact_direction(x) - s / np.linalg.norm(s))) < 1e-14


def test_exact_iterations_are_those_of_floats_but_for_their_rounding() -> None:
    d = 8
    tables = precision.study_rows(d, 10.0)
    X = np.vstack(tables)
    V = gaussian(np.random.default_rng(precision.SEED), d, precision.K, 1.0 / d)
    for _ in range(precision.TAU):
        V = orthonormalise(X.T @ (X @ V))[0]
    assert sine(precision.exact_subspace(tables, d), V) < 1e-13


def test_the_papers_arithmetic_fails_where_its_squares_vanish() -> None:
    """A norm of 2^-n leaves 31 - 2 n bits of its square, and none from n = 16 on."""
    unit = np.full(4, 0.5)

    def error(n: int) -> float:
        u = precision.paper_normed_sum([precision._integers(unit * 2.0**-n, 31)], 31)
        return math.inf if u is None else float(np.max(np.abs(precision._reals(u, 31) - unit)))

    assert error(0) <= 2.0**-31
    assert error(16) == math.inf


# ---- the command line


def test_lists_on_the_command_line() -> None:
    assert Numbers().convert("100,10^4", None, None) == (100, 10000)
    for wrong in ("", "1,x", "0", "10^"):
        with pytest.raises(click.BadParameter):
            Numbers().convert(wrong, None, None)
    assert Words(("a", "b")).convert("b,a", None, None) == ("b", "a")
    with pytest.raises(click.BadParameter, match="none of a, b"):
        Words(("a", "b")).convert("c", None, None)


def test_every_benchmark_has_a_command_with_an_example() -> None:
    for name in ("normed-sum", "svd", "nmf", "sec-sum", "offline", "local", "compare"):
        assert "Example" in (bench.commands[name].help or "")


def test_results_say_what_they_were_measured_on() -> None:
    found = origin()
    assert found["machine"]["cores"] >= 1
    assert found["versions"]["numpy"] == np.__version__
    assert str(Path.home()) not in str(found)
