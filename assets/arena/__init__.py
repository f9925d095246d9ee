"""The arena in Dagster: weeks, marks and results, and the commands that run them."""
