"""All benchmarks in the order in which `bench all` runs them, in two sizes: a quarter of an hour, and whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from pdml_spdz.bench import fits, normed_sum, parts, precision, scenarios
from pdml_spdz.bench.fits import Size, Step
from pdml_spdz.bench.network import NETWORKS
from pdml_spdz.bench.results import Result


class Part(NamedTuple):
    """A benchmark: `name` is that of its files."""

    name: str
    question: str
    run: Callable[[Step], Result]


SVD = fits.Request(
    size=Size(3000, 1000, 7, 3),
    growth=(("n", (300, 30_000)), ("d", (250, 500, 2000)), ("M", (2, 4, 5))),
    repeats=3,
)
NMF = fits.Request("nmf", ("plain", "secsum"), Size(2000, 10_000, 7, 5), iterations=5, repeats=1)
TABLE = normed_sum.Request(repeats=5, limit=90.0)
# Not evenly spread on a logarithmic scale: there even a parabola comes near a straight line (R^2 = 0.995).
LENGTHS = (100_000, 250_000, 500_000, 1_000_000)
GROWTH = normed_sum.Request((2,), LENGTHS, ("embedded",), where=("cold",), repeats=1, limit=120.0)


def suite(*, full: bool) -> list[Part]:
    table, svd, nmf = TABLE, SVD, NMF
    dims: tuple[int, ...] = (10, 100)
    if full:
        table = replace(TABLE, repeats=7, limit=600.0, outside=TABLE.parties, protocols=("semi", "hemi", "mascot"))
        svd = replace(SVD, growth=(*SVD.growth, ("k", (1, 14, 28))), repeats=5)
        nmf = replace(NMF, growth=(("n", (500, 8000)), ("d", (1000, 3000)), ("k", (3, 14)), ("M", (2, 3))), repeats=5)
        dims = (10, 30, 100, 300)
    every = list(scenarios.SCENARIOS.values())
    repeats = 20 if full else 9
    return [
        Part("normed-sum", "what does one NormedSecSum cost?", lambda step: normed_sum.measure(table, step)),
        Part("growth", "how does that grow with d?", lambda step: normed_sum.measure(GROWTH, step)),
        Part("end-to-end", "how long does the paper's PCR take?", lambda step: scenarios.end_to_end()),
        Part(
            "scenarios",
            "and over real networks?",
            lambda step: scenarios.measure(every, list(NETWORKS.values()), step),
        ),
        Part("svd", "where does the time of a PD-SVD go?", lambda step: fits.measure(svd, step)),
        Part("nmf", "and that of a PD-NMF?", lambda step: fits.measure(nmf, step)),
        Part(
            "sec-sum",
            "does SecSum cost more than sending the vectors?",
            lambda step: parts.sec_sum((2, 3, 5), (10_000, *LENGTHS), repeats, step),
        ),
        Part(
            "offline",
            "what does the offline phase cost?",
            lambda step: parts.offline((2, 3), (1000, 10_000, *LENGTHS), 31, 2 if not full else 5, step),
        ),
        Part(
            "local",
            "what does a party compute by itself?",
            lambda step: parts.local(((1000, 1000), (10_000, 1000), (1000, 10_000)), 7, repeats, step),
        ),
        Part(
            "precision",
            "what do 10, 20 and 31 bits cost in accuracy?",
            lambda step: precision.measure(dims, step=step),
        ),
    ]
