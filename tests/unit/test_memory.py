"""Freed memory stays with the process: what is asked for again is not cleared by the operating system first."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

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
