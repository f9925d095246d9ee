"""Recomputation of the numbers that KalshiBench (arXiv 2512.16030) published, from the predictions in its result files.

    from bellwether.kalshibench import compare_numbers, read_labels, read_results

    compare_numbers(read_results("results/"), read_labels("labels.parquet"))  # a row per published number

`python -m bellwether.kalshibench` prints the comparison. docs/benchmark.md describes files, labels and definitions.
"""

from __future__ import annotations

from bellwether.kalshibench.comparison import compare_numbers
from bellwether.kalshibench.labels import read_labels
from bellwether.kalshibench.results import read_results

__all__ = ["compare_numbers", "read_labels", "read_results"]
