"""A stock: made by all parties, claimed by all, used once; everything that is wrong with one is told before use."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from pdml_spdz import ring
from pdml_spdz.errors import PdmlError, PeerAborted, StockError, StorageError
from pdml_spdz.offline import claim as claims
from pdml_spdz.offline import ledger
from pdml_spdz.offline.disk import write_file
from pdml_spdz.offline.make import FREE_ROOM, Forecast, forecast, make
from pdml_spdz.offline.material import Plan
from pdml_spdz.offline.spend import StockMaterial, claim
from pdml_spdz.offline.status import status
from pdml_spdz.offline.stock import (
    MANIFEST,
    TRIPLES,
    File,
    Kind,
    Manifest,
    Stock,
    allot,
    directory,
    find,
    record_digest,
    scalar_name,
)
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.inprocess import mesh
from tests.threads import run_threads

ROOT = Path(__file__).parents[2]
RUN = b"run one"
FAKE = Plan(40, (8, 3, 8, 5))  # of a fake stock


# ---- stocks without material: the numbers in them say where they come from


def fake_kind(M: int) -> Kind:
    return Kind(M, 64, 64)


def fake_part(root: Path, M: int, m: int, plan: Plan = FAKE, stock: str = "0123456789abcdef") -> Stock:
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
    return Stock(path)


def fake(root: Path, M: int, plan: Plan = FAKE, stock: str = "0123456789abcdef") -> None:
    for m in range(M):
        fake_part(root, M, m, plan, stock)


def claim_fake(root: Path, M: int, plan: Plan, run: bytes = RUN) -> list[StockMaterial]:
    """All parties claim; what each was given is what its claim says."""
    materials = run_threads(M, lambda link: claim(link, find(root, fake_kind(M), link.me), plan, run))
    for material in materials:
        _, line = material.claims[0]
        assert material.triples(plan.triples).a == [i + 1 for i in range(*line.triples)]
        assert [material.scalar().delta for _ in plan.vectors] == list(line.scalars)
    return materials


def parts(materials: Sequence[StockMaterial]) -> tuple[str, tuple[int, int], tuple[int, ...]]:
    """The claim that all parties made."""
    found = {(stock, line.triples, line.scalars) for material in materials for stock, line in material.claims}
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


# ---- real ones


class Made(NamedTuple):
    """sent : by each party, as it was and as it was forecast"""

    root: Path
    kind: Kind
    sent: list[int]
    expected: Forecast


@pytest.fixture(scope="module", params=[2, 3])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    root, kind, plan = tmp_path_factory.mktemp("made"), Kind(request.param, 128, 128), Plan(9, (7, 1500, 4))

    def party(link: Link) -> int:
        make(link, root, plan, kind, b"session")
        return sum(link.offline_traffic.sent.values())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pdml_spdz.offline.make._block", lambda _: 1000)  # so that a scalar has several
        return Made(root, kind, run_threads(kind.M, party), forecast(plan, kind))


@pytest.fixture
def stock(made: Made, tmp_path: Path) -> tuple[Path, Kind]:
    return shutil.copytree(made.root, tmp_path / "root"), made.kind


def test_what_is_claimed_holds_across_the_parties(stock: tuple[Path, Kind]) -> None:
    root, kind = stock
    plan, modulus = Plan(4, (1200, 5)), 1 << kind.vector_bits
    materials = run_threads(kind.M, lambda link: claim(link, find(root, kind, link.me, plan), plan, RUN))
    shares = [material.triples(4) for material in materials]
    for i in range(4):
        a, b, c = (sum(getattr(t, x)[i] for t in shares) for x in "abc")
        assert (a * b - c) % (1 << kind.scalar_bits) == 0
        assert a % (1 << kind.scalar_bits) != 0
    for n in plan.vectors:
        scalars = [material.scalar() for material in materials]
        for size in (2, n - 2):
            given = [scalar.take(size) for scalar in scalars]
            # w - v = u delta for every ordered pair; a party keeps the sum of its w - v.
            rest = [sum(numbers) % modulus for numbers in zip(*(ring.to_ints(g.rest) for g in given), strict=True)]
            pairs = [(l, m) for l in range(kind.M) for m in range(kind.M) if m != l]
            products = [ring.to_ints(ring.scale(given[l].pad, scalars[m].delta)) for l, m in pairs]
            assert rest == [sum(numbers) % modulus for numbers in zip(*products, strict=True)]
            assert len(rest) == size
        assert len({scalar.delta for scalar in scalars}) == kind.M


def test_numbers_are_given_once_and_in_order(stock: tuple[Path, Kind]) -> None:
    root, kind = stock
    other = shutil.copytree(root, root.with_name("other"))
    taken = []
    for where, sizes in ((root, (3, 1, 1100)), (other, (1104,))):
        material = run_threads(
            kind.M, lambda link, w=where: claim(link, find(w, kind, link.me), Plan(0, (1200,)), RUN)
        )[0]
        scalar = material.scalar()
        blocks = [(given.pad, given.rest) for given in (scalar.take(n) for n in sizes)]
        taken.append([np.concatenate(vectors) for vectors in zip(*blocks, strict=True)])
    assert all(np.array_equal(x, y) for x, y in zip(*taken, strict=True))
    assert len(np.unique(taken[0][0][:, 0])) == 1104


def test_two_claims_are_disjoint_and_nothing_claimed_stays_on_the_disk(stock: tuple[Path, Kind]) -> None:
    root, kind = stock
    plan = Plan(4, (3,))
    first, second = (
        run_threads(kind.M, lambda link: claim(link, find(root, kind, link.me, plan), plan, RUN)) for _ in range(2)
    )
    assert parts(first)[1:] == ((0, 4), (2,))
    assert parts(second)[1:] == ((4, 8), (0,))
    assert not set(first[0].triples(4).a) & set(second[0].triples(4).a)
    for m in range(kind.M):
        (path,) = root.glob(f"stock-*/party-{m}")
        assert sorted(p.name for p in path.glob("scalar-*")) == [scalar_name(1)]
        records = np.fromfile(path / TRIPLES, np.uint8).reshape(-1, kind.triple_size)
        assert [bool(content.any()) for content in records[:, 16:]] == [False] * 8 + [True]


def test_files_are_private_and_the_manifest_says_what_they_are(made: Made) -> None:
    root, kind = made.root, made.kind
    paths = sorted(root.glob("stock-*/party-*"))
    manifests = [json.loads((path / MANIFEST).read_text()) for path in paths]
    assert [m["party"] for m in manifests] == list(range(kind.M))
    assert {m["stock"] for m in manifests} == {paths[0].parent.name.removeprefix("stock-")}
    for path, manifest in zip(paths, manifests, strict=True):
        assert (manifest["triples"], manifest["vectors"]) == (9, [7, 1500, 4])
        assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert {stat.S_IMODE(file.stat().st_mode) for file in path.iterdir()} == {0o600}
        assert manifest["bytes"] == sum((path / name).stat().st_size for name in manifest["files"])


def test_forecast_is_what_making_took(made: Made) -> None:
    assert made.sent == [made.expected.sent] * made.kind.M
    assert made.expected.disk == json.loads(next(made.root.glob("stock-*/party-0/manifest.json")).read_text())["bytes"]
    assert 0 < made.expected.seconds < 10


def test_parties_that_mean_different_stocks_make_none(tmp_path: Path) -> None:
    errors = failures(2, lambda link: make(link, tmp_path, Plan(link.me, ()), Kind(2, 128, 128), b"s"))
    assert all("is about to make another stock" in str(error) for error in errors if isinstance(error, StockError))
    assert any(isinstance(error, StockError) for error in errors)
    assert status(tmp_path) == []


def test_progress_is_told_block_by_block(tmp_path: Path) -> None:
    steps: list[tuple[int, int, int]] = []

    def party(link: Link) -> None:
        tell = (lambda *step: steps.append(step)) if link.me == 0 else None
        make(link, tmp_path, Plan(2, (3, 4)), Kind(2, 64, 64), b"s", tell)

    run_threads(2, party)
    assert [step[:2] for step in steps] == [(0, 9), (2, 9), (5, 9), (9, 9)]
    sent = [step[2] for step in steps]
    assert sent == sorted(sent)


# ---- fitting


def test_smallest_scalars_that_will_do_are_taken() -> None:
    assert allot((8, 3, 8, 5), frozenset(), (4, 3)) == {0: 3, 1: 1}
    assert allot((8, 3, 8, 5), frozenset({3}), (3, 4)) == {0: 1, 1: 0}
    assert allot((8, 3), frozenset(), (2, 8)) == {0: 1, 1: 0}
    assert allot((8, 3), frozenset(), (4, 4)) == {0: 0}


@pytest.mark.parametrize(
    ("plan", "missing"),
    [
        (Plan(41, ()), "1 of 41 triples"),
        (Plan(0, (9,)), "1 of 1 scalars, with at least 9 numbers each"),
        (Plan(0, (8, 8, 8)), "1 of 3 scalars, with at least 8 numbers each"),
        (Plan(50, (9, 1)), "10 of 50 triples and 1 of 2 scalars, with at least 9 numbers each"),
    ],
)
def test_a_plan_that_does_not_fit_is_refused_with_what_is_missing(tmp_path: Path, plan: Plan, missing: str) -> None:
    fake(tmp_path, 2)
    assert find(tmp_path, fake_kind(2), 0, plan) == []
    for error in failures(2, lambda link: claim(link, find(tmp_path, fake_kind(2), link.me), plan, RUN)):
        assert isinstance(error, StockError)
        assert error.common
        assert f"stock 0123456789abcdef lacks {missing}." in str(error)
        assert "pdml-spdz offline make" in error.do
    assert [row.claims for row in status(tmp_path)] == [(), ()]


def test_stocks_of_another_kind_are_passed_over(tmp_path: Path) -> None:
    fake(tmp_path, 3)
    assert find(tmp_path, fake_kind(2), 0) == []
    assert find(tmp_path, Kind(3, 128, 64), 0) == []
    assert len(find(tmp_path, fake_kind(3), 2, FAKE)) == 1
    assert find(tmp_path / "nowhere", fake_kind(2), 0) == []


def test_more_than_was_claimed_is_an_error_that_says_how_much(tmp_path: Path) -> None:
    fake(tmp_path, 2)
    plan = Plan(3, (4,))
    material = run_threads(2, lambda link: claim(link, find(tmp_path, fake_kind(2), link.me), plan, RUN))[0]
    assert [material.triples(n).a for n in (1, 0, 1)] == [[1], [], [2]]
    with pytest.raises(StockError, match="2 triples more than the 3 that were claimed"):
        material.triples(3)
    scalar = material.scalar()
    scalar.take(3)
    with pytest.raises(StockError, match="1 numbers more than the 5 of this scalar"):
        scalar.take(3)
    with pytest.raises(StockError, match="one scalar more than were claimed"):
        material.scalar()


def test_reserve_claims_only_what_is_not_covered(tmp_path: Path) -> None:
    fake(tmp_path, 2)

    def party(link: Link) -> StockMaterial:
        material = StockMaterial(link, find(tmp_path, fake_kind(2), link.me), RUN)
        material.check(Plan(40, (8, 8)))
        material.reserve(Plan(10, (3, 3)))
        for _ in range(2):
            material.reserve(Plan(5, (3,)))
            material.triples(5)
            material.scalar()
        assert len(material.claims) == 1
        material.reserve(Plan(5, (3,)))
        return material

    found = [line for _, line in run_threads(2, party)[0].claims]
    assert [(line.triples, line.scalars) for line in found] == [((0, 10), (1, 3)), ((10, 15), (0,))]


def test_a_stock_without_triples_serves_a_plan_without(tmp_path: Path) -> None:
    fake(tmp_path, 2, Plan(0, (2,)))
    assert parts(claim_fake(tmp_path, 2, Plan(0, (1,))))[1:] == ((0, 0), (0,))


# ---- parties that do not agree


def test_the_stock_that_loses_least_is_taken(tmp_path: Path) -> None:
    fake(tmp_path, 2, Plan(40, (100, 9)), "aaaaaaaaaaaaaaaa")
    fake(tmp_path, 2, Plan(40, (50, 8)), "bbbbbbbbbbbbbbbb")
    assert parts(claim_fake(tmp_path, 2, Plan(1, (7,)))) == ("bbbbbbbbbbbbbbbb", (0, 1), (1,))
    assert parts(claim_fake(tmp_path, 2, Plan(1, (7,)))) == ("aaaaaaaaaaaaaaaa", (0, 1), (1,))


def test_only_a_stock_that_all_parties_hold_is_taken(tmp_path: Path) -> None:
    fake(tmp_path, 3, stock="aaaaaaaaaaaaaaaa")
    fake(tmp_path, 3, stock="bbbbbbbbbbbbbbbb")
    shutil.rmtree(directory(tmp_path, "aaaaaaaaaaaaaaaa", 1))
    assert parts(claim_fake(tmp_path, 3, Plan(4, (3,))))[0] == "bbbbbbbbbbbbbbbb"
    shutil.rmtree(directory(tmp_path, "bbbbbbbbbbbbbbbb", 2))
    errors = failures(3, lambda link: claim(link, find(tmp_path, fake_kind(3), link.me), Plan(4, (3,)), RUN))
    assert all(isinstance(error, StockError) and error.common for error in errors)
    assert "stock aaaaaaaaaaaaaaaa is not there or in use at P1; stock bbbb" in str(errors[0])


def test_no_stock_at_all_is_the_same_error_everywhere(tmp_path: Path) -> None:
    fake_part(tmp_path, 2, 1)
    errors = failures(2, lambda link: claim(link, find(tmp_path, fake_kind(2), link.me), Plan(4, ()), RUN))
    assert [isinstance(error, StockError) and error.common for error in errors] == [True, True]
    assert "this party has none of this kind" in str(errors[0])


def test_what_one_party_used_is_used_for_all(tmp_path: Path) -> None:
    fake(tmp_path, 3)
    for m, line in ((0, ledger.Claim("aa", "t", (0, 7), (1,))), (2, ledger.Claim("bb", "t", (0, 5), (3,)))):
        stock = Stock(directory(tmp_path, "0123456789abcdef", m))
        held = ledger.Ledger.lock(stock.ledger_path, stock.manifest.heading)
        assert held is not None
        held.append(line)
        held.close()
    materials = claim_fake(tmp_path, 3, Plan(4, (2, 2)))
    assert parts(materials)[1:] == ((7, 11), (0, 2))
    assert [material.claims[0][1].burnt for material in materials] == [(3,), (1, 3), (1,)]
    positions = {row.triples_left for row in status(tmp_path)}, {row.scalars_left for row in status(tmp_path)}
    assert positions == ({29}, {()})


def test_an_older_copy_of_one_partys_stock_is_not_used_again(tmp_path: Path) -> None:
    fake(tmp_path, 2)
    own = directory(tmp_path, "0123456789abcdef", 0)
    copy = shutil.copytree(own, tmp_path / "copy")
    first = parts(claim_fake(tmp_path, 2, Plan(4, (3,))))
    shutil.rmtree(own)
    copy.rename(own)
    second = parts(claim_fake(tmp_path, 2, Plan(4, (3,))))
    assert first[1:] == ((0, 4), (1,))
    assert second[1:] == ((4, 8), (3,))


@pytest.mark.parametrize("what", ["plan", "run"])
def test_parties_that_want_different_things_claim_nothing(tmp_path: Path, what: str) -> None:
    fake(tmp_path, 2)

    def party(link: Link) -> None:
        plan, run = (Plan(4 + link.me, ()), RUN) if what == "plan" else (Plan(4, ()), bytes([link.me]))
        claim(link, find(tmp_path, fake_kind(2), link.me), plan, run)

    for error in failures(2, party):
        if isinstance(error, StockError):
            assert "wants a stock for another run or plan" in str(error)
    assert [row.claims for row in status(tmp_path)] == [(), ()]


def test_parties_that_claim_different_parts_use_neither(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path, 2)
    agree = claims._agree

    def other_scalar(offers: claims.Offers, stocks: Sequence[Stock], plan: Plan) -> claims.Agreed | None:
        agreed = agree(offers, stocks, plan)
        if agreed and stocks[0].manifest.party == 1:
            return claims.Agreed(agreed.stock, agreed.used, claims.Choice(agreed.choice.triples, (0,)))
        return agreed

    monkeypatch.setattr(claims, "_agree", other_scalar)
    errors = failures(2, lambda link: claim(link, find(tmp_path, fake_kind(2), link.me), Plan(4, (3,)), RUN))
    assert any("claimed another part of stock" in str(error) for error in errors)
    monkeypatch.undo()
    assert parts(claim_fake(tmp_path, 2, Plan(4, (3,))))[1:] == ((4, 8), (3,))


def test_a_message_that_is_no_offer_is_an_error(tmp_path: Path) -> None:
    fake(tmp_path, 2)

    def party(link: Link) -> None:
        if link.me == 1:
            link.all_to_all("stock:offer", b'{"for": "", "stocks": [1]}')
        else:
            claim(link, find(tmp_path, fake_kind(2), 0), Plan(4, ()), RUN)

    with pytest.raises(StockError, match="P1 sent an offer of stocks that cannot be read"):
        run_threads(2, party)


# ---- damage


def edit_json(path: Path, **values: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def flip(path: Path, at: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[at] ^= 1
    path.write_bytes(raw)


def cut(path: Path, by: int = 1) -> None:
    os.truncate(path, path.stat().st_size - by)


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "scalar cut": (lambda p: cut(p / scalar_name(1)), "scalar-00001.bin has 55 bytes"),
    "scalar edited": (lambda p: flip(p / scalar_name(1), 9), "scalar-00001.bin does not have the digest"),
    "scalar missing": (
        lambda p: (p / scalar_name(1)).unlink(),
        "scalar-00001.bin is missing, and the ledger has no claim",
    ),
    "triples cut": (lambda p: cut(p / TRIPLES), "triples.bin has 1599 bytes"),
    "triple edited": (lambda p: flip(p / TRIPLES, 40 + 20), "triple 1 is damaged"),
    "triple's digest edited": (lambda p: flip(p / TRIPLES, 40 * 30), "triples.bin does not have the digest"),
    "triple zeroed": (lambda p: zero(p / TRIPLES, 16, 40), "triple 0 was used before, which the ledger does not say"),
    "triples missing": (lambda p: (p / TRIPLES).unlink(), "triples.bin is missing"),
    "other format": (lambda p: edit_json(p / MANIFEST, format=9), "it has format 9"),
    "other count": (lambda p: edit_json(p / MANIFEST, triples=41), "the files in it are not those of its counts"),
    "other party": (lambda p: edit_json(p / MANIFEST, party=0), "it is stock 0123456789abcdef of party 0"),
    "other id": (lambda p: edit_json(p / MANIFEST, stock="ff"), "it is stock ff of party 1"),
    "manifest cut": (lambda p: cut(p / MANIFEST, 9), "manifest.json cannot be used"),
    "manifest missing": (lambda p: (p / MANIFEST).unlink(), "manifest.json cannot be used"),
    "no ledger": (lambda p: (p / ledger.FILE).unlink(), "ledger.jsonl cannot be read"),
    "empty ledger": (lambda p: (p / ledger.FILE).write_bytes(b""), "line 1 of .*: it is missing"),
    "torn heading": (lambda p: cut(p / ledger.FILE), "line 1 of .*: it is missing"),
    "edited ledger": (lambda p: flip(p / ledger.FILE, 12), "line 1 of .*: its check does not match"),
}


def zero(path: Path, first: int, last: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[first:last] = bytes(last - first)
    path.write_bytes(raw)


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_stock_is_told_before_anything_is_used(tmp_path: Path, name: str) -> None:
    damage, message = DAMAGE[name]
    fake(tmp_path, 2)
    damage(directory(tmp_path, "0123456789abcdef", 1))
    hurt, other = reversed(
        failures(2, lambda link: claim(link, find(tmp_path, fake_kind(2), link.me), Plan(4, (3,)), RUN))
    )
    assert isinstance(hurt, StockError)
    assert not hurt.common
    with pytest.raises(StockError, match=message):
        raise hurt
    assert hurt.wanted
    assert "make a new stock" in hurt.do
    assert isinstance(other, PeerAborted)
    assert "its offline stock is missing" in str(other)
    rows = {row.party: row for row in status(tmp_path)}
    assert rows[0].problem == ""
    assert bool(rows[1].problem) == ("edited" not in name.replace("edited ledger", "") and name != "triple zeroed")


def test_a_scalar_damaged_at_one_party_is_skipped_next_time(tmp_path: Path) -> None:
    fake(tmp_path, 2)
    flip(directory(tmp_path, "0123456789abcdef", 1) / scalar_name(1), 9)
    failures(2, lambda link: claim(link, find(tmp_path, fake_kind(2), link.me), Plan(4, (3,)), RUN))
    assert parts(claim_fake(tmp_path, 2, Plan(4, (3,))))[2] == (3,)


def test_another_partys_directory_is_refused(tmp_path: Path) -> None:
    fake(tmp_path, 2)
    for error in failures(2, lambda link: claim(link, find(tmp_path, fake_kind(2), 1 - link.me), Plan(4, ()), RUN)):
        assert isinstance(error, StockError | PeerAborted)
    moved = directory(tmp_path, "0123456789abcdef", 2)
    directory(tmp_path, "0123456789abcdef", 1).rename(moved)
    with pytest.raises(StockError, match="it is stock 0123456789abcdef of party 1"):
        find(tmp_path, fake_kind(2), 2)


# ---- a full disk


def full(monkeypatch: pytest.MonkeyPatch, after: int, *, name: str = "write") -> None:
    """From the call number `after` on, os.<name> finds the disk full; before that a write goes through in part."""
    real, left = getattr(os, name), [after]

    def fails(fd: int, *data: bytes) -> object:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(fd, *(part[: max(1, len(part) // 2)] for part in data))

    monkeypatch.setattr(os, name, fails)


@pytest.mark.parametrize("name", ["write", "fsync"])
@pytest.mark.parametrize("after", [0, 1, 2, 7])
def test_a_full_disk_while_making_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, after: int
) -> None:
    full(monkeypatch, after, name=name)
    errors = failures(2, lambda link: make(link, tmp_path, Plan(1, (2,)), Kind(2, 64, 64), b"s"))
    monkeypatch.undo()
    storage = [error for error in errors if isinstance(error, StorageError)]
    assert storage
    assert all("No space left" in str(error) and error.do == FREE_ROOM for error in storage)
    valid = [row for row in status(tmp_path) if not row.problem]
    assert valid == []
    assert not list(tmp_path.glob("stock-*/.*"))


@pytest.mark.parametrize("name", ["write", "fsync"])
@pytest.mark.parametrize("after", [0, 1, 2, 3])
def test_a_full_disk_while_claiming_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, after: int
) -> None:
    fake(tmp_path, 2)
    full(monkeypatch, after, name=name)
    errors = failures(2, lambda link: claim(link, find(tmp_path, fake_kind(2), link.me), Plan(4, (3,)), RUN))
    monkeypatch.undo()
    assert any(isinstance(error, StorageError) and "free some room there" in error.do for error in errors)
    claim_fake(tmp_path, 2, Plan(4, (3,)))


def test_no_room_is_told_before_anything_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(9, 9, 9))
    for error in failures(2, lambda link: make(link, tmp_path, Plan(1, (2,)), Kind(2, 64, 64), b"s")):
        assert "has room for 9 bytes" in str(error) or isinstance(error, PeerAborted)
    assert status(tmp_path) == []


def test_a_file_that_may_not_grow_is_a_storage_error(tmp_path: Path) -> None:
    """The operating system's own refusal, in a process that may write no file above 1 kB."""
    code = f"""
import resource, pathlib
from tests.unit.test_stock import *
from pdml_spdz.ot import group
group.base_times(group.random_scalar())  # loads its library, which unpacks itself
resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))
root = pathlib.Path({str(tmp_path)!r})
for error in failures(2, lambda link: make(link, root, Plan(0, (99,)), Kind(2, 64, 64), b"s")):
    print(type(error).__name__, error.found)
"""
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "StorageError" in run.stdout
    assert "File too large" in run.stdout
    assert status(tmp_path) == []
    assert not list(tmp_path.glob("stock-*"))


