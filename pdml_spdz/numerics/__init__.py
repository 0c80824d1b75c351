"""Numbers: linear algebra, integers modulo powers of two, fixed point."""
