"""Killed anywhere in a claim, at any party, as often as you like: no material is ever given out twice (`kills`)."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from pdml_spdz.errors import PdmlError
from pdml_spdz.offline import ledger
from tests.properties.contents import Content, Given, clear, copied, put_back
from tests.properties.kills import EVERYTHING, MORTAL, WAYS, Kill, Steps, World, kills_of, run

pytestmark = MORTAL


class Usage:
    """A stock or stocks for so many claims, and everything that was ever given out, at whichever party."""

    def __init__(self, content: Content, root: Path, M: int, claims: int) -> None:
        self.content, self.root, self.M = content, root, M
        self.given: set[object] = set()
        clear(root)
        content.fill(root, M, claims)
        self.keep()

    def keep(self) -> None:
        """What `back` goes back to: all files as they are now. It is half of the time of most cases to come there."""
        self._kept = copied(self.root), frozenset(self.given)

    def back(self) -> None:
        files, given = self._kept
        put_back(self.root, files)
        self.given = set(given)

    def claim(self, kill: Kill | None = None) -> World:
        """One claim at all parties; with no kill it must come off."""
        world, results = run(self.M, lambda link: self.content.claim(link, self.root), kill)
        given: list[Given] = [result for result in results.values() if isinstance(result, frozenset)]
        errors = [result for result in results.values() if isinstance(result, BaseException)]
        assert all(isinstance(error, PdmlError) for error in errors), errors
        if kill is None:
            assert len(given) == self.M, errors
        assert len(set(given)) <= 1
        for part in given[:1]:
            assert part
            assert not self.given & part
            self.given |= part
        return world

    def second_claim(self) -> Steps:
        """Of the second: the first finds nothing to tidy up. `back` is where it begins."""
        self.claim()
        self.keep()
        return self.claim().steps


@pytest.mark.parametrize(("M", "blackout"), WAYS)
def test_a_kill_at_any_step_of_a_claim(content: Content, root: Path, M: int, blackout: bool) -> None:
    usage = Usage(content, root, M, 3)
    steps = usage.second_claim()
    names = [name for name, _ in steps[0]]
    # Before the claim is on the disk nothing is said, and before all have said so nothing is moved or removed.
    claimed = len(names) - 1 - names[::-1].index("receive stock:claimed")
    assert names.index("write") < names.index("fsync") < names.index("send stock:claimed") < claimed
    assert not {"unlink", "rmdir", "rename"} & set(names[names.index("write") : claimed])
    assert {"unlink", "rename"} & set(names[claimed:])
    kills = kills_of(steps, blackout=blackout, parts=lambda size: {0, EVERYTHING})
    assert len(kills) >= 30
    for kill in kills:
        usage.back()
        usage.claim(kill)
        usage.claim()
        assert [content.left(root, m) for m in range(M)] == [0] * M


@pytest.mark.parametrize(("M", "m"), [(2, 0), (3, 1), pytest.param(2, 1, marks=pytest.mark.long)])
def test_a_kill_after_any_byte_of_the_ledgers_line(content: Content, root: Path, M: int, m: int) -> None:
    (size,) = [size for name, size in Usage(content, root, M, 3).second_claim()[m] if name == "write"]
    assert size > 100
    usage = Usage(content, root, M, 2)
    for kept in {*range(0, size + 1, content.every), size - 1, size}:
        usage.back()
        before = ledgers(content, root, m)
        usage.claim(Kill(m, "write", kept))
        assert ledgers(content, root, m) == before + min(kept, size)
        usage.claim()


def ledgers(content: Content, root: Path, m: int) -> int:
    """Bytes in all ledgers of a party."""
    return sum(path.stat().st_size for path in content.root(root, m).glob(f"stock-*/party-{m}/{ledger.FILE}"))


@pytest.mark.parametrize("third", [0, *(pytest.param(i, marks=pytest.mark.long) for i in (1, 2))])
def test_two_kills_in_a_row_at_any_steps(content: Content, root: Path, third: int) -> None:
    steps = Usage(content, root, 2, 3).second_claim()
    pairs = [
        (Kill(0, i, EVERYTHING), Kill(second, j, (i * j) % 160))
        for second in (0, 1)
        for i in range(len(steps[0]))
        for j in range((i + second) % 2, len(steps[second]), 2)
    ]
    assert len(pairs) > 150
    usage = Usage(content, root, 2, 3)
    for first, second in random.Random(1).sample(pairs, min(len(pairs), 400 // content.every))[third::3]:
        usage.back()
        usage.claim(first)
        usage.claim(second)
        usage.claim()


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(i, marks=pytest.mark.long) for i in (2, 3))])
def test_kills_and_old_copies_in_any_order(content: Content, root: Path, seed: int) -> None:
    """A party may even go back to an older copy of all its files, as long as one party does not."""
    choice = random.Random(seed)
    M = 2 + seed % 2
    steps = Usage(content, root, M, 3).second_claim()
    rounds = 60 if content.every == 1 else 20
    usage = Usage(content, root, M, rounds + 1)
    keeper, copies = choice.randrange(M), root / "copies"
    for _ in range(rounds):
        m = choice.randrange(M)
        own, copy = content.root(root, m), copies / str(m)
        match choice.randrange(4):
            case 0:
                usage.claim()
            case 1:
                shutil.rmtree(copy, ignore_errors=True)
                copy_parts(own, copy, m)
            case 2 if m != keeper and copy.exists():
                for part in own.glob(f"stock-*/party-{m}"):
                    shutil.rmtree(part)
                copy_parts(copy, own, m)
            case _:
                usage.claim(Kill(m, choice.randrange(len(steps[m])), choice.randrange(200)))
    usage.claim()


def copy_parts(old: Path, new: Path, m: int) -> None:
    """All of a party's stocks."""
    for part in old.glob(f"stock-*/party-{m}"):
        shutil.copytree(part, new / part.relative_to(old))
