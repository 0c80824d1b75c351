"""Files of a run: written whole or not at all, one run to a directory, an error in words when the disk will not."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from pdml_spdz.errors import InputError, PdmlError, StorageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

DIGEST = 16  # bytes of the BLAKE2b digests of files
KEPT = "free some room or choose another --out; finished iterations are kept, `--resume` goes on from them"


@contextmanager
def writing(path: Path, do: str = KEPT) -> Iterator[None]:
    """Turn the operating system's error into ours."""
    try:
        yield
    except PdmlError:  # some of ours are the system's errors too
        raise
    except OSError as error:
        raise StorageError(
            f"{path} cannot be written ({error.strerror or error}).", "room and the right to write there", do
        ) from None


@contextmanager
def reading(path: Path, wanted: str, do: str) -> Iterator[None]:
    """Whatever NumPy, or another reader, calls it that one of our own files is damaged (errors of a tokenizer, of an
    archive, of a compression): InputError.
    """
    try:
        yield
    except (PdmlError, ImportError):
        raise
    except MemoryError:  # a header that is damaged may ask for any amount
        raise InputError(f"{path} does not fit into memory, or is damaged.", wanted, do) from None
    except Exception as error:  # noqa: BLE001
        known = f"cannot be read ({error.strerror})" if isinstance(error, OSError) and error.strerror else ""
        raise InputError(f"{path} {known or 'is damaged, or is not what the run has written'}.", wanted, do) from None


@contextmanager
def printing(stream: IO[str]) -> Iterator[None]:
    """The same for standard output or error. Nothing more is written there then, so that the others can be told."""
    try:
        yield
    except PdmlError:
        raise
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        failed = StorageError(
            f"{stream.name} cannot be written ({error.strerror or error}).",
            "room, or somebody who reads it",
            f"send it elsewhere, if only to {os.devnull}",
        )
        failed.quiet = error.errno == errno.EPIPE  # as other programs end when their reader has enough
        raise failed from None


@contextmanager
def replaced(path: Path, *, synced: bool = False, private: bool = False) -> Iterator[Path]:
    """A temporary path beside `path`, or where that leads, that takes its place when the block ends well.

    synced : on the disk before it does, and its name with it: what is written afterwards cannot survive without it
    private : for its owner only, whatever the umask, from the first byte
    """
    path = Path(os.path.realpath(path))
    temporary = path.with_name(f".{path.name}.new")
    with writing(path):
        if path.exists() and not path.is_file():  # a device, a pipe: a file in its place is not what its readers read
            raise StorageError(f"{path} is there, and is no file.", "a file, or nothing yet", "choose another --out")
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.unlink(missing_ok=True)
            os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666))
            yield temporary
            if synced:
                sync(temporary)
            temporary.replace(path)
            if synced:
                sync(path.parent)
        finally:
            temporary.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """A file, or the names in a directory, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class NewFile:
    """A file that is digested while it is written. `sync` has it on the disk."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._digest = hashlib.blake2b(digest_size=DIGEST)
        self.bytes = 0

    def write(self, data: bytes, *, digested: bytes | None = None) -> None:
        """digested : what goes into the digest, if that is not the data itself"""
        write_all(self._fd, data)
        self._digest.update(data if digested is None else digested)
        self.bytes += len(data)

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()

    def __enter__(self) -> NewFile:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


def write_file(path: Path, data: bytes) -> None:
    with NewFile(path) as file:
        file.write(data)


def write_all(fd: int, data: bytes) -> None:
    """os.write may write less than it was given: a full disk shows at the next call."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def save_array(path: Path, array: NDArray[Any], *, private: bool = False) -> None:
    import numpy  # which commands that only say something do without

    with replaced(path, synced=True, private=private) as temporary, temporary.open("wb") as file:
        numpy.save(file, array, allow_pickle=False)


def save_json(path: Path, content: Any, *, private: bool = False) -> None:
    save_text(path, json.dumps(content, indent=2) + "\n", private=private)


def save_text(path: Path, text: str, *, private: bool = False) -> None:
    with replaced(path, synced=True, private=private) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace", newline="")


def parse_json(text: str | bytes) -> Any:
    """What a file holds; ValueError for whatever is no JSON, brackets in thousands of brackets too."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def not_usable(error: OSError) -> StorageError:
    """A file of which the system says something that nobody expected, in words."""
    name = str(error.filename)
    return StorageError(
        f"{name if len(name) <= 200 else name[:200] + '...'} cannot be used ({error.strerror or error}).",
        "a file or directory that the system can open",
        "check its name and its rights",
    )


@contextmanager
def locked(directory: Path, *, shared: bool = False) -> Iterator[None]:
    """`directory`, made if need be, for one run (shared : for all that share it) until the block ends.

    The lock is the kernel's: it goes with the process, however that ends, and leaves nothing on the disk.
    """
    with writing(directory, "choose another --out"):
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = _open_and_lock(directory, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(descriptor)


def _open_and_lock(directory: Path, kind: int) -> int:
    # NFS locks only what is open for writing, and so no directory: there it is a file in it.
    for path, flags in ((directory, os.O_RDONLY), (directory / ".lock", os.O_RDWR | os.O_CREAT)):
        descriptor = os.open(path, flags, 0o600)
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            holder = _holder(descriptor)
            os.close(descriptor)
            raise StorageError(
                f"{directory} is in use by another run{holder}.",
                "a directory of its own for every run at a time (--force and --resume do not change that)",
                "wait until that run has ended, or choose another --out",
            ) from None
        except OSError as error:
            os.close(descriptor)
            if error.errno != errno.EBADF:
                raise
    raise StorageError(f"{directory} cannot be locked.", "a file system with locks", "choose another --out")


def _holder(descriptor: int) -> str:
    """Who holds the lock, where the system says so (Linux)."""
    inode = str(os.fstat(descriptor).st_ino)
    try:
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return ""
    rows = [line.split() for line in lines if " FLOCK " in line and "->" not in line]
    found = sorted({row[4] for row in rows if row[5].rpartition(":")[2] == inode and int(row[4]) > 0})
    return f" (process {', '.join(found)})" if found else ""
