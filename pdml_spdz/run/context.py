"""What one party brings to a run, where its files go, and the way back into a run.

V_t (or T_t) of every finished iteration is on each party's own disk. Kept are public values, a salted digest of the
party's own data and, for NMF, the party's own W; keys are not, a resumed run has fresh ones. Resuming on changed data
would show the others the difference between two data sets, so it is refused.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import platformdirs

from pdml_spdz.engines.transcript import Transcript
from pdml_spdz.errors import ProtocolError, ResumeError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.primitives.bound import Bound
from pdml_spdz.rows import data as data_files
from pdml_spdz.rows.base import RowsLike
from pdml_spdz.rows.data import Data
from pdml_spdz.rows.names import Names
from pdml_spdz.rows.reading import READ_AS_FOUND, Reading, RowsWanted
from pdml_spdz.run import output as results
from pdml_spdz.study.model import Study
from pdml_spdz.system.files import locked, parse_json, replaced, save_json, writing
from pdml_spdz.transport.base import Link, read_object

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
    announce: Callable[[], None] = field(default=lambda: None)  # says what the run will show; an error ends the run

    @cached_property
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

    def begin(self, data: Data) -> None:
        """A new run: the results of an older one go, when the parties have met and mean the same thing, not before."""
        results.remove(self.directory)
        Checkpoints(self.directory / "checkpoint").begin(self.study, data)


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


KEPT = 2  # parties that are cut off in the middle of an iteration differ by one
MOST = 4096  # bytes of a message here
# Of files beside the checkpoints: what they hold, and what to do when they are damaged.
KEPT_NUMBERS = "what this run has written before", "put back a copy of it, or run again without --resume"
FORMAT = 5  # of checkpoints; 5: which features are constant


@dataclass(frozen=True)
class Checkpoint:
    """V : what the parties have in common after iteration t; meta : the rest of the state, as JSON has it;
    private : this party's own part of the state, if there is one
    public : other arrays that every party has, up to rounding
    """

    t: int
    V: Reals
    meta: dict[str, Any]
    bound: Bound
    private: Reals | None = None
    public: dict[str, Reals] = field(default_factory=dict)


class Checkpoints:
    """One party's checkpoints in `directory`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def begin(self, study: Study, data: Data) -> None:
        """A new run: forget an older one, remember the problem and the data."""
        with writing(self.directory):
            self.directory.mkdir(parents=True, exist_ok=True)
            for old in self.directory.glob("iteration-*.npz"):
                old.unlink()
            for place in self.directory.glob("W-*"):
                shutil.rmtree(place)
        salt = secrets.token_bytes(16)
        content: dict[str, Any] = {"problem": study.problem_digest, "salt": salt.hex(), "data": data.digest(salt)}
        content |= {"features": data.features, "format": FORMAT, "algorithm": study.algorithm}
        save_json(self.directory / "run.json", content)

    def features(self) -> Names | None:
        """The names of the columns in the order of the run that began here, if there is one and it had names."""
        try:
            found = parse_json((self.directory / "run.json").read_text(encoding="utf-8"))["features"]
            return None if found is None else tuple(found)
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def check_resumable(self, study: Study, data: Data) -> None:
        """The same problem and the same data as when the run began."""
        path = self.directory / "run.json"
        try:
            begun = parse_json(path.read_text(encoding="utf-8"))
            salt, problem, digest = bytes.fromhex(begun["salt"]), begun["problem"], begun["data"]
        except (OSError, ValueError, KeyError, TypeError):
            raise ResumeError(
                f"{self.directory} holds no run to resume.",
                "the --out of the run that stopped",
                "start without --resume",
            ) from None
        if begun.get("format") != FORMAT:
            raise ResumeError(
                f"{self.directory} was written by another version: its checkpoints lack what this one needs.",
                "a run that this version of pdml-spdz began",
                "start anew without --resume (with --force, if that run has finished)",
            )
        if problem != study.problem_digest:
            raise ResumeError(
                "the study differs from the one that the run began with.",
                "the same algorithm, rank, features, engine, start and bound",
                "restore the study, or start anew without --resume",
            )
        if digest != data.digest(salt):
            raise ResumeError(
                "the data differ from those that the run began with.",
                "the same rows (resuming on others would reveal the difference)",
                "restore the file, or start anew without --resume",
            )

    def save(self, checkpoint: Checkpoint) -> None:
        meta = {"t": checkpoint.t, "bound": asdict(checkpoint.bound), "state": checkpoint.meta}
        arrays: dict[str, Any] = {"V": checkpoint.V, "meta": np.array(json.dumps(meta))}
        if checkpoint.private is not None:
            arrays["private"] = checkpoint.private
        arrays |= {f"public/{name}": array for name, array in checkpoint.public.items()}
        with replaced(self._path(checkpoint.t)) as temporary, temporary.open("wb") as file:
            np.savez(file, **arrays)
        self._path(checkpoint.t - KEPT).unlink(missing_ok=True)

    def load(self) -> dict[int, Checkpoint]:
        """What can be read, by iteration."""
        found = {}
        for path in sorted(self.directory.glob("iteration-*.npz")):
            try:
                with np.load(path, allow_pickle=False) as archive:
                    V, meta = archive["V"], parse_json(str(archive["meta"]))
                    private = archive.get("private")
                    names = [name for name in archive if name.startswith("public/")]
                    public = {name.removeprefix("public/"): archive[name] for name in names}
                bound = Bound(**meta["bound"])
                found[int(meta["t"])] = Checkpoint(int(meta["t"]), V, dict(meta["state"]), bound, private, public)
            except Exception:  # noqa: BLE001, S112 - damaged, whatever its readers call that: the one before serves
                continue
        return found

    def common(self, link: Link) -> Checkpoint:
        """The latest checkpoint that all parties have.

        1. each party sends (t, digest of V_t and bound) of its checkpoints; 2. the largest t with equal digests is
        taken
        Reveals: digests of public values. Cost: one round. Ref: -
        """
        found = self.load()
        own = {str(t): _digest(c) for t, c in found.items()}
        received = link.all_to_all("resume", json.dumps(own).encode(), MOST)
        candidates = set(own.items())
        for peer, data in received.items():
            try:
                candidates &= set(read_object(data).items())
            except (ValueError, TypeError):
                raise ResumeError(f"P{peer} sent a list of checkpoints that cannot be read.", culprit=peer) from None
        if not candidates:
            raise ResumeError(
                "the parties have no checkpoint in common.",
                "one finished iteration that all of them have",
                "check that every party passes the --out of the same run, or start anew without --resume",
            )
        return found[max(int(t) for t, _ in candidates)]

    def _path(self, t: int) -> Path:
        return self.directory / f"iteration-{t}.npz"


