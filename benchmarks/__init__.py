"""Benchmarks of speed and memory. Each result is a ratio of two numbers measured in the same run."""
