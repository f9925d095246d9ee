"""The arena in Dagster: weekly decisions, marks (prices of positions) and results, and the functions by which commands launch them."""
