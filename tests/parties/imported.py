"""What parties import when they run: the server that they are forked from (`helpers`) has done so, once for all."""

from __future__ import annotations

import contextlib
import importlib

from pdml_spdz.local.supervisor import IMPORTS
from pdml_spdz.study.algorithm import ALGORITHMS
from pdml_spdz.study.engines import ENGINES
from pdml_spdz.study.levels import OPENINGS
from pdml_spdz.study.solvers import SOLVERS

PAGES = ("pdml_spdz.cli.show", "pdml_spdz.fits.announced", "pdml_spdz.results.result_page:load", "rich._emoji_codes")
OTHERS = ("pdml_spdz.run.output:versions", "scipy.sparse.linalg")


def load(name: str) -> None:
    """A module, or a function of it that is called, as a server of the package's own does it."""
    module, _, function = name.partition(":")
    with contextlib.suppress(ImportError):  # of an extra that is not there
        found = importlib.import_module(module)
        if function:
            getattr(found, function)()


for registry in (ALGORITHMS, OPENINGS, SOLVERS):
    for name in registry.lines:
        load(registry.module(name))
for name in (*IMPORTS, *PAGES, *OTHERS, *(name for engine in ENGINES.lines for name in ENGINES[engine].imports)):
    load(name)
