"""What a run leaves in memory; freed memory stays with the process: what is asked for again is not cleared first."""

from __future__ import annotations

import gc
import platform
import subprocess
import sys
from contextlib import nullcontext

import numpy as np
import pytest

import pdml_spdz
from pdml_spdz.engines.embedded.runner import Session
from pdml_spdz.errors import RangeExceeded
from pdml_spdz.offline.on_demand import OnDemand

FAULTS = """
import resource, sys
import numpy as np
from pdml_spdz.system import process
if sys.argv[1] == "keep":
    assert process.keep_freed()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def use():
    for _ in range(20):
        a = np.ones(1 << 20); b = a + 1.0
        del a, b
use()
before = faults()
use()
print(faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is told to keep freed memory")
def test_memory_that_is_used_again_is_not_asked_for_again() -> None:
    keep, usual = (
        int(subprocess.run([sys.executable, "-c", FAULTS, how], capture_output=True, check=True).stdout)
        for how in ("keep", "usual")
    )
    # 40 arrays of 8 MB: some faults for each that was given back to the system and asked for again.
    assert keep < 40 < usual


@pytest.mark.parametrize(
    "settings",
    [{}, {"solver": "power", "normalise": "per-column"}, {"bound": 1e250}],
    ids=["one program", "a program for each call", "refused"],
)
def test_nothing_secret_of_a_run_in_threads_stays_in_memory(settings: dict[str, object]) -> None:
    """What a program waits with when its thread ends is never freed: shares, and keys of masks and of transfers."""
    before = kept()  # other tests' parties in threads may have stayed
    X = [np.random.default_rng(m).normal(size=(9, 4)) for m in range(2)]
    with pytest.raises(RangeExceeded) if "bound" in settings else nullcontext():
        pdml_spdz.svd(X, rank=1, iterations=3, transport="threads", **settings)
    assert not [o for o in kept() if not any(o is old for old in before)]


def kept() -> list[object]:
    gc.collect()
    return [o for o in gc.get_objects() if isinstance(o, Session | OnDemand)]
