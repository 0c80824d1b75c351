"""From a rendered program to MP-SPDZ's bytecode, kept under the digest of everything that determines it.

<cache>/<digest>/Programs/            schedule and bytecode
                 counts.json          what the program takes, and digests of its files and of that: what does not fit is
                                      made anew
<cache>/<digest>.lock                 whoever holds it compiles; other parties of this user wait and take what it made
<cache>/<digest>.refused/             a program that the compiler refused, and all that it said (`log`);
                                      it stays until the same compiler takes that program
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import platformdirs

from pdml_spdz.engines.mp_spdz.home import Installation
from pdml_spdz.engines.mp_spdz.protocols import Protocol
from pdml_spdz.errors import EngineError
from pdml_spdz.programs.paper import paper_field_bits
from pdml_spdz.programs.precision import Precision
from pdml_spdz.programs.render import PAPER, Program
from pdml_spdz.programs.sealed_precision import SealedPrecision
from pdml_spdz.system import process
from pdml_spdz.system.files import parse_json, write_file, writing

SECURITY = 40  # MP-SPDZ's statistical security parameter
RINGS = (64, 128, 192, 256)  # sizes its ring protocols come with; 256 needs a build with RING_SIZE=256
LARGEST_PRIME = 256  # bits; every usual build has it, and no study takes a longer one
TIMEOUT = 3600.0
COUNTS, FORMAT = "counts.json", "5"  # what is in the cache: others are not read
LOG = "log"  # what the compiler said of a program that it refused


@dataclass(frozen=True)
class Counts:
    """What the compiler says the program takes, at most. inputs : by party"""

    triples: int = 0
    bits: int = 0
    inputs: tuple[int, ...] = ()
    rounds: int = 0

    @property
    def in_words(self) -> str:
        return f"{self.triples:,} triples, {self.bits:,} bits, {sum(self.inputs):,} inputs"


@dataclass(frozen=True)
class Compiled:
    """name : under which MP-SPDZ has it
    path : holds Programs/
    domain : where the program computes, in words
    digest : of what every party must have
    prime : bits of the field's prime, 0 in a ring
    """

    name: str
    path: Path
    domain: str
    digest: str
    counts: Counts
    prime: int = 0


def compile_program(
    program: Program,
    precision: Precision | SealedPrecision,
    protocol: Protocol,
    home: Installation,
    *,
    note: Callable[[str], None] = lambda text: None,
    cache: Path | None = None,
) -> Compiled:
    """The program's bytecode for this protocol: from the cache, or compiled now."""
    options, domain, prime = domain_of(program, precision, protocol)
    options.append("--preserve-mem-order")  # without it the compiler warns that loads and stores may change places
    cache = cache or Path(platformdirs.user_cache_dir("pdml-spdz")) / "mp-spdz"
    parts = [FORMAT, program.digest, home.digest(), *options, protocol.name]
    kept = cache / hashlib.sha256("|".join(parts).encode()).hexdigest()[:32]
    with writing(cache, "free some room, or set XDG_CACHE_HOME to another directory"), _alone(kept):
        counts = _counts(kept)
        if counts is None:
            damaged = os.path.lexists(kept)
            note(f"compiling {program.name} for {protocol.name}, {domain}{', again: it was damaged' * damaged}")
            new, refused = kept.with_name(f".{kept.name}.new"), kept.with_suffix(".refused")
            for left in (new, kept, refused):
                _clear(left)
            new.mkdir()
            try:
                counts = _compile(program, options, home, new, refused)
                new.rename(kept)
            finally:
                shutil.rmtree(new, ignore_errors=True)
    return Compiled(_tape(program), kept, domain, _digest(kept), counts, prime)


