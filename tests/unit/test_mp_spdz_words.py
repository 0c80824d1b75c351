"""What MP-SPDZ's compiler and virtual machine say, and what we make of it: counts, bytecode, errors, usage."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pdml_spdz.engines.mp_spdz import compiler
from pdml_spdz.engines.mp_spdz.compiler import Compiled, Counts, compile_program, parse_counts
from pdml_spdz.engines.mp_spdz.engine import layout_of
from pdml_spdz.engines.mp_spdz.home import Installation
from pdml_spdz.engines.mp_spdz.protocols import protocol, protocol_of
from pdml_spdz.engines.mp_spdz.sealed_execution import MOST_FEATURES
from pdml_spdz.engines.mp_spdz.spec import MP_SPDZ
from pdml_spdz.engines.mp_spdz.vm import Usage, explain, parse_usage
from pdml_spdz.engines.spec import precision_of
from pdml_spdz.errors import EngineError, MismatchError, PeerError, ProtocolError, RangeExceeded
from pdml_spdz.local.joint import local_study
from pdml_spdz.programs.precision import MAX_BITS, Precision
from pdml_spdz.programs.render import Program, render, render_sealed
from pdml_spdz.programs.sealed_precision import MOST_PARTIES, SealedPrecision
from pdml_spdz.study.model import MAX_PARTIES, PrecisionSettings
from pdml_spdz.transport.base import Link
from tests.threads import run_threads
from tests.unit.test_mp_spdz_engine import place as place_of
from tests.unit.test_mp_spdz_home import COMMIT, make_home

PROGRAM = Program("normed_sum", "# text\n")

# What the compiler says

SAID = """\
Default bit length for compilation: 218
Default security parameter for compilation: 40
Compiling file normed_sum.mpc
Writing to Programs/Bytecode/normed_sum-TruncPr(2)_177_14-1.bc
Writing to Programs/Schedules/normed_sum.sch
Hash: 9cd31b00f88397a5b41093a961a97fba7a8a29b391dc09a873ab87714efaa68c
Program requires at most:
          16 integer inputs from player 0
          17 integer inputs from player 1
          18 integer inputs from player 2
       53816 integer bits
         258 integer opens
         262 integer triples
         262 integer simple multiplications
           2 integer randoms
         260 virtual machine rounds
