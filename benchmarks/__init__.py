"""Benchmarks of speed and memory. Each result is a ratio, compared with a target: usually of two numbers measured in the same run."""
