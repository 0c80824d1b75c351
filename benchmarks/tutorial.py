"""The pictures of docs/tutorial.md: taken out of the page that the tutorial's run writes.

    python -m benchmarks.tutorial north/runs/march/party-0/result.html     after the commands of the tutorial

`tests/docs/test_tutorial.py` runs the tutorial, and compares.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from benchmarks.privacy.page import standalone

DOCS = Path(__file__).parents[1] / "docs"
# What a picture is called on the page -> the file.
TAKEN = {"Size and sign of each feature": "tutorial-loadings.svg", "rows of rows.csv": "tutorial-patients.svg"}


def pictures(page: Path) -> dict[str, str]:
    """Each file, as SVG that stands by itself."""
    found = re.findall(r'<svg [^>]*aria-label="([^"]*)".*?</svg>', text := page.read_text(encoding="utf-8"), re.S)
    every = dict(zip(found, re.findall(r"<svg .*?</svg>", text, re.S), strict=True))
    return {
        file: standalone(svg) + "\n"
        for title, file in TAKEN.items()
        for label, svg in every.items()
        if label.endswith(title)
    }


if __name__ == "__main__":
    for file, svg in pictures(Path(sys.argv[1])).items():
        (DOCS / file).write_text(svg, encoding="utf-8")
