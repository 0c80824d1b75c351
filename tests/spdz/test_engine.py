"""NormedSecSum on MP-SPDZ's virtual machines: the numbers of the plain and the embedded engine, or nothing at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdml_spdz.engines.mp_spdz.execution import MpSpdzRunner
from pdml_spdz.engines.mp_spdz.paper import PaperColumns
from pdml_spdz.engines.mp_spdz.place import Place
from pdml_spdz.errors import RangeExceeded
from pdml_spdz.programs.precision import Precision
from pdml_spdz.programs.render import render
from tests.embedded.helpers import run_program
from tests.paper_errors import normed_sum_error
from tests.spdz.helpers import LONG, MARKS, REQUIRED, Site, machines, need, spent
from tests.spdz.loop import (
    CALLS,
    FIT,
    SMALL,
    STREAM,
    Problem,
    Recorder,
    check_opened,
    loop,
    program_of,
    read_g,
    tolerance,
)

pytestmark = REQUIRED


def embedded(way: str, xs: np.ndarray, publics: list[int], p: Precision) -> np.ndarray:
    """y of the first call on the embedded engine, for xs relative to the bound."""
    _, d, k = xs.shape
    g = read_g(publics, d, k)
    name = "scaled_sum" if way == FIT else "normed_sum"
    return run_program(render(name, p, d, k), xs, g, p).y[0]


QUICK = [
    ("semi", 2, (31, 40), STREAM),
    ("semi", 2, (20, 20), CALLS),
    ("semi", 2, (31, 40), FIT),
    ("semi", 3, SMALL, STREAM),
    ("semi", 3, SMALL, FIT),
    ("mascot", 2, SMALL, FIT),
]
OTHERS = [
    ("semi", 3, SMALL, CALLS),
    ("semi", 4, SMALL, STREAM),
    ("semi", 4, SMALL, FIT),
    ("hemi", 2, (20, 40), STREAM),
    ("hemi", 3, (31, 40), FIT),
    ("mascot", 2, SMALL, STREAM),
    ("mascot", 2, SMALL, CALLS),
    ("mascot", 3, SMALL, FIT),
    ("semi2k", 2, (31, 40), STREAM),
    ("semi2k", 2, (31, 40), FIT),
    ("semi2k", 3, SMALL, FIT),
    ("temi", 3, (31, 40), FIT),
    ("spdz2k", 2, (31, 40), FIT),  # a build has its rings of 64 and 72 bits, and one more: 192
]


@pytest.mark.parametrize(
    ("protocol", "M", "bits", "way"),
    [pytest.param(*case, marks=MARKS) for case in QUICK] + [pytest.param(*case, marks=LONG) for case in OTHERS],
)
def test_same_numbers_as_plain_and_embedded(
    tmp_path: Path, temporary: Path, protocol: str, M: int, bits: tuple[int, int], way: str
) -> None:
    d, k, tau = (5, 2, 3) if M == 2 and protocol != "mascot" else (3, 1, 2)
    problem, site = Problem.random(M, d, k), Site(tmp_path, M, protocol)
    p = Precision(M, *bits, hidden_mean=not protocol.endswith("2k"))  # with one, rings of 256 bits
    site.compile(program_of(way, p, d, k, tau, site.protocol), p)
    recorders = site.run(lambda place: loop(Recorder(place, p, problem.bound), problem, way, tau))
    assert check_opened(way, recorders, p) == tau * (k if way == CALLS else 1)
    firsts = [recorder.calls[0] for recorder in recorders]
    xs = np.stack([x for x, _, _ in firsts]) / problem.bound
    _, publics, opened = firsts[0]
    y = embedded(way, xs, publics, p)
    assert np.all(np.abs(opened - y) <= 2 * tolerance(p, y))
    assert machines(tmp_path) == []
    assert list(temporary.iterdir()) == []


STOCKS = [(name, bits) for name in ("semi", "hemi", "mascot", "semi2k") for bits in (10, 20, 31)]


def marked(name: str, bits: int) -> Any:
    return pytest.param(name, bits, marks=LONG if name in ("mascot", "semi2k") else pytest.mark.spdz)


@pytest.mark.parametrize(("protocol", "bits"), [marked(*case) for case in STOCKS])
def test_offline_program_makes_what_a_run_takes(tmp_path: Path, temporary: Path, protocol: str, bits: int) -> None:
    """At every length of primes: 20 bits and less are longer than 128, and shorter than 256."""
    need(protocol, offline=True)
    d, k, tau = 3, 1, 2
    p, problem, site = Precision(2, bits, 20, hidden_mean=False), Problem.random(2, d, k), Site(tmp_path, 2, protocol)
    site.make_stock(program := program_of(FIT, p, d, k, tau, protocol), p)
    recorders = site.run(lambda place: loop(Recorder(place, p, problem.bound, "stock"), problem, FIT, tau))
    assert check_opened(FIT, recorders, p) == tau
    assert [len(recorder.stocks) for recorder in recorders] == [1, 1]
    assert program.name == "scaled_sum"
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(("protocol", "bits"), [marked(*case) for case in STOCKS if case != ("semi2k", 31)])
def test_offline_program_makes_what_the_papers_program_takes(
    tmp_path: Path, temporary: Path, protocol: str, bits: int
) -> None:
    need(protocol, offline=True)
    d, p, site = 2, Precision(2, bits), Site(tmp_path, 2, protocol)
    site.make_stock(program := render("normed_sum_paper", p, d, 1), p)
    x = np.array([[0.6], [0.3]])

    def party(place: Place) -> np.ndarray:
        runner = MpSpdzRunner(place, p, 1.0, "stock", b"test")
        try:
            return PaperColumns(runner, program, 1)(x / 2, x).U
        finally:
            runner.close()

    for u in site.run(party):
        # u is made a unit vector: its error is that of an entry, as often as it has entries.
        error = normed_sum_error(bits, d, norm=float(np.linalg.norm(x))) * (1 + np.sqrt(d))
        assert np.abs(u - x / np.linalg.norm(x)).max() <= error * 2.0**-bits
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("way", [STREAM, FIT])
@pytest.mark.parametrize("stock", [False, True], ids=["on demand", "stock"])
@pytest.mark.spdz
def test_sum_below_the_range_ends_at_every_party(tmp_path: Path, temporary: Path, way: str, stock: bool) -> None:
    d, k, tau = 3, 1, 2
    p, problem, site = Precision(2, *SMALL), Problem.random(2, d, k), Site(tmp_path, 2)
    tiny = Problem(problem.S * 2.0**-16, problem.V, problem.bound)
    program = program_of(way, p, d, k, tau, site.protocol)
    site.compile(program, p)
    if stock:
        site.make_stock(program, p)

    def ends(place: Place) -> None:
        with pytest.raises(RangeExceeded, match="too small for the agreed bound and range; nothing that depends"):
            loop(Recorder(place, p, tiny.bound, "stock" if stock else "on-demand"), tiny, way, tau)
        assert "Crash requested by program" in (place.logs / "vm.log").read_text()

    site.run(ends)
    assert machines(tmp_path) == []
    assert list(temporary.iterdir()) == []
    for m in range(2):
        left = {path.name for path in site.stocks(m).rglob("*")}
        assert left == ({"mp-spdz", f".making-{m}", *spent(site.stocks(m), m)} if stock else set())
