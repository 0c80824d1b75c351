"""How costs grow: straight lines through cells that differ in one number."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from pdml_spdz.bench.results import Cell, Check
from pdml_spdz.bench.stats import line

R2 = 0.99


def straight(cells: Sequence[Cell], along: str, names: Sequence[str]) -> list[Check]:
    """That the values are straight lines in `along`, with everything else in the key the same.

    Of each engine's series the one with most points counts, then the one with the largest numbers; three points at
    least, and none of them scaled.
    """
    series: dict[tuple[str | int, ...], list[Cell]] = defaultdict(list)
    for cell in cells:
        if not cell.missing and not cell.scaled_from:
            series[tuple(v for n, v in cell.key.items() if n != along)].append(cell)
    best: dict[str | int, tuple[tuple[int, float], list[Cell]]] = {}
    for same in series.values():
        size = len(same), float(sum(v for n, v in same[0].key.items() if isinstance(v, int) and n != along))
        engine = same[0].key["engine"]
        if len(same) >= 3 and size > best.get(engine, ((0, 0.0), []))[0]:
            best[engine] = size, same
    found = []
    for engine, (_, same) in best.items():
        x = [float(c.key[along]) for c in same]
        rest = ", ".join(f"{n} = {v:,}" for n, v in same[0].key.items() if isinstance(v, int) and n != along)
        for name in names:
            y = [c.values[name].median for c in same if name in c.values]
            if len(y) == len(x) and any(y):
                what = f"{engine}: {name} of a party is a straight line in {along} up to {max(x):,.0f} ({rest}), R^2"
                found.append(Check(what, line(x, y).r2, R2))
    return found


def constant(cells: Sequence[Cell], along: str, names: Sequence[str]) -> list[Check]:
    """That the values do not change with `along`."""
    found = []
    for engine in dict.fromkeys(c.key["engine"] for c in cells):
        mine = [c for c in cells if c.key["engine"] == engine and c.values]
        for name in names:
            y = [c.values[name].median for c in mine if name in c.values]
            if len(y) >= 2 and max(y) > 0:
                what = f"{engine}: {name} of a party by {along} from {min(int(c.key[along]) for c in mine):,} to "
                what += f"{max(int(c.key[along]) for c in mine):,}, relative change"
                found.append(Check(what, (max(y) - min(y)) / max(y), 1e-3, at_least=False))
    return found
