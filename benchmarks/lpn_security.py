"""How hard the LPN problems of the package are: log2 of the operations that each known attack takes.

    python -m benchmarks.lpn_security                     # the table, and what is behind its locality column
    python -m benchmarks.lpn_security --write docs/security.md    # puts the table between its two marks there

The attacks, and where their formulas are from: benchmarks/lpn. Parameters are the package's own.
"""

from __future__ import annotations

import argparse
import functools
from pathlib import Path

import numpy as np

from benchmarks.lpn import algebraic, decoding, locality
from benchmarks.lpn.decoding import Instance
from pdml_spdz.offline.on_demand import LEVELS
from pdml_spdz.ot.lpn import ONES, Code, LpnParameters

RING = 224  # bits of the widest ring, for attacks that profit from it
BEGIN, END = "<!-- python -m benchmarks.lpn_security --write docs/security.md -->", "<!-- end of the table -->"
ATTACKS = ("decoding", "statistical decoding", "hybrid", "algebraic", "AGB 2.0", "locality")


def instance(lpn: LpnParameters) -> Instance:
    """What an attacker on one secret has."""
    return Instance(lpn.blocks * lpn.block, lpn.secret, lpn.blocks)


@functools.cache
def costs(at: Instance, ones: int = ONES) -> dict[str, float]:
    """log2 of the operations of each attack, the best of its variants."""
    both = (False, True)  # F_2, and as if the ring were a large field
    fields = [algebraic.sizes(at, large=large) for large in both]
    exact = (decoding.pooled_gauss(at), decoding.stern_dumer(at, RING), decoding.regular_decoding(at))
    mod_2 = (attack(at.odd()) for attack in (decoding.pooled_gauss, decoding.stern_dumer, decoding.bjmm))
    statistical = decoding.statistical_decoding
    found = (
        min(*exact, *mod_2),
        min(statistical(at.odd()), statistical(at, RING)),
        min(algebraic.hybrid(at, large=large) for large in both),
        min(attack(field) for attack in (algebraic.algebraic, algebraic.substituted) for field in fields),
        min(map(algebraic.algebraic_twice, fields)),
        locality.locality(at, ones),
    )
    return dict(zip(ATTACKS, found, strict=True))


def table(levels: tuple[LpnParameters, ...] = LEVELS) -> str:
    """As markdown. Bits are rounded down."""
    head = ["level", "numbers of r", "block", "blocks under one r", "numbers", *ATTACKS, "least"]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for number, lpn in enumerate(levels, 1):
        found = costs(instance(lpn))
        sizes = [f"2^{lpn.secret.bit_length() - 1}", f"{lpn.block}", f"{lpn.blocks:,}", f"{lpn.blocks * lpn.block:,}"]
        bits = [f"2^{int(x)}" for x in (*found.values(), min(found.values()))]
        lines.append("| " + " | ".join([f"{number}", *sizes, *bits[:-1], f"**{bits[-1]}**"]) + " |")
    return "\n".join(lines)


def parts(lpn: LpnParameters) -> str:
    """Guesses alone, what each costs not counted: on the smallest part that may exist, and on one that is found."""
    at = instance(lpn)
    exists = locality.smallest_part(at, ONES)
    places = Code(lpn.secret, np.arange(2, dtype=np.uint64)).places(at.n)
    found = locality.found_part(places, lpn.secret)
    return (
        f"r of {lpn.secret}: a part of {exists} places may exist: 2^{locality.guesses(at, exists):.0f} guesses; "
        f"found one of {found}: 2^{locality.guesses(at, found):.0f}"
    )


def written(page: str) -> str:
    """The page with the table in its place."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{rest.split(END)[1]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, metavar="PAGE", help="Put the table into this markdown page.")
    page = parser.parse_args().write
    if page:
        page.write_text(written(page.read_text()))
        return
    print(table())
    for lpn in LEVELS:
        print(parts(lpn))


if __name__ == "__main__":
    main()
