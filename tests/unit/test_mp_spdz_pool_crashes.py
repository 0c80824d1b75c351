"""Killed before any step on the disk, at a claim: the stock is offered whole, or never again.

A party's files are copied as they are at the moment when it is killed; what it would still have done to clean up
happens to the originals only.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from pdml_spdz.engines.mp_spdz import directory, pool
from pdml_spdz.engines.mp_spdz.pool import Pool
from pdml_spdz.errors import PeerAborted
from pdml_spdz.transport.base import Link
from tests.threads import run_threads
from tests.unit.test_mp_spdz_pool import COMPILED, PARTS, claim, contents, make, material, root, run_directory


class Killed(BaseException):
    """SIGKILL, for one thread."""


STEPS = ("open", "write", "fsync", "rename", "unlink", "rmdir")


@contextmanager
def killed_at(n: int, copy: Callable[[], object], kept: int | None = None) -> Iterator[list[str]]:
    """This thread is killed before its step n on the disk (of a write, `kept` bytes go through); `copy` is called then.

    Yields the names of all steps so far.
    """
    me, done, real = threading.get_ident(), [], {name: getattr(os, name) for name in STEPS}
    dead = False

    def shim(name: str) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            nonlocal dead
            if threading.get_ident() != me or dead:
                return real[name](*args, **options)
            done.append(name)
            if len(done) - 1 == n:
                dead = True
                if kept is not None:
                    real[name](args[0], args[1][:kept])
                copy()
                raise Killed
            return real[name](*args, **options)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in STEPS:
            patch.setattr(os, name, shim(name))
        yield done


def crash(path: Path, step: int, kept: int | None = None) -> tuple[Path, list[str]]:
    """Party 0 is killed at `step` of its claim while party 1 goes on: party 0's files as they were, and its steps."""
    original, after = root(path, 0), path / f"after-{step}-{kept}"
    steps: list[str] = []

    def party(link: Link) -> None:
        own = Pool(root(path, link.me), link.me)
        stock = own.agree(link, "semi", COMPILED.digest)
        into = run_directory(own.folder / f"{directory.PREFIX}{link.me}")
        if link.me:
            with suppress(PeerAborted):
                own.claim(link, stock, b"run", into)
            return
        with killed_at(step, lambda: shutil.copytree(original, after), kept) as done:
            try:
                own.claim(link, stock, b"run", into)
            finally:
                steps[:] = done

    with suppress(Killed):
        run_threads(2, party)
    return after, steps


def check_after_the_crash(path: Path, after: Path, made: list[str]) -> None:
    """What party 0 finds when it comes back, and what the parties then do together."""
    first, second = made
    claimed = {line[11:27] for line in (after / pool.FOLDER / pool.LEDGER).read_text().splitlines()}
    offered = [s.id for s in Pool(after, 0).stocks()]
    assert offered == ([second] if first in claimed else made)
    # On the disk there is what is offered, whole, and nothing of what was claimed.
    assert contents(after) == {material(stock, 0, part) for stock in offered for part in PARTS}
    roots = (after, root(path, 1))
    assert run_threads(2, lambda link: claim(link, roots[link.me], "next")) == [second] * 2
    for at in roots:
        lines = [line for line in (at / pool.FOLDER / pool.LEDGER).read_text().splitlines() if second in line]
        assert len(lines) == 1
        assert json.loads(lines[0])["stock"] == second


def claim_steps(path: Path) -> list[str]:
    make(path)
    return crash(path, 10**6)[1]


def test_killed_before_any_step_of_a_claim(tmp_path: Path) -> None:
    steps = claim_steps(tmp_path / "rehearsal")
    # The ledger is written and synced before the stock moves; the parts move after the others have said so.
    assert [name for name in steps if name in ("write", "fsync", "rename")][:5] == [
        *("write", "fsync", "fsync", "rename", "fsync")
    ]
    assert steps.count("rename") == 1 + len(PARTS)
    for step in range(len(steps)):
        path = tmp_path / str(step)
        made = make(path, count=2)
        after, done = crash(path, step)
        assert len(done) >= step + 1
        check_after_the_crash(path, after, made)


def test_killed_in_the_middle_of_a_line_of_the_ledger(tmp_path: Path) -> None:
    write = claim_steps(tmp_path / "rehearsal").index("write")
    whole = len((root(tmp_path / "rehearsal", 0) / pool.FOLDER / pool.LEDGER).read_bytes())
    for kept in (0, 1, 10, 11, 12, 26, 27, 28, whole - 2, whole - 1, whole):
        path = tmp_path / str(kept)
        made = make(path, count=2)
        after, _ = crash(path, write, kept)
        written = (after / pool.FOLDER / pool.LEDGER).read_bytes()
        assert len(written) == kept
        check_after_the_crash(path, after, made)
