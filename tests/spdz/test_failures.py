"""What MP-SPDZ says when something is wrong becomes the right error at every party, and nothing is left running."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pdml_spdz.engines.mp_spdz.directory import RunDirectory
from pdml_spdz.engines.mp_spdz.engine import NO_COSTS, CompiledPlan, MpSpdzEngine
from pdml_spdz.engines.mp_spdz.forecast import least_sizes
from pdml_spdz.engines.mp_spdz.offline import check_written
from pdml_spdz.engines.mp_spdz.place import Place
from pdml_spdz.engines.openings.base import Layout
from pdml_spdz.engines.openings.one_scale import FixedScale
from pdml_spdz.errors import EngineError, PdmlError, PeerAborted, PeerError, StockError, StorageError
from pdml_spdz.programs.precision import Precision
from pdml_spdz.study.algorithm import Shape
from pdml_spdz.transport import certs
from tests.spdz.helpers import LONG, REQUIRED, Site, machines, vouch_for
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


def files_of(site: Site, m: int, name: str) -> list[Path]:
    """Of party m's stock: one for each domain that has such a file."""
    paths = list(site.stocks(m).glob(f"mp-spdz/stock-*/party-{m}/Player-Data/2-Dp-*/{name}"))
    assert paths
    return paths


@pytest.mark.parametrize("name", ["Triples-Dp-P0", "Inputs-Dp-P0-0"])
def test_material_that_does_not_suffice(site: Site, name: str) -> None:
    site.make_stock(PROGRAM, P)
    for path in files_of(site, 0, name):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 3])
        vouch_for(path.parents[2])
    own, other = run(site, "stock")
    assert type(own) is EngineError
    assert "the offline material was not enough" in str(own)
    assert type(other) is PeerError


@pytest.mark.parametrize("name", ["Triples-Dp-P0", "Inputs-Dp-P0-1"])
@pytest.mark.parametrize("left", ["nothing", "a part"])
def test_material_that_a_full_disk_had_no_room_for(site: Site, name: str, left: str) -> None:
    """MP-SPDZ does not notice: its offline program ends well."""
    site.make_stock(PROGRAM, P)
    (path,) = files_of(site, 0, name)
    data, compiled = path.parents[1], site.compile(PROGRAM, P)
    check_written(data, compiled, malicious=False)
    if left == "nothing":
        path.write_bytes(b"")
    else:  # all but the last numbers that the program takes
        needed = least_sizes(compiled.counts, compiled.prime, malicious=False)
        path.write_bytes(path.read_bytes()[: needed["Triples-*" if name[0] == "T" else "Inputs-*-1"] - 1])
    with pytest.raises(StorageError, match="MP-SPDZ ended well and wrote"):
        check_written(data, compiled, malicious=False)


def test_costs_that_were_not_kept_are_said_to_be_unknown(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a full temporary directory: the log is cut, and the run ends well."""
    monkeypatch.setattr(RunDirectory, "log", property(lambda run: Path("/dev/null")))

    def party(place: Place) -> tuple[str, ...]:
        engine = MpSpdzEngine(place, b"run", P, "on-demand", "none")
        shape = Shape(D, K, TAU)
        compiled = site.compile(PROGRAM, P)
        layout = Layout(PROGRAM, K, 1, stream=True)
        runner = engine.programs(
            CompiledPlan(shape, layout, 2, place.protocol, compiled, TAU, lambda: compiled), PROBLEM.bound
        )
        try:
            FixedScale(runner, PROGRAM)(PROBLEM.S[place.link.me] @ PROBLEM.V, PROBLEM.V)
            engine.finish()
        finally:
            engine.close()
        return engine.warnings

    assert site.run(party) == [(NO_COSTS,), (NO_COSTS,)]


@pytest.mark.parametrize("seed", range(6))
def test_damaged_stock_is_called_that_and_nothing_is_computed_with_it(site: Site, seed: int) -> None:
    """No MAC would notice a flipped bit of semi's: it reads as any other number, or as a sum that is too small."""
    chance = random.Random(seed)
    site.make_stock(PROGRAM, P)
    m = chance.randrange(2)
    path = chance.choice(files_of(site, m, "*-P*"))
    content = bytearray(path.read_bytes())
    if seed % 3:
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    else:
        del content[chance.randrange(len(content)) :]
    path.write_bytes(content)
    errors = run(site, "stock")
    assert type(errors[m]) is StockError
    assert "is damaged" in str(errors[m]) or f"has {len(content):,} bytes" in str(errors[m])
    assert isinstance(errors[1 - m], PeerAborted | PeerError)


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
