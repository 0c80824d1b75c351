"""Where the bound of a run comes from, and what it shows."""

from __future__ import annotations

import math
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdml_spdz import own_secret
from pdml_spdz.errors import QuotaError, StorageError, StudyError
from pdml_spdz.local import local_study
from pdml_spdz.primitives.bound import (
    BLUR,
    WINDOW,
    blur_of,
    blurred_exponent,
    bound_by_exponent,
    power_of_four,
    power_of_two,
    window,
)
from tests.threads import run_threads

norms = st.floats(1e-30, 1e30)


@given(norms, st.floats(0, 1, exclude_max=True), st.sampled_from([8, BLUR]))
def test_blurred_exponent_is_a_bound_and_no_looser_than_said(norm: float, u: float, width: int) -> None:
    bound = math.ldexp(1.0, blurred_exponent(norm, u, width))
    assert norm <= bound <= norm * 2.0 ** (width + 1)


@given(norms)
def test_scales_are_powers_that_bound(x: float) -> None:
    two, four = power_of_two(x), power_of_four(x)
    assert math.frexp(two)[0] == math.frexp(four)[0] == 0.5
    assert x <= two < 2 * x * (1 + 1e-15)
    assert four in (two, 2 * two)
    assert math.sqrt(four) == power_of_two(math.sqrt(four))


def test_exponent_is_that_of_the_largest_party_and_the_same_in_every_run() -> None:
    norms, secrets = [3.0, 1e6, 40.0], [b"a" * 32, b"b" * 32, b"c" * 32]

    def exponents() -> set[float]:
        def addend(m: int) -> float:
            return blur_of(secrets[m], "fit", m)

        found = run_threads(3, lambda link: bound_by_exponent(norms[link.me], link, addend(link.me), "norm"))
        assert {b.total for b in found} == {3 * found[0].addend}
        return {b.addend for b in found}

    wanted = max(blurred_exponent(norms[m], blur_of(secrets[m], "fit", m), BLUR) for m in range(3))
    assert exponents() == exponents() == {math.ldexp(1.0, wanted)}


def test_blur_is_uniform_over_secrets_and_fixed_for_one() -> None:
    drawn = sorted(blur_of(i.to_bytes(32, "big"), "fit", 0, 64) for i in range(4000))
    # Kolmogorov-Smirnov at 1e-6: sqrt(ln(2 / 1e-6) / 2 / n)
    furthest = max(max(abs(u - i / 4000), abs(u - (i + 1) / 4000)) for i, u in enumerate(drawn))
    assert furthest <= math.sqrt(math.log(2e6) / 8000)
    assert blur_of(b"s", "fit", 0, 64) == blur_of(b"s", "fit", 0, 64) != blur_of(b"s", "mean", 0, 64)


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
    study = local_study(3, rank=2, **settings)
    assert (study.bound_kind, study.range) == (kind, bits)


@pytest.mark.parametrize("settings", [{"engine": "mp-spdz"}, {"reveal": "sum"}])
def test_window_where_there_is_no_room_for_it_is_refused(settings: dict[str, str]) -> None:
    with pytest.raises(StudyError, match="`bound` is window with engine"):
        local_study(3, rank=2, bound="window", **settings)
