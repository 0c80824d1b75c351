"""A small cell of each kind of the paper's grids comes out again: on data that are made up, so that it runs anywhere.

`test_stored_cells.py` does the same with cells of the paper's size, where the official data sets are.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.experiments import cells
from benchmarks.paper import sources
from tests.experiments import small_cells
from tests.experiments.same import assert_same_rows

# Another BLAS, or another processor, adds in another order: of at most 3,000 addends, a relative 3e-13 (n eps). Rows
# that were changed by as much moved no figure by more than a thousand times that, 3e-10; gains, differences of errors
# that are nearly equal, the most. p by KSDP follow from ranks, which did not change at all, nor for 1e-9.
ROUNDING = 1e-8
LOOSER = {
    # V comes from sums of 31 bits with masks that are others in every run: gains differ by up to 1e-8.
    "pcr": 1e-6,
    "pcr-scaled": 1e-6,
    # Errors of openings of 31 bits, a few of which may be rounded the other way: 1e-6 for rows changed as above.
    "shows": 1e-4,
}


@pytest.mark.parametrize("name", small_cells.KINDS)
def test_small_cell_comes_out_again(name: str, made_up_data: Path) -> None:
    cell = small_cells.cell(name, made_up_data)
    kept = cells.known([cell], small_cells.STORED / f"{name}.csv")
    assert kept, "not stored with these settings: python -m tests.experiments.small_cells"
    found = [cell.settings | row for row in cell.compute(*cell.arguments)]
    assert_same_rows(found, kept, LOOSER.get(name, ROUNDING))


def test_every_grid_of_the_pages_has_a_small_cell() -> None:
    """By what computes it, whatever its name."""
    small = {compute for compute, _ in small_cells.KINDS.values()}
    grids = sources.whole()
    assert {cell.compute for grid in grids.values() for cell in grid} <= small
