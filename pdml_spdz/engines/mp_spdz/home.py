"""Where MP-SPDZ is installed, what is there, and whether a program of it was built for secrets."""

from __future__ import annotations

import hashlib
import os
import platform
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import platformdirs

from pdml_spdz.engines.mp_spdz.protocols import PROTOCOLS, Protocol
from pdml_spdz.errors import EngineError

VARIABLE = "MP_SPDZ_HOME"
GUIDE = "docs/mp-spdz.md"

# How an -DINSECURE build is told from one for secrets without running a protocol: by messages that are compiled into
# one of the two only. Tools/benchmarking.cpp has REFUSES without the flag and WARNS with it (or with -DINSECURE_FAKE,
# which accepts made-up offline material); Tools/Buffer.cpp has REUSES only with it; and the code that destroys offline
# material after a failure, with the message PURGES, is a template of each *-party.x that nothing calls with the flag.
REFUSES = b"You are trying to use insecure benchmarking functionality"
WARNS = b"WARNING: insecure "
REUSES = b"REUSING DATA - ONLY FOR BENCHMARKING"
PURGES = b"Purging preprocessed data"
# The first two files are in the program itself (release) or in this library (source build).
LIBRARY = "libSPDZ.so"
# Upstream's fix of a race in its MAC check (commit 7bf16a74): a text that the source has since, and the last release
# before it.
MAC_SOURCE, MAC_FIX, UNFIXED = "Protocols/MAC_Check.hpp", b"coordinator->finished()", (0, 4, 2)


class Found(NamedTuple):
    """A protocol, and its programs where they are installed."""

    protocol: Protocol
    party: Path | None
    offline: Path | None


