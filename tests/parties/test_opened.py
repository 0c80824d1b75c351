"""An error that ends a run says what had been opened by then, however soon after the opening it comes, and no more."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import pytest

from pdml_spdz.algorithms import krylov, nmf, svd
from pdml_spdz.errors import ProtocolError
from pdml_spdz.fits import centring, prepare
from pdml_spdz.fits.nmf import observables
from pdml_spdz.local.joint import local_study
from pdml_spdz.local.threads import run_in_threads
from pdml_spdz.primitives.agree import Agreement

SEEN = "Every party has seen by now: "
SUMS = ["S V_t in every iteration", "V_t in every iteration"]
MEAN = ["n, the number of all rows", "the mean of all rows"]
TOPICS = ["W_t^T R_t", "T after every sweep"]
PD = "the parties' own topics, weighted"


def ending(*_: Any, **__: Any) -> NoReturn:
    raise ProtocolError("the run ends here.")


def said(**settings: Any) -> str:
    """What the error says was seen; "" for nothing."""
    rows = np.abs(np.random.default_rng(0).standard_normal((2, 8, 5)))
    rank = 1 if settings["algorithm"] == "normed-sum" else 2
    with pytest.raises(ProtocolError, match="the run ends here") as error:
        run_in_threads([x[:rank] if rank == 1 else x for x in rows], local_study(2, rank=rank, **settings))
    return str(error.value).partition(SEEN)[2]


@pytest.mark.parametrize(
    ("where", "settings", "listed", "not_listed"),
    [
        ((centring, "agreed_sum"), {"algorithm": "pca", "engine": "secsum"}, MEAN, SUMS),
        (
            (prepare, "deviations"),
            {"algorithm": "pca", "engine": "secsum", "scale": "secsum"},
            MEAN,
            ["the deviation"],
        ),
        ((krylov, "step"), {"algorithm": "svd", "engine": "secsum"}, ["the bound B", *SUMS], MEAN),
        ((krylov, "step"), {"algorithm": "svd", "engine": "embedded"}, ["c S V_t in every iteration"], MEAN),
        ((krylov, "finish"), {"algorithm": "pca", "engine": "secsum", "variance": True}, SUMS, ["explained variance"]),
        ((svd, "step"), {"algorithm": "svd", "engine": "secsum", "solver": "power"}, ["the bound B", *SUMS], MEAN),
        ((Agreement, "digest"), {"algorithm": "normed-sum", "engine": "secsum"}, ["the bound B"], MEAN),
        ((nmf, "check_bits"), {"algorithm": "nmf", "bound": "1000"}, [], [*TOPICS, PD]),
        ((nmf, "step"), {"algorithm": "nmf", "seed": 1, "start": "seed"}, TOPICS, [PD]),
    ],
)
def test_error_lists_what_was_opened(
    monkeypatch: pytest.MonkeyPatch,
    where: tuple[Any, str],
    settings: dict[str, Any],
    listed: list[str],
    not_listed: Any,
) -> None:
    monkeypatch.setattr(*where, ending)
    text = said(**settings)
    assert all(what in text for what in listed), text
    assert not any(what in text for what in not_listed), text


def test_error_in_the_start_of_nmf_lists_what_the_start_has_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    agree = Agreement.__call__

    def at_first_verdict(self: Agreement, T: Any, verdict: tuple[int, ...], tolerance: Any) -> Any:
        return ending() if verdict else agree(self, T, verdict, tolerance)  # where it starts from has none

    monkeypatch.setattr(Agreement, "__call__", at_first_verdict)
    text = said(algorithm="nmf", bound="1000")
    assert PD in text
    assert "T after every sweep" not in text


def test_seed_takes_the_place_of_init() -> None:
    assert any(PD in what for what in observables(local_study(2, rank=2, algorithm="nmf")))
    assert not any(PD in what for what in observables(local_study(2, rank=2, algorithm="nmf", seed=1, start="seed")))
