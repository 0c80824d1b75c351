"""The handshake: whoever means something else is told so, by both sides."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from pdml_spdz.engines.mp_spdz import compiler
from pdml_spdz.errors import EngineError, MismatchError
from pdml_spdz.fits import limits
from pdml_spdz.fits.prepare import fitting
from pdml_spdz.local.joint import local_study
from pdml_spdz.numerics import fixedpoint
from pdml_spdz.offline import on_demand, stock
from pdml_spdz.ot import extension, lpn, vole
from pdml_spdz.primitives import masks
from pdml_spdz.programs import precision
from pdml_spdz.rows.data import Data
from pdml_spdz.run import handshake
from pdml_spdz.study import checks as study_bound
from pdml_spdz.transport import base
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.inprocess import mesh
from tests.embedded.helpers import Wire
from tests.threads import run_threads

STUDY = local_study(2, rank=2)
CERTIFICATES = ["aa" * 32, "bb" * 32]


def test_runs_of_the_same_study_have_different_identities() -> None:
    first, second = (
        run_threads(2, lambda link: handshake.meet(link, STUDY, CERTIFICATES, resume=False)) for _ in range(2)
    )
    assert first[0] == first[1]
    assert first[0] != second[0]


def changed(send: Callable[..., Any], change: dict[str, Any]) -> Callable[..., Any]:
    """A party that says something else in its greeting."""

    def other(step: str, sequence: int, payloads: dict[int, memoryview], expect: list[int]) -> Any:
        said = {peer: json.dumps(json.loads(bytes(p)) | change).encode() for peer, p in payloads.items()}
        return send(step, sequence, {peer: memoryview(p) for peer, p in said.items()}, expect)

    return other


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"version": "0.0.0"}, "version"),
        ({"protocol": 99}, "protocol version"),
        ({"study": "other"}, "study"),
        ({"build": "other"}, "build (its sources differ)"),
        ({"certificates": "other"}, "list of pinned certificates"),
        ({"resume": True}, "--resume setting"),
    ],
)
def test_peer_with_another_setting_is_named(change: dict[str, Any], what: str) -> None:
    def party(link: Link) -> None:
        if link.me == 0:
            handshake.meet(link, STUDY, CERTIFICATES, resume=False)
        else:
            link._round = changed(link._round, change)  # type: ignore[method-assign]
            handshake.meet(link, STUDY, CERTIFICATES, resume=False)

    with pytest.raises(MismatchError, match=rf"P1 has another {re.escape(what)} than this party"):
        run_threads(2, party)


def test_different_keys_pinned_for_a_third_party_are_noticed() -> None:
    """P0 and P1 have pinned different certificates of P2, which shows each of them its own."""
    study, pinned = local_study(3, rank=2), ["aa" * 32, "bb" * 32, "cc" * 32]

    def party(link: Link) -> bytes:
        own = [*pinned[:2], "dd" * 32] if link.me == 1 else pinned
        return handshake.meet(link, study, own, resume=False)

    with pytest.raises(MismatchError, match="has another list of pinned certificates than this party"):
        run_threads(3, party)


def test_certificates_and_build_are_part_of_the_identity_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake.secrets, "token_hex", lambda n: "00" * n)

    def run(certificates: list[str]) -> bytes:
        return run_threads(2, lambda link: handshake.meet(link, STUDY, certificates, resume=False))[0]

    first = run(CERTIFICATES)
    assert run(CERTIFICATES) == first
    assert run(CERTIFICATES[::-1]) != first
    monkeypatch.setattr(handshake, "build_digest", lambda: "another")
    assert run(CERTIFICATES) != first


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Another build of the same sources."""
    for path in handshake.sources(handshake.PACKAGE):
        target = tmp_path / path.relative_to(handshake.PACKAGE)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    assert handshake.digest_of(tmp_path) == handshake.build_digest()
    return tmp_path


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (base, "HEADER"),
        (base, "MAGIC"),
        (masks, "DOMAIN"),
        (extension, "DEPTH"),
        (vole, "KAPPA"),
        (lpn, "ONES"),
        (lpn, "LARGE"),
        (precision, "SIGMA"),
        (precision, "G"),
        (fixedpoint, "WORD"),
        (on_demand, "LEVELS"),
        (stock, "FORMAT"),
        (limits, "MEAN_BLUR"),
        (study_bound, "WIDE_RANGE"),
        (compiler, "SECURITY"),
    ],
)
def test_digest_of_a_build_knows_every_constant(copy: Path, module: ModuleType, name: str) -> None:
    path = copy / Path(module.__file__ or "").relative_to(handshake.PACKAGE)
    text = path.read_text()
    value = re.compile(rf"^([\w ,]*\b{name}\b[\w ,:]*) = ", re.MULTILINE)
    assert len(value.findall(text)) == 1
    path.write_text(value.sub(r"\1 = 1 + ", text))
    assert handshake.digest_of(copy) != handshake.build_digest()
    path.write_text(text)
    assert handshake.digest_of(copy) == handshake.build_digest()


@pytest.mark.parametrize("owner", ["algorithms", "engines", "engines/embedded", "engines/mp_spdz", "ot", "transport"])
def test_digest_of_a_build_knows_new_modules_and_where_each_is(copy: Path, owner: str) -> None:
    added = copy / owner / "added_later.py"
    added.write_text("")
    with_it = handshake.digest_of(copy)
    assert with_it != handshake.build_digest()
    added.rename(added.with_stem("added_now"))
    assert handshake.digest_of(copy) not in (with_it, handshake.build_digest())


def test_digest_of_a_build_does_not_depend_on_line_ends(copy: Path) -> None:
    for path in handshake.sources(copy):
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert handshake.digest_of(copy) == handshake.build_digest()


