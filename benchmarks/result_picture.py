"""The picture of the README: what `make svd` finds, the singular vectors of three parties' digits as images.

    make svd && python -m benchmarks.result_picture runs/svd      draws docs/result.svg

A test draws the same from the SVD of all rows in one place.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from benchmarks.privacy.page import standalone
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.results.charts import TOP, svg
from pdml_spdz.results.pictures import colour

PICTURE = Path(__file__).parents[1] / "docs" / "result.svg"
TITLE = "The singular vectors of three parties' handwritten digits, drawn as images"
SIDE, PIXEL, GAP = 8, 11, 12


def drawn(V: Reals) -> str:
    """V : (64, k), a column for each image of 8 x 8; blue is below zero, red above, white is zero"""
    step, body = SIDE * PIXEL + GAP, []
    for i, v in enumerate(V.T):
        left, largest = GAP + i * step, float(np.abs(v).max())
        for j, value in enumerate(v):
            place = f'x="{left + j % SIDE * PIXEL}" y="{TOP + j // SIDE * PIXEL}"'
            fill = colour(float(value) / largest)
            body.append(f'<rect {place} width="{PIXEL}" height="{PIXEL}" fill="{fill}"/>')
        place = f'x="{left + SIDE * PIXEL // 2}" y="{TOP + step + 2}" text-anchor="middle"'
        body.append(f"<text {place}>{i + 1}</text>")
    return standalone(svg(TITLE, GAP + V.shape[1] * step, TOP + step + 10, body))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", type=Path, help="the --out of a run of svd on examples/digits")
    PICTURE.write_text(drawn(np.load(parser.parse_args().run / "V.npy")) + "\n", encoding="utf-8")
