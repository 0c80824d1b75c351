"""Stocks for MP-SPDZ that it did not make: the material in them says whose it is."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from pdml_spdz.engines.mp_spdz.compiler import Compiled, Counts
from pdml_spdz.engines.mp_spdz.directory import DATA
from pdml_spdz.engines.mp_spdz.preprocessing import file_of
from pdml_spdz.offline.new_stock import New
from pdml_spdz.system.files import write_file

COMPILED = Compiled("normed_sum", Path("/none"), "a field", "digest", Counts(1, 2, (3, 3), 4))
PARTS = ("2-Dp-256", "2-DB-128", "2-D2-40")


def write_parts(new: New) -> None:
    """Material for MP-SPDZ that says whose it is."""
    (data := new.path / DATA).mkdir(mode=0o700)
    for part in PARTS:
        (data / part).mkdir()
        write_file(path := data / part / "Triples", material(new.id, part))
        new.files[path.relative_to(new.path).as_posix()] = file_of(path)


def material(stock: str, part: str) -> bytes:
    return f"{stock} {part}".encode()


def contents(paths: Collection[Path]) -> set[bytes]:
    """Of the material below these directories."""
    return {file.read_bytes() for path in paths for file in path.rglob("Triples")}