"""


def test_counts_are_the_compilers() -> None:
    assert parse_counts(SAID) == Counts(262, 53816, (16, 17, 18), 260)
    assert parse_counts(SAID).in_words == "262 triples, 53,816 bits, 51 inputs"


@pytest.mark.parametrize(
    "said", [SAID.replace("262", "inf"), SAID.replace("         260", "         inf"), "", "Hash: 9"]
)
def test_unknown_counts_are_an_error(said: str) -> None:
    with pytest.raises(
        EngineError, match=r"does not know how much the program takes(.|\n)*loops whose length is known"
    ):
        parse_counts(said)


@pytest.mark.parametrize(
    ("f_out", "prime", "ring", "paper_prime", "paper_ring"),
    [(10, "195", "192", "84", "64"), (20, "215", "192", "124", "128"), (31, "237", "256", "168", "192")],
)
def test_field_and_ring_hold_the_programs_numbers(
    f_out: int, prime: str, ring: str, paper_prime: str, paper_ring: str
) -> None:
    p = Precision(3, f_out)
    assert int(prime) == p.scalar_value_bits + 40 + 1  # a mask of 40 bits above every value, and M of them
    for name, field, size in (("normed_sum", prime, ring), ("normed_sum_paper", paper_prime, paper_ring)):
        program = render(name, p, 2, 1)
        for kind in ("semi", "hemi", "mascot"):
            assert compiler.domain_of(program, p, protocol(kind))[0] == ["-F", field]
        options, words, _ = compiler.domain_of(program, p, protocol("semi2k"))
        assert options == ["-R", size]
        assert f"Z_2^{size}" in words


def test_field_has_room_for_the_masks_that_parties_give_in() -> None:
    p = Precision(3, 31)
    program = render("normed_sum", p, 2, 1, own_masks=True)
    options, _, prime = compiler.domain_of(program, p, protocol("semi"))
    assert int(options[1]) <= prime == 256
    # value + offset + M masks, each 40 bits longer than a value
    assert 2 ** (p.scalar_value_bits + 1) + 3 * 2 ** (p.scalar_value_bits + 40) < 2 ** (int(options[1]) - 1)


def test_numbers_too_long_for_mp_spdz_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    p = Precision(3, 31, 44, G=32)
    program = render("normed_sum", p, 2, 1)
    with pytest.raises(
        EngineError, match=r"needs a prime of 277 bits(.|\n)*at most 256(.|\n)*smaller --range or fewer"
    ):
        compiler.domain_of(program, p, protocol("mascot"))
    monkeypatch.setattr(compiler, "RINGS", (64, 128, 192))  # as in a release
    with pytest.raises(EngineError, match=rf"up to {p.scalar_value_bits} bits, and MP-SPDZ's rings end at 192"):
        compiler.domain_of(program, p, protocol("semi2k"))


@pytest.mark.parametrize("M", [2, 15, 16, MAX_PARTIES])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"normalise": "per-column"},
        {"algorithm": "pca", "centre": "hidden"},
        {"algorithm": "normed-sum"},
        {"algorithm": "normed-sum", "program": "paper"},
    ],
    ids=["one scale", "per column", "hidden mean", "one sum", "the paper's program"],
)
def test_no_study_takes_a_longer_prime_than_every_build_has(M: int, settings: dict[str, Any]) -> None:
    """As docs/mp-spdz.md says: with the most bits and the widest range, and masks that the parties give in."""
    widest = PrecisionSettings(MAX_BITS, MP_SPDZ.largest_range)
    study = local_study(M, rank=1, engine="mp-spdz", protocol="semi", precision=widest, bound="1", **settings)
    precision, chosen, shape = precision_of(study), protocol_of(study), study.spec.shape(study, 4)
    assert chosen.own_masks
    layout = layout_of(study.opening, precision, shape, study.online, 1, own_masks=True)
    assert compiler.domain_of(layout.program, precision, chosen)[2] <= compiler.LARGEST_PRIME


def test_no_sealed_fit_takes_a_longer_prime_than_every_build_has() -> None:
    for hidden in (False, True):
        p = SealedPrecision(MOST_PARTIES, MOST_FEATURES, 7, MOST_FEATURES, goal_bits=24, hidden_mean=hidden)
        assert compiler.domain_of(render_sealed(p), p, protocol("semi"))[2] <= compiler.LARGEST_PRIME


COMPILER = """\
import pathlib, sys
if pathlib.Path(__file__).with_name("mood").exists():
    sys.exit("CompilerError: I do not like it")
for name in ("Schedules", "Bytecode"):
    pathlib.Path("Programs", name).mkdir(parents=True)
