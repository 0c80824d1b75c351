"""A peer with a pinned certificate that sends every frame wrong in every way: the others end with words, or well.

No error but the project's own, none without an end, none that prints what it was sent, and no more memory than an
honest run takes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path

import pytest

from pdml_spdz.errors import ProtocolError
from tests.transport.hostile import Place, cases, fault, frames, play
from tests.transport.meshes import PATIENT
from tests.transport.wrong import HEADERS, JSON, LENGTHS, ORDER, VALUES, WAYS, Way

ROOT = Path(__file__).parents[2]
EVERY: dict[str, dict[str, Way]] = {"header": HEADERS, "length": LENGTHS, "order": ORDER, "values": VALUES}
# Every frame is wrong in some ways and every way is tried on some frames: one of so many cases. The others are long
# tests. What reads headers and counts frames is the same for all of them; content has readers of its own.
ONE_OF = {"header": 4, "length": 2, "order": 4, "values": 2}
SHARES = [pytest.param(True, id="some"), pytest.param(False, id="others", marks=pytest.mark.long)]
AT_ONCE = 4  # cases: where bytes are missing, all that the parties do is wait
FEW = ("one less", "zeros", "scrambled")  # where a run takes longer
LARGEST = ("largest:key", "largest:marks", "largest:masked", "largest:shares")
MATERIAL = ("ot:base-a", "ot:trees", "ot:extend", "triples:send", "vole:trees", "vole:extend")
PCA = ("sum:rows", "sum:mean", "sum:scales", "sum:shift", "digest:centre")
# By the hostile party the steps that other scenes have not, or not with this meaning.
OTHERS: dict[str, dict[int, Collection[str]]] = {
    "pca": {0: PCA},
    "nmf": {0: ("sum:topic", "agree")},
    "power": {0: ("agree",)},
    "plain": {1: ("sum:bound", "sum:start", "sum:columns")},
    "aggregator": {0: ("total:bound", "total:columns"), 1: ("sum:columns",)},
    "resumed": {0: ("finished", "resume"), 1: ("finished", "resume")},
    "largest": {1: LARGEST},
    "claims": {0: ("stock:offer", "stock:claimed"), 1: ("stock:offer", "stock:claimed")},
    "ports": {0: ("vm:port",)},
}
EMBEDDED = ("digest:program", "sum:scalars", "scale", "sum:open")
LONG: dict[tuple[str, int], Collection[str]] = {
    ("exponent", 0): ("largest:turn",),
    ("material", 0): ("ot:base-b", "ot:back"),
    ("material", 1): MATERIAL,
    ("embedded", 0): EMBEDDED,
    ("embedded", 1): EMBEDDED,
}


def wrong(
    scene: str,
    hostile: int,
    ways: dict[str, Way],
    steps: Collection[str] | None = None,
    *,
    most: int = 2,
    one_of: int = 1,
    some: bool = True,
    always: Collection[str] = (),
) -> list[tuple[Place, str]]:
    """
    most : frames of each step
    one_of : of so many cases one, or all but that one; the two parties have different ones
    always : ways that are among some at every step
    """
    found = [(at, name) for at, name in cases(scene, hostile, ways, steps) if at[1] < most]
    places, names = list(frames(scene, hostile)), list(ways)

    def is_some(at: Place, name: str) -> bool:
        return name in always or (places.index(at) + names.index(name) + hostile) % one_of == 0

    chosen = [(at, name) for at, name in found if is_some(at, name) == some]
    assert {step for (step, _), _ in chosen} == set(steps or [step for step, _ in frames(scene, hostile)])
    return chosen


def run(found: list[tuple[Place, str]], scene: str, hostile: int) -> None:
    def faults(case: tuple[Place, str]) -> list[str]:
        at, name = case
        return [f"{at} {name}: {f}" for f in map(fault, play(scene, hostile, at, WAYS[name])[1]) if f]

    with ThreadPoolExecutor(AT_ONCE) as pool:
        assert not list(chain.from_iterable(pool.map(faults, found)))


@pytest.mark.parametrize("some", SHARES)
@pytest.mark.parametrize("hostile", [0, 1])
@pytest.mark.parametrize("kind", EVERY)
def test_every_frame_of_a_run(kind: str, hostile: int, some: bool) -> None:
    found = wrong("svd", hostile, EVERY[kind], one_of=ONE_OF[kind], some=some)
    assert {name for _, name in found} == set(EVERY[kind])
    run(found, "svd", hostile)


@pytest.mark.parametrize("some", SHARES)
@pytest.mark.parametrize("hostile", [0, 1])
def test_greetings(hostile: int, some: bool) -> None:
    run(wrong("svd", hostile, JSON, ("hello", "features"), one_of=2, some=some), "svd", hostile)


def test_that_is_more_than_a_thousand_cases() -> None:
    ways = {name: way for kind in EVERY.values() for name, way in kind.items()}
    assert sum(len(cases("svd", hostile, ways)) for hostile in (0, 1)) > 1000


@pytest.mark.parametrize("some", SHARES)
@pytest.mark.parametrize(("scene", "hostile"), [(scene, m) for scene, sides in OTHERS.items() for m in sides])
def test_content_of_other_steps(scene: str, hostile: int, some: bool) -> None:
    steps = OTHERS[scene][hostile]
    every = LENGTHS | VALUES | JSON  # with readers of their own: a frame cut short, and none, at each of them
    run(wrong(scene, hostile, every, steps, most=1, one_of=3, some=some, always=("empty", *FEW)), scene, hostile)


@pytest.mark.parametrize(("scene", "hostile"), LONG)
def test_content_where_a_run_takes_longer(scene: str, hostile: int) -> None:
    run(wrong(scene, hostile, {name: WAYS[name] for name in FEW}, LONG[scene, hostile]), scene, hostile)


def test_forged_strikes_are_not_taken_for_empty_rows() -> None:
    """Party 0 says of every column that it has shown nothing but noise three times."""
    (outcome,) = play("power", 0, ("agree", 1), VALUES["strikes"], PATIENT)[1]
    assert isinstance(outcome.error, ProtocolError)
    assert "P0 came to another verdict than this party" in str(outcome.error)
    assert outcome.error.culprit == 0


# In a process of its own: what the most was that it ever had, in kB.
MEASURED = """
import json, resource, sys
from tests.transport.hostile import play
from tests.transport.wrong import WAYS
for at, name in json.loads(sys.argv[1]) or [(("", 0), None)] * 20:
    play("svd", 0, tuple(at), WAYS.get(name))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def peak(found: list[tuple[Place, str]]) -> int:
    command = [sys.executable, "-c", MEASURED, json.dumps(found)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300)
    return int(done.stdout)


@pytest.mark.parametrize("some", SHARES)
def test_memory_stays_below_twice_that_of_an_honest_run(some: bool) -> None:
    words = ("2^", "million", "thousand", "deep", "long")
    large = {name: way for name, way in WAYS.items() if any(word in name for word in words)}
    assert len(large) > 10
    assert peak(wrong("svd", 0, large, one_of=2, some=some)) < 2 * peak([])