@dataclass(frozen=True)
class Installation:
    """MP-SPDZ in the directory `path`: a source tree with its programs in it, or an unpacked binary release."""

    path: Path

    @property
    def compiler(self) -> Path:
        return self.path / "compile.py"

    @property
    def directories(self) -> tuple[Path, ...]:
        """Where programs are looked for, in this order."""
        return (self.path, *(self.path / "bin" / name for name in _platforms()))

    def binary(self, name: str) -> Path | None:
        """The program called `name`, for example semi-party.x."""
        paths = (directory / name for directory in self.directories)
        return next((path for path in paths if path.is_file() and os.access(path, os.X_OK)), None)

    def protocols(self) -> list[Found]:
        """Every protocol that we know of, with what is installed of it."""
        return [
            Found(p, self.binary(p.party), self.binary(p.offline) if p.offline else None) for p in PROTOCOLS.values()
        ]

    def version(self) -> str:
        """The commit of a git checkout, or the release, and the compiler's digest: it may be newer, or edited."""
        commit = _commit(self.path)
        return f"{f'commit {commit[:12]}' if commit else self._release()} (compiler {self.digest()})"

    def digest(self) -> str:
        """A short SHA-256 of compile.py and Compiler/: equal where the same program becomes the same bytecode."""
        digest = hashlib.sha256()
        for path in (self.compiler, *sorted((self.path / "Compiler").rglob("*.py"))):
            name, content = path.relative_to(self.path).as_posix().encode(), path.read_bytes()
            digest.update(b"%d:%s%d:" % (len(name), name, len(content)) + content)
        return digest.hexdigest()[:12]

    def has_mac_fix(self) -> bool | None:
        """Whether protocols with MACs have that fix; None where neither a source nor a release's number says so."""
        with suppress(OSError):
            return MAC_FIX in (self.path / MAC_SOURCE).read_bytes()
        numbers = re.match(r"\d+(\.\d+)+", self._release())
        return tuple(map(int, numbers[0].split("."))) > UNFIXED if numbers else None

    def lacks_mac_fix(self, chosen: Protocol) -> bool:
        return chosen.malicious and self.has_mac_fix() is False

    def doubts(self, chosen: Protocol, program: Path) -> list[str]:
        """What nobody can know of a program that is there, in words for whoever uses it."""
        found = []
        if chosen.malicious and self.has_mac_fix() is None:
            found.append(
                f"{program.name}: nothing says whether it has the fix of a race in the MAC check, on which "
                f"{chosen.name} relies ({GUIDE})"
            )
        sources = (p.stat().st_mtime for ending in ("h", "hpp", "cpp") for p in self.path.glob(f"*/*.{ending}"))
        if program.stat().st_mtime < max(sources, default=0.0):
            found.append(f"{program.name} is older than a source beside it: `make {program.name}` builds it again")
        return found

    def is_insecure(self, binary: Path) -> bool:
        """Whether `binary` is an -DINSECURE build, which reuses offline material; True also if it cannot be told."""
        try:
            own = binary.read_bytes()
            shared = [path.read_bytes() for path in self._libraries(binary, own)]
        except OSError:
            return True
        if any(mark in code for code in (own, *shared) for mark in (WARNS, REUSES)):
            return True
        if REFUSES not in own and not (shared and all(REFUSES in code for code in shared)):
            return True
        # A program that was not rebuilt after its library, or the other way round, is a mixture of the two builds.
        return binary.name.endswith("-party.x") and PURGES not in own

    def _libraries(self, binary: Path, code: bytes) -> list[Path]:
        """Every libSPDZ.so that the loader may take for `binary`; all of them are to be judged."""
        if LIBRARY.encode() not in code:
            return []
        places = [*os.environ.get("LD_LIBRARY_PATH", "").split(":"), str(binary.parent), str(self.path)]
        # The run path is an absolute one, of the directory where it was built, among the program's strings.
        for text in re.findall(rb"\0([/$][\x20-\xff]+)(?=\0)", code):
            places += os.fsdecode(text).replace("$ORIGIN", str(binary.parent)).split(":")
        paths = {Path(place) / LIBRARY for place in places if place}
        return sorted({path.resolve() for path in paths if os.path.isfile(path)})  # noqa: PTH113 - never raises

    def _release(self) -> str:
        try:
            heading = re.search(r"^## v?(\d[\w.]*)", (self.path / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
        except (OSError, UnicodeDecodeError):
            heading = None
        heading = heading or re.search(r"mp-spdz-v?(\d[\w.]*)$", self.path.name, re.I)
        return heading[1] if heading else "unknown release"


def data_home() -> Path:
    """Where it is looked for if nothing else is named."""
    return Path(platformdirs.user_data_dir("pdml-spdz")) / "mp-spdz"


def is_home(path: Path) -> bool:
    return (path / "compile.py").is_file() and (path / "Compiler").is_dir()


def find(given: Path | None = None) -> Installation | None:
    """MP-SPDZ at the path given, else at MP_SPDZ_HOME, else in the user's data directory.

    What is named is meant: a wrong path given, or a wrong MP_SPDZ_HOME, does not lead to another installation.
    """
    path = next(path for _, path in _places(given) if path is not None)
    return Installation(path.resolve()) if is_home(path) else None


def require(given: Path | None = None) -> Installation:
    """`find`, or an error that says where it was looked for and how to get it."""
    found = find(given)
    if found is None:
        raise EngineError(
            _not_found(given),
            "a directory with compile.py, Compiler/ and programs such as semi-party.x",
            f"get it as {GUIDE} says, and pass --mp-spdz DIR or set {VARIABLE}",
        )
    return found


def missing_text(given: Path | None = None) -> str:
    """One sentence for `doctor` and for skipped tests."""
    return f"{_not_found(given)} {GUIDE} says how to get it."


def _not_found(given: Path | None) -> str:
    return f"MP-SPDZ was not found: {'; '.join(_looked(given))}."


def _looked(given: Path | None) -> Iterator[str]:
    for name, path in _places(given):
        if path is None:
            yield f"{name} is not set"
            continue
        why = "has no compile.py with Compiler/ beside it" if path.exists() else "does not exist"
        yield f"{name} is {path}, which {why}"
        return  # the first that is set decides


def _places(given: Path | None) -> list[tuple[str, Path | None]]:
    variable = os.environ.get(VARIABLE)
    return [
        ("--mp-spdz", given.expanduser() if given else None),
        (VARIABLE, Path(variable).expanduser() if variable else None),
        ("the user's data directory", data_home()),
    ]


def _platforms() -> list[str]:
    """The folders of a release's bin/ whose programs run here, the fastest first; Scripts/tldr.sh chooses alike."""
    system, machine = platform.system(), platform.machine()
    if machine not in ("x86_64", "amd64", "AMD64"):
        return [f"{system}-{machine}"]
    # "adx" since release 0.4.1 and "avx2" before it are the same build: with all three instruction sets.
    fast = ["adx", "avx2"] if {"adx", "avx2", "bmi2"} <= _cpu_flags() else []
    return [f"{system}-{cpu}" for cpu in (*fast, "amd64")]


def _cpu_flags() -> set[str]:
    try:
        flags = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.M)
    except OSError:
        return set()
    return set(flags[1].split()) if flags else set()


def _commit(path: Path) -> str | None:
    """The commit that is checked out in `path`, read from the files that git keeps."""
    git = path / ".git"
    try:
        if git.is_file():  # a work tree or a submodule: the file says where
            git = path / git.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
        head = (git / "HEAD").read_text(encoding="utf-8").strip()
        if not head.startswith("ref:"):
            return head or None
        name = head.removeprefix("ref:").strip()
        common = git / "commondir"
        shared = git / common.read_text(encoding="utf-8").strip() if common.is_file() else git
        for directory in (git, shared):
            if (directory / name).is_file():
                return (directory / name).read_text(encoding="utf-8").strip() or None
        for line in (shared / "packed-refs").read_text(encoding="utf-8").splitlines():
            commit, _, reference = line.partition(" ")
            if reference == name:
                return commit
    except (OSError, UnicodeDecodeError):
        pass
    return None


def needs_offline_program(chosen: Protocol) -> str:
    """Its name; EngineError for a protocol that has none."""
    if chosen.offline is None:
        raise EngineError(
            f"MP-SPDZ has no offline program for {chosen.name}: its material is made in the run.",
            f"a protocol that has one ({', '.join(p.name for p in PROTOCOLS.values() if p.offline)})",
            "run without a stock: --offline on-demand",
        )
    return chosen.offline


def find_program(home: Installation, chosen: Protocol, *, offline: bool = False, insecure: bool = False) -> Path:
    """The protocol's program, built for secrets. insecure : or for timing"""
    name = needs_offline_program(chosen) if offline else chosen.party
    found = home.binary(name)
    if found is None:
        instead = "; or run without a stock (--offline on-demand): a release has no offline programs" * offline
        raise EngineError(
            f"{name} of the protocol {chosen.name} is not in {home.path}.",
            "MP-SPDZ with this protocol's programs (`pdml-spdz mp-spdz list` shows what is there)",
            f"`make {name}` in a source tree of MP-SPDZ builds it ({GUIDE}){instead}",
        )
    if home.is_insecure(found) and not insecure:
        raise EngineError(
            f"{found} was built with -DINSECURE, which reuses offline material, or cannot be told from such a build.",
            "a build for secrets, of which no part is older, damaged or missing",
            "build it without -DINSECURE, or pass --insecure-benchmark to measure times on made-up data",
        )
    if home.lacks_mac_fix(chosen) and not insecure:
        raise EngineError(
            f"{found} is of an MP-SPDZ that lacks the fix of a race in its MAC check, on which {chosen.name} relies.",
            f"MP-SPDZ after release {'.'.join(map(str, UNFIXED))}, with its commit 7bf16a74",
            f"build a later one at every party ({GUIDE})",
        )
    return found


def check_modulus(program: Path, chosen: Protocol, bits: int) -> None:
    """Rings and primes of each length are types of their own in MP-SPDZ: their names are in every program that has
    them, unless names were stripped. bits : of the ring; of the prime, a multiple of 64
    """
    code, ring = program.read_bytes(), chosen.domain == "ring"
    length = bits if ring else bits // 64
    if chosen.number_type.encode() not in code or f"{chosen.number_type}{length}E".encode() in code:
        return
    kind = "numbers" if ring else "primes"
    found = f"{program.name} was not built for {kind} of {bits} bits, which this study takes."
    smaller = "or a smaller --range or fewer --bits"
    if ring:
        raise EngineError(
            found,
            f"a build of MP-SPDZ with rings of {bits} bits",
            f"`MY_CFLAGS += -DRING_SIZE={bits}` in CONFIG.mine, then `make {program.name}`; {smaller}; or a protocol "
            "over a prime field (semi, hemi, mascot)",
        )
    raise EngineError(
        found,
        "a build of MP-SPDZ with all its primes",
        f"`make clean; make {program.name}` without -DFEWER_PRIMES in CONFIG.mine; {smaller}",
    )
