"""The replay engine against its peers: `python -m benchmarks._replay`."""