def test_build_without_sources_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="there are no sources"):
        handshake.digest_of(tmp_path)


def test_digest_of_a_build_is_that_of_another_process() -> None:
    said = subprocess.run(
        [sys.executable, "-c", "from pdml_spdz.run import handshake; print(handshake.build_digest())"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONHASHSEED": "1"},
    )
    assert said.stdout.strip() == handshake.build_digest()


def test_greeting_that_cannot_be_read_is_an_error() -> None:
    def party(link: Link) -> None:
        if link.me == 0:
            handshake.meet(link, STUDY, CERTIFICATES, resume=False)
        else:
            link.all_to_all("hello", b"\xff\xfe", handshake.MOST)

    with pytest.raises(MismatchError, match="cannot be read"):
        run_threads(2, party)


NAMES = ("age", "weight", "pulse", "height")
RUN = bytes(32)


def rows(names: tuple[str, ...] | None, m: int = 0) -> Data:
    """Each column holds the place of its name in NAMES: columns that are the same feature are equal."""
    return Data(np.array([[float(NAMES.index(n)) + 10 * m for n in names or NAMES]]), names, f"rows of P{m}")


def compared(*lists: tuple[str, ...] | None, wire: Wire | None = None, run: bytes = RUN, **settings: Any) -> list[Data]:
    study = local_study(len(lists), rank=1, **settings)
    links = mesh(len(lists), timeout=20.0)

    def party(link: Link) -> Data:
        return handshake.compare_features(link, rows(lists[link.me], link.me), study, run)

    return run_threads(len(lists), party, wire.tap(links) if wire else links)


@pytest.mark.parametrize("first", [NAMES, NAMES[::-1], tuple(sorted(NAMES))])
def test_columns_are_brought_into_the_order_of_party_0(first: tuple[str, ...]) -> None:
    found = compared(first, NAMES, ("pulse", "age", "height", "weight"))
    for m, data in enumerate(found):
        assert data.features == first
        np.testing.assert_array_equal(data.X, rows(first, m).X)


def test_names_do_not_travel_and_an_order_only_if_there_are_two() -> None:
    wire = Wire()
    compared(NAMES, NAMES, NAMES, wire=wire)
    assert wire.steps() == {"features"}
    wire = Wire()
    compared(NAMES[::-1], NAMES, NAMES, wire=wire)
    sent = [(ends, step, data) for ends, frames in wire.frames.items() for step, data in frames]
    places = np.array([1, 2, 3, 0], "<u4").tobytes()  # of NAMES[::-1] in sorted(NAMES)
    assert [frame for frame in sent if frame[1] == "order"] == [((0, peer), "order", places) for peer in (1, 2)]
    assert not any(name.encode() in data for _, _, data in sent for name in NAMES)


def test_digests_of_names_are_others_in_every_run() -> None:
    seen = []
    for run in (bytes(32), b"1" * 32):
        wire = Wire()
        compared(NAMES, NAMES, wire=wire, run=run)
        (greeting,) = wire.payloads(0, 1, "features")
        seen.append(set(json.loads(greeting)["names"]))
    assert not seen[0] & seen[1]


@pytest.mark.parametrize(
    ("lists", "text"),
    [
        ((NAMES, (*NAMES[:3], "x")), "another set of feature names than this party"),
        ((NAMES[:3], NAMES), "another number of features"),
        ((NAMES, None), "P1 has no names for its features, and this party has some"),
        ((None, None, NAMES), "P2 has names for its features, and this party has none"),
    ],
)
def test_other_names_are_refused_at_every_party(lists: tuple[Any, ...], text: str) -> None:
    study, said = local_study(len(lists), rank=1), {}

    def party(link: Link) -> None:
        own = lists[link.me]
        data = Data(np.zeros((1, len(own or NAMES))), own, "x")
        with pytest.raises(MismatchError) as caught:
            handshake.compare_features(link, data, study, RUN)
        said[link.me] = str(caught.value)

    run_threads(len(lists), party)
    assert text in said[0]
    assert len(said) == len(lists)
    assert not any(name in message for message in said.values() for name in NAMES)


def test_by_position_names_are_not_looked_at() -> None:
    for listed in ((), NAMES):
        study = local_study(2, rank=1, columns="position", features=listed)
        for data, own in zip(compared(NAMES, None, columns="position", features=listed), (NAMES, None), strict=True):
            np.testing.assert_array_equal(data.X, rows(own, int(own is None)).X)
            assert fitting(data, study).features == (listed or None)


@pytest.mark.parametrize(
    ("order", "text"),
    [
        (np.array([0, 1, 2, 3], "<u4"), "is not its own"),
        (np.array([0, 0, 2, 3], "<u4"), "that is none"),
        (np.array([0, 1, 2], "<u4"), "that is none"),
    ],
)
def test_order_that_is_not_party_0s_is_refused(order: np.ndarray, text: str) -> None:
    study = local_study(2, rank=1)

    def party(link: Link) -> None:
        if link.me == 1:
            handshake.compare_features(link, rows(NAMES, 1), study, RUN)
            return
        own = [handshake.names.digest(names, RUN) for names in (NAMES[::-1], sorted(NAMES))]
        link.all_to_all("features", json.dumps({"d": 4, "names": own}).encode())
        link.broadcast("order", order, most=order.nbytes)

    with pytest.raises(MismatchError, match=text):
        run_threads(2, party)


def test_study_digest_has_the_names() -> None:
    study = local_study(2, rank=1, offsets=(1.0, 2.0), offset_features=("a", "b"))
    assert replace(study, offset_features=("b", "a")).digest != study.digest
    assert replace(study, columns="position").digest != study.digest