@contextmanager
def _alone(kept: Path) -> Iterator[None]:
    """Whoever else of this user wants the same program waits."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    with kept.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _clear(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)


def _counts(kept: Path) -> Counts | None:
    """Of a program in the cache that is whole; None if it is not there, or not as it was written."""
    try:
        content = parse_json((kept / COUNTS).read_text(encoding="utf-8"))
        if content["files"] != _file_digests(kept) or content.pop("digest") != _digest_of(content):
            return None
        return Counts(**(content["counts"] | {"inputs": tuple(content["counts"]["inputs"])}))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _file_digests(kept: Path) -> dict[str, str]:
    files = sorted(path for path in (kept / "Programs").rglob("*") if path.is_file())
    return {path.relative_to(kept).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _digest_of(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def domain_of(
    program: Program, precision: Precision | SealedPrecision, protocol: Protocol
) -> tuple[list[str], str, int]:
    """For the field or ring that the program's numbers need: the compiler's options, in words, bits of the prime."""
    if isinstance(precision, SealedPrecision):  # MP-SPDZ truncates, and adds what that takes of the prime by itself
        values = precision.most_bits + 1
        prime = values + SECURITY + 1
        return ["-F", str(values)], f"a prime field of at least {prime} bits", _length(prime, protocol)
    values = precision.scalar_value_bits
    if protocol.domain == "ring":
        if program.name in PAPER:
            values = paper_field_bits(precision) - SECURITY
        ring = next((ring for ring in RINGS if ring > values), None)
        if ring is None:
            raise EngineError(
                f"the program's numbers have up to {values} bits, and MP-SPDZ's rings end at {RINGS[-1]}.",
                "a smaller --range or fewer --bits, or a protocol over a prime field (semi, hemi, mascot)",
            )
        return ["-R", str(ring)], f"the ring Z_2^{ring}", 0
    prime = paper_field_bits(precision) if program.name in PAPER else values + SECURITY + 1
    if program.twin:
        prime += precision.M.bit_length()  # the sum of M masks
    if prime > LARGEST_PRIME:
        raise EngineError(
            f"the program needs a prime of {prime} bits.",
            f"at most {LARGEST_PRIME}, the largest that MP-SPDZ is built for by default",
            "choose a smaller --range or fewer --bits",
        )
    return ["-F", str(prime)], f"a prime field of at least {prime} bits", _length(prime, protocol)


def _length(prime: int, protocol: Protocol) -> int:
    """What its programs are asked for: the offline program of hemi ends on most primes that are shorter, because
    MP-SPDZ's own prime of such a length is none that hemi can encrypt with.
    """
    return max(LARGEST_PRIME if protocol.name == "hemi" else 0, 64 * -(-prime // 64))


def _compile(program: Program, options: list[str], home: Installation, directory: Path, refused: Path) -> Counts:
    """Into `directory`; what the compiler refuses is kept as `refused`, to be looked at."""
    source = directory / f"{_tape(program)}.mpc"
    source.write_text(program.text, encoding="utf-8")
    command = [sys.executable, str(home.compiler), *options, source.name]
    try:
        code, said = process.run(command, directory=directory, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        raise EngineError(f"MP-SPDZ's compiler took more than {TIMEOUT:g} s for {program.name}.") from None
    if code != 0:
        (directory / LOG).write_text(said, encoding="utf-8", errors="replace")
        directory.rename(refused)
        raise EngineError(
            f"MP-SPDZ's compiler refused {program.name}: {last_line(said)}",
            "a program that it takes",
            f"look at all that it said, in {refused / LOG}; to try it again: "
            f"`cd {shlex.quote(str(refused))} && {shlex.join(command)}`",
        )
    counts = parse_counts(said)
    content: dict[str, Any] = {"counts": asdict(counts), "files": _file_digests(directory)}
    write_file(directory / COUNTS, json.dumps(content | {"digest": _digest_of(content)}).encode())
    return counts


def _tape(program: Program) -> str:
    """A name that no program in MP-SPDZ's own Programs/Source has: its compiler refuses one that it finds twice."""
    return f"{program.name}-{program.digest[:16]}"


def parse_counts(said: str) -> Counts:
    """The compiler's own count, from what it prints after `Program requires at most:`."""
    _, _, lines = said.partition("Program requires at most:")
    found = {name.strip(): number for number, name in re.findall(r"^ +(\d+|inf) (.+)$", lines, re.MULTILINE)}
    if not found or "inf" in found.values():
        raise EngineError(
            "MP-SPDZ's compiler does not know how much the program takes.", "loops whose length is known when compiled"
        )
    inputs: list[int] = []
    while (number := found.get(f"integer inputs from player {len(inputs)}")) is not None:
        inputs.append(int(number))
    take = {
        name: int(found.get(label, 0)) for name, label in (("triples", "integer triples"), ("bits", "integer bits"))
    }
    return Counts(**take, inputs=tuple(inputs), rounds=int(found.get("virtual machine rounds", 0)))


def _digest(kept: Path) -> str:
    """Of the bytecode, which must be the same at all parties; the schedule also names the compiler's path."""
    content = hashlib.sha256()
    for path in sorted((kept / "Programs" / "Bytecode").glob("*.bc")):
        content.update(path.name.encode() + path.read_bytes())
    return content.hexdigest()


def last_line(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"
