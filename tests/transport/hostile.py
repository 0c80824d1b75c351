"""One party follows the protocol but for one frame, and the others have to end with words, or well."""

from __future__ import annotations

import functools
import shutil
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path

from pdml_spdz.errors import PdmlError
from pdml_spdz.transport.patience import Patience
from tests.transport import scenes
from tests.transport.meshes import PATIENT, Outcome, mesh
from tests.transport.wrong import Log, Sent, Way, WrongConnection

SHORT = Patience(0.4, work=0.8, least_rate=1e7)  # a case in which bytes are missing takes as long


Place = tuple[str, int]  # a frame: its step, and how often that came before


def play(
    scene: str, hostile: int, at: Place = ("", 0), way: Way | None = None, patience: Patience = SHORT
) -> tuple[Log, list[Outcome]]:
    """What the hostile party sent, and what became of the others."""
    what, log = scenes.SCENES[scene], Log()
    directory = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    try:
        make = {hostile: lambda party, sock: WrongConnection(party, sock, log, at, way)}
        links = mesh(what.M, PATIENT if way is None else patience, make)
        outcomes = [Outcome(lambda link: what.party(link, directory / f"P{link.me}"), link) for link in links]
        outcomes = [outcome.end() for outcome in outcomes]
        return log, [outcome for m, outcome in enumerate(outcomes) if m != hostile]
    finally:
        shutil.rmtree(directory)


@functools.cache
def frames(scene: str, hostile: int) -> dict[Place, Sent]:
    """The frames that a party sends where nothing is wrong; of those of one step the first two."""
    log, honest = play(scene, hostile)
    for outcome in honest:
        if outcome.error is not None:
            raise outcome.error
    found: dict[Place, Sent] = {}
    for i, sent in enumerate(log.sent):
        number = log.steps[:i].count(sent.step)
        if number < 2:
            found[sent.step, number] = sent
    return found


def cases(
    scene: str, hostile: int, ways: Mapping[str, Way], steps: Collection[str] | None = None
) -> list[tuple[Place, str]]:
    """Every frame (of these steps) with every way in which it can be wrong."""
    return [
        (at, name)
        for at, sent in frames(scene, hostile).items()
        if steps is None or at[0] in steps
        for name, way in ways.items()
        if way(sent) is not None
    ]


def fault(outcome: Outcome) -> str | None:
    """What is wrong with the way in which an honest party ended, if anything is."""
    error = outcome.error
    if error is None:
        return None
    if not isinstance(error, PdmlError):
        return f"{type(error).__name__}: {error}"
    text = str(error)
    if not all(c.isprintable() or c == "\n" for c in text):
        return f"prints what it was sent: {text!r}"
    text.encode()
    return None
