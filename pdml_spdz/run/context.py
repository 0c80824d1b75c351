"""What one party brings to a run, and where its files go."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import platformdirs

from pdml_spdz.engines.transcript import Transcript
from pdml_spdz.errors import ProtocolError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.rows import data as data_files
from pdml_spdz.rows.base import RowsLike
from pdml_spdz.rows.data import Data
from pdml_spdz.rows.reading import READ_AS_FOUND, Reading, RowsWanted
from pdml_spdz.run import output as results
from pdml_spdz.run.checkpoints import Checkpoint, Checkpoints
from pdml_spdz.run.kept import KeptNumbers
from pdml_spdz.study.model import Study
from pdml_spdz.system.files import locked, writing

Event = dict[str, Any]
Opened = TypeVar("Opened")


@dataclass(frozen=True)
class PartyRun:
    """What one party brings to a run: the agreed study and its own rows, paths and choices.

    data : this party's rows, or the file that holds them
    reading : how that file is written
    """

    study: Study
    me: int
    data: Path | Data = field(repr=False)
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
    reading: Reading = READ_AS_FOUND
    opened: list[str] = field(default_factory=list)  # what the run has shown to every party so far, in words
    out_is_held: bool = False  # by the local command, for all of its parties
    checkpoint: Checkpoint | None = None  # that all parties have, for a resumed run to go on from
    announce: Callable[[], None] = field(default=lambda: None)  # says what the run will show; an error ends the run

    @cached_property
    def directory(self) -> Path:
        return self.out / f"party-{self.me}"

    @cached_property
    def checkpoints(self) -> Checkpoints:
        return Checkpoints(self.directory / "checkpoint")

    @cached_property
    def kept(self) -> KeptNumbers:
        """What the run has opened before its first iteration; of an earlier run, if it resumes that."""
        starts = [name for name in self.study.spec.starts if name.endswith(".npz")]
        return KeptNumbers(self.directory, starts if self.resume else ())

    def note(self, text: str) -> None:
        self.notify({"event": "note", "text": text})

    def see(self, step: str, array: Reals) -> None:
        """Something that all parties agreed on, for the transcript if there is one."""
        if self.transcript is not None:
            self.transcript.see(step, value=array)

    def show(self, *observables: str) -> None:
        """Every party has seen this by now: what an error that comes later has to say."""
        self.opened.extend(o for o in observables if o not in self.opened)

    @contextmanager
    def output(self) -> Iterator[None]:
        """A directory for this party's files, its own until the run ends, and what is finished in it is not replaced
        unless somebody asked for it. `out` may be shared, by parties with other numbers.
        """
        with ExitStack() as held:
            if not self.out_is_held:
                held.enter_context(locked(self.out, shared=True))
            held.enter_context(locked(self.directory))
            results.refuse_finished(self.directory, allowed=self.force or self.resume)
            with writing(self.directory):
                self.directory.chmod(0o700)  # W and checkpoints are this party's alone
            yield

    def begin(self, data: Data, session: bytes) -> None:
        """A new run: the results of an older one go, when the parties have met and mean the same thing, not before."""
        results.remove(self.directory, self.study.spec)
        self.checkpoints.begin(self.study, data, session)


def showing(opening: Callable[..., Opened], run: PartyRun, *observables: str) -> Callable[..., Opened]:
    """`opening`, after which every party has seen the observables, whatever becomes of the run.

    A ProtocolError is about numbers that were opened: they do not fit together.
    """

    def shown(*arguments: Any) -> Opened:
        try:
            opened = opening(*arguments)
        except ProtocolError:
            run.show(*observables)
            raise
        run.show(*observables)
        return opened

    return shown


def rows_of(
    given: RowsLike | Data | str | Path, study: Study, source: str = "the rows", reading: Reading = READ_AS_FOUND
) -> Data:
    """Rows, or the file that holds them, as numbers that can be used; a vector where the study is about vectors."""
    vector, wanted = study.spec.vector, RowsWanted(reading, study.rows, study.features)
    if isinstance(given, str | Path):
        return data_files.load(Path(given), vector=vector, wanted=wanted)
    return data_files.from_rows(given, source, vector=vector, wanted=wanted)


def stock_root(given: Path | None = None) -> Path:
    """Where stocks are: as given, offline/ in a checkout of this project, else the user's data directory."""
    if given is not None:
        return given
    checkout = Path("offline")
    if (checkout / "README.md").is_file() and Path("pdml_spdz").is_dir():
        return checkout
    return Path(platformdirs.user_data_dir("pdml-spdz")) / "offline"
