"""M parties on this machine, as processes or as threads."""
