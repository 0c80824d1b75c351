"""Benchmarks: one question for each file, answered as ratios of things measured in the same run."""
