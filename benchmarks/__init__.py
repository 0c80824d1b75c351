"""Benchmarks: one question for each file, answered as ratios of things measured in the same run."""

import os

# M parties share this machine's cores, as in the local commands (read by NumPy when it is first imported).
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
