"""With MACs (mascot) one changed byte of the offline material ends the run at every party: nothing wrong is opened,
also if the party that changed it has forged the digests of its stock.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pdml_spdz.engines.mp_spdz.place import Place
from pdml_spdz.errors import PdmlError, PeerError, ProtocolError
from pdml_spdz.programs.precision import Precision
from tests.spdz.helpers import LONG, REQUIRED, Site, machines, spent, vouch_for
from tests.spdz.loop import FIT, SMALL, Problem, Recorder, check_opened, loop, program_of

pytestmark = [LONG, REQUIRED]
D, K, TAU = 2, 1, 3
P, PROBLEM = Precision(2, *SMALL), Problem.random(2, D, K)
ELEMENTS = ("a", "b", "c")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Parties with one stock each; tests work on copies, as if it were another one each time."""
    site = Site(tmp_path_factory.mktemp("whole"), 2, "mascot")
    site.make_stock(program_of(FIT, P, D, K, TAU, "mascot"), P)
    return site


@pytest.fixture
def site(whole: Site, tmp_path: Path) -> Site:
    shutil.copytree(whole.path, tmp_path / "site")
    copy = object.__new__(Site)
    copy.__dict__.update(vars(whole) | {"path": tmp_path / "site"})
    return copy


def flip(site: Site, party: int, triple: int, element: str, kind: str, byte: int) -> None:
    """One bit of a number of the party's part of a triple: a, b and c, each with its MAC, behind a header."""
    (path,) = site.stocks(party).glob(f"mp-spdz/stock-*/party-{party}/Player-Data/2-p-*/Triples-p-P{party}")
    content = bytearray(path.read_bytes())
    header = 8 + int.from_bytes(content[:8], "little")
    size = 8 * -(-int(path.parent.name.rpartition("-")[2]) // 64)
    assert (len(content) - header) % (6 * size) == 0
    number = 6 * triple + 2 * ELEMENTS.index(element) + (kind == "MAC")
    content[header + number * size + byte] ^= 1
    path.write_bytes(content)
    vouch_for(path.parents[2])


def run(site: Site) -> tuple[list[Recorder], list[PdmlError | None]]:
    def party(place: Place) -> tuple[Recorder, PdmlError | None]:
        recorder = Recorder(place, P, PROBLEM.bound, "stock")
        try:
            loop(recorder, PROBLEM, FIT, TAU)
        except PdmlError as error:
            return recorder, error
        return recorder, None

    recorders, errors = zip(*site.run(party), strict=True)
    return list(recorders), list(errors)


def test_whole_stock_is_accepted(site: Site) -> None:
    recorders, errors = run(site)
    assert errors == [None, None]
    assert check_opened(FIT, recorders, P) == TAU


@pytest.mark.parametrize(
    ("party", "triple", "element", "kind", "byte"),
    [
        (0, 0, "a", "share", 0),
        (1, 0, "a", "MAC", 0),
        (1, 0, "b", "share", 7),
        (0, 0, "b", "MAC", 13),
        (0, 0, "c", "share", 5),
        (1, 0, "c", "MAC", 16),
        (1, 9, "a", "share", 16),
        (0, 9, "c", "MAC", 1),
        (0, -1, "c", "share", 0),  # the last one that is used
        (1, -1, "b", "MAC", 9),
    ],
)
def test_changed_byte_ends_the_run_at_every_party(
    site: Site, party: int, triple: int, element: str, kind: str, byte: int
) -> None:
    last = site.compile(program_of(FIT, P, D, K, TAU, "mascot"), P).counts.triples - 1
    flip(site, party, triple if triple >= 0 else last, element, kind, byte)
    recorders, errors = run(site)
    assert all(isinstance(error, ProtocolError | PeerError) for error in errors), errors
    assert any("a check of MP-SPDZ failed" in str(error) for error in errors), errors
    # Whatever was opened before the check failed was right; the number that the triple made was not accepted.
    assert check_opened(FIT, recorders, P) == (0 if triple >= 0 else TAU - 1)
    assert [len(recorder.calls) for recorder in recorders] == [0 if triple >= 0 else TAU - 1] * 2
    assert machines(site.path) == []
    for m in range(2):
        left = {path.name for path in site.stocks(m).rglob("*")}
        assert left == {"mp-spdz", f".making-{m}", *spent(site.stocks(m), m)}
