"""Unpack an official binary release of MP-SPDZ into a directory, whole or not at all."""

from __future__ import annotations

import hashlib
import http.client
import io
import lzma
import re
import ssl
import subprocess
import tarfile
import tempfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from pdml_spdz.engines.mp_spdz.home import GUIDE, Installation, is_home
from pdml_spdz.errors import EngineError
from pdml_spdz.system import process
from pdml_spdz.system.files import writing

RELEASE = "0.4.2"
URL = f"https://github.com/data61/MP-SPDZ/releases/download/v{RELEASE}/mp-spdz-{RELEASE}.tar.xz"
SILENCE = 30.0  # seconds without a byte after which a download is given up
START = 20.0  # seconds a program has to print its usage
BLOCK = 1 << 20

_WANTED = (f"a binary release of MP-SPDZ such as {Path(urlsplit(URL).path).name}", f"get {URL}; {GUIDE} says more")

# (what is being done, bytes done, bytes in all or None if unknown)
Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True)
class Installed:
    """sha256 : of the archive; started : the program that was tried."""

    installation: Installation
    sha256: str
    started: Path


def install(
    target: Path,
    *,
    archive: Path | None = None,
    url: str = URL,
    sha256: str = "",
    force: bool = False,
    progress: Progress = lambda what, done, total: None,
) -> Installed:
    """Install `archive`, or what `url` has, as the directory `target`.

    What is there is replaced only with `force`, only if it is MP-SPDZ, and not before the new one was checked.
    """
    _may_replace(target, force)
    if archive is not None and not archive.is_file():
        raise EngineError(f"{archive} is not a file.", *_WANTED)
    with writing(target, "free some room or pass another --to DIR"):
        target.parent.mkdir(parents=True, exist_ok=True)
        # Beside the target: on the same disk, so that the last step is a rename.
        with tempfile.TemporaryDirectory(prefix=".mp-spdz-", dir=target.parent) as name:
            work = Path(name)
            if archive is None:
                archive = work / "archive"
                _download(url, archive, sha256, progress)
            found = _sha256(archive)
            if sha256 and found != sha256.lower():
                raise EngineError(f"{archive.name} has the SHA-256 {found}.", sha256.lower(), "get the archive again")
            unpacked = _unpack(archive, work / "unpacked", progress)
            started = _check(Installation(unpacked))
            _swap(unpacked, target, work / "replaced")
    return Installed(Installation(target.resolve()), found, target.resolve() / started.relative_to(unpacked))


def _may_replace(target: Path, force: bool) -> None:
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    if not is_home(target):  # with --force too: what it would delete is something else
        raise EngineError(f"{target} exists and is not MP-SPDZ.", "a new directory", "pass another --to DIR")
    if not force:
        raise EngineError(
            f"{target} already holds MP-SPDZ {Installation(target).version()}.",
            do="pass --force to replace it, or --to DIR to install beside it",
        )


def _swap(unpacked: Path, target: Path, replaced: Path) -> None:
    if target.exists() or target.is_symlink():
        target.rename(replaced)
    try:
        unpacked.rename(target)
    except OSError:
        if replaced.exists():
            replaced.rename(target)
        raise


# Of the network: an error of the disk is another matter.
_FAILURES = (urllib.error.URLError, http.client.HTTPException, ssl.SSLError, TimeoutError, ConnectionError)


def _download(url: str, to: Path, sha256: str, progress: Progress) -> None:
    name = Path(urlsplit(url).path).name or "the archive"
    try:
        _authentic(url, sha256)
        with urllib.request.urlopen(url, timeout=SILENCE) as answer, to.open("wb") as file:  # noqa: S310 - _authentic
            _authentic(answer.url, sha256)  # after redirections
            length = answer.headers.get("Content-Length")
            total = int(length) if length and length.isdecimal() else None
            done = 0
            while block := answer.read(BLOCK):
                file.write(block)
                done += len(block)
                progress("download", done, total)
            if total is not None and done < total:
                raise http.client.IncompleteRead(b"", total - done)
    except (*_FAILURES, ValueError) as error:
        raise EngineError(
            f"{url} could not be downloaded ({_reason(error)}).",
            f"the binary release of MP-SPDZ, {name}",
            f"fetch {name} from {url} by other means, then `pdml-spdz mp-spdz install --archive {name}`",
        ) from None


