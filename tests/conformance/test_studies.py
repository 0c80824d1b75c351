"""Which engines, openings, solvers and algorithms go together: a study, or an error that says why not."""

from __future__ import annotations

import re

import pytest

from pdml_spdz.errors import StudyError
from pdml_spdz.local.joint import local_study
from pdml_spdz.study.algorithm import ALGORITHMS
from pdml_spdz.study.engines import ENGINES
from pdml_spdz.study.levels import LEVELS, OPENINGS
from pdml_spdz.study.solvers import SOLVERS
from tests.conformance.cases import ALL, ASKED, IMPOSSIBLE, POSSIBLE, Case


@pytest.mark.parametrize("case", [case for param in POSSIBLE for case in param.values], ids=str)
def test_a_study_that_asks_for_it_has_it(case: Case) -> None:
    study = local_study(2, **case.settings())
    assert study.opening.name == case.opening
    assert study.level is LEVELS[OPENINGS[case.opening].level]


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_what_is_impossible_is_refused_with_words(case: Case) -> None:
    with pytest.raises(StudyError, match=re.escape(str(case.refused()))) as error:
        local_study(2, **case.settings())
    assert error.value.wanted


def test_everything_that_has_a_name_is_in_some_case() -> None:
    possible = [case for param in POSSIBLE for case in param.values]
    for registry, name in ((ENGINES, "engine"), (OPENINGS, "opening"), (SOLVERS, "solver"), (ALGORITHMS, "algorithm")):
        sealed = {o for o in OPENINGS.lines if LEVELS[OPENINGS[o].level].sealed} if name == "opening" else set()
        assert {getattr(case, name) for case in possible} | sealed == set(registry.lines)
    assert set(ASKED) == set(OPENINGS.lines)
    assert len(ALL) == len(POSSIBLE) + len(IMPOSSIBLE)
