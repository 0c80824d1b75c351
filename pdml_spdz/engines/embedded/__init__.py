"""The engine that ships with the package: rendered .mpc programs on additive shares, no dealer, semi-honest."""
