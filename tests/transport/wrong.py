"""Every way in which a frame can be wrong."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pdml_spdz.transport.base import ABORT, DATA, HEADER, MAGIC, WORKING
from pdml_spdz.transport.connection import Connection


@dataclass(frozen=True)
class Sent:
    """A frame as it should be, and what was sent before it."""

    step: str
    sequence: int
    payload: bytes
    before: list[bytes]

    def frame(self, payload: bytes | None = None, **changed: Any) -> bytes:
        """The frame, with these parts of its header changed (its length is that of the payload unless it is given)."""
        payload = self.payload if payload is None else payload
        parts = {"magic": MAGIC, "kind": DATA, "step": self.step.encode(), "sequence": self.sequence}
        parts |= {"length": len(payload)} | changed
        return HEADER.pack(*parts.values()) + payload


@dataclass(frozen=True)
class Wrong:
    """What is sent in the place of a frame, and after the one that follows it; close: and nothing more then."""

    now: bytes
    after_next: bytes = b""
    close: bool = False


Way = Callable[[Sent], "Wrong | bytes | None"]  # None: this frame cannot be wrong in this way


def _scrambled(payload: bytes, seed: int) -> bytes:
    return np.random.default_rng(seed).bytes(len(payload))


HEADERS: dict[str, Way] = {
    "magic": lambda s: s.frame(magic=b"PD9"),
    "kind abort": lambda s: s.frame(kind=ABORT),
    "kind abort, words": lambda s: s.frame(struct.pack("<3B", 200, 201, 202), kind=ABORT),
    "kind abort, the other's": lambda s: s.frame(struct.pack("<3B", 0, 1, 3), kind=ABORT),
    "kind abort, empty": lambda s: s.frame(b"", kind=ABORT),
    "kind working, with payload": lambda s: s.frame(kind=WORKING),
    "kind 3": lambda s: s.frame(kind=3),
    "kind 255": lambda s: s.frame(kind=255),
    "step of another": lambda s: s.frame(step=b"sum:nothing"),
    "step empty": lambda s: s.frame(step=b""),
    "step with controls": lambda s: s.frame(step=b"\x1b]0;title\x07\x1b[2J\r\n\0\xff"),
    "step longer": lambda s: s.frame(step=s.step.encode()[:19] + b"!"),
    "round before": lambda s: s.frame(sequence=s.sequence - 1),
    "round after": lambda s: s.frame(sequence=s.sequence + 1),
    "round zero": lambda s: s.frame(sequence=0),
    "round 2^64 - 1": lambda s: s.frame(sequence=2**64 - 1),
}

LENGTHS: dict[str, Way] = {
    "says 2^36": lambda s: s.frame(length=1 << 36),
    "says 2^63": lambda s: s.frame(length=1 << 63),
    "says 2^64 - 1": lambda s: s.frame(length=2**64 - 1),
    "says one more, comes": lambda s: s.frame(s.payload + b"\0"),
    "says a million more, comes": lambda s: s.frame(s.payload + bytes(10**6)),
    "says one more, closes": lambda s: Wrong(s.frame(length=len(s.payload) + 1), close=True),
    "header cut, closes": lambda s: Wrong(s.frame()[: HEADER.size // 2], close=True),
    "payload cut, closes": lambda s: Wrong(s.frame()[:-1], close=True) if s.payload else None,
    "one byte, closes": lambda s: Wrong(s.frame()[:1], close=True),
    "says one less": lambda s: s.frame(length=len(s.payload) - 1) if s.payload else None,
    "one less": lambda s: s.frame(s.payload[:-1]) if s.payload else None,
    "half": lambda s: s.frame(s.payload[: len(s.payload) // 2]) if s.payload else None,
    "empty": lambda s: s.frame(b"") if s.payload else None,
    "one byte": lambda s: s.frame(b"\x07"),
    "seven bytes": lambda s: s.frame(b"\x07" * 7),
    "eight more": lambda s: s.frame(s.payload + bytes(8)),
    "twice": lambda s: s.frame(2 * s.payload) if s.payload else None,
}

ORDER: dict[str, Way] = {
    "sent twice": lambda s: 2 * s.frame(),
    "left out": lambda s: b"",
    "after the next one": lambda s: Wrong(b"", after_next=s.frame()),
    "again at once, changed": lambda s: s.frame() + s.frame(_scrambled(s.payload, 1)),
    "an older one instead": lambda s: s.before[0] if s.before else None,
    "an older one before it": lambda s: s.before[-1] + s.frame() if s.before else None,
    "a future one before it": lambda s: s.frame(sequence=s.sequence + 5) + s.frame(),
    "a thousand signs of work": lambda s: 1000 * s.frame(b"", kind=WORKING, step=b"working") + s.frame(),
    "a thousand times": lambda s: 1000 * s.frame(),
    "closed instead": lambda s: Wrong(b"", close=True),
}


def _integers(payload: bytes, values: list[int], at: str) -> bytes | None:
    """The first, the last or all 64-bit integers of a payload replaced."""
    if len(payload) < 8:
        return None
    numbers = np.frombuffer(payload[: len(payload) // 8 * 8], "<i8").copy()
    numbers[{"first": slice(0, len(values)), "last": slice(-len(values), None), "all": slice(None)}[at]] = (
        np.resize(values, len(numbers)) if at == "all" else values[: len(numbers)]
    )
    return numbers.tobytes() + payload[len(numbers) * 8 :]


def _filled(s: Sent, values: list[int], at: str = "all") -> bytes | None:
    changed = _integers(s.payload, values, at)
    return None if changed is None else s.frame(changed)


def _bits(x: float) -> int:
    return int(np.array([x]).view(np.int64)[0])


VALUES: dict[str, Way] = {
    "zeros": lambda s: s.frame(bytes(len(s.payload))),
    "ones": lambda s: s.frame(b"\xff" * len(s.payload)),
    "scrambled": lambda s: s.frame(_scrambled(s.payload, 2)),
    "scrambled otherwise": lambda s: s.frame(_scrambled(s.payload, 3)),
    "reversed": lambda s: s.frame(s.payload[::-1]),
    "first bit": lambda s: s.frame(bytes([s.payload[0] ^ 1]) + s.payload[1:]) if s.payload else None,
    "last bit": lambda s: s.frame(s.payload[:-1] + bytes([s.payload[-1] ^ 128])) if s.payload else None,
    "NaN": lambda s: _filled(s, [_bits(np.nan)]),
    "infinity": lambda s: _filled(s, [_bits(np.inf)]),
    "minus infinity, at the end": lambda s: _filled(s, [_bits(-np.inf)], "last"),
    "1e308": lambda s: _filled(s, [_bits(1e308), _bits(-1e308)]),
    "a denormal": lambda s: _filled(s, [1]),
    "negative shape": lambda s: _filled(s, [-2, -3], "first"),
    "shape beyond 2^63": lambda s: _filled(s, [2**62, 2**62], "first"),
    "other verdict": lambda s: _filled(s, [3, 7, 1, 3, 3, 3], "first"),
    "strikes": lambda s: (
        s.frame(s.payload[:32] + struct.pack("<2q", 3, 3) + s.payload[48:]) if len(s.payload) >= 48 else None
    ),
}

NOT_JSON: dict[str, bytes] = {
    "nothing": b"",
    "no JSON": b"\xff\xfe{",
    "deep": b"[" * 4000,
    "deep objects": b'{"a":' * 700,
    "deep and complete": b'{"d": ' + b"[" * 1900 + b"]" * 1900 + b"}",
    "a list": b"[]",
    "a number": b"7",
    "null": b"null",
    "an empty object": b"{}",
    "UTF-16": '{"nonce": 1}'.encode("utf-16"),
    "a long number": b'{"d": ' + b"9" * 4000 + b"}",
    "blanks": b" " * 4096,
}
VALUE = {
    "Infinity": "Infinity",
    "-Infinity": "-Infinity",
    "NaN": "NaN",
    "1e999": "1e999",
    "2^200": str(2**200),
    "negative": "-3",
    "half": "0.5",
    "half a character": '"\\ud800"',
    "controls": '"\\u001b]0;title\\u0007\\u001b[2J\\r\\n\\u0000"',
    "long": '"' + "x" * 3000 + '"',
    "nothing": "null",
    "true": "true",
    "list": "[[], {}, null]",
    "object": '{"0": {}}',
}


def _json_ways() -> Iterator[tuple[str, Way]]:
    """For frames that are JSON objects: other content, each key left out, and each value of each key replaced."""

    def known(s: Sent) -> dict[str, Any] | None:
        try:
            found = json.loads(s.payload)
        except ValueError:
            return None
        return found if isinstance(found, dict) and found else None

    def instead(content: bytes) -> Way:
        return lambda s: s.frame(content) if known(s) is not None else None

    def without(place: int) -> Way:
        def way(s: Sent) -> bytes | None:
            content = known(s)
            if content is None or place >= len(content):
                return None
            del content[list(content)[place]]
            return s.frame(json.dumps(content).encode())

        return way

    def replaced(place: int, text: str) -> Way:
        def way(s: Sent) -> bytes | None:
            content = known(s)
            if content is None or place >= len(content):
                return None
            content[list(content)[place]] = "@@"
            return s.frame(json.dumps(content).replace('"@@"', text).encode())

        return way

    for name, content in NOT_JSON.items():
        yield f"JSON: {name}", instead(content)
    for place in range(8):
        yield f"JSON: without key {place}", without(place)
        for name, text in VALUE.items():
            yield f"JSON: key {place} is {name}", replaced(place, text)


JSON: dict[str, Way] = dict(_json_ways())
WAYS: dict[str, Way] = HEADERS | LENGTHS | ORDER | VALUES | JSON


@dataclass
class Log:
    """The frames that a party sends, in order, to all peers."""

    steps: list[str] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    frames: list[bytes] = field(default_factory=list)


class WrongConnection(Connection):
    """Sends as it should, but for one frame: a step, and how often it came before; with no way it only writes down
    what it sends."""

    def __init__(self, party: int, sock: Any, log: Log, at: tuple[str, int], way: Way | None = None) -> None:
        super().__init__(party, sock)
        self._log, self._at, self._way, self._later, self._closing = log, at, way, b"", False

    def post(self, kind: int, step: str, sequence: int, payload: memoryview) -> None:
        if kind == WORKING and not self._closing:
            super().post(kind, step, sequence, payload)
        if kind != DATA or self._closing:
            return  # no farewell: the other end finds out by itself
        sent = Sent(step, sequence, bytes(payload), list(self._log.frames))
        number = step, self._log.steps.count(step)
        self._log.steps.append(step)
        found: Wrong | bytes | None = None
        if self._way is not None and number == self._at:
            found = self._way(sent)
        wrong = found if isinstance(found, Wrong) else Wrong(sent.frame() if found is None else found)
        self._log.sent.append(sent)
        self._log.frames.append(sent.frame())
        raw, self._later = wrong.now + self._later, wrong.after_next
        self._closing = wrong.close
        if raw:
            self.outbox.append(memoryview(raw))

    def write(self) -> None:
        super().write()
        if self._closing and not self.outbox:
            self.cut = self.closed = True
            self.sock.shutdown(2)
