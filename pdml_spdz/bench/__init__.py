"""Benchmarks: what a NormedSecSum, a fit and their parts cost, with where every number comes from.

Nothing here prints; the commands (`pdml-spdz bench`) do. Results are `results.Result`s: cells, and checks against what
was promised.
"""
