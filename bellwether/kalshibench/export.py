"""Export of an examination as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import polars as pl

from bellwether.kalshibench.examination import Examination, ModelExamination
from bellwether.kalshibench.notes import build_notes
from bellwether.kalshibench.recomputation import RecomputationStatus
from bellwether.kalshibench.scoring import to_metric_values


def to_document(examination: Examination) -> dict[str, Any]:
    """Convert an examination to JSON values: numbers and findings by model, comparisons, and notes."""
    plan = examination.plan
    return {
        "folder": str(examination.results.folder),
        "labels": examination.labels,
        "clusters": plan.clusters.value,
        "replicates": plan.replicates,
        "seed": plan.seed,
        "published_numbers": {
            "overall": _counts(examination)[0],
            "by_model": _counts(examination, "model"),
            "by_file": _counts(examination, "source"),
        },
        "models": {model.name: _model(model) for model in examination.models},
        "summaries": _summaries(examination).to_dicts(),
        "comparisons": {
            name: {"pairs": comparison.pairs.to_dicts(), "ranking": comparison.ranking.to_dicts()}
            for name, comparison in examination.comparisons().items()
        },
        "notes": list(build_notes(examination)),
        "damaged": list(examination.results.damaged),
    }


def _counts(examination: Examination, *by: str) -> list[dict[str, Any]]:
    """Count published numbers by status. `needs`: number of those not recomputed, by the input that they lack."""
    rows = examination.counts(*by).to_dicts()
    without = examination.numbers().filter(pl.col("status") == RecomputationStatus.NOT_RECOMPUTED)
    for row in rows:
        of_row = without.filter(*(pl.col(name) == row[name] for name in by))
        row["needs"] = dict(of_row.group_by("needs", maintain_order=True).len().iter_rows())
    return rows


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


def _summaries(examination: Examination) -> pl.DataFrame:
    files = [model.result.source for model in examination.models]
    return examination.numbers().filter(~pl.col("source").is_in(files))
