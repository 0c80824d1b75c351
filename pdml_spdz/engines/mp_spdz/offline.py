"""The offline phase with MP-SPDZ's own programs: every party at its own host, into one directory for each stock."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

from pdml_spdz.engines.mp_spdz import directory
from pdml_spdz.engines.mp_spdz.compiler import Compiled
from pdml_spdz.engines.mp_spdz.forecast import forecast, least_sizes
from pdml_spdz.engines.mp_spdz.place import Place
from pdml_spdz.engines.mp_spdz.preprocessing import ITEMS, Preprocessed, Preprocessing, file_of
from pdml_spdz.engines.mp_spdz.vm import explain
from pdml_spdz.engines.mp_spdz.watch import Watch, naming
from pdml_spdz.errors import StorageError
from pdml_spdz.offline.new_stock import FREE_ROOM, Wanted, new_stock
from pdml_spdz.system import process

Progress = Callable[[int, int], None]  # bytes on the disk, of about how many
POLL = 0.2


def make(
    place: Place, compiled: Compiled, progress: Progress = lambda done, of: None, few: Compiled | None = None
) -> str:
    """Make a stock for one execution of the compiled program, together with the other parties; returns its id.

    few : the same program with fewer iterations, for which alone there is to be material

    Each party runs the protocol's offline program, over TLS, in a private directory, and keeps what it wrote
    (`new_stock`).

    Reveals: nothing but the counts. Cost: the protocol's. Ref: MP-SPDZ, "Preprocessing".
    """
    program, link = place.binary(offline=True), place.link
    few = few or compiled
    kind = replace(Preprocessed.of(compiled, link.M, place.protocol.name), counts=asdict(few.counts))
    wanted = Wanted(kind, 0, ITEMS, forecast(few, link.M, place.protocol).disk)
    with (
        new_stock(link, Preprocessing, place.material, wanted) as new,
        place.meeting_point() as addresses,
    ):
        run = directory.create(few, place.identity, addresses, parent=place.material)
        try:
            _run(place, place.command(program, few), run, wanted.room, progress)
            check_written(run.data, few, malicious=place.protocol.malicious)
            (kept := new.path / directory.DATA).mkdir(mode=0o700)
            for part in run.data.glob(f"{link.M}-*"):
                part.rename(kept / part.name)
            for path in kept.glob("*/*"):
                new.files[path.relative_to(new.path).as_posix()] = file_of(path)
        finally:
            run.remove()
    return new.id


def _run(place: Place, command: list[str], run: directory.RunDirectory, wanted: int, progress: Progress) -> None:
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
    progress(wanted, wanted)


def check_written(data: Path, compiled: Compiled, *, malicious: bool) -> None:
    """StorageError if material is missing: MP-SPDZ's programs end well on a disk that is full."""
    least = least_sizes(compiled.counts, compiled.prime, malicious=malicious)
    for name, size in ({"*": 1} | least).items():
        sizes = [path.stat().st_size for path in data.glob(f"*-*/{name}")]
        found = min(sizes, default=0) if name == "*" else max(sizes, default=0)
        if found < size:
            raise StorageError(
                f"MP-SPDZ ended well and wrote {found:,} bytes of {name}.", f"at least {size:,} bytes", FREE_ROOM
            )


def _size(data: Path) -> int:
    total = 0
    for path in data.glob("*-*/*"):
        with suppress(OSError):  # replaced at this moment
            total += path.stat().st_size
    return total
