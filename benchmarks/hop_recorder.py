"""Which module of the package calls which? `benchmarks.house` lets every process of a walk import this at its start.

A copy of this file, called sitecustomize.py, is first on PYTHONPATH, so no commit has to know of it. What a process has
recorded is a file in $PDML_HOPS when it ends.

A hop is the first call from one module of the package into another. Frames of other packages between the two (a context
manager's, a command line's) are looked through; what happens while a module is being imported is no call.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

hops: dict[tuple[str, str], tuple[str, str]] = {}  # modules, caller and callee -> their functions, at the first call
functions: dict[tuple[str, str], None] = {}  # every (module, function), in the order of their first calls


def module(frame: FrameType) -> str:
    name = frame.f_globals.get("__name__") or ""
    return name if name.startswith("pdml_spdz.") else ""


def importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_name == "<module>" and module(frame):
            return True
        frame = frame.f_back
    return False


def record(frame: FrameType, event: str, _: Any) -> None:
    if event != "call" or not (callee := module(frame)):
        return
    function, back = frame.f_code.co_qualname, frame.f_back
    while back is not None and not module(back):
        back = back.f_back
    pair = (module(back) if back else callee, callee)
    new = pair not in hops and pair[0] != callee
    if (new or (callee, function) not in functions) and not importing(frame):
        functions.setdefault((callee, function))
        if new and back:
            hops[pair] = (back.f_code.co_qualname, function)


def write() -> None:
    sys.setprofile(None)
    found = {"argv": sys.argv, "hops": [[*m, *f] for m, f in hops.items()], "functions": list(functions)}
    Path(os.environ["PDML_HOPS"], f"{os.getpid()}.json").write_text(json.dumps(found))


if __name__ == "sitecustomize":
    atexit.register(write)
    # A party may be a fork of a process that has prepared things for all of them: its own walk begins there.
    for recorded in (hops, functions):
        os.register_at_fork(after_in_child=recorded.clear)
    threading.setprofile(record)
    sys.setprofile(record)
