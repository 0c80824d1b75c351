"""Memory that is freed stays with the process."""

from __future__ import annotations

import ctypes
from contextlib import suppress

# mallopt's parameters, from malloc.h.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3


def keep_freed(megabytes: int = 512) -> bool:
    """Tell the C library to keep up to so much freed memory. Whether it did (glibc does).

    Vectors of a megabyte come and go in every line of numpy. By default they go back to the operating system, which
    hands them out again page by page, cleared: that costs more than the arithmetic on them.
    """
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        # 32 MB is the most that glibc takes for blocks of the common heap.
        return bool(mallopt(M_TRIM_THRESHOLD, megabytes << 20) and mallopt(M_MMAP_THRESHOLD, 32 << 20))
    return False
