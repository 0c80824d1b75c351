"""What a peer or a file says never reaches a terminal as it is."""

from __future__ import annotations

import io
import json
import struct
import unicodedata
from pathlib import Path

import pytest
from rich.markup import escape
from rich.table import Table

from pdml_spdz.errors import CLASSES, PUBLIC, InputError, PdmlError, PeerAborted
from pdml_spdz.local.progress import Screen, Watcher
from pdml_spdz.transport.base import ABORT, Frame, abort_payload, aborted
from pdml_spdz.transport.inprocess import mesh
from tests.parties.helpers import run

TITLE, CLEAR, BACKWARDS = "\x1b]0;owned\x07", "\x1b[2J\x1b[H", "\u202etxt.exe"
HOSTILE = f"a{TITLE}b{CLEAR}c\r{BACKWARDS}\x9b2J"
ME, PEER, M = 0, 2, 3


def farewell(payload: bytes) -> PeerAborted:
    return aborted(Frame(ABORT, "abort", 1, memoryview(payload)), PEER, ME, M)


def controls(text: str) -> set[str]:
    return {c for c in text if unicodedata.category(c) in ("Cc", "Cf") and c != "\n"}


@pytest.mark.parametrize("kind", CLASSES)
def test_farewell_says_who_and_why_by_its_code(kind: type[PdmlError]) -> None:
    said = farewell(abort_payload(kind("rows 1 to 7 of secret.csv"), PEER))
    assert str(said).startswith(f"P2 ended the run: {kind.public}.\n")
    assert said.culprit == PEER


def test_messenger_of_a_farewell_is_named_and_passes_it_on() -> None:
    told = farewell(abort_payload(InputError("x"), 1))
    assert str(told).startswith("P1 ended the run: it could not use its own input file, as P2 says.")
    assert abort_payload(told, ME) == abort_payload(InputError("x"), 1)


@pytest.mark.parametrize(
    "payload",
    [
        HOSTILE.encode(),
        json.dumps({"by": 0, "culprit": 0, "public": HOSTILE}).encode(),
        b"",
        struct.pack("<3B", 1, 1, 99),  # no such sentence
        struct.pack("<3B", 3, 3, 3),  # no such party
        struct.pack("<3B", 1, 200, 3),
        struct.pack("<3B", ME, ME, 3),  # this party knows better
        struct.pack("<3B", 1, 1, 3) + b"\x1b",
    ],
)
def test_farewell_that_is_none_is_the_peers_own_and_nothing_of_it_is_repeated(payload: bytes) -> None:
    said = farewell(payload)
    assert str(said).startswith(f"P2 ended the run: {PUBLIC[PdmlError.code]}.\n")
    assert said.culprit == PEER


def test_words_of_a_peer_do_not_reach_the_error_of_a_round() -> None:
    links = mesh(2)
    links[1]._queues[1][0].put(Frame(ABORT, "abort", 1, memoryview(HOSTILE.encode())))
    with pytest.raises(PeerAborted, match="P1 ended the run") as error:
        links[0].all_to_all("hello", b"")
    assert not controls(str(error.value))
    assert "owned" not in str(error.value)


def test_error_has_no_control_characters_and_keeps_its_lines() -> None:
    error = InputError(f"{HOSTILE} is odd.\nSo it is.", HOSTILE, HOSTILE)
    assert not controls(str(error) + error.found + error.wanted + error.do)
    assert "\\x1b]0;owned\\x07b" in error.found
    assert len(str(error).splitlines()) == 4


def test_screen_shows_control_characters_escaped_in_lines_tables_and_events() -> None:
    shown = io.StringIO()
    screen = Screen(file=shown, width=200)
    screen.print(f"[bold]{escape(HOSTILE)}[/bold]")
    table = Table()
    table.add_column("names")
    table.add_row(escape(HOSTILE))
    screen.print(table)
    with Watcher(screen) as watcher:
        watcher(1, {"event": "note", "text": HOSTILE})
        watcher(1, {"event": "failing", "message": HOSTILE})
        watcher(0, {"event": "offline", "done": 1, "of": 2, "detail": HOSTILE})
    assert not controls(shown.getvalue())
    assert shown.getvalue().count("\\x1b]0;owned") == 5


def test_screen_keeps_colours_of_a_terminal() -> None:
    shown = io.StringIO()
    Screen(file=shown, force_terminal=True, color_system="standard").print("[red]x[/red]")
    assert shown.getvalue() == "\x1b[31mx\x1b[0m\n"


def test_name_of_a_file_is_printed_without_its_control_characters(tmp_path: Path) -> None:
    ended = run("svd", f"{CLEAR}.npy", f"{TITLE}.npy", "--rank", "1", cwd=tmp_path)
    ended.failed(InputError, "\\x1b[2J")
    assert not controls(ended.err + ended.out)


def test_usage_error_is_printed_without_control_characters(tmp_path: Path) -> None:
    ended = run("svd", f"--{CLEAR}", cwd=tmp_path)
    assert ended.code == 2
    assert "\\x1b[2J" in ended.err
    assert not controls(ended.err)