def _authentic(url: str, sha256: str) -> None:
    """The archive's programs will be run: where it comes from must be sure, or its content."""
    scheme = urlsplit(url).scheme
    if scheme != "https" and not (scheme == "http" and sha256):
        raise ValueError("only https:// is taken, or http:// with --sha256")


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        error.close()  # it is the server's answer too
        return f"HTTP status {error.code}"
    if isinstance(error, http.client.IncompleteRead):
        return f"{error.expected:,} bytes are missing at the end"
    return str(getattr(error, "reason", None) or error or type(error).__name__)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class _Counted(io.RawIOBase):
    """A file that says how much of it was read."""

    def __init__(self, file: BinaryIO, say: Callable[[int], None]) -> None:
        self._file, self._say = file, say

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        block = self._file.read(size)
        self._say(self._file.tell())
        return block


def _unpack(archive: Path, to: Path, progress: Progress) -> Path:
    """The release's own directory, below `to`."""
    if not hasattr(tarfile, "data_filter"):
        raise EngineError("this Python unpacks archives without safety checks.", "Python 3.11.4 or newer", "update it")
    size = archive.stat().st_size
    try:
        with archive.open("rb") as file:
            # As a stream: unpacked in one pass, where extractall() would decompress everything twice.
            stream = _Counted(file, lambda done: progress("unpack", done, size))
            with tarfile.open(fileobj=stream, mode="r|*") as tar:
                for member in tar:
                    # "data" refuses what lies or leads outside `to`, devices, and files with special rights.
                    tar.extract(member, to, filter="data")
    except tarfile.FilterError as error:
        raise EngineError(f"{archive} is not safe to unpack: {error}.", *_WANTED) from None
    except (tarfile.TarError, lzma.LZMAError, zlib.error, EOFError) as error:
        raise EngineError(f"{archive} cannot be unpacked ({error}).", *_WANTED) from None
    inside = [to, *sorted(to.iterdir())] if to.is_dir() else []
    for path in inside:
        if is_home(path):
            return path
    raise EngineError(f"{archive} is not MP-SPDZ: it has no compile.py with Compiler/ beside it.", *_WANTED)


def _check(installation: Installation) -> Path:
    """A party's program of it that starts on this machine."""
    parties = [found.party for found in installation.protocols() if found.party]
    if not parties:
        looked = ", ".join(str(path.relative_to(installation.path)) for path in installation.directories)
        raise EngineError(
            f"the archive has no program of a known protocol for this machine (looked in {looked}).",
            "a binary release, which upstream makes for Linux on x86-64; not a source-only archive",
            f"on other machines build it from its source; see {GUIDE}",
        )
    failures = []
    for program in parties:
        why = _fails(program)
        if why is None:
            return program
        failures.append(why)
    raise EngineError(
        f"no program of the archive starts on this machine: {failures[0]}.",
        "programs that print their usage",
        f"check what it needs (C library, processor) or build MP-SPDZ from its source; see {GUIDE}",
    )


def _fails(program: Path) -> str | None:
    """Why `program` does not print its usage, or None if it does."""
    try:
        # Without arguments an MP-SPDZ program prints its usage and ends with code 1.
        code, said = process.run([str(program)], directory=program.parent, timeout=START)
    except subprocess.TimeoutExpired:
        return f"{program.name} printed no usage within {START:.0f} s"
    except OSError as error:
        return f"{program.name}: {error.strerror or error}"
    if re.search(r"USAGE:.*<progname>", said):
        return None
    last = said.strip().rpartition("\n")[2]
    return f"{program.name}: {process.in_words(code)}{last and f', {last}'}"
