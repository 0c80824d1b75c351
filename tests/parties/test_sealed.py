"""Sealed fits as users have them: studies, reports, errors; once with the real products of masks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest

from pdml_spdz import nmf, normed_sum, pca, svd
from pdml_spdz.engines.base import SealedWatch
from pdml_spdz.engines.embedded import engine
from pdml_spdz.engines.embedded.sealed_forecast import forecast
from pdml_spdz.engines.embedded.sealed_run import SealedRun, sealed_plan
from pdml_spdz.engines.openings.sealed import GATE, RESULT, RITZ, SCALE
from pdml_spdz.engines.spec import sealed_precision_of
from pdml_spdz.errors import PdmlError, ProtocolError, QuotaError, RangeExceeded, StockError, StudyError
from pdml_spdz.estimators import PDPCA
from pdml_spdz.fits import sealed_fit
from pdml_spdz.fits.announced import announced
from pdml_spdz.fits.centring import FINE, MEAN
from pdml_spdz.fits.prepare import COUNT
from pdml_spdz.local.joint import local_study
from pdml_spdz.numerics.linalg import sine
from pdml_spdz.offline.lattice_products import WITH_ROWS
from pdml_spdz.offline.mask_products import Maker
from pdml_spdz.offline.mask_stock import MaskStock, make_mask_stock
from pdml_spdz.offline.status import mask_status
from pdml_spdz.primitives.sec_sum import MaskedSum
from pdml_spdz.privacy.attack_run import attack
from pdml_spdz.privacy.known import Known
from pdml_spdz.programs.sealed_precision import RING
from pdml_spdz.run import repeats
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.inprocess import between_threads, mesh
from tests.mask_dealer import MaskDealer
from tests.parties.test_offline import made_for

rng = np.random.default_rng(4)
X = rng.normal(size=(90, 6)) * [5, 3, 1, 0.5, 0.4, 0.2] + [4, 0, 2, 1, 0, 1]
PARTIES = np.split(X, [1, 40])  # one has fewer rows than there are components
STUDY: dict[str, Any] = {"rank": 2, "reveal": "sealed", "accuracy_goal": 1e-4, "decay": 0.3}
QUICK = STUDY | {"transport": "threads"}


@pytest.fixture(autouse=True)
def _counted_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Fits of the same rows are counted, and these are fitted in every run of the tests."""
    monkeypatch.setattr(repeats, "default_path", lambda: tmp_path / "repeats.json")


