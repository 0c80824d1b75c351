"""Offline stocks: what is made holds, is private and is claimed once."""

from __future__ import annotations

import itertools
import json
import shutil
import stat
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from pdml_spdz.errors import StockError
from pdml_spdz.numerics import ring
from pdml_spdz.offline.from_stock import claim
from pdml_spdz.offline.make import Forecast, forecast, make
from pdml_spdz.offline.material import Plan
from pdml_spdz.offline.numbers import TRIPLES, Kind, NumberStock, scalar_name
from pdml_spdz.offline.status import status
from pdml_spdz.offline.stock import MANIFEST
from pdml_spdz.ot import extension
from pdml_spdz.transport.base import Link
from tests.stocks import RUN, failures, parts
from tests.threads import run_threads


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
        for module in ("make", "on_demand"):
            patch.setattr(f"pdml_spdz.offline.{module}.piece_for", lambda _: 1000)  # so that a scalar has several
        return Made(root, kind, run_threads(kind.M, party), forecast(plan, kind))


@pytest.fixture
def stock(made: Made, tmp_path: Path) -> tuple[Path, Kind]:
    return shutil.copytree(made.root, tmp_path / "root"), made.kind


def test_what_is_claimed_holds_across_the_parties(stock: tuple[Path, Kind]) -> None:
    root, kind = stock
    plan, modulus = Plan(4, (1200, 5)), 1 << kind.vector_bits
    materials = run_threads(kind.M, lambda link: claim(link, NumberStock.find(root, kind, link.me), plan, RUN))
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
            kind.M, lambda link, w=where: claim(link, NumberStock.find(w, kind, link.me), Plan(0, (1200,)), RUN)
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
        run_threads(kind.M, lambda link: claim(link, NumberStock.find(root, kind, link.me), plan, RUN))
        for _ in range(2)
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
        assert (manifest["records"], manifest["items"]) == (9, [7, 1500, 4])
        assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert {stat.S_IMODE(file.stat().st_mode) for file in path.iterdir()} == {0o600}
        assert manifest["bytes"] == sum((path / name).stat().st_size for name in manifest["files"])


def test_forecast_is_what_making_took(made: Made) -> None:
    assert sum(made.sent) == made.expected.sent * made.kind.M
    above, below = (sum(sizes) for sizes in extension.set_up_sizes())  # a party sends more to those below it
    steps = [after - before for before, after in itertools.pairwise(made.sent)]
    assert steps == [above - below] * (made.kind.M - 1)
    assert made.expected.disk == json.loads(next(made.root.glob("stock-*/party-0/manifest.json")).read_text())["bytes"]
    assert 0 < made.expected.seconds < 10


def test_parties_that_mean_different_stocks_make_none(tmp_path: Path) -> None:
    errors = failures(2, lambda link: make(link, tmp_path, Plan(link.me, ()), Kind(2, 128, 128), b"s"))
    assert all("is about to make another stock" in str(error) for error in errors if isinstance(error, StockError))
    assert any(isinstance(error, StockError) for error in errors)
    assert status(tmp_path) == []


def test_progress_is_told_piece_by_piece(tmp_path: Path) -> None:
    steps: list[tuple[int, int, int]] = []

    def party(link: Link) -> None:
        tell = (lambda *step: steps.append(step)) if link.me == 0 else None
        make(link, tmp_path, Plan(2, (3, 4)), Kind(2, 64, 64), b"s", tell)

    run_threads(2, party)
    assert [step[:2] for step in steps] == [(0, 9), (2, 9), (5, 9), (9, 9)]
    sent = [step[2] for step in steps]
    assert sent == sorted(sent)
