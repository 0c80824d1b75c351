"""MP-SPDZ as an external engine."""