def _digest(checkpoint: Checkpoint) -> str:
    bound = checkpoint.bound
    content = checkpoint.V.tobytes() + repr((bound.addend, bound.total)).encode()
    return hashlib.sha256(content).hexdigest()


def finished_everywhere(link: Link, directory: Path, study: Study) -> dict[str, Any] | None:
    """This party's report, if all parties have finished the run and the study asks for nothing more; else None.

    1. each party sends the digest of its finished result, or nothing if it has none or more is asked of it
    2. with equal digests everywhere there is nothing to do

    Reveals: the digest of a public value. Cost: one round. Ref: -
    """
    report = results.finished(directory)
    own = b"" if report is None or _asks_more(study, report) else _finished_digest(report)
    received = [bytes(data) for data in link.all_to_all("finished", own, MOST).values()]
    return report if own and all(theirs == own for theirs in received) else None


def _asks_more(study: Study, report: dict[str, Any]) -> bool:
    """Whether one uninterrupted run of the study could end elsewhere than the run that the report is of."""
    asked = report.get("asked")
    if asked is None or study.tol < asked["tol"]:
        return True
    return bool(study.iterations > asked["iterations"] and not report.get("converged", True))


def _finished_digest(report: dict[str, Any]) -> bytes:
    return f"{report['digests']['result']} after {report.get('iterations')}".encode()
