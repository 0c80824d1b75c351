"""Killed while a stock is made there is none; what a killed run has claimed is taken off the disk (`kills`)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pdml_spdz.errors import StockError
from tests.properties.contents import Content, clear
from tests.properties.kills import MORTAL, WAYS, Kill, kills_of, run

pytestmark = MORTAL


def tree(root: Path) -> dict[str, tuple[bytes, int, int]]:
    """Every file below `root`: its bytes, mode and time of change."""
    found = (path for path in root.rglob("*") if path.is_file())
    return {str(p): (p.read_bytes(), p.stat().st_mode, p.stat().st_mtime_ns) for p in found}


def in_vain(content: Content, root: Path, M: int) -> None:
    results = run(M, lambda link: content.look_in_vain(link, root))[1]
    assert all(isinstance(error, StockError) and error.common for error in results.values())


def make_another(content: Content, root: Path, M: int) -> None:
    assert set(run(M, lambda link: content.make(link, root))[1].values()) == {None}


@pytest.mark.parametrize("command", [in_vain, make_another])
def test_what_a_killed_run_has_claimed_is_scrubbed_by_the_next_command(
    content: Content, root: Path, command: Callable[[Content, Path, int], None]
) -> None:
    """Everything is claimed, so that no later claim will ever look at it."""
    for name in content.leaves:
        clear(root)
        content.fill(root, 2, 1)
        run(2, lambda link: content.claim(link, root), Kill(0, name))
        assert content.left(root, 0) > 0
        before = tree(root)
        assert content.problems(root, 2) == ["", ""]
        assert tree(root) == before  # looking at it changes nothing
        command(content, root, 2)
        assert [content.left(root, m) for m in range(2)] == [0, 0]


def test_what_only_one_party_has_claimed_is_burnt_by_the_others_when_they_hear_of_it(
    content: Content, root: Path
) -> None:
    """Also by a run that finds nothing to claim: nobody could use what is left."""
    content.fill(root, 2, 1)
    run(2, lambda link: content.claim(link, root), Kill(1, "write"))

    def used() -> list[bool]:
        return [bool(content.stock(path).state().claims) for path in content.parts(root, 2)]

    assert used() == [True, False]
    in_vain(content, root, 2)
    assert used() == [True, True]
    assert [content.left(root, m) for m in range(2)] == [0, 0]


@pytest.mark.parametrize(("M", "blackout"), WAYS)
def test_a_kill_at_any_step_of_making(content: Content, root: Path, M: int, blackout: bool) -> None:
    def make(kill: Kill | None = None) -> None:
        run(M, lambda link: content.make(link, root), kill)

    def use() -> list[object]:
        return list(run(M, lambda link: content.claim(link, root))[1].values())

    steps = run(M, lambda link: content.make(link, root))[0].steps
    kills = kills_of(steps, blackout=blackout, parts=lambda size: {0, size // 2, size - 1, size})
    assert len(kills) > 60
    for kill in kills:
        clear(root)
        make(kill)
        made = content.parts(root, M)
        assert content.problems(root, M) == [""] * len(made)
        given = use()
        if len(made) == M:  # killed after all was done
            assert all(isinstance(result, frozenset) for result in given)
        else:
            assert all(isinstance(result, StockError) and result.common for result in given)
        make()
        assert all(isinstance(result, frozenset) for result in use())
        assert not list(root.rglob(".party-*"))  # what the killed one left is gone
