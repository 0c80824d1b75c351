"""The command line: one module for each command, the list of them in `app`."""
