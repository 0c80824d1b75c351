"""What one party brings to a run, and where its files go."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import platformdirs

from pdml_spdz.errors import StorageError
from pdml_spdz.fixedpoint import Reals
from pdml_spdz.storage import writing
from pdml_spdz.study import Study
from pdml_spdz.transcript import FILE, Transcript

Event = dict[str, Any]
FEATURES = ("mean.npy", "scale.npy")  # what a fit keeps of the features besides its result


@dataclass(frozen=True)
class PartyRun:
    """What one party brings to a run: the agreed study and its own paths and choices."""

    study: Study
    me: int
    data: Path
    certs: Path
    out: Path
    resume: bool = False
    force: bool = False
    listener: socket.socket | None = None
    listen: tuple[str, int] | None = None
    notify: Callable[[Event], None] = field(default=lambda event: None)

    stock: Path | None = None
    repeats: Path | None = None
    own_secret: Path | None = None
    mp_spdz: Path | None = None
    transcript: Transcript | None = None  # what this party sees is written down there
    opened: list[str] = field(default_factory=list)  # what the run has shown to every party so far, in words

    @property
    def directory(self) -> Path:
        return self.out / f"party-{self.me}"

    def note(self, text: str) -> None:
        self.notify({"event": "note", "text": text})

    def see(self, step: str, array: Reals) -> None:
        """Something that all parties agreed on, for the transcript if there is one."""
        if self.transcript is not None:
            self.transcript.see(step, value=array)

    def show(self, *observables: str) -> None:
        """Every party has seen this by now: what an error that comes later has to say."""
        self.opened.extend(o for o in observables if o not in self.opened)

    def prepare_output(self) -> None:
        """A directory for this party's files, without a finished run that nobody asked to replace."""
        refuse_finished(self.directory, allowed=self.force or self.resume)
        with writing(self.directory):
            self.directory.mkdir(parents=True, exist_ok=True)
            self.directory.chmod(0o700)  # W and checkpoints are this party's alone

    def remove_older(self) -> None:
        """The results of an older run go when the parties have met and mean the same thing, not before."""
        with writing(self.directory):
            for name in ("report.json", "V.npy", "V0.npy", "u.npy", "T.npy", "T0.npy", "W.npy", *FEATURES, FILE):
                (self.directory / name).unlink(missing_ok=True)


def refuse_finished(out: Path, *, allowed: bool) -> None:
    """Refuse to replace a finished run that nobody asked to replace."""
    if (out / "report.json").exists() and not allowed:
        raise StorageError(
            f"{out} already holds a finished run.",
            do="choose another --out, pass --force to replace it, or --resume to go on from it",
        )


def stock_root(given: Path | None = None) -> Path:
    """Where stocks are: as given, offline/ in a checkout of this project, else the user's data directory."""
    if given is not None:
        return given
    checkout = Path("offline")
    if (checkout / "README.md").is_file() and Path("pdml_spdz").is_dir():
        return checkout
    return Path(platformdirs.user_data_dir("pdml-spdz")) / "offline"
