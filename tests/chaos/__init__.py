"""Runs under attack: `make chaos` (docs/testing.md). Not part of `make test`."""
