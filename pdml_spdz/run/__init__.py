"""One party's run: meeting, checkpoints, report, results."""
