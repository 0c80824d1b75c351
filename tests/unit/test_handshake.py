"""The handshake: whoever means something else is told so, by both sides."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pdml_spdz import __version__, handshake
from pdml_spdz.errors import MismatchError
from pdml_spdz.local import local_study
from pdml_spdz.transport.base import Link
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
