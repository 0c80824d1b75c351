"""RRI-NMF as compiled loops (Numba), for grids of the paper's size; the package's own NumPy code is the reference."""
