"""What everything costs, beside other frameworks and over slow networks: `make bench` and docs/performance.md."""
