"""Examination of published KalshiBench results: exact recomputation of the numbers, and scores corrected for the defects.

    from bellwether.kalshibench import examine, read_labels, read_results

    examination = examine(read_results("results/"), read_labels("labels.parquet"))
    examination.summary()       # one row per model: published and corrected scores
    examination.numbers()       # every published number, and the recomputed one

docs/kalshibench.md lists the defects. The definitions that reproduce the published numbers are in `bellwether.calibration.compat`.
"""

from __future__ import annotations

from bellwether.kalshibench.examination import Examination, ModelExamination, examine
from bellwether.kalshibench.labels import Labels, read_labels
from bellwether.kalshibench.results import ModelResult, Results, read_results

__all__ = ["Examination", "Labels", "ModelExamination", "ModelResult", "Results", "examine", "read_labels", "read_results"]
