"""Where the bound of a run comes from, and what it shows."""

from __future__ import annotations

import math
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pdml_spdz.errors import QuotaError, StorageError, StudyError
from pdml_spdz.fits.limits import find_bound
from pdml_spdz.local.joint import local_study
from pdml_spdz.primitives.bound import (
    BLUR,
    WINDOW,
    Bound,
    bound_by_exponent,
    exponent_of,
    power_of_four,
    power_of_two,
    shift_of,
    window,
)
from pdml_spdz.rows.data import from_rows
from pdml_spdz.run import own_secret
from pdml_spdz.run.context import PartyRun
from pdml_spdz.transport.base import Link
from tests.threads import run_threads

norms = st.floats(1e-30, 1e30)


@given(norms)
def test_exponent_is_the_smallest_that_bounds(norm: float) -> None:
    assert 2.0 ** (exponent_of(norm) - 1) < norm <= 2.0 ** exponent_of(norm)


@given(norms)
def test_scales_are_powers_that_bound(x: float) -> None:
    two, four = power_of_two(x), power_of_four(x)
    assert math.frexp(two)[0] == math.frexp(four)[0] == 0.5
    assert x <= two < 2 * x * (1 + 1e-15)
    assert four in (two, 2 * two)
    assert math.sqrt(four) == power_of_two(math.sqrt(four))


def test_exponent_is_that_of_the_largest_party_and_the_same_in_every_run() -> None:
    norms, secrets = [3.0, 1e6, 40.0], [b"a" * 32, b"b" * 32, b"c" * 32]
    shifts = [shift_of(secret, BLUR, "fit", m) for m, secret in enumerate(secrets)]

    def exponents() -> set[int | None]:
        found = run_threads(3, lambda link: bound_by_exponent(norms[link.me], link, shifts[link.me], "norm"))
        assert {(b.addend, b.total) for b in found} == {(2.0 ** found[0].exponent, 3 * 2.0 ** found[0].exponent)}
        return {b.exponent for b in found}

    assert exponents() == exponents() == {20 + sum(shifts) % BLUR}


def test_shift_is_uniform_over_secrets_and_fixed_for_one() -> None:
    drawn = np.bincount([shift_of(i.to_bytes(32, "big"), BLUR, "fit", 0, 64) for i in range(8000)], minlength=BLUR)
    assert stats.chisquare(drawn).pvalue > 1e-6
    several = [shift_of(b"s", 1 << 30, what, 0, 64) for what in ("fit", "fit", "mean")]
    assert several[0] == several[1] != several[2]


def test_exponent_is_the_same_whatever_the_study_calls_columns_and_parties(tmp_path: Path) -> None:
    """Studies on the same rows that list the names, in another order, or others; and with the parties in another order.

    If each drew anew, the least exponent of some of them would be that of the norm.
    """
    norms, rows = {"a": 3.0, "b": 1e6, "c": 40.0}, from_rows(np.ones((1, 4)), "the rows")
    names = ("w", "x", "y", "z")

    def exponent(order: str, **settings: Any) -> int | None:
        study = local_study(3, rank=1, bound="exponent", **settings)

        def party(link: Link) -> Bound:
            who = order[link.me]
            run = PartyRun(study, link.me, tmp_path, tmp_path, tmp_path, own_secret=tmp_path / who)
            return find_bound(run, norms[who], None, link, rows)  # type: ignore[arg-type]

        return run_threads(3, party)[0].exponent

    first = exponent("abc")
    others = ({"features": names}, {"features": names[::-1]}, {"features": names, "columns": "position"})
    assert {exponent("abc", **settings) for settings in others} == {first}
    assert {exponent(order) for order in ("bca", "cab", "bac")} == {first}


def test_local_parties_have_secrets_of_their_own() -> None:
    paths = [own_secret.of_local_party(m) for m in range(3)]
    assert len({own_secret.load(path) for path in (own_secret.default_path(), *paths)}) == 4


def test_own_secret_is_drawn_once_and_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "state" / "own-secret"
    with ThreadPoolExecutor(8) as pool:
        drawn = set(pool.map(lambda _: own_secret.load(path), range(16)))
    assert drawn == {path.read_bytes()}
    assert len(path.read_bytes()) == 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_bytes(b"short")
    with pytest.raises(StorageError, match="has 5 bytes"):
        own_secret.load(path)


@pytest.mark.parametrize("norm", [WINDOW / 2 * 1.01, math.nan, math.inf])
def test_rows_beyond_the_window_are_refused_locally(norm: float) -> None:
    with pytest.raises(QuotaError, match=r"it was not sent.\nWanted: at most 9.22337e\+18"):
        window(norm, 2)


@pytest.mark.parametrize(
    ("settings", "kind", "bits"),
    [
        ({}, "window", 96),
        ({"algorithm": "pca"}, "window", 96),
        ({"algorithm": "normed-sum"}, "window", 96),
        ({"engine": "mp-spdz"}, "exponent", 40),
        ({"reveal": "sum"}, "secsum", 40),
        ({"algorithm": "nmf"}, "secsum", 40),
        ({"bound": "12.5"}, "agreed", 40),
        ({"bound": "rows:1,5", "engine": "mp-spdz"}, "agreed", 40),
        ({"bound": "secsum"}, "secsum", 40),
        ({"bound": "exponent"}, "exponent", 40),
    ],
)
def test_default_opens_as_little_as_the_engine_can(settings: dict[str, str], kind: str, bits: int) -> None:
    study = local_study(3, rank=1, **settings)
    assert (study.bound_kind, study.range) == (kind, bits)


@pytest.mark.parametrize("settings", [{"engine": "mp-spdz"}, {"reveal": "sum"}])
def test_window_where_there_is_no_room_for_it_is_refused(settings: dict[str, str]) -> None:
    with pytest.raises(StudyError, match="`bound` is window with engine"):
        local_study(3, rank=2, bound="window", **settings)
