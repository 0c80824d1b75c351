"""The handshake: whoever means something else is told so, by both sides."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from pdml_spdz import build, fixedpoint, handshake, precision
from pdml_spdz.errors import MismatchError
from pdml_spdz.local import local_study
from pdml_spdz.offline import on_demand, stock
from pdml_spdz.ot import extension, lpn, vole
from pdml_spdz.primitives import masks
from pdml_spdz.transport import base
from pdml_spdz.transport.base import Link
from tests.threads import run_threads

STUDY = local_study(2, rank=2)
CERTIFICATES = ["aa" * 32, "bb" * 32]


def test_runs_of_the_same_study_have_different_identities() -> None:
    first, second = (
        run_threads(2, lambda link: handshake.meet(link, STUDY, CERTIFICATES, resume=False).run) for _ in range(2)
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
        ({"build": "other"}, "build (its constants differ)"),
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
        return handshake.meet(link, study, own, resume=False).run

    with pytest.raises(MismatchError, match="has another list of pinned certificates than this party"):
        run_threads(3, party)


def test_certificates_and_build_are_part_of_the_identity_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake.secrets, "token_hex", lambda n: "00" * n)

    def run(certificates: list[str]) -> bytes:
        return run_threads(2, lambda link: handshake.meet(link, STUDY, certificates, resume=False).run)[0]

    first = run(CERTIFICATES)
    assert run(CERTIFICATES) == first
    assert run(CERTIFICATES[::-1]) != first
    monkeypatch.setattr(lpn, "ONES", 9)
    assert run(CERTIFICATES) != first


@pytest.mark.parametrize(
    ("module", "name", "value"),
    [
        (base, "HEADER", struct.Struct("<3sB21sQQ")),
        (base, "MAGIC", b"PD2"),
        (masks, "DOMAIN", b"another"),
        (extension, "DEPTH", 5),
        (vole, "KAPPA", 5),
        (lpn, "ONES", 11),
        (lpn, "LARGE", replace(lpn.LARGE, blocks=3401)),
        (precision, "SIGMA", 79),
        (fixedpoint, "WORD", 32),
        (on_demand, "LEVELS", (lpn.LARGE,)),
        (stock, "FORMAT", 0),
    ],
)
def test_digest_of_a_build_knows_every_constant(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, value: object
) -> None:
    before = build.digest()
    assert build.digest() == before
    monkeypatch.setattr(module, name, value)
    assert build.digest() != before


def test_digest_of_a_build_knows_defaults_and_new_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    before = build.digest()
    monkeypatch.setattr(precision.Precision.__dataclass_fields__["G"], "default", 15)
    assert build.digest() != before
    monkeypatch.undo()
    monkeypatch.setattr(vole, "ADDED_LATER", 7, raising=False)
    assert build.digest() != before


def test_digest_of_a_build_is_that_of_another_process() -> None:
    said = subprocess.run(
        [sys.executable, "-c", "from pdml_spdz import build; print(build.digest())"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONHASHSEED": "1"},
    )
    assert said.stdout.strip() == build.digest()


def test_greeting_that_cannot_be_read_is_an_error() -> None:
    def party(link: Link) -> None:
        if link.me == 0:
            handshake.meet(link, STUDY, CERTIFICATES, resume=False)
        else:
            link.all_to_all("hello", b"\xff\xfe")

    with pytest.raises(MismatchError, match="cannot be read"):
        run_threads(2, party)
