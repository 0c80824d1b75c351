"""The handshake: whoever means something else is told so, by both sides."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pdml_spdz import __version__, handshake
from pdml_spdz.data import Data
from pdml_spdz.errors import MismatchError
from pdml_spdz.local import local_study
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.inprocess import mesh
from tests.embedded.helpers import Wire
from tests.threads import run_threads

STUDY = local_study(2, rank=2)


def test_runs_of_the_same_study_have_different_identities() -> None:
    first, second = (run_threads(2, lambda link: handshake.meet(link, STUDY, resume=False).run) for _ in range(2))
    assert first[0] == first[1]
    assert first[0] != second[0]


@pytest.mark.parametrize(
    ("change", "what"),
    [({"version": "0.0.0"}, "version"), ({"protocol": 99}, "protocol version"), ({"study": "other"}, "study")],
)
def test_peer_with_another_setting_is_named(change: dict[str, Any], what: str) -> None:
    def party(link: Link) -> None:
        if link.me == 0:
            handshake.meet(link, STUDY, resume=False)
        else:
            hello = {"protocol": handshake.PROTOCOL, "study": STUDY.digest, "resume": False, "version": __version__}
            link.all_to_all("hello", json.dumps(hello | {"nonce": "n"} | change).encode())

    with pytest.raises(MismatchError, match=f"P1 has another {what} than this party"):
        run_threads(2, party)


def test_greeting_that_cannot_be_read_is_an_error() -> None:
    def party(link: Link) -> None:
        if link.me == 0:
            handshake.meet(link, STUDY, resume=False)
        else:
            link.all_to_all("hello", b"\xff\xfe")

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
        for data, own in zip(compared(NAMES, None, columns="position", features=listed), (NAMES, None), strict=True):
            assert data.features == (listed or None)
            np.testing.assert_array_equal(data.X, rows(own, int(own is None)).X)


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
        link.broadcast("order", order)

    with pytest.raises(MismatchError, match=text):
        run_threads(2, party)


def test_study_digest_has_the_names() -> None:
    study = local_study(2, rank=1, offsets=(1.0, 2.0), offset_features=("a", "b"))
    assert replace(study, offset_features=("b", "a")).digest != study.digest
    assert replace(study, columns="position").digest != study.digest
