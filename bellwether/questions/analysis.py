"""Statistics of a release's questions, as rows and as JSON under KalshiBench's names.

Statistics that KalshiBench defines differently have one row per definition.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import polars as pl

from bellwether.calibration import evaluate, reliability_bins
from bellwether.questions.analysis_json import ALL, FINAL, PUBLISHED, PUBLISHED_DESCRIPTION, to_document
from bellwether.tables.benchmark import DATASET_ANALYSIS, HORIZONS, QUESTIONS

#: Version of the rules in this module; raise it when statistics change for the same questions.
RULES = "1"

WORD = re.compile(r"\b\w+\b")
_DAY = 86_400_000_000

Statistics = dict[str, float | int | str | None]
Part = tuple[str, str, Statistics]


@dataclass(frozen=True, slots=True)
class Analysis:
    """Statistics of one question set. rows: rows of benchmark/dataset_analysis; empty without questions."""

    rows: pl.DataFrame

    def frame(self) -> pl.DataFrame:
        """Return the rows of benchmark/dataset_analysis."""
        return self.rows

    def to_dict(self) -> dict[str, Any]:
        """Return the statistics as values for JSON under KalshiBench's names. `as_published` contains statistics by KalshiBench's own
        definitions.
        """
        return to_document(self.rows)


def analyse(questions: pl.DataFrame) -> Analysis:
    """Compute the statistics of one release's questions (rows of benchmark/questions).

    Without questions there are no rows. Undefined statistics are null: no price, equal outcomes, clusters of one question.
    Raises `SchemaError` for a frame of another shape, `ScoringError` for a price outside [0, 1].
    """
    QUESTIONS.validate(questions)
    if questions.is_empty():
        return Analysis(DATASET_ANALYSIS.empty())
    stamp = {"release": questions["release"][0], "known_at": questions["known_at"].max(), "rules": RULES}
    rows: list[Mapping[str, Any]] = [
        {**stamp, "section": section, "item": item, "statistic": name, **_cell(value)}
        for section, item, statistics in _parts(questions.sort("id").with_columns(y=pl.col("ground_truth") == "yes"))
        for name, value in statistics.items()
    ]
    return Analysis(DATASET_ANALYSIS.validate(DATASET_ANALYSIS.frame(rows).sort(DATASET_ANALYSIS.order)))


def _cell(value: float | int | str | None) -> dict[str, Any]:
    if isinstance(value, str):
        return {"value": None, "text": value}
    return {"value": None if value is None or np.isnan(value) else float(value), "text": None}


def _parts(questions: pl.DataFrame) -> Iterator[Part]:
    """Yield the statistics as (section, item, statistics by name)."""
    yield from _temporal(questions)
    yield "ground_truth", ALL, _outcomes(questions)
    yield from _groups("month", questions.with_columns(pl.col("close_time").dt.strftime("%Y-%m").alias("month")), "month")
    yield from _groups("category", questions, "category")
    yield from _groups("source", questions, "source")
    yield "diversity", ALL, _diversity(questions["category"])
    yield from _complexity(questions)
    for unit in ("cluster", "series", "event"):
        yield "cluster", unit, _clusters(_units(questions, unit), questions["y"])
    yield from _market(questions)


def _temporal(questions: pl.DataFrame) -> Iterator[Part]:
    """Yield the time range of the questions, and statistics of the durations between cutoff, opening, close and settlement."""
    closes = questions["close_time"]
    first, last = closes.min(), closes.max()
    assert isinstance(first, datetime) and isinstance(last, datetime)
    span: Statistics = {"earliest": first.isoformat(), "latest": last.isoformat(), "span_days": (last.date() - first.date()).days}
    yield "temporal", ALL, {"cutoff": questions["cutoff"][0].isoformat(), **span}
    lengths = {
        "cutoff_to_close": pl.col("close_time") - pl.col("cutoff"),
        "open_to_close": pl.col("close_time") - pl.col("open_time"),
        "close_to_settlement": pl.col("settled_at") - pl.col("close_time"),
    }
    for name, length in lengths.items():
        yield "horizon", name, _moments(questions.select(length.dt.total_microseconds() / _DAY).to_series())
    whole = questions.select((pl.col("close_time").dt.date() - pl.col("cutoff").dt.date()).dt.total_days()).to_series()
    yield "horizon", PUBLISHED, _moments(pl.Series(whole.filter(whole > 0), dtype=pl.Float64))


def _moments(values: pl.Series) -> Statistics:
    """Compute count, mean, median, population standard deviation, minimum and maximum of the non-null values, and the number of nulls
    (`missing`).
    """
    numbers = values.drop_nulls().to_numpy()
    if not len(numbers):
        return {"n": 0, "missing": values.null_count(), **dict.fromkeys(("mean", "median", "std", "min", "max"))}
    return {
        "n": len(numbers),
        "missing": values.null_count(),
        "mean": float(np.mean(numbers)),
        "median": float(np.median(numbers)),
        "std": float(np.std(numbers)),
        "min": float(np.min(numbers)),
        "max": float(np.max(numbers)),
    }


def _outcomes(questions: pl.DataFrame) -> Statistics:
    yes = int(questions["y"].sum())
    return {"questions": questions.height, "yes": yes, "no": questions.height - yes, "yes_rate": yes / questions.height}


def _groups(section: str, questions: pl.DataFrame, by: str) -> Iterator[Part]:
    """Yield outcomes and size of each group of questions. by: column of the groups."""
    for (name,), members in sorted(questions.partition_by(by, as_dict=True).items()):
        share = members.height / questions.height
        spread = {
            name: _units(members, unit).n_unique() for name, unit in (("series", "series"), ("events", "event"), ("clusters", "cluster"))
        }
        yield section, str(name), {**_outcomes(members), "share": share, **spread}


def _units(questions: pl.DataFrame, unit: str) -> pl.Series:
    """Return the label of each question in a unit: cluster, series or event. Names of series and events include the venue."""
    labels = {
        "cluster": pl.col("cluster"),
        "series": pl.concat_str("source", "series_ticker", separator=":"),
        "event": pl.concat_str("source", "event_id", separator=":"),
    }
    return questions.select(labels[unit]).to_series()


def _diversity(categories: pl.Series) -> Statistics:
    """Compute the Shannon entropy of the categories in bits, also divided by its maximum, and the effective number of categories,
    2^entropy.
    """
    counts = categories.value_counts(name="n").sort("n", "category", descending=[True, False])
    shares = counts["n"].to_numpy() / len(categories)
    entropy = abs(float(-np.sum(shares * np.log2(shares))))
    maximum = float(np.log2(counts.height))
    smallest = counts.filter(pl.col("n") == counts["n"].min())["category"].min()
    return {
        "categories": counts.height,
        "entropy": entropy,
        "max_entropy": maximum,
        "normalized_entropy": entropy / maximum if maximum else None,
        "effective_categories": 2**entropy,
        "largest": counts["category"][0],
        "smallest": str(smallest),
    }


def _complexity(questions: pl.DataFrame) -> Iterator[Part]:
    """Yield lengths and vocabulary of questions and descriptions."""
    cut = questions["description"].str.slice(0, PUBLISHED_DESCRIPTION)
    for name, texts in (("question", questions["question"]), ("description", questions["description"]), (f"{PUBLISHED} description", cut)):
        yield "length", name, _moments(texts.str.len_chars().cast(pl.Float64))
    for name, descriptions in ((ALL, questions["description"]), (PUBLISHED, cut)):
        yield "words", name, _count_words(f"{question} {text}" for question, text in zip(questions["question"], descriptions, strict=True))


def _count_words(texts: Iterable[str]) -> Statistics:
    words = [WORD.findall(text.lower()) for text in texts]
    return {"vocabulary": len(set().union(*words)), "mean": float(np.mean([len(own) for own in words]))}


def _clusters(labels: pl.Series, y: pl.Series) -> Statistics:
    """Measure how dependent the outcomes are within clusters (L. Kish, Survey Sampling, 1965, ch. 5 and 8). labels: cluster of each
    question.

    `intraclass` is the intraclass correlation of the outcomes (one-way analysis of variance), `design_effect` = 1 + (m - 1) intraclass
    with m the mean cluster size over questions, `effective_questions` = n / `design_effect`. `least_effective_questions` is the effective
    number if all questions of a cluster were identical.
    """
    frame = pl.DataFrame({"label": labels, "y": y.cast(pl.Float64)})
    groups = frame.group_by("label").agg(n=pl.len(), mean=pl.col("y").mean()).sort("label")
    n, sizes, means = frame.height, groups["n"].to_numpy().astype(float), groups["mean"].to_numpy()
    size = float(np.sum(sizes**2)) / n  # mean over questions, not over clusters
    correlation = _intraclass(sizes, means, float(np.mean(frame["y"].to_numpy())))
    effect = 1.0 if size == 1.0 else None if correlation is None else 1 + (size - 1) * max(correlation, 0.0)
    return {
        "clusters": len(sizes),
        "largest": float(sizes.max()),
        "mean_size": n / len(sizes),
        "intraclass": correlation,
        "design_effect": effect,
        "effective_questions": None if effect is None else n / effect,
        "least_effective_questions": n / size,
    }


def _intraclass(sizes: np.ndarray, means: np.ndarray, mean: float) -> float | None:
    """Return the intraclass correlation of the outcomes; None if undefined. sizes, means: number of questions and share of yes of each
    cluster. mean: share of yes overall.
    """
    n, k = float(sizes.sum()), len(sizes)
    if k < 2 or n <= k:
        return None
    between = float(np.sum(sizes * (means - mean) ** 2)) / (k - 1)
    within = float(np.sum(sizes * means * (1 - means))) / (n - k)  # Outcomes are 0 or 1.
    typical = (n - float(np.sum(sizes**2)) / n) / (k - 1)
    total = between + (typical - 1) * within
    return (between - within) / total if total > 0 else None


def _market(questions: pl.DataFrame) -> Iterator[Part]:
    """Score market prices as if they were forecasts: the price at each horizon, and the final price, which is marked as no forecast."""
    for name in HORIZONS:
        yield from _priced(questions, name, questions[f"price_{name}"].cast(pl.Float64), "before the close")
    yield from _priced(questions, FINAL, questions["market_probability"], "known after the fact: no forecast")


def _priced(questions: pl.DataFrame, item: str, prices: pl.Series, timing: str) -> Iterator[Part]:
    """Yield the scores of one series of prices, their accuracy by certainty, and their reliability bins. item: name of the series. timing:
    when the prices were known.
    """
    has_price = prices.is_not_null()
    p, y = prices.filter(has_price).to_numpy(), questions["y"].filter(has_price).to_numpy()
    coverage: Statistics = {"known": timing, "n": len(p), "missing": prices.null_count(), "coverage": len(p) / questions.height}
    scores = evaluate(p, y, clusters=questions["cluster"].filter(has_price), asked=questions.height, replicates=0)
    metrics: Statistics = {name: scores[name].value for name in scores if name not in ("coverage", "skill_vs_market")}
    yield "market", item, {**coverage, **metrics}
    is_right = (p >= 0.5) == y
    band = np.select([(p < 0.2) | (p > 0.8), (p >= 0.4) & (p <= 0.6)], ["high", "low"], "medium")
    for certainty in ("high", "medium", "low"):
        inside = band == certainty
        n = int(inside.sum())
        share, accuracy = (n / len(p) if len(p) else None), (float(np.mean(is_right[inside])) if n else None)
        yield "market_certainty", f"{item} {certainty}", {"n": n, "share": share, "accuracy": accuracy}
    for row in reliability_bins(p, y).filter(pl.col("n") > 0).iter_rows(named=True):
        label = f"{item} {row['lower_edge']:.1f}-{row['upper_edge']:.1f}"
        yield "market_reliability", label, {name: row[name] for name in ("n", "mean_forecast", "yes_rate", "gap")}
