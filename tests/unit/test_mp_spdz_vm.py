"""A virtual machine seen from outside, a small program in its place: pipes, ends of all kinds, nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdml_spdz.engines.mp_spdz import directory
from pdml_spdz.engines.mp_spdz.compiler import Compiled, Counts
from pdml_spdz.engines.mp_spdz.vm import Usage, VirtualMachine
from pdml_spdz.errors import EngineError, PeerError, ProtocolError, RangeExceeded
from pdml_spdz.system import process
from pdml_spdz.transport.certs import Identity
from tests.parties.helpers import until

# In the run's directory, as MP-SPDZ: opens the pipes, reads text, writes numbers of 8 bytes.
OPENED = """\
import os, signal, struct, sys, time
open("pid", "w").write(str(os.getpid()))
inputs, publics = open("in-P0-0"), open("Programs/Public-Input/program")
outputs = open("Player-Data/Binary-Output-P0-0", "wb")
def read(file, n):
    return [int(file.readline()) for _ in range(n)]
def write(numbers):
    outputs.write(struct.pack(f"<{len(numbers)}q", *numbers))
    outputs.flush()
"""
HUGE = 100_000  # lines of ten characters and more: several times what a pipe holds

Start = Callable[..., VirtualMachine]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    made: list[VirtualMachine] = []
    (tmp_path / "Programs").mkdir()
    compiled = Compiled("program", tmp_path, "a field", "digest", Counts())

    def start_one(text: str, timeout: float = 30.0, **more: Any) -> VirtualMachine:
        run = directory.create(compiled, Identity(0, tmp_path / "no.key", {}), [], parent=tmp_path)
        command = [sys.executable, "-I", "-S", "-c", OPENED + text]
        made.append(VirtualMachine(command, run, timeout, **({"work": 60.0} | more)))
        return made[-1]

    yield start_one
    for machine in made:
        machine.kill()
        machine.run.remove()


def pid(directory: Path) -> int:
    """Of the program, which writes it first of all."""
    until(lambda: (directory / "pid").exists() and (directory / "pid").read_text() != "")
    return int((directory / "pid").read_text())


def alive(number: int) -> bool:
    try:
        state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"  # ended, and its new parent has not looked yet


def numbers(data: bytes) -> list[int]:
    return np.frombuffer(data, "<i8").tolist()


# What goes through the pipes


@pytest.mark.parametrize("order", ["publics, inputs", "inputs, publics"])
def test_more_than_pipes_hold_in_whichever_order_it_is_read(start: Start, order: str) -> None:
    machine = start(f"""
a, b = (read(file, {HUGE}) for file in ({order}))
write([x + 2 * y for x, y in zip({"a, b" if order.startswith("p") else "b, a"})])
""")
    publics, inputs = list(range(10**9, 10**9 + HUGE)), list(range(-(10**9), HUGE - 10**9))
    opened = numbers(machine.exchange(publics, inputs, HUGE))
    assert opened == [x + 2 * y for x, y in zip(publics, inputs, strict=True)]
    assert machine.finish() == Usage()


def test_program_may_write_while_it_reads(start: Start) -> None:
    """Neither side waits for the other to be done."""
    machine = start(f"""
