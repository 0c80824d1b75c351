"""The offline phase with MP-SPDZ's own programs: every party at its own host, into one directory for each stock."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pdml_spdz.engines.mp_spdz import directory
from pdml_spdz.engines.mp_spdz.compiler import Compiled
from pdml_spdz.engines.mp_spdz.place import Place
from pdml_spdz.engines.mp_spdz.preprocessing import ITEMS, Preprocessed, Preprocessing, file_of
from pdml_spdz.engines.mp_spdz.vm import explain
from pdml_spdz.engines.mp_spdz.watch import Watch, naming
from pdml_spdz.errors import EngineError
from pdml_spdz.offline.new_stock import Wanted, new_stock
from pdml_spdz.system import process

Progress = Callable[[int, int], None]  # bytes on the disk, of about how many
POLL = 0.2


def make(place: Place, compiled: Compiled, progress: Progress = lambda done, of: None) -> str:
    """Make a stock for one execution of the compiled program, together with the other parties; returns its id.

    Each party runs the protocol's offline program, over TLS, in a private directory, and keeps what it wrote
    (`new_stock`).

    Reveals: nothing but the counts. Cost: the protocol's. Ref: MP-SPDZ, "Preprocessing".
    """
    program, link = place.binary(offline=True), place.link
    wanted = Wanted(Preprocessed.of(compiled, link.M, place.protocol.name), 0, ITEMS)
    with (
        new_stock(link, Preprocessing, place.material, wanted) as new,
        place.meeting_point() as addresses,
    ):
        run = directory.create(compiled, place.identity, addresses, parent=place.material)
        try:
            _run(place, place.command(program, compiled), run, compiled, progress)
            (kept := new.path / directory.DATA).mkdir(mode=0o700)
            for part in run.data.glob(f"{link.M}-*"):
                part.rename(kept / part.name)
            for path in kept.glob("*/*"):
                new.files[path.relative_to(new.path).as_posix()] = file_of(path)
        finally:
            run.remove()
    return new.id


def _run(place: Place, command: list[str], run: directory.RunDirectory, compiled: Compiled, progress: Progress) -> None:
    wanted = forecast(compiled, malicious=place.protocol.malicious)
    child = process.start_guarded(command, directory=run.path, log=run.log)
    watch, size, link = Watch(child, place.timeout, place.work, place.link.listen), 0, place.link
    with naming(link, watch.works):
        try:
            while child.poll() is None:
                time.sleep(POLL)
                if (grown := _size(run.data)) != size:
                    size = grown
                    watch.moved()
                progress(min(size, wanted), wanted)
                if error := watch.late():
                    raise error
        finally:
            process.end([child])
        if child.returncode != 0:
            shutil.copyfile(run.log, kept := place.material / f"offline-P{link.me}.log")
            raise explain(child.returncode, run.log.read_text(encoding="utf-8", errors="replace"), str(kept))
    if not any(run.data.glob(f"{link.M}-*")):
        raise EngineError(f"{command[0]} ended well and left no material.")
    progress(wanted, wanted)


def forecast(compiled: Compiled, *, malicious: bool) -> int:
    """Bytes of one party's files, roughly: 32 for every number of a share, as many for its MAC."""
    counts = compiled.counts
    numbers = 3 * counts.triples + counts.bits + sum(counts.inputs)
    return 32 * (1 + malicious) * numbers


def _size(data: Path) -> int:
    total = 0
    for path in data.glob("*-*/*"):
        with suppress(OSError):  # replaced at this moment
            total += path.stat().st_size
    return total
