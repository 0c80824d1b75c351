"""What one party does for each algorithm, from its rows to its results."""
