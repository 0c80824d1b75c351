"""The benchmark of MP-SPDZ runs, at a size that says nothing about speed."""

from __future__ import annotations

import math

import pytest

from pdml_spdz.bench import mp_spdz
from pdml_spdz.bench.results import ERROR
from pdml_spdz.engines.mp_spdz import home
from tests.paper_errors import normed_sum_error

FOUND = home.find()
pytestmark = [pytest.mark.spdz, pytest.mark.skipif(FOUND is None, reason=home.missing_text())]


def test_benchmark_runs_and_marks_what_it_scaled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two parties, whose random bits are cheap; the time limit lets the paper's program run at its smallest length."""
    M, d, f = 2, 5, 10
    monkeypatch.setattr(mp_spdz, "COLUMNS", 2)
    cold, fit = (mp_spdz.projection(M, d, f, "semi", where, 1) for where in ("cold", "fit"))
    papers = mp_spdz.paper(M, mp_spdz.PaperLengths((4, d), 0.001), f, "semi")
    paper, scaled = papers[4][0], papers[d][0]
    assert [papers[n][1] for n in (4, d)] == [0, 4]
    # What was timed is NormedSecSum: y = u is off by M units an entry, and its norm by that times sqrt(d).
    assert max(values[ERROR].median for values in (cold, fit)) <= M * (1 + math.sqrt(d))
    assert paper[ERROR].median <= normed_sum_error(f, 4, norm=0.5) * (1 + math.sqrt(4))  # u is made a unit vector
    for values in (cold, fit, paper):
        assert min(values[name].median for name in ("rounds", "offline MB", "triples")) > 0
    for name in ("rounds", "offline MB", "offline s", "triples"):
        assert scaled[name].median > paper[name].median
