"""What does NormedSecSum cost on MP-SPDZ: by projection, by the paper's program, and with one virtual machine a column?

    python -m benchmarks.bench_mp_spdz [--parties M] [--dim D] [--protocol NAME] [--columns C] [--bits F]

1. one NormedSecSum of d numbers, to equal output bits: normed_sum (cold), scaled_sum (a column of a fit with k = 1 and
   C iterations), normed_sum_paper; online time and rounds with a stock, offline time and megabytes
2. a column in a stream against a column on a virtual machine of its own: online time, starting and ending included

Offline time is that of the protocol's offline program, which makes the stock. It does not say what it sent; so each
program runs once more without a stock, and what it sends more than with one counts as its offline phase.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.parties import quartiles, save
from pdml_spdz.bench.mp_spdz import COLD, COSTS, FIT, PAPER, Cell, Job, measure, middle, paper_job, scaled, settings

ONLINE, OFFLINE, STREAM = 100, 100, 10  # wanted, at least


def print_costs(rows: dict[str, Cell]) -> None:
    print(f"\n{'':30}{'online':>12}{'with start':>13}{'rounds':>10}{'offline':>11}{'offline MB':>13}{'error/ulp':>11}")
    for label, cell in rows.items():
        about = "~" if cell.scaled_from else ""
        texts = [f"{1e3 * cell.seconds:,.1f} ms", f"{1e3 * cell.wall:,.1f} ms", f"{cell.rounds:,.0f}"]
        texts += [f"{cell.offline_seconds:,.2f} s", f"{cell.offline_megabytes:,.2f}"]
        widths = (12, 13, 10, 11, 13)
        costs = "".join(f"{about + text:>{width}}" for text, width in zip(texts, widths, strict=True))
        print(f"{label:30}{costs}{cell.error:11.1f}")
        if cell.scaled_from:
            print(f"  ~ scaled from d = {cell.scaled_from}, by the compiler's counts")


def ratios(paper: Cell, other: Cell) -> dict[str, float]:
    return {name: getattr(paper, name) / getattr(other, name) for name in COSTS}


def print_ratios(found: dict[str, dict[str, float]], about: str) -> None:
    print(f"\n{'paper / projection':30}{'online':>12}{'with start':>13}{'rounds':>10}{'offline':>11}{'offline MB':>13}")
    names = {"seconds": 12, "wall": 13, "rounds": 10, "offline_seconds": 11, "offline_megabytes": 13}
    for label, row in found.items():
        print(f"{label:30}" + "".join(f"{f'{about}{row[name]:,.1f}':>{width}}" for name, width in names.items()))
    print(f"{'wanted, at least':30}{ONLINE:12}{OFFLINE:47}")


def print_stream(colds: Sequence[Cell], columns: Sequence[Cell]) -> float:
    medians = []
    for label, cells in (("\na column on a machine of its own", colds), ("a column in a stream", columns)):
        walls = [1e3 * c.wall for c in cells]
        low, median, high = quartiles(walls) if len(walls) > 1 else walls * 3
        medians.append(median)
        print(f"{label:33} {median:9.1f} ms ({low:.1f} .. {high:.1f}); online, with start")
    ratio = medians[0] / medians[1]
    print(f"own machine / stream: {ratio:.1f} (wanted: at least {STREAM})")
    return ratio


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    option: Callable[..., Any] = parser.add_argument
    option("--parties", type=int, default=3, metavar="M")
    option("--dim", type=int, default=100, metavar="D", help="numbers in a vector")
    option("--protocol", default="semi", help="of MP-SPDZ, one that has an offline program")
    option("--columns", type=int, default=50, metavar="C", help="in the stream")
    option("--bits", type=int, default=31, metavar="F", help="fraction bits of the output, of both programs")
    option("--repeats", type=int, default=5, help="of everything but the paper's program; medians count")
    option("--limit", type=float, default=300.0, metavar="S", help="for the paper's offline phase; beyond: scaled")
    return parser.parse_args()


def main() -> None:
    a = arguments()
    with settings(a.parties, a.bits, a.protocol, a.limit, lambda text: print(f"  {text}", flush=True)) as setting:
        longest = paper_job(setting, a.dim, a.limit)
        pair = [Job(FIT, a.dim, a.columns), Job(COLD, a.dim)]
        before, after = pair * (a.repeats // 2), pair * (a.repeats - a.repeats // 2)
        cells = measure(setting, *before, longest, *after)
        fits, colds, papers = ([c for c in cells if c.program == name] for name in (FIT, COLD, PAPER))
        paper = scaled(setting, papers[0], a.dim)
    columns = [fit.per_column() for fit in fits]
    cold, column = middle(colds), middle(columns)
    print(f"\nM = {a.parties}, d = {a.dim:,}, {a.protocol}, {a.bits} bits, loopback, TLS; party 0; MB sent by a party")
    print_costs({"projection, cold": cold, f"projection, 1 of {a.columns} in a fit": column, "paper": paper})
    found = {"cold": ratios(paper, cold), "a column in a fit": ratios(paper, column)}
    print_ratios(found, "~" if paper.scaled_from else "")
    stream = print_stream(colds, columns)
    content = {"arguments": vars(a), "mp_spdz": setting.home.version(), "stream": stream, "ratios": found}
    save("mp_spdz", content | {"measured": [asdict(c) for c in cells], "paper": asdict(paper)})


if __name__ == "__main__":
    main()
