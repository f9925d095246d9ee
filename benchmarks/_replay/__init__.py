"""Comparison of the replay engine with its peers: `python -m benchmarks._replay`."""
