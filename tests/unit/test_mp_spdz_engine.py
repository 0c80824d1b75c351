"""What the engine mp-spdz prepares before any program of MP-SPDZ starts: arguments, directories, ports."""

from __future__ import annotations

import itertools
import shutil
import socket
import stat
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from pdml_spdz.engines.mp_spdz import directory, execution
from pdml_spdz.engines.mp_spdz.compiler import Compiled, Counts
from pdml_spdz.engines.mp_spdz.home import Installation
from pdml_spdz.engines.mp_spdz.place import Place
from pdml_spdz.engines.mp_spdz.preprocessing import ITEMS, Preprocessed, Preprocessing, fitting
from pdml_spdz.engines.mp_spdz.protocols import protocol
from pdml_spdz.errors import EngineError, StockError
from pdml_spdz.offline.new_stock import Wanted, new_stock
from pdml_spdz.programs.precision import Precision
from pdml_spdz.programs.render import Program
from pdml_spdz.transport import certs
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.certs import Identity
from pdml_spdz.transport.inprocess import mesh
from tests.mp_spdz_stocks import write_parts
from tests.threads import run_threads
from tests.unit.test_mp_spdz_home import make_home

PROGRAM = Program("normed_sum", "# text\n")


@pytest.fixture
def identities(tmp_path: Path) -> list[Identity]:
    homes = [tmp_path / f"P{m}" for m in range(2)]
    made = [certs.make(home, m, days=1) for m, home in enumerate(homes)]
    for m, other in itertools.permutations(range(2), 2):
        certs.add(homes[m], made[other].path)
    return [certs.load_identity(home, m, {c.party: c.fingerprint for c in made}) for m, home in enumerate(homes)]


@pytest.fixture
def compiled(tmp_path: Path) -> Compiled:
    for name in ("Schedules", "Bytecode"):
        (tmp_path / "compiled" / "Programs" / name).mkdir(parents=True)
    return Compiled("normed_sum", tmp_path / "compiled", "a field", "digest", Counts(1, 2, (3, 3), 4))


def place(link: Link, path: Path, *, identity: Identity | None = None, ports: tuple[int, int] = (0, 0)) -> Place:
    hosts = ["127.0.0.1"] * 2
    me = identity or Identity(link.me, path / "no.key", {})
    stocks, logs = path / f"stocks-{link.me}", path / f"out-{link.me}"
    return Place(link, me, Installation(path / "home"), protocol("semi"), hosts, ports, stocks, logs, timeout=5.0)


# Arguments


def test_command_has_tls_and_no_copy_of_the_memory(tmp_path: Path, compiled: Compiled) -> None:
    command = place(mesh(2)[1], tmp_path).command(Path("/x/semi-party.x"), compiled)
    assert command == (
        "/x/semi-party.x -N 2 -p 1 -ip parties -e -IF in -o no_memory_output -v normed_sum".split()  # noqa: SIM905
    )
    in_a_field = replace(compiled, prime=192)
    with_stock = place(mesh(2)[1], tmp_path).command(Path("/x/semi-party.x"), in_a_field, "-F")
    assert with_stock == [*command[:-1], "-lgp", "192", "-F", command[-1]]


@pytest.mark.parametrize("offline", ["auto", "stock", "on-demand"])
@pytest.mark.parametrize("there_is_one", [True, False])
def test_material_from_files_only_with_a_stock(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    identities: list[Identity],
    compiled: Compiled,
    offline: str,
    there_is_one: bool,
) -> None:
    make_home(tmp_path / "home", "semi-party.x")
    commands: list[list[str]] = []

    class Recorder:
        def __init__(self, command: list[str], run: directory.RunDirectory, *patience: object) -> None:
            commands.append(command)
            assert (run.data / "2-Dp-256" / "Triples").exists() == ("-F" in command)

        def kill(self) -> None:
            pass

    monkeypatch.setattr(execution, "VirtualMachine", Recorder)
    monkeypatch.setattr(Place, "compile", lambda self, program, precision: compiled)

    def party(link: Link) -> list[str]:
        here = place(link, tmp_path, identity=identities[link.me])
        if there_is_one:
            wanted = Wanted(Preprocessed.of(compiled, 2, "semi"), 0, ITEMS)
            with new_stock(link, Preprocessing, here.material, wanted) as new:
                write_parts(new)
        runner = execution.MpSpdzRunner(here, Precision(2), 1.0, offline, b"run")
        try:
            runner.start(PROGRAM)
            return list(runner.stocks)
        finally:
            runner.close()

    if offline == "stock" and not there_is_one:
        with pytest.raises(StockError, match="no unused stock for this program") as caught:
            run_threads(2, party)
        assert caught.value.common
        assert commands == []
        return
    burnt = run_threads(2, party)
    uses_it = there_is_one and offline != "on-demand"
    assert [len(ids) for ids in burnt] == [uses_it] * 2
    assert ["-F" in command for command in commands] == [uses_it] * 2
    if not there_is_one:  # nothing is written where stocks would be
        assert not list(tmp_path.glob("stocks-*"))


