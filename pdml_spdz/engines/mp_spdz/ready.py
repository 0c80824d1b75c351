"""What of MP-SPDZ is on this machine, and whether it is enough for a study: before anything connects or is compiled."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pdml_spdz.engines.mp_spdz.compiler import domain_of
from pdml_spdz.engines.mp_spdz.engine import layout_of
from pdml_spdz.engines.mp_spdz.home import (
    Found,
    Installation,
    check_modulus,
    find,
    find_program,
    missing_text,
    needs_offline_program,
    require,
)
from pdml_spdz.engines.mp_spdz.place import MATERIAL
from pdml_spdz.engines.mp_spdz.preprocessing import Preprocessing
from pdml_spdz.engines.mp_spdz.protocols import protocol_of
from pdml_spdz.engines.mp_spdz.sealed_execution import check_size
from pdml_spdz.engines.mp_spdz.spec import MP_SPDZ
from pdml_spdz.engines.spec import Diagnosis, precision_of, sealed_precision_of
from pdml_spdz.offline.stock import look
from pdml_spdz.programs.render import render_sealed
from pdml_spdz.study.algorithm import Shape
from pdml_spdz.study.engines import ENGINES
from pdml_spdz.study.model import Study


def for_a_run(study: Study, given: Path | None, stocks: Path) -> None:
    """EngineError if MP-SPDZ, the protocol's program or a modulus of the size that the study needs is missing here, or
    if it wants a stock where there is none (below `stocks`) and nothing that could make one.
    """
    _check(study, given, making_stock=False)
    if study.on_shares and study.offline == "stock":
        needs_offline_program(chosen := protocol_of(study))
        parts = look(Preprocessing, stocks / MATERIAL)
        if not any(part.content and not part.claims for part in parts):
            find_program(require(given), chosen, offline=True, insecure=study.insecure_benchmark)


def for_a_stock(study: Study, given: Path | None) -> None:
    """The same of the protocol's offline program."""
    _check(study, given, making_stock=True)


def _check(study: Study, given: Path | None, *, making_stock: bool) -> None:
    if not study.on_shares:
        return
    chosen = protocol_of(study)
    program = find_program(require(given), chosen, offline=making_stock, insecure=study.insecure_benchmark)
    if study.level.sealed:
        if study.d:  # else the rows have to be known first: `setup.prepare`
            check_sealed(study, study.d, program)
        return
    precision, shape = precision_of(study), Shape(1, 1, 1)  # numbers are as long for any other
    layout = layout_of(study.opening, precision, shape, study.online, 1, own_masks=chosen.own_masks)
    options, _, prime = domain_of(layout.program, precision, chosen)  # EngineError if it is too large
    check_modulus(program, chosen, prime or int(options[1]))


def check_sealed(study: Study, d: int, program: Path) -> None:
    """How long the numbers of a sealed fit are depends on d, of which there may not be many."""
    check_size(d)
    chosen, precision = protocol_of(study), sealed_precision_of(study, d)
    check_modulus(program, chosen, domain_of(render_sealed(precision), precision, chosen)[2])


def findings(home: Path | None) -> Iterator[Diagnosis]:
    found = find(home)
    if found is None:
        *others, last = (name for name in ENGINES.names() if name != MP_SPDZ.name)
        needed = f"Not needed for the engines {', '.join(others)} and {last}."
        yield Diagnosis("note", "MP-SPDZ", f"{missing_text(home)} {needed}")
        return
    yield Diagnosis("ok", "MP-SPDZ", str(found.path))
    yield Diagnosis("ok", "MP-SPDZ version", found.version())
    yield Diagnosis("ok", "MP-SPDZ compiler", str(found.compiler))
    rows = [row for row in found.protocols() if row.party]
    if not rows:
        looked = ", ".join(str(path) for path in found.directories)
        yield Diagnosis("note", "MP-SPDZ", f"only the compiler: no program of a known protocol in {looked}")
    for row in rows:
        yield _protocol(found, row)


def _protocol(found: Installation, row: Found) -> Diagnosis:
    programs = [path for path in (row.party, row.offline) if path]
    insecure = [path.name for path in programs if found.is_insecure(path)]
    what = f"MP-SPDZ {row.protocol.name}"
    if insecure:
        names = " and ".join(insecure)
        return Diagnosis(
            "note", what, f"{names}: INSECURE build, reuses offline material; refused outside --insecure-benchmark"
        )
    if found.lacks_mac_fix(row.protocol):
        return Diagnosis("note", what, "lacks a fix of MP-SPDZ's MAC check; refused outside --insecure-benchmark")
    doubts = [doubt for path in programs for doubt in found.doubts(row.protocol, path)]
    text = ", ".join(path.name for path in programs)
    if row.offline is None:
        text += f", no {row.protocol.name}-offline.x: the offline phase happens on demand"
    return Diagnosis("note" if doubts else "ok", what, "; ".join([text, *doubts]))
