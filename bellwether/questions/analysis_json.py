"""JSON form of a dataset analysis, under the names of KalshiBench's result files."""

from __future__ import annotations

from typing import Any

import polars as pl

from bellwether.tables.benchmark import HORIZONS

#: Scopes of the analysis: all questions, and KalshiBench's definitions.
ALL = "all"
PUBLISHED = "published"

#: The final price, known only after the close.
FINAL = "final"

#: KalshiBench analyses descriptions as truncated by its prompt.
PUBLISHED_DESCRIPTION = 2000

#: Horizon of the price for KalshiBench's single market price.
BASELINE_HORIZON = "24h"

#: Counts, which are integers in JSON.
COUNTS = frozenset(
    {"questions", "yes", "no", "series", "events", "clusters", "n", "missing", "categories", "vocabulary", "span_days", "largest"}
    | {"min", "max"}
)
_MOMENTS = ("mean", "median", "std", "min", "max")
#: Metrics by KalshiBench's names.
_MARKET = {"brier_score": "brier", "brier_skill_score": "brier_skill"} | {
    name: name for name in ("ece", "log_loss", "accuracy", "base_rate")
}

Items = dict[str, dict[str, Any]]


def to_document(rows: pl.DataFrame) -> dict[str, Any]:
    """Convert the rows to JSON under KalshiBench's names: statistics by this project's definitions, additional statistics, and under
    `as_published` those by KalshiBench's definitions.
    """
    sections = _sections(rows)
    months, categories = sections.get("month", {}), sections.get("category", {})
    by_size = sorted(categories, key=lambda name: (-categories[name]["questions"], name))
    temporal, truth = _item(sections, "temporal", ALL), _item(sections, "ground_truth", ALL)
    diversity, words = _item(sections, "diversity", ALL), _item(sections, "words", ALL)
    baseline = _market(sections, BASELINE_HORIZON)
    return {
        "total_questions": truth.get("questions", 0),
        "knowledge_cutoff": temporal.get("cutoff"),
        "date_range": {name: temporal.get(name) for name in ("earliest", "latest", "span_days")},
        "temporal_distribution": {month: months[month]["questions"] for month in sorted(months)},
        "time_horizon_stats": _days_ahead(_item(sections, "horizon", "cutoff_to_close")),
        "ground_truth_distribution": {name: truth.get(name) for name in ("yes", "no", "yes_rate")},
        "ground_truth_by_category": {name: _truth(categories[name]) for name in by_size},
        "ground_truth_by_month": {month: _truth(months[month]) for month in sorted(months)},
        "category_distribution": {name: categories[name]["questions"] for name in by_size},
        "category_entropy": diversity.get("entropy"),
        "num_categories": diversity.get("categories", 0),
        "largest_category": diversity.get("largest"),
        "smallest_category": diversity.get("smallest"),
        "question_length_stats": _moments(_item(sections, "length", "question")),
        "description_length_stats": _moments(_item(sections, "length", "description")),
        "total_vocabulary_size": words.get("vocabulary"),
        "avg_words_per_question": words.get("mean"),
        "market_coverage": baseline["coverage"],
        "market_calibration": baseline["calibration"],
        "market_reliability_diagram": baseline["reliability_diagram"],
        "market_uncertainty_distribution": baseline["uncertainty_distribution"],
        "high_confidence_market_accuracy": baseline["high_confidence_accuracy"],
        "uncertain_market_accuracy": baseline["uncertain_accuracy"],
        "market_horizon": BASELINE_HORIZON,
        "market_by_horizon": {name: _market(sections, name) for name in HORIZONS},
        "final_price": {"known_after_the_fact": True, **_market(sections, FINAL)},
        "category_diversity": {name: diversity.get(name) for name in ("max_entropy", "normalized_entropy", "effective_categories")},
        "categories": {name: categories[name] for name in by_size},
        "sources": sections.get("source", {}),
        "open_to_close_days": _item(sections, "horizon", "open_to_close"),
        "close_to_settlement_days": _item(sections, "horizon", "close_to_settlement"),
        "clusters": sections.get("cluster", {}),
        "as_published": _as_published(sections),
    }


def _as_published(sections: dict[str, Items]) -> dict[str, Any]:
    """Return the statistics by KalshiBench's definitions: horizons of at least one day, in whole days, and descriptions truncated as in
    KalshiBench's prompt.
    """
    words = _item(sections, "words", PUBLISHED)
    return {
        "time_horizon_stats": _days_ahead(_item(sections, "horizon", PUBLISHED)),
        "description_length_stats": _moments(_item(sections, "length", f"{PUBLISHED} description")),
        "description_limit": PUBLISHED_DESCRIPTION,
        "total_vocabulary_size": words.get("vocabulary"),
        "avg_words_per_question": words.get("mean"),
    }


def _sections(rows: pl.DataFrame) -> dict[str, Items]:
    sections: dict[str, Items] = {}
    for section, item, name, value, text in rows.select("section", "item", "statistic", "value", "text").iter_rows():
        sections.setdefault(section, {}).setdefault(item, {})[name] = text if text is not None else _number(name, value)
    return sections


def _number(statistic: str, value: float | None) -> float | int | None:
    return int(value) if value is not None and statistic in COUNTS and value.is_integer() else value


def _item(sections: dict[str, Items], section: str, item: str) -> dict[str, Any]:
    return sections.get(section, {}).get(item, {})


def _moments(statistics: dict[str, Any]) -> dict[str, Any]:
    return {name: statistics.get(name) for name in _MOMENTS}


def _days_ahead(statistics: dict[str, Any]) -> dict[str, Any]:
    return {f"{name}_days_ahead": statistics.get(name) for name in _MOMENTS}


def _truth(statistics: dict[str, Any]) -> dict[str, Any]:
    return {"yes": statistics["yes"], "no": statistics["no"], "total": statistics["questions"], "yes_rate": statistics["yes_rate"]}


def _market(sections: dict[str, Items], item: str) -> dict[str, Any]:
    scores = _item(sections, "market", item)
    certainty = {name: _item(sections, "market_certainty", f"{item} {name}") for name in ("high", "medium", "low")}
    metrics = {name: value for name, value in scores.items() if name not in ("known", "n", "missing", "coverage")}
    published = {name: scores.get(ours) for name, ours in _MARKET.items()}
    has_prices = bool(scores.get("n"))
    return {
        "n": scores.get("n", 0),
        "missing": scores.get("missing", 0),
        "coverage": scores.get("coverage"),
        "calibration": published if has_prices else None,
        "metrics": metrics if has_prices else None,
        "reliability_diagram": _bins(sections.get("market_reliability", {}), item),
        "uncertainty_distribution": {f"{name}_confidence": band["n"] for name, band in certainty.items()} if has_prices else None,
        "high_confidence_accuracy": certainty["high"].get("accuracy"),
        "medium_confidence_accuracy": certainty["medium"].get("accuracy"),
        "uncertain_accuracy": certainty["low"].get("accuracy"),
    }


def _bins(items: Items, item: str) -> list[dict[str, Any]]:
    return [
        {"bin": label.removeprefix(f"{item} "), "avg_confidence": row["mean_forecast"], "avg_accuracy": row["yes_rate"], "count": row["n"]}
        for label, row in sorted(items.items())
        if label.startswith(f"{item} ")
    ]
