"""The same NormedSecSum by other frameworks, as they come from the package index, with M processes on this machine.

They need not be in this environment: PDML_PEERS_PYTHON names another interpreter that has them.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

from pdml_spdz.bench.normed_sum import Framework
from pdml_spdz.errors import EngineError
from pdml_spdz.system import process

HOW = {
    "mpyc": "pip install mpyc gmpy2 (or: pip install 'pdml-spdz[bench]')",
    "spu": "pip install spu in an environment of its own (it wants an older NumPy), PDML_PEERS_PYTHON=its interpreter",
}
PACKAGES = ("mpyc", "gmpy2", "spu")
SECONDS = 600.0  # at most, of one program


def interpreter() -> str:
    return os.environ.get("PDML_PEERS_PYTHON") or sys.executable


def missing(name: str, M: int) -> str:
    """Why `name` cannot be run for M parties, and what to do about it; empty if it can."""
    if name == "mpyc" and M < 3:
        return "needs an honest majority: three parties at least"
    if name == "spu" and M != 3:
        return "its protocol ABY3 is for three parties"
    code, _ = process.run([interpreter(), "-c", f"import {name}"], directory=Path.cwd(), timeout=60.0)
    return "" if code == 0 else f"not installed: {HOW[name]}"


def versions() -> dict[str, str | None]:
    """Of the peers, in the interpreter that runs them."""
    program = (
        "import json, importlib.metadata as m\nfound = {}\n"
        f"for n in {PACKAGES!r}:\n  try: found[n] = m.version(n)\n  except m.PackageNotFoundError: found[n] = None\n"
        "print(json.dumps(found))"
    )
    _, text = process.run([interpreter(), "-c", program], directory=Path.cwd(), timeout=60.0)
    found: dict[str, str | None] = json.loads(text)
    return found


def run(name: str, M: int, d: int, bits: int, repeats: int, seconds: float = SECONDS) -> list[dict[str, Any]]:
    """(seconds, bytes sent by party 0, error in units of the last bit) of each repetition."""
    program = Path(__file__).with_name(f"{name}_program.py")
    arguments = [interpreter(), "-W", "ignore", str(program), str(d), str(bits), str(repeats)]
    try:
        code, text = process.run([*arguments, f"-M{M}", f"-B{_free_ports(M)}"], directory=Path.cwd(), timeout=seconds)
    except subprocess.TimeoutExpired:
        raise EngineError(f"{name} did not finish d = {d:,} within {seconds:g} s.") from None
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    if code != 0 or len(lines) != repeats:
        last = text.strip().splitlines()[-1:] or ["nothing"]
        raise EngineError(f"{name} {process.in_words(code)}; last words: {last[0]}", do=HOW[name])
    return lines


def _free_ports(M: int) -> int:
    """The first of M ports that nobody listens on now."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            base = int(probe.getsockname()[1]) + 1
        try:
            for i in range(M):
                socket.create_server(("127.0.0.1", base + i)).close()
        except (OSError, OverflowError):
            continue
        return base


PROTOCOLS = {"mpyc": "Shamir, honest majority", "spu": "ABY3, honest majority"}
PEERS = tuple(Framework(name, text, partial(missing, name), partial(run, name)) for name, text in PROTOCOLS.items())
