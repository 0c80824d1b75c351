"""The directory in which one party's virtual machine runs: private, made for one execution, removed after it.

Programs/Schedules, Programs/Bytecode   links to the compiled program
Programs/Public-Input/<program>         a pipe: what is public
Player-Data/                            links to the study's certificates and to this party's own key; offline
                                        material that was moved here; Binary-Output-P<me>-0, a pipe
in-P<me>-0                              a pipe: this party's numbers, as text
parties                                 where the parties listen, in their order
lock                                    locked while its process lives: what a killed one left is told by that
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pdml_spdz.engines.mp_spdz.compiler import Compiled
from pdml_spdz.transport.certs import Identity

DATA = "Player-Data"
PREFIX, LOCK = "pdml-spdz-vm-", "lock"


@dataclass(frozen=True)
class RunDirectory:
    """path : absolute; lock : held until `remove`"""

    path: Path
    me: int
    program: str
    lock: IO[str]

    @property
    def data(self) -> Path:
        return self.path / DATA

    @property
    def inputs(self) -> Path:
        return self.path / f"in-P{self.me}-0"

    @property
    def publics(self) -> Path:
        return self.path / "Programs" / "Public-Input" / self.program

    @property
    def outputs(self) -> Path:
        return self.data / f"Binary-Output-P{self.me}-0"

    @property
    def log(self) -> Path:
        return self.path / "log"

    def remove(self) -> None:
        _remove(self.path)
        self.lock.close()


def create(
    compiled: Compiled, identity: Identity, addresses: Sequence[tuple[str, int]], *, parent: Path | None = None
) -> RunDirectory:
    """A fresh directory for party identity.me; parent : where, instead of the system's place for temporary files"""
    sweep(parent or Path(tempfile.gettempdir()))
    path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent)).resolve()  # mode 0700
    lock = (path / LOCK).open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    run = RunDirectory(path, identity.me, compiled.name, lock)
    (path / "Programs" / "Public-Input").mkdir(parents=True)
    for name in ("Schedules", "Bytecode"):
        (path / "Programs" / name).symlink_to((compiled.path / "Programs" / name).resolve())
    run.data.mkdir(mode=0o700)
    link_certificates(run.data, identity)
    (path / "parties").write_text("".join(f"{host}:{port}\n" for host, port in addresses))
    for pipe in (run.inputs, run.publics, run.outputs):
        os.mkfifo(pipe, 0o600)
    return run


def sweep(where: Path) -> None:
    """Remove what killed processes of this user left in `where`: directories whose lock nobody holds."""
    for lock in where.glob(f"{PREFIX}*/{LOCK}"):
        path = lock.parent
        with suppress(OSError):
            if path.is_symlink() or path.stat().st_uid != os.getuid():
                continue
            with lock.open("r+") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if (path / "Programs").exists():  # else it is being made, and about to be locked
                    _remove(path)


def _remove(path: Path) -> None:
    """Offline material first: what a kill leaves of the rest may never be told from a directory that is being made."""
    for part in (path / DATA, path):
        shutil.rmtree(part, ignore_errors=True)


def link_certificates(data: Path, identity: Identity) -> None:
    """All certificates by name and by the hash under which OpenSSL looks them up; the key stays where it is."""
    for party, certificate in identity.certificates.items():
        target = certificate.path.resolve()
        (data / f"P{party}.pem").symlink_to(target)
        (data / f"{subject_hash(f'P{party}')}.0").symlink_to(target)
    (data / f"P{identity.me}.key").symlink_to(identity.key_path.resolve())


def subject_hash(common_name: str) -> str:
    """What `openssl x509 -hash` prints for a subject that has a common name and nothing else.

    The first four bytes, the lowest first, of the SHA-1 of the name's canonical encoding: lower case, as UTF-8.
    """
    text = common_name.lower().encode()
    value = bytes([0x0C, len(text)]) + text
    attribute = b"\x06\x03\x55\x04\x03" + value  # the object identifier of commonName
    name = bytes([0x30, len(attribute)]) + attribute
    encoded = bytes([0x31, len(name)]) + name
    return f"{int.from_bytes(hashlib.sha1(encoded, usedforsecurity=False).digest()[:4], 'little'):08x}"
