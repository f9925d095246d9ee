"""Comparison of the replay engine's speed with other engines ("peers"): `python -m benchmarks._replay`."""
