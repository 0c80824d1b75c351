"""The way back into a run: what is on a party's disk of it, and what of that all parties have in common.

V_t (or T_t) of every finished iteration is on each party's own disk, and what was opened before the first. Kept are
public values, a salted digest of the party's own data and, for NMF, the party's own W; keys are not, a resumed run has
fresh ones. Resuming on changed data would show the others the difference between two data sets, so it is refused.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pdml_spdz.errors import ResumeError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.primitives.bound import Bound
from pdml_spdz.rows.data import Data
from pdml_spdz.rows.names import Names
from pdml_spdz.study.model import Study
from pdml_spdz.system.files import parse_json, replaced, save_json, writing

KEPT = 2  # parties that are cut off in the middle of an iteration differ by one
FORMAT = 7  # of checkpoints; 7: in which run, of all that the parties began, they were made


@dataclass(frozen=True)
class Checkpoint:
    """V : what the parties have in common after iteration t; meta : the rest of the state, as JSON has it;
    private : this party's own part of the state, if there is one
    public : other arrays that every party has, up to rounding
    made_with : digests of what was opened before the first iteration, by the names of the files
    """

    t: int
    V: Reals
    meta: dict[str, Any]
    bound: Bound
    private: Reals | None = None
    public: dict[str, Reals] = field(default_factory=dict)
    made_with: dict[str, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """Of what every party has, to the last bit."""
        rest = json.dumps([self.t, self.bound.addend, self.bound.total, self.made_with], sort_keys=True)
        return hashlib.sha256(self.V.tobytes() + rest.encode()).hexdigest()


class Checkpoints:
    """One party's checkpoints in `directory`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def begin(self, study: Study, data: Data, session: bytes) -> None:
        """A new run: forget an older one, remember the problem and the data, and which run it is."""
        with writing(self.directory):
            self.directory.mkdir(parents=True, exist_ok=True)
            for old in self.directory.glob("iteration-*.npz"):
                old.unlink()
            for place in self.directory.glob("W-*"):
                shutil.rmtree(place)
        salt = secrets.token_bytes(16)
        content: dict[str, Any] = {"problem": study.problem_digest, "salt": salt.hex(), "data": data.digest(salt)}
        content |= {"features": data.features, "format": FORMAT, "algorithm": study.algorithm}
        content["run"] = session.hex()
        save_json(self.directory / "run.json", content)

    def features(self) -> Names | None:
        """The names of the columns in the order of the run that began here, if there is one and it had names."""
        found = self._begun("features")
        return tuple(found) if isinstance(found, list) else None

    def run(self) -> str:
        """The public identity of the run that began here."""
        return str(self._begun("run"))

    def _begun(self, name: str) -> Any:
        """What was remembered of the run that began here; None if that cannot be read."""
        try:
            return parse_json((self.directory / "run.json").read_text(encoding="utf-8"))[name]
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
        meta["made_with"] = checkpoint.made_with
        arrays: dict[str, Any] = {"V": checkpoint.V, "meta": np.array(json.dumps(meta))}
        if checkpoint.private is not None:
            arrays["private"] = checkpoint.private
        arrays |= {f"public/{name}": array for name, array in checkpoint.public.items()}
        with replaced(self._path(checkpoint.t), private=True) as temporary, temporary.open("wb") as file:
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
                bound, state, made_with = Bound(**meta["bound"]), dict(meta["state"]), dict(meta["made_with"])
                t = int(meta["t"])
                found[t] = Checkpoint(t, V, state, bound, private, public, made_with)
            except Exception:  # noqa: BLE001, S112 - damaged, whatever its readers call that: the one before serves
                continue
        return found

    def _path(self, t: int) -> Path:
        return self.directory / f"iteration-{t}.npz"
