"""A headless Chromium, driven over its DevTools pipe: no package, no port, nothing but the browser itself.

Ref: https://chromedevtools.github.io/devtools-protocol; messages are JSON, each ended by a zero byte, on the
descriptors 3 (to the browser) and 4 (from it).
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
# The pipes get the numbers that the browser wants, and then the browser takes this process's place.
TRAMPOLINE = (
    "import os, sys; r, w = (int(n) for n in sys.argv[1:3]); os.dup2(r, 3); os.dup2(w, 4); "
    "os.execv(sys.argv[3], sys.argv[3:])"
)
PATIENCE = 60.0


def browser() -> str | None:
    """Where there is one."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Chromium:
    """One browser with one page. `events` are those of the page that is open, in their order."""

    def __init__(self, program: str, profile: Path) -> None:
        # Numbers from 10 on: the trampoline must not overwrite one with the other.
        to_browser, from_browser = ([_high(fd) for fd in os.pipe()] for _ in range(2))
        theirs = (to_browser[0], from_browser[1])
        self._out, self._in = to_browser[1], from_browser[0]
        command = [sys.executable, "-c", TRAMPOLINE, *map(str, theirs), program]
        self._process = subprocess.Popen(
            [*command, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=theirs,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for fd in theirs:
            os.close(fd)
        self._last, self._buffer, self._session = 0, b"", ""
        self.events: list[dict[str, Any]] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._call(f"{domain}.enable")
        # Every page begins as if nobody had been there: the site would keep whether it was light or dark.
        forget = "try { localStorage.clear(); } catch {}"
        self._call("Page.addScriptToEvaluateOnNewDocument", source=forget)

    def close(self) -> None:
        self._session = ""
        try:
            self._call("Browser.close")
            self._process.wait(PATIENCE)
        finally:
            self._process.kill()
            self._process.wait()
            for fd in (self._out, self._in):
                os.close(fd)

    def open(self, address: str, width: int, *, dark: bool = False) -> None:
        """The page in a window of that width, loaded with all that it loads."""
        self._call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])
        self.events.clear()
        self._call("Page.navigate", url=address)
        self._until(lambda: any(e["method"] == "Page.loadEventFired" for e in self.events), address)

    def evaluate(self, expression: str) -> Any:
        """What the expression is on the page, as JSON."""
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def picture(self, path: Path, *, whole: bool = True) -> None:
        """The page as PNG."""
        answer = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        answers: list[dict[str, Any]] = []
        self._until(lambda: bool(answers), method, answers)
        if "error" in answers[0]:
            raise AssertionError(f"{method}: {answers[0]['error']}")
        result: dict[str, Any] = answers[0]["result"]
        return result

    def _until(self, done: Callable[[], bool], what: str, answers: list[dict[str, Any]] | None = None) -> None:
        """Take in messages until it is so; the answer to the last call goes to `answers`."""
        end = time.monotonic() + PATIENCE
        while not done():
            left = end - time.monotonic()
            if left <= 0 or not select.select([self._in], [], [], left)[0]:
                raise AssertionError(f"the browser did not answer for {PATIENCE:.0f} s: {what}")
            more = os.read(self._in, 1 << 20)
            if not more:
                raise AssertionError(f"the browser has ended: {what}")
            *messages, self._buffer = (self._buffer + more).split(b"\0")
            for message in map(json.loads, messages):
                if message.get("id") == self._last and answers is not None:
                    answers.append(message)
                elif "method" in message:
                    self.events.append(message)


def _high(fd: int) -> int:
    copy = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(fd)
    return copy