for i in range({HUGE} // 1000):
    write(read(inputs, 1000))
""")
    inputs = list(range(HUGE))
    assert numbers(machine.exchange([], inputs, HUGE)) == inputs
    machine.finish()


def test_one_program_serves_many_calls(start: Start) -> None:
    machine = start("""
while not read(publics, 1)[0]:
    write(read(inputs, 2) + read(publics, 1))
print("Time = 0.25 seconds ")
print("Data sent = 1.5 MB in ~7 rounds (party 0 only)")
""")
    for i in range(5):
        assert numbers(machine.exchange([0, i], [10 * i, -i], 3)) == [10 * i, -i, i]
    machine.exchange([1], [], 0)
    assert machine.finish() == Usage(0.25, 1.5, 7)


def test_integers_of_any_size_are_given_in(start: Start) -> None:
    machine = start("write([read(inputs, 1)[0] == 2**240 + 1, read(inputs, 1)[0] == -(2**200)])")
    assert numbers(machine.exchange([], [2**240 + 1, -(2**200)], 2)) == [1, 1]


# How it ends


@pytest.mark.parametrize(
    ("text", "kind", "phrases"),
    [
        ("sys.exit('Fatal error: MacCheck Failure')", ProtocolError, ["exit code 1", "MacCheck Failure"]),
        ("print('too small for the agreed bound and range'); sys.exit(1)", RangeExceeded, ["nothing that depends"]),
        ("sys.exit('Fatal error in communication: x')", PeerError, ["lost another party"]),
        (
            "signal.signal(signal.SIGPIPE, signal.SIG_DFL); os.kill(os.getpid(), signal.SIGPIPE)",
            PeerError,
            ["lost another party", "killed by signal SIGPIPE"],
        ),
        ("os.kill(os.getpid(), signal.SIGSEGV)", EngineError, ["killed by signal SIGSEGV", "it said nothing"]),
        ("pass", EngineError, ["ended well"]),
    ],
)
def test_machine_that_dies_in_the_middle(start: Start, text: str, kind: type[Exception], phrases: list[str]) -> None:
    machine = start(f"write(read(inputs, 3)); {text}")
    with pytest.raises(kind) as caught:
        machine.exchange(range(HUGE), range(HUGE), HUGE)
    assert type(caught.value) is kind
    for phrase in phrases:
        assert phrase in str(caught.value)


def test_machine_that_ends_badly_after_its_last_number(start: Start) -> None:
    machine = start("write([5]); time.sleep(0.2); sys.exit('Fatal error: MacCheck Failure')")
    assert numbers(machine.exchange([], [], 1)) == [5]
    with pytest.raises(ProtocolError, match="MacCheck Failure"):
        machine.finish()


@pytest.mark.parametrize("text", ["time.sleep(60)", "signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"])
def test_machine_that_stalls_is_ended(start: Start, text: str) -> None:
    machine = start(f"write(read(inputs, 1)); {text}", timeout=1.0)
    number = pid(machine.run.path)
    began = time.monotonic()
    with pytest.raises(PeerError, match=r"did nothing for 1 s(.|\n)*--timeout"):
        machine.exchange([], [1], 2)
    assert time.monotonic() - began < 10
    assert not alive(number)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says that a process is stopped")
@pytest.mark.parametrize("at_its_end", [False, True])
def test_machine_that_is_stopped_is_told_from_one_that_waits(start: Start, at_its_end: bool) -> None:
    """Also while another party works."""
    machine = start("write(read(inputs, 1)); time.sleep(60)", timeout=1.0, heard=time.monotonic)
    assert numbers(machine.exchange([], [1], 1)) == [1]
    os.kill(number := pid(machine.run.path), signal.SIGSTOP)
    with pytest.raises(EngineError, match="this party's virtual machine of MP-SPDZ is stopped: it did nothing for 1 s"):
        machine.finish() if at_its_end else machine.exchange([], [], 1)
    assert not alive(number)


def test_machine_that_is_slow_and_moves_is_not_ended(start: Start) -> None:
    machine = start("for i in range(6): write([i]); time.sleep(0.3)", timeout=1.2)
    assert numbers(machine.exchange([], [], 6)) == list(range(6))


LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux says how much a program has computed")
BUSY = "began = time.monotonic()\nwhile time.monotonic() < began + {}: pass\n"


@LINUX
def test_machine_that_computes_without_a_word_is_not_ended(start: Start) -> None:
    """As one does that makes its material in the run."""
    machine = start(BUSY.format(2.0) + "write([1])", timeout=0.5, work=60.0)
    assert numbers(machine.exchange([], [], 1)) == [1]
    machine.finish()


@LINUX
def test_machine_that_computes_without_an_answer_is_ended_in_the_end(start: Start) -> None:
    machine = start(BUSY.format(60.0), timeout=0.2, work=1.0)
    number = pid(machine.run.path)
    with pytest.raises(EngineError, match=r"has computed for 1 s without an answer(.|\n)*`timeouts\.work`"):
        machine.exchange([], [], 1)
    assert not alive(number)


def test_machine_that_waits_for_one_that_works_is_not_ended(start: Start) -> None:
    """The other party says that it does; when it no longer says so, the wait is over."""
    asleep = "time.sleep(1.5); write([1]); time.sleep(60)"
    machine = start(asleep, timeout=0.5, work=60.0, heard=lambda: min(time.monotonic(), until_then))
    until_then = time.monotonic() + 2.0
    assert numbers(machine.exchange([], [], 1)) == [1]
    with pytest.raises(PeerError, match=r"did nothing for 0\.5 s"):
        machine.exchange([], [], 1)
    assert time.monotonic() > until_then


def test_machine_that_does_not_end_is_ended(start: Start) -> None:
    machine = start("write([1]); time.sleep(60)", timeout=0.5)
    assert numbers(machine.exchange([], [], 1)) == [1]
    number = pid(machine.run.path)
    with pytest.raises(PeerError, match=r"did nothing for 0\.5 s"):
        machine.finish()
    assert not alive(number)


def test_kill_ends_it_and_may_be_called_again(start: Start) -> None:
    machine = start("time.sleep(60)")
    number = pid(machine.run.path)
    machine.kill()
    machine.kill()
    assert not alive(number)


# Nothing outlives its parent

PARENT = """
import sys
from pathlib import Path
from pdml_spdz.system import process
where = Path(sys.argv[1])
child = process.start_guarded([sys.executable, "-I", "-S", "-c", sys.argv[2]], directory=where, log=where / "log")
(where / "guard").write_text(str(child.pid))
(where / "ready").touch()
child.wait()
"""
SLEEPER = "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(60)"


@pytest.mark.parametrize("victim", ["parent", "guard", "parent and guard", "program"])
def test_program_dies_with_whoever_is_killed(tmp_path: Path, victim: str) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path), SLEEPER])
    try:
        until(lambda: (tmp_path / "ready").exists())
        program, guard = pid(tmp_path), int((tmp_path / "guard").read_text())
        assert alive(program)
        victims = {"parent": parent.pid, "guard": guard, "program": program}
        for name in victim.split(" and "):
            os.kill(victims[name], signal.SIGKILL)
        until(lambda: not alive(program) and not alive(guard), within=10.0)
    finally:
        parent.kill()
        parent.wait()


def test_guard_ends_as_its_program_does(tmp_path: Path) -> None:
    def code(text: str) -> int:
        command = [sys.executable, "-I", "-S", "-c", text]
        child = process.start_guarded(command, directory=tmp_path, log=tmp_path / "log")
        try:
            return child.wait(10)
        finally:
            process.end([child])

    assert code("print('said')") == 0
    assert code("import sys; sys.exit(7)") == 7
    assert code("import os; os.kill(os.getpid(), 9)") == 128 + signal.SIGKILL
    assert "said" in (tmp_path / "log").read_text()


def test_program_that_is_not_there_is_an_error(start: Start, tmp_path: Path) -> None:
    child = process.start_guarded(["/no/such/program"], directory=tmp_path, log=tmp_path / "log")
    try:
        assert child.wait(10) != 0
    finally:
        process.end([child])
    assert "/no/such/program" in (tmp_path / "log").read_text()