@pytest.fixture
def dealt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of masks from a dealer: those of ring-LWE take seconds."""
    dealers: list[MaskDealer] = []

    def products(context: Any) -> Callable[[Link], Maker]:
        if not dealers:
            dealers.append(MaskDealer(context.link.M, RING))
        return lambda link: dealers[0].maker(link.me)

    monkeypatch.setattr(engine, "_watched", products)


def components(rows: np.ndarray) -> np.ndarray:
    return np.linalg.svd(rows)[2][:2].T


@pytest.mark.usefixtures("dealt")
@pytest.mark.parametrize(
    ("centre", "centred", "more"), [("none", False, []), ("open", True, [COUNT, MEAN, FINE]), ("hidden", True, [COUNT])]
)
def test_components_and_what_is_seen(centre: str, centred: bool, more: list[str], tmp_path: Path) -> None:
    result = pca(PARTIES, centre=centre, **QUICK, out=tmp_path / "out")
    wanted = components(X - X.mean(axis=0) if centred else X)
    assert sine(result.V, wanted) < 1e-4
    report = result.report
    assert sorted(announced(local_study(3, algorithm="pca", centre=centre, **STUDY))) == sorted(report["observables"])
    seen = [o for o in report["observables"] if "exponent" not in o]
    assert set(seen) == {SCALE, RITZ, GATE, RESULT, *more}
    assert report["gate"]["reached"] == 1
    assert report["gate"]["accuracy_goal"] == 1e-4
    assert len(report["gate"]["ritz_values"]) == 4
    assert report["singular_values"] is None
    assert report["converged"]
    kept = {p.name for p in (tmp_path / "out" / "party-0").rglob("*") if p.is_file()}
    public = {"report.json", "V.npy", "V0.npy", "mean.npy", "centre.npz", "run.json", "log"}
    assert kept <= public | {"result.html", "loadings.csv", "ids.json"}  # no share


@pytest.mark.usefixtures("dealt")
def test_rows_that_are_not_loaded_whole() -> None:
    parties = [da.from_array(rows, chunks=(20, 6)) for rows in PARTIES]
    assert sine(pca(parties, centre="hidden", **QUICK).V, components(X - X.mean(axis=0))) < 1e-4


@pytest.mark.usefixtures("dealt")
def test_hidden_ratios() -> None:
    hidden = {"ratios": "hidden"}
    with pytest.warns(UserWarning, match="recorded"):
        result = svd(PARTIES, **QUICK, **hidden, record_transcript=True)
    assert sine(result.V[:, :1], components(X)[:, :1]) < 1e-4
    assert sine(result.V[:, 1:], components(X)[:, 1:]) < 1e-4
    report = result.report
    assert sorted(announced(local_study(3, algorithm="svd", **STUDY, **hidden))) == sorted(report["observables"])
    assert {o for o in report["observables"] if "exponent" not in o} == {SCALE, GATE, RESULT}
    assert (report["gate"]["ratios"], report["gate"]["ritz_values"]) == ("hidden", None)
    assert max(report["column_errors"]) < 1e-4
    assert result.transcript is not None
    assert {e.step for e in result.transcript.entries} == {"exponent:fit", "scale", "gate", "sum:start", "V"}


@pytest.mark.usefixtures("dealt")
def test_estimator() -> None:
    fitted = PDPCA(2, reveal="sealed", accuracy_goal=1e-4, decay=0.3, transport="threads").fit(X)
    assert sine(fitted.components_.T, components(X - X.mean(axis=0))) < 1e-4
    assert fitted.singular_values_ is None
    assert fitted.report_["reveal"] == "sealed"


@pytest.mark.usefixtures("dealt")
def test_transcript_holds_the_observables_and_nothing_else() -> None:
    with pytest.warns(UserWarning, match="recorded"):
        result = svd(PARTIES, **QUICK, record_transcript=True)
    assert result.transcript is not None
    findings = attack(result.transcript, Known(own=PARTIES[:2], honest=PARTIES[2:]))
    assert not any(finding.success for finding in findings)
    shapes = {e.step: [a.shape for a in e.arrays.values()] for e in result.transcript.entries}
    bits = {"exponent:fit": [(1,)], "scale": [(1,)], "gate": [(1,)]}
    assert shapes == bits | {"sum:start": [(6, 4)], "ritz": [(4,)], "V": [(6, 2)]}


@pytest.mark.usefixtures("dealt")
def test_closed_gate_is_an_error_that_says_what_was_seen() -> None:
    spectrum = np.sqrt([1, 0.97, 0.95, 0.93, 0.91, 0.89])  # 4T iterations for a decay of 0.02 tell nothing of it apart
    flat = np.split(np.linalg.qr(np.random.default_rng(6).normal(size=(60, 6)))[0] * spectrum, 2)
    with pytest.raises(RangeExceeded, match="gate is still closed") as closed:
        svd(flat, **(QUICK | {"decay": 0.02}))
    assert "Ritz values" in str(closed.value)


@pytest.mark.usefixtures("dealt")
@pytest.mark.parametrize(("step", "more"), [("_eigenvectors", set()), ("V", {GATE, RESULT})])
def test_what_was_seen_before_a_run_broke_is_said(step: str, more: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    original, told = SealedRun._opened, SealedRun.__call__

    def broken(*arguments: Any) -> Any:
        raise ProtocolError("P1 sent something else.", culprit=1)

    def last(this: SealedRun, inputs: Any, publics: Any, n: int) -> Any:
        return broken() if n == 6 * 2 else original(this, inputs, publics, n)  # V

    def listening(this: SealedRun, own: Any, V: Any, watch: SealedWatch) -> Any:
        def both(what: str) -> None:
            opened.append(what)
            watch.opened(what)

        return told(this, own, V, SealedWatch(watch.shown, both))

    monkeypatch.setattr(SealedRun, "__call__", listening)
    if step == "_eigenvectors":
        monkeypatch.setattr(SealedRun, step, broken)
    else:
        monkeypatch.setattr(SealedRun, "_opened", last)
    with pytest.raises(ProtocolError) as error:
        svd(PARTIES, **QUICK)
    assert set(opened) == {SCALE, RITZ} | more
    assert "Ritz values" in str(error.value)


@pytest.mark.usefixtures("dealt")
@pytest.mark.parametrize("centre", ["none", "hidden"])
def test_bound_that_was_agreed(centre: str) -> None:
    X_ = X if centre == "none" else X - X.mean(axis=0)
    result = pca(PARTIES, centre=centre, bound=2.0**16, **QUICK)
    assert sine(result.V, components(X_)) < 1e-4
    assert not any("exponent" in o for o in result.report["observables"])
    with pytest.raises(RangeExceeded, match="too small beside") as small:
        pca(PARTIES, centre=centre, bound=2.0**50, **QUICK)
    assert "Ritz values" not in str(small.value)  # they were not seen


@pytest.mark.parametrize(
    ("call", "settings", "found"),
    [
        (svd, {"bound": "window"}, "bound"),
        (svd, {"bound": "secsum"}, "bound"),
        (svd, {"engine": "secsum"}, "engine"),
        (svd, {"engine": "mp-spdz", "protocol": "semi2k"}, "protocol"),
        (svd, {"engine": "mp-spdz", "protocol": "mascot", "d": 20}, "d is 20"),
        (svd, {"engine": "mp-spdz", "protocol": "semi", "ratios": "hidden"}, "no opening 'sealed-hidden'"),
        (svd, {"ratios": "shown"}, "ratios"),
        (svd, {"normalise": "per-column"}, "normalise"),
        (pca, {"variance": True, "centre": "open"}, "variance"),
        (svd, {"accuracy_goal": 0.0}, "accuracy_goal"),
        (svd, {"accuracy_goal": float("nan")}, "accuracy_goal"),
        (svd, {"decay": 1.0}, "decay"),
        (svd, {"block": 2}, "block"),
        (svd, {"rank": 6}, "rank"),
        (svd, {"d": 5000}, "d is 5000 .* at least 9 GB and compute for 47 minutes"),
        (svd, {"reveal": "normed"}, "accuracy_goal"),
    ],
)
def test_settings_that_do_not_go_with_it(call: Callable[..., Any], settings: dict[str, Any], found: str) -> None:
    with pytest.raises(PdmlError, match=found) as error:
        call(PARTIES, **(QUICK | settings))
    assert isinstance(error.value, StudyError)


def test_rank_that_leaves_no_gap_is_refused_before_a_mean_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MaskedSum, "words", lambda *_: pytest.fail("something was opened"))
    with pytest.raises(StudyError, match="a rank below d"):
        pca(PARTIES, **(QUICK | {"rank": 6}))


def test_only_components_can_be_sealed() -> None:
    with pytest.raises(StudyError, match="'sealed' for nmf"):
        nmf([np.abs(rows) for rows in PARTIES], rank=2, engine="embedded", reveal="sealed", transport="threads")
    with pytest.raises(StudyError, match="'sealed' for normed-sum"):
        normed_sum([rows[0] for rows in PARTIES], reveal="sealed", transport="threads")
    with pytest.raises(StudyError, match="'sealed' for 16 parties"):
        svd([PARTIES[0]] * 16, **QUICK)


@pytest.mark.usefixtures("dealt")
def test_fits_of_the_same_rows_are_counted_whatever_the_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealed_fit, "REPEATS", 1)
    pca(PARTIES, centre="open", **QUICK)
    with pytest.raises(QuotaError, match="sealed fits 1 times already"):
        pca(PARTIES, centre="open", **QUICK)


@pytest.mark.usefixtures("dealt")
def test_a_stock_serves_one_fit_and_is_named(tmp_path: Path) -> None:
    settings = QUICK | {"stock": tmp_path}
    study = local_study(3, d=6, **STUDY)
    segment = sealed_plan(sealed_precision_of(study, 6))[1][0]
    dealer = MaskDealer(3, RING)

    def make(link: Link) -> MaskStock:
        return make_mask_stock(link, tmp_path, segment, dealer.maker(link.me), b"session")

    made = between_threads(3, make, mesh(3))
    (item,) = made[0].path.glob("segment-*")
    assert item.stat().st_mode & 0o777 == 0o600
    assert [row.left for row in mask_status(tmp_path)] == [1, 1, 1]
    result = svd(PARTIES, **settings, offline="stock")
    assert sine(result.V, components(X)) < 1e-4
    assert result.report["stock"]["id"] == made[0].id
    assert result.report["stock"]["mode"] == "stock"
    assert [(row.left, len(row.claims)) for row in mask_status(tmp_path)] == [(0, 1)] * 3
    assert not item.exists()
    with pytest.raises(StockError, match="lacks a sealed fit"):
        svd(PARTIES, **settings, offline="stock")
    assert svd(PARTIES, **settings).report["stock"] == result.report["stock"] | {"id": None, "mode": "on-demand"}


@pytest.mark.usefixtures("dealt")
def test_a_damaged_stock_ends_the_fit(tmp_path: Path) -> None:
    segment = sealed_plan(sealed_precision_of(local_study(3, d=6, **STUDY), 6))[1][0]
    dealer = MaskDealer(3, RING)
    make = partial(make_mask_stock, root=tmp_path, segment=segment, session=b"session")
    made = between_threads(3, lambda link: make(link, make=dealer.maker(link.me)), mesh(3))
    (item,) = made[1].path.glob("segment-*")
    item.write_bytes(bytes(item.stat().st_size))
    with pytest.raises(StockError, match="does not have the digest"):
        svd(PARTIES, **QUICK, stock=tmp_path)


def test_the_real_thing(tmp_path: Path) -> None:
    """With a stock that is made by real parties."""
    rows = np.split(X[:, :3], [30])
    settings = STUDY | {"rank": 1, "accuracy_goal": 1e-2, "decay": 0.05}
    made = made_for(local_study(2, d=3, **settings), tmp_path)
    result = svd(rows, **settings, transport="threads", stock=tmp_path)
    assert sine(result.V, np.linalg.svd(X[:, :3])[2][:1].T) < 1e-2
    assert result.report["stock"]["id"] == made
    assert "ring-LWE" in result.report["protocol"]
    # What depends on the rows is named, and is all that the stock could not have.
    assert set(result.report["phases"]) == {WITH_ROWS}
    assert 0 < result.report["phases"][WITH_ROWS]["bytes_sent"] < result.report["bytes_sent"]
    expected = forecast(sealed_precision_of(local_study(2, algorithm="svd", **settings), 3))
    sent, left = result.report["bytes_sent"] / 2, expected.data_sent + expected.online  # the rest is in the stock
    assert left / 1.5 < sent < 1.5 * left
    assert result.report["offline"]["bytes_sent"] == 0
    assert expected.rounds / 1.5 < result.report["rounds"] < 1.5 * expected.rounds


@pytest.mark.parametrize("level", [STUDY, {"rank": 2}])
def test_missing_stock_is_found_before_a_mean_is_opened(
    level: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MaskedSum, "words", lambda *_: pytest.fail("something was opened"))
    settings = {"offline": "stock", "stock": tmp_path, "transport": "threads", "engine": "embedded"}
    with pytest.raises(StockError, match="no stock that all parties hold") as missing:
        pca(PARTIES, **level, **settings)
    assert "has seen" not in str(missing.value)
