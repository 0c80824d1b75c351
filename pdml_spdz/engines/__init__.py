"""What computes sums and their directions: one module or package for each engine."""
