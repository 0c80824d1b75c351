"""Stocks without material, for tests: the numbers in them say where they come from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from pdml_spdz.errors import PdmlError
from pdml_spdz.offline import ledger
from pdml_spdz.offline.from_stock import StockMaterial, claim
from pdml_spdz.offline.material import Plan
from pdml_spdz.offline.numbers import TRIPLES, Kind, NumberStock, record_digest, scalar_name
from pdml_spdz.offline.stock import MANIFEST, File, Manifest, directory
from pdml_spdz.system.files import write_file
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.inprocess import mesh
from tests.threads import run_threads

ROOT = Path(__file__).parents[2]
RUN = b"run one"
FAKE = Plan(40, (8, 3, 8, 5))  # of a fake stock


def fake_kind(M: int) -> Kind:
    return Kind(M, 64, 64)


def fake_part(root: Path, M: int, m: int, plan: Plan = FAKE, stock: str = "0123456789abcdef") -> NumberStock:
    """Party m's part of a stock in which triple i is (i + 1, i + 1, i + 1) and every number of scalar i is i."""
    path, kind = directory(root, stock, m), fake_kind(M)
    path.mkdir(parents=True)
    contents = [(i + 1).to_bytes(8, "little") * 3 for i in range(plan.triples)]
    files = {TRIPLES: (b"".join(record_digest(c) + c for c in contents), b"".join(map(record_digest, contents)))}
    for i, n in enumerate(plan.vectors):
        files[scalar_name(i)] = (i.to_bytes(8, "little") * (kind.scalar_size(n) // 8),) * 2
    for name, (raw, _) in files.items():
        (path / name).write_bytes(raw)  # unsynced, and all the quicker
    entries = {name: File(len(raw), record_digest(digested).hex()) for name, (raw, digested) in files.items()}
    manifest = Manifest(stock, m, kind, plan.triples, plan.vectors, "2026-01-01T00:00:00+00:00", entries)
    ledger.create(path / ledger.FILE, manifest.heading)
    write_file(path / MANIFEST, manifest.to_json().encode())
    return NumberStock(path)


def fake(root: Path, M: int, plan: Plan = FAKE, stock: str = "0123456789abcdef") -> None:
    for m in range(M):
        fake_part(root, M, m, plan, stock)


def claim_fake(root: Path, M: int, plan: Plan, run: bytes = RUN) -> list[StockMaterial]:
    """All parties claim; what each was given is what its claim says."""
    materials = run_threads(M, lambda link: claim(link, NumberStock.find(root, fake_kind(M), link.me), plan, run))
    for material in materials:
        _, line = material.claims[0]
        assert material.triples(plan.triples).a == [i + 1 for i in range(*line.records)]
        assert [material.scalar().delta for _ in plan.vectors] == list(line.items)
    return materials


def parts(materials: Sequence[StockMaterial]) -> tuple[str, tuple[int, int], tuple[int, ...]]:
    """The claim that all parties made."""
    found = {(stock, line.records, line.items) for material in materials for stock, line in material.claims}
    assert len(found) == 1
    return found.pop()


def failures(M: int, party: Callable[[Link], object]) -> list[PdmlError]:
    """Every party's error."""

    def go(link: Link) -> PdmlError:
        try:
            with link:
                party(link)
        except PdmlError as error:
            return error
        raise AssertionError("no error")

    return run_threads(M, go, mesh(M, timeout=5.0))
