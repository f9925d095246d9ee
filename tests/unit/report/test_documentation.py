"""docs/scoring.md names every field of every file."""

from __future__ import annotations

import json
import re
from pathlib import Path

from bellwether.report.results import NAMES

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "scoring.md").read_text(encoding="utf-8")


def test_every_field_is_described(folder: Path) -> None:
    named = set(re.findall(r"`([\w*]+)`", PAGE))
    analysis = json.loads(next(folder.glob("dataset_analysis_*")).read_text())
    published_analysis = {
        name for name in analysis if name.startswith(("market_", "high_confidence", "uncertain", "ground_truth", "category_"))
    }
    published_analysis |= {"total_questions", "knowledge_cutoff", "date_range", "temporal_distribution", "num_categories"}
    published_analysis |= {"largest_category", "smallest_category", "question_length_stats"}
    assert set(analysis) - published_analysis - named == set()
    for file in ("summary", "metadata"):
        assert set(json.loads(next(folder.glob(f"{file}_*")).read_text())) - named == set(), file
    model = json.loads(next(folder.glob("wild_*.json")).read_text())
    assert set(model) - named - set(NAMES) == set()
    assert set(model["predictions"][0]) - named == set()
    assert set(model["usage"]) <= {
        "input_tokens",
        "output_tokens",
        "reasoning_tokens",
        "attempts",
        "cost_microdollars",
        "without_cost",
        "avg_latency_ms",
    }