pathlib.Path("Programs/Bytecode/x-0.bc").write_text(" ".join(sys.argv[1:]))
pathlib.Path("Programs/Schedules/x.sch").write_text(str(pathlib.Path.cwd()))
pathlib.Path(__file__).with_name("calls").open("a").write("once ")
print('''%s''')
"""


@pytest.fixture
def fake_compiler(tmp_path: Path) -> Installation:
    made = make_home(tmp_path / "home")
    (made / "compile.py").write_text(COMPILER % SAID)
    return Installation(made)


def test_compiled_once_and_kept(tmp_path: Path, fake_compiler: Installation) -> None:
    notes: list[str] = []

    def compile_it(f_out: int = 20, name: str = "semi", **options: Any) -> Compiled:
        p = Precision(3, f_out)
        return compile_program(
            PROGRAM, p, protocol(name), fake_compiler, note=notes.append, cache=tmp_path / "cache", **options
        )

    first = compile_it()
    assert compile_it() == first
    assert first.counts == parse_counts(SAID)
    assert first.name.startswith("normed_sum-")
    assert (first.path / f"{first.name}.mpc").read_text() == PROGRAM.text
    assert notes == ["compiling normed_sum for semi, a prime field of at least 215 bits"]
    others = [compile_it(31), compile_it(name="semi2k"), compile_it(name="hemi")]
    assert len({made.path for made in (first, *others)}) == 4
    assert first.digest == others[2].digest  # the same options: the same bytecode, wherever it lies
    assert first.digest not in (others[0].digest, others[1].digest)
    assert (fake_compiler.path / "calls").read_text() == "once " * 4
    assert not list((tmp_path / "cache").glob(".*"))


def test_program_that_the_compiler_refuses_is_kept_with_what_it_said(
    tmp_path: Path, fake_compiler: Installation
) -> None:
    """The command in the message says the same again; both go when the compiler has taken the program."""
    (mood := fake_compiler.path / "mood").touch()
    cache = tmp_path / "my cache"

    def compile_it() -> Compiled:
        return compile_program(PROGRAM, Precision(3), protocol("semi"), fake_compiler, cache=cache)

    for _ in range(2):
        with pytest.raises(EngineError, match="refused normed_sum: CompilerError: I do not like it") as caught:
            compile_it()
        assert sorted(path.suffix for path in cache.iterdir()) == [".lock", ".refused"]
    (refused,) = cache.glob("*.refused")
    (source,) = refused.glob("normed_sum-*.mpc")
    assert source.read_text() == PROGRAM.text
    assert f"in {refused / 'log'};" in caught.value.do
    command = caught.value.do.split("`")[1]
    assert command.endswith(f" {source.name}")
    again = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (again.returncode, again.stderr) == (1, "CompilerError: I do not like it\n")
    assert (refused / "log").read_text() == again.stderr
    mood.unlink()
    assert compile_it().path.is_dir()
    assert not refused.exists()


@pytest.mark.parametrize("damage", ["cut bytecode", "changed schedule", "no bytecode", "half counts", "odd counts"])
def test_damaged_cache_is_made_anew(tmp_path: Path, fake_compiler: Installation, damage: str) -> None:
    notes: list[str] = []

    def compile_it() -> Compiled:
        where = {"note": notes.append, "cache": tmp_path / "cache"}
        return compile_program(PROGRAM, Precision(3), protocol("semi"), fake_compiler, **where)

    first = compile_it()
    files = {path: path.read_bytes() for path in first.path.rglob("*") if path.is_file()}
    bytecode, counts = first.path / "Programs/Bytecode/x-0.bc", first.path / "counts.json"
    if damage == "cut bytecode":
        bytecode.write_bytes(bytecode.read_bytes()[:-1])
    elif damage == "changed schedule":
        (first.path / "Programs/Schedules/x.sch").write_text("something else")
    elif damage == "no bytecode":
        bytecode.unlink()
    else:
        counts.write_text(counts.read_text()[:20] if damage == "half counts" else "[1]")
    assert compile_it() == first
    assert notes[1].endswith(", again: it was damaged")
    again = {path: path.read_bytes() for path in first.path.rglob("*") if path.is_file()}
    assert {path: again[path] for path in files if path.suffix == ".bc"} == {bytecode: files[bytecode]}
    assert len(notes) == 2
    compile_it()
    assert len(notes) == 2


def test_edited_compiler_is_noticed(tmp_path: Path, fake_compiler: Installation) -> None:
    """In a checkout too, whose commit stays the same."""
    (fake_compiler.path / ".git").mkdir()
    (fake_compiler.path / ".git" / "HEAD").write_text(f"{COMMIT}\n")

    def compile_it() -> Compiled:
        return compile_program(PROGRAM, Precision(3), protocol("semi"), fake_compiler, cache=tmp_path / "cache")

    first = compile_it()
    (fake_compiler.path / "Compiler" / "types.py").write_text("sint = 'edited'\n")
    assert compile_it().path != first.path


def test_one_party_compiles_and_the_others_wait(tmp_path: Path, fake_compiler: Installation) -> None:
    def party(link: Link) -> Compiled:
        return compile_program(PROGRAM, Precision(3), protocol("semi"), fake_compiler, cache=tmp_path / "cache")

    assert len({str(compiled) for compiled in run_threads(4, party)}) == 1
    assert (fake_compiler.path / "calls").read_text() == "once "


def test_parties_with_different_compilers_say_which(tmp_path: Path, fake_compiler: Installation) -> None:
    other = make_home(tmp_path / "other")
    (other / "compile.py").write_text(COMPILER % SAID + "# edited\n")

    def party(link: Link) -> MismatchError:
        here = Installation(other) if link.me else fake_compiler
        place = replace(place_of(link, tmp_path), home=here)
        with pytest.raises(MismatchError) as caught:
            place.compile(PROGRAM, Precision(2))
        return caught.value

    for m, error in enumerate(run_threads(2, party)):
        assert f"P{1 - m} has another MP-SPDZ than this party: unknown release (compiler " in str(error)
        assert f"and here unknown release (compiler {(Installation(other) if m else fake_compiler).digest()})" in str(
            error
        )
        assert error.culprit == 1 - m
    assert not (fake_compiler.path / "calls").exists()


# What the virtual machine says

TLS = """\
Client-side handshake with P1 failed. Make sure both sides  have the necessary certificate (Player-Data/P0.pem in the \
default configuration on their side and Player-Data/P1.pem on ours), and run `c_rehash <directory>` on its location.
SSL error: handshake: certificate verify failed (SSL routines)
"""


@pytest.mark.parametrize(
    ("said", "kind", "phrase"),
    [
        ("the sum is too small for the agreed bound and range\nUser exception", RangeExceeded, "nothing that depends"),
        (
            "Purging preprocessed data because something is wrong\nFatal error: MacCheck Failure",
            ProtocolError,
            "deviat",
        ),
        ("Fatal error: OT consistency check failed", ProtocolError, "a check of MP-SPDZ failed"),
        ("terminate called: sacrifice fail", ProtocolError, "burn the stock"),
        ("Fatal error: Not enough data available for buffer in x. Maybe insufficient", EngineError, "not enough"),
        ("Fatal error: program differs between parties", EngineError, "do not run the same program"),
        ("Fatal error in communication: read: Connection reset by peer", PeerError, "lost another party"),
        ("Fatal error: Connection closed down. This is most likely due to", PeerError, "lost another party"),
        ("cannot connect from a to b:1 after 9 attempts in 60 seconds because refused", PeerError, "lost another"),
        ("SSL error: handshake: stream truncated", PeerError, "lost another party"),
        (TLS, EngineError, "could not make a TLS connection"),
        (
            "Error in bytecode: Cannot parse x.bc\nDoes the compiler version match the virtual machine? If in doubt",
            EngineError,
            "compiler and its virtual machine are of different versions",
        ),
        ("The virtual machine is not compiled for 256-bit computation.", EngineError, "no ring of the size"),
        (
            "Not compiled for 256-bit primes\nPut 'MOD = -DGFP_MOD_SZ=4' in CONFIG.mine and run 'make semi-party.x'",
            EngineError,
            "no primes of the length",
        ),
        ("Error\nsomething new", EngineError, "its last words: something new"),
        ("", EngineError, "it said nothing"),
    ],
)
def test_last_words_become_an_error(said: str, kind: type[Exception], phrase: str) -> None:
    error = explain(1, said)
    assert type(error) is kind
    assert phrase in str(error)
    assert "exit code 1" in str(error)
    assert error.do


def test_reason_is_given_without_advice_that_is_not_for_our_users() -> None:
    said = "Fatal error: Something is wrong with the preprocessing data on disk: x\nHave you run './Fake-Offline.x 2'?"
    text = str(explain(1, said))
    assert "preprocessing data on disk: x" in text
    assert "Fake-Offline" not in text


def test_usage_is_read_from_the_end_of_the_log() -> None:
    said = (
        "Using security parameter 40\nTime = 0.920311 seconds \nData sent = 5.6e-05 MB in ~151 rounds (party 0 only)\n"
    )
    assert parse_usage(said) == Usage(0.920311, 5.6e-05, 151)
    assert parse_usage("Global data sent = 3 MB") == Usage()


def test_usage_tells_the_phases_apart() -> None:
    said = (
        "Spent 0.25 seconds (0.5 MB, 40 rounds) on the online phase and 1.5 seconds (2.25 MB, 60 rounds) on the "
        "preprocessing/offline phase.\nTime = 1.75 seconds \nData sent = 2.75 MB in ~100 rounds (party 0 only)\n"
        "CPU time = 0.875 (overall core time)\n"
    )
    assert parse_usage(said) == Usage(1.75, 2.75, 100, 1.5, 2.25, 60, 0.875)
    assert parse_usage(said).online_rounds == 40
    from_files = said.replace("1.5 seconds (2.25 MB, 60 rounds)", "5e-06 seconds")
    assert parse_usage(from_files) == Usage(1.75, 2.75, 100, 5e-06, 0.0, 0, 0.875)
