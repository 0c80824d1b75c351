"""NormedSecSum between threads, with everything that crossed the wire."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from pdml_spdz.engines.embedded import machine
from pdml_spdz.engines.embedded.runner import EmbeddedExecution, EmbeddedRunner, Shares
from pdml_spdz.engines.openings.base import GO_ON, public_integers
from pdml_spdz.offline.material import Lots
from pdml_spdz.primitives.masks import Keys
from pdml_spdz.primitives.sec_sum import MaskedSum
from pdml_spdz.programs.precision import F_G, Precision
from pdml_spdz.programs.render import Program, render
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.inprocess import InProcessLink, mesh
from tests.dealer import Dealt, deal
from tests.threads import run_threads


@dataclass
class Wire:
    """All frames by (sender, receiver), in order: step and payload."""

    frames: dict[tuple[int, int], list[tuple[str, bytes]]] = field(default_factory=dict)

    def tap(self, links: list[InProcessLink]) -> list[InProcessLink]:
        original = InProcessLink._round

        def listening(link: InProcessLink, step: str, sequence: int, payloads, expect):  # type: ignore[no-untyped-def]
            for peer, data in payloads.items():
                self.frames.setdefault((link.me, peer), []).append((step, bytes(data)))
            return original(link, step, sequence, payloads, expect)

        for link in links:
            link._round = listening.__get__(link)  # type: ignore[method-assign]
        return links

    def steps(self) -> set[str]:
        return {step for frames in self.frames.values() for step, _ in frames}

    def payloads(self, sender: int, receiver: int, step: str) -> list[bytes]:
        return [data for s, data in self.frames[sender, receiver] if s == step]


@dataclass
class Run:
    """y at every party, what was on the wire, and every party's own shares of the run."""

    y: list[np.ndarray]
    wire: Wire
    shares: dict[int, Shares]
    rounds: int


def run_program(
    program: Program,
    xs: np.ndarray,
    g: np.ndarray,
    precision: Precision,
    *,
    materials: list[Dealt] | None = None,
    make_sum: Callable[[Link, Keys], MaskedSum] = MaskedSum,
) -> Run:
    """One call of `program` on xs of shape (M, d, k), relative to the bound 1, with dealt material."""
    M = len(xs)
    materials = materials or deal(machine.plan(program), precision)
    wire, kept = Wire(), {}

    def party(link: Link) -> tuple[np.ndarray, int]:
        sec_sum = make_sum(link, Keys.agree(link, b"test"))
        runner = EmbeddedRunner(sec_sum, precision, 1.0, materials[link.me], Lots.of(machine.plan(program)))
        execution = EmbeddedExecution(runner, program)
        kept[link.me] = execution.shares
        flag = [GO_ON] if program.name == "normed_sum" else []
        before = link.traffic.rounds
        y = execution.call(xs[link.me], flag + public_integers(g, precision.f_g))
        return y, link.traffic.rounds - before

    results = run_threads(M, party, wire.tap(mesh(M)))
    return Run([y for y, _ in results], wire, kept, results[0][1])


def normed_sum(xs: np.ndarray, g: np.ndarray, precision: Precision, **options: object) -> Run:
    _, d, k = xs.shape
    return run_program(render("normed_sum", precision, d, k), xs, g, precision, **options)  # type: ignore[arg-type]


def rounded(g: np.ndarray, f_g: int = F_G) -> np.ndarray:
    """g as the program has it."""
    return np.rint(np.ldexp(g, f_g)) * 2.0**-f_g


def unit(rng: np.random.Generator, d: int, k: int) -> np.ndarray:
    x = rng.standard_normal((d, k))
    return x / np.linalg.norm(x, axis=0)


def split(s: np.ndarray, M: int, rng: np.random.Generator) -> np.ndarray:
    """M addends of s that are larger than it and of any sign."""
    xs = rng.normal(size=(M, *s.shape)) * np.linalg.norm(s, axis=0) / np.sqrt(s.shape[0])
    xs[-1] = s - xs[:-1].sum(axis=0)
    return xs
