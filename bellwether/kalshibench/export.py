"""Export of an examination as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import polars as pl

from bellwether.kalshibench.examination import Examination, ModelExamination
from bellwether.kalshibench.notes import build_notes
from bellwether.kalshibench.scoring import to_metric_values


def to_document(examination: Examination) -> dict[str, Any]:
    """Convert an examination to values for JSON: numbers and counts of defects by model, comparisons, and notes."""
    plan, files = examination.plan, [model.result.source for model in examination.models]
    return {
        "folder": str(examination.results.folder),
        "labels": examination.labels,
        "clusters": plan.clusters.value,
        "replicates": plan.replicates,
        "seed": plan.seed,
        "published_numbers": {
            "overall": examination.counts_with_needs()[0],
            "by_model": examination.counts_with_needs("model"),
            "by_file": examination.counts_with_needs("source"),
        },
        "models": {model.name: _model(model) for model in examination.models},
        "summaries": examination.numbers().filter(~pl.col("source").is_in(files)).to_dicts(),
        "comparisons": {
            name: {"pairs": comparison.pairs.to_dicts(), "ranking": comparison.ranking.to_dicts()}
            for name, comparison in examination.comparisons().items()
        },
        "notes": list(build_notes(examination)),
        "damaged": list(examination.results.damaged),
    }


def _model(model: ModelExamination) -> dict[str, Any]:
    return {
        "source": model.result.source,
        "question_set": model.question_set,
        "entries": model.entries.height,
        "labelled": model.labelled,
        "partial": model.borrowed,
        "unlabelled": model.unlabelled,
        "numbers": model.numbers().drop("model", "source").to_dicts(),
        "findings": asdict(model.findings),
        "consistent": to_metric_values(model.consistent),
        "corrected": to_metric_values(model.corrected),
    }
