"""What MP-SPDZ says when something is wrong becomes the right error at every party, and nothing is left running."""

from __future__ import annotations

from pathlib import Path

import pytest

from pdml_spdz.engines.mp_spdz.place import Place
from pdml_spdz.errors import EngineError, PdmlError, PeerError
from pdml_spdz.programs.precision import Precision
from pdml_spdz.transport import certs
from tests.spdz.helpers import LONG, REQUIRED, Site, machines
from tests.spdz.loop import FIT, SMALL, Problem, Recorder, loop, program_of

pytestmark = [LONG, REQUIRED]
D, K, TAU = 3, 1, 2
P, PROBLEM = Precision(2, *SMALL), Problem.random(2, D, K)
PROGRAM = program_of(FIT, P, D, K, TAU)


@pytest.fixture
def site(tmp_path: Path, temporary: Path) -> Site:
    made = Site(tmp_path, 2)
    made.compile(PROGRAM, P)
    return made


def run(site: Site, offline: str = "on-demand") -> list[PdmlError]:
    """Every party's error."""

    def party(place: Place) -> PdmlError:
        with pytest.raises(PdmlError) as caught:
            loop(Recorder(place, P, PROBLEM.bound, offline), PROBLEM, FIT, TAU)
        return caught.value

    errors = site.run(party)
    assert machines(site.path) == []
    return errors


@pytest.mark.parametrize("name", ["Triples-Dp-P0", "Inputs-Dp-P0-0"])
def test_material_that_does_not_suffice(site: Site, name: str) -> None:
    site.make_stock(PROGRAM, P)
    paths = list(site.stocks(0).glob(f"mp-spdz/stock-*/party-0/Player-Data/2-Dp-*/{name}"))
    assert paths
    for path in paths:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 3])
    own, other = run(site, "stock")
    assert type(own) is EngineError
    assert "the offline material was not enough" in str(own)
    assert type(other) is PeerError


def test_certificate_that_another_party_did_not_pin(site: Site) -> None:
    certs.make(site.path / "other", 1, days=1)
    certs.add(site.home(0), site.path / "other" / "P1.pem", force=True)
    for error in run(site):
        assert type(error) is EngineError
        assert "could not make a TLS connection" in str(error)


def test_programs_that_differ(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which the parties notice themselves, unless one of them has changed its files since."""
    compiled = [site.compile(program_of(FIT, P, D, K, tau), P) for tau in (TAU, TAU + 1)]
    monkeypatch.setattr(Place, "compile", lambda self, program, precision: compiled[self.link.me])
    for error in run(site):
        assert type(error) is EngineError
        assert "do not run the same program" in str(error)
