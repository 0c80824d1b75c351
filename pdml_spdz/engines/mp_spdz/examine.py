"""What this machine has of MP-SPDZ, for `pdml-spdz doctor`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pdml_spdz.engines.mp_spdz import home as homes
from pdml_spdz.engines.mp_spdz.home import Found, Installation
from pdml_spdz.engines.mp_spdz.spec import MP_SPDZ
from pdml_spdz.engines.spec import Finding
from pdml_spdz.study.engines import ENGINES


def findings(home: Path | None) -> Iterator[Finding]:
    found = homes.find(home)
    if found is None:
        *others, last = (name for name in ENGINES.names() if name != MP_SPDZ.name)
        needed = f"Not needed for the engines {', '.join(others)} and {last}."
        yield Finding("note", "MP-SPDZ", f"{homes.missing_text(home)} {needed}")
        return
    yield Finding("ok", "MP-SPDZ", str(found.path))
    yield Finding("ok", "MP-SPDZ version", found.version())
    yield Finding("ok", "MP-SPDZ compiler", str(found.compiler))
    rows = [row for row in found.protocols() if row.party]
    if not rows:
        looked = ", ".join(str(path) for path in found.directories)
        yield Finding("note", "MP-SPDZ", f"only the compiler: no program of a known protocol in {looked}")
    for row in rows:
        yield _protocol(found, row)


def _protocol(found: Installation, row: Found) -> Finding:
    programs = [path for path in (row.party, row.offline) if path]
    insecure = [path.name for path in programs if found.is_insecure(path)]
    what = f"MP-SPDZ {row.protocol.name}"
    if insecure:
        names = " and ".join(insecure)
        return Finding(
            "note", what, f"{names}: INSECURE build, reuses offline material; refused outside --insecure-benchmark"
        )
    text = ", ".join(path.name for path in programs)
    if row.offline is None:
        text += f", no {row.protocol.name}-offline.x: the offline phase happens on demand"
    return Finding("ok", what, text)
