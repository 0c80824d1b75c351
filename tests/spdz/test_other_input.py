"""A party that gives in another S_m in one iteration, or that was told another V: no MAC sees it, the parties do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pdml_spdz.algorithms import krylov
from pdml_spdz.algorithms.solver import Fitting, SvdSettings
from pdml_spdz.engines.mp_spdz.execution import MpSpdzRunner
from pdml_spdz.engines.mp_spdz.place import Place
from pdml_spdz.engines.openings.one_scale import FixedScale
from pdml_spdz.errors import ProtocolError
from pdml_spdz.numerics.linalg import sine
from pdml_spdz.primitives.agree import Agreement
from pdml_spdz.programs.precision import Precision
from pdml_spdz.transport.base import Clock, view
from tests.opened import Matrix
from tests.spdz.helpers import LONG, REQUIRED, Site
from tests.spdz.loop import FIT, Problem, program_of

pytestmark = [LONG, REQUIRED]
M, EVIL, D, K, TAU = 3, 2, 8, 2, 8
PROBLEM = Problem.random(M, D, krylov.block_size(K, D))


class Parties:
    """One fit by krylov at real machines.

    lie : what one party adds to a number of the second block, relative to the bound; told : it was told this, not V
    """

    def __init__(self, path: Path, protocol: str, bits: int) -> None:
        self.site, self.precision = Site(path, M, protocol), Precision(M, bits, 20)
        self.program = program_of(FIT, self.precision, D, PROBLEM.V.shape[1], TAU, protocol)
        self.site.compile(self.program, self.precision)
        self.lie, self.told = 0.0, b""

    def fit(self) -> list[np.ndarray]:
        return self.site.run(self._party)

    def _party(self, place: Place) -> np.ndarray:
        runner = MpSpdzRunner(place, self.precision, PROBLEM.bound, "on-demand", b"test")
        inner, calls, me = FixedScale(runner, self.program), [], place.link.me

        def opening(x, g, lengths=None):  # type: ignore[no-untyped-def]
            calls.append(1)
            if len(calls) == 2 and me == EVIL:
                x = x.copy()
                x[0, 0] += self.lie * PROBLEM.bound
            if len(calls) == 2 and self.told:
                place.link._hear("offer", {0: view(self.told if me == EVIL else b"V")})
            return inner(x, g, lengths)

        fitting = Fitting(Matrix(PROBLEM.S[me]), opening, Agreement(place.link), Clock())
        try:
            V = krylov.pd_krylov(fitting, krylov.start(PROBLEM.V), SvdSettings(K, TAU, 1e-4)).V
            runner.finish()
        finally:
            runner.close()
        return V


@pytest.mark.parametrize(("protocol", "bits", "lie"), [("semi", 31, 1e-8), ("hemi", 20, 1e-5), ("mascot", 10, 1e-2)])
def test_one_number_that_is_changed_in_one_iteration_ends_the_run(
    tmp_path: Path, protocol: str, bits: int, lie: float
) -> None:
    """1e-8 of the bound gave the hidden scale to 4e-6, with the right result and exit code 0."""
    parties = Parties(tmp_path, protocol, bits)
    parties.lie = lie
    with pytest.raises(ProtocolError, match=r"do not fit together(.|\n)*a party has changed its input"):
        parties.fit()


def test_honest_parties_are_not_accused(tmp_path: Path) -> None:
    parties = Parties(tmp_path, "semi", 31)
    W = np.linalg.eigh(PROBLEM.S.sum(axis=0))[1][:, ::-1][:, :K]
    assert max(sine(W, V) for V in parties.fit()) < 1e-4


def test_parties_that_were_told_different_v_give_in_nothing(tmp_path: Path) -> None:
    parties = Parties(tmp_path, "semi", 31)
    parties.told = b"another V"
    with pytest.raises(ProtocolError, match=r"P\d and P\d have not heard the same"):
        parties.fit()