def test_stock_of_another_program_is_left_alone(tmp_path: Path, compiled: Compiled) -> None:
    def party(link: Link) -> None:
        root, kind = tmp_path / f"P{link.me}", Preprocessed.of(compiled, 2, "semi")
        with new_stock(link, Preprocessing, root, Wanted(kind, 0, ITEMS)) as new:
            write_parts(new)
        for other in (replace(kind, protocol="mascot"), replace(kind, bytecode="other"), replace(kind, M=3)):
            with pytest.raises(StockError, match="no unused stock for this program"):
                fitting(link, root, other, b"run")
        assert [stock.id for stock in fitting(link, root, kind, b"run")] == [new.id]

    run_threads(2, party)


# The directory


def test_directory_is_private_and_links_instead_of_copying(
    tmp_path: Path, identities: list[Identity], compiled: Compiled
) -> None:
    me = identities[1]
    run = directory.create(compiled, me, [("host-a", 1), ("127.0.0.1", 65535)], parent=tmp_path)
    assert [mode(path) for path in (run.path, run.data)] == [0o700] * 2
    for pipe in (run.inputs, run.publics, run.outputs):
        assert stat.S_ISFIFO(pipe.stat().st_mode)
        assert mode(pipe) == 0o600
    assert run.inputs.name == "in-P1-0"
    assert run.outputs == run.path / "Player-Data" / "Binary-Output-P1-0"
    assert run.publics == run.path / "Programs" / "Public-Input" / "normed_sum"
    assert (run.path / "parties").read_text() == "host-a:1\n127.0.0.1:65535\n"
    links = {path.name: path.readlink() for path in run.data.iterdir() if path.is_symlink()}
    names = {f"P{m}": me.certificates[m].path for m in range(2)}
    assert links == {
        "P1.key": me.key_path,
        **{f"{name}.pem": path for name, path in names.items()},
        **{f"{directory.subject_hash(name)}.0": path for name, path in names.items()},
    }
    for name in ("Schedules", "Bytecode"):
        assert (run.path / "Programs" / name).readlink() == compiled.path / "Programs" / name
    run.remove()
    assert not run.path.exists()
    assert me.key_path.is_file()
    run.remove()  # may be called again


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
@pytest.mark.parametrize("party", [0, 7, 29])
def test_subject_hash_is_that_of_openssl(tmp_path: Path, party: int) -> None:
    made = certs.make(tmp_path, party, days=1)
    command = ["openssl", "x509", "-hash", "-noout", "-in", str(made.path)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert directory.subject_hash(f"P{party}") == said.strip()


def test_what_a_killed_process_left_is_removed_and_what_is_in_use_is_not(
    tmp_path: Path, identities: list[Identity], compiled: Compiled
) -> None:
    def create() -> directory.RunDirectory:
        return directory.create(compiled, identities[0], [], parent=tmp_path)

    used, left = create(), create()
    left.lock.close()  # as the kernel does it for a process that ended
    (being_made := tmp_path / f"{directory.PREFIX}new").mkdir()
    (being_made / directory.LOCK).touch()
    (elsewhere := tmp_path / f"{directory.PREFIX}link").symlink_to(tmp_path / "kept")
    (tmp_path / "kept" / "Programs").mkdir(parents=True)
    (tmp_path / "kept" / directory.LOCK).touch()
    next_one = create()
    assert not left.path.exists()
    assert all(path.exists() for path in (used.path, being_made, elsewhere, next_one.path, next_one.inputs))
    for run in (used, next_one):
        run.remove()


def test_material_is_the_first_to_be_removed(
    tmp_path: Path, identities: list[Identity], compiled: Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill in the middle of it must not leave material in what no longer looks like a run's directory."""
    run = directory.create(compiled, identities[0], [], parent=tmp_path)
    (run.data / "2-Dp-256").mkdir()
    remove, seen = shutil.rmtree, []
    monkeypatch.setattr(
        shutil, "rmtree", lambda path, **how: (seen.append((path, run.data.exists())), remove(path, **how))
    )
    run.remove()
    assert seen == [(run.data, True), (run.path, False)]


# Where they meet


def test_ports_are_held_for_mp_spdz_alone(tmp_path: Path) -> None:
    def party(link: Link) -> list[tuple[str, int]]:
        with place(link, tmp_path).meeting_point() as addresses:
            own = addresses[link.me][1]
            with socket.socket() as other:
                with pytest.raises(OSError, match="in use"):
                    other.bind(("", own))
                other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                other.bind(("", own))  # as MP-SPDZ binds
                other.listen()
            link.all_to_all("checked", b"")
        with socket.socket() as other:
            other.bind(("", own))
        return addresses

    first, second = run_threads(2, party)
    assert first == second
    assert [host for host, _ in first] == ["127.0.0.1"] * 2
    assert len({port for _, port in first}) == 2


def test_port_of_the_study_that_is_taken_is_an_error(tmp_path: Path) -> None:
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        here = place(mesh(2)[0], tmp_path, ports=(port, 0))
        with pytest.raises(EngineError, match=f"port {port} for MP-SPDZ cannot be used"), here.meeting_point():
            pass