# ---- what is left


def test_status_says_what_is_left_and_who_took_the_rest(tmp_path: Path) -> None:
    fake(tmp_path, 2)
    claim_fake(tmp_path, 2, Plan(10, (4,)), b"\x12\x34")
    (directory(tmp_path, "0123456789abcdef", 1) / MANIFEST).unlink()
    good, bad = status(tmp_path)
    assert (good.stock, good.party, good.kind) == ("0123456789abcdef", 0, fake_kind(2))
    assert (good.triples_left, good.triples, good.scalars_left, good.scalars) == (30, 40, (8, 3, 8), 4)
    assert [(line.run, line.triples, line.scalars) for line in good.claims] == [("1234", (0, 10), (3,))]
    assert good.claims[0].time.startswith("20")
    assert good.bytes == sum(f.stat().st_size for f in good.path.iterdir())
    assert "manifest.json cannot be used" in bad.problem


def test_what_a_killed_run_left_on_the_disk_goes_with_the_next(tmp_path: Path) -> None:
    fake(tmp_path, 2)
    path = directory(tmp_path, "0123456789abcdef", 0)
    saved = {name: (path / name).read_bytes() for name in (TRIPLES, scalar_name(1))}
    claim_fake(tmp_path, 2, Plan(4, (3,)))
    for name, raw in saved.items():  # as if it had been killed right after the claim
        (path / name).write_bytes(raw)
    claim_fake(tmp_path, 2, Plan(4, ()))
    assert not (path / scalar_name(1)).exists()
    assert not np.fromfile(path / TRIPLES, np.uint8).reshape(-1, 40)[:8, 16:].any()
