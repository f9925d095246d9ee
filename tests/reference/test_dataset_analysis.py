"""The dataset analysis: every number, compared with a plain formula in both readings, and null for undefined values."""

from __future__ import annotations

import json
import math
from collections import Counter
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from bellwether.questions.analysis import Analysis, analyse
from bellwether.tables.benchmark import DATASET_ANALYSIS, HORIZONS, QUESTIONS
from tests.unit.report.frames import CUTOFF, question, questions, release


def value(analysis: Analysis, section: str, item: str, statistic: str) -> Any:
    found = analysis.frame().filter((pl.col("section") == section) & (pl.col("item") == item) & (pl.col("statistic") == statistic))
    assert found.height == 1, (section, item, statistic)
    row = found.row(0, named=True)
    return row["text"] if row["text"] is not None else row["value"]


def test_the_span_is_counted_in_days_between_dates_and_horizons_in_exact_days() -> None:
    closes = [CUTOFF + timedelta(hours=4), CUTOFF + timedelta(days=2, hours=12), CUTOFF + timedelta(days=45, hours=1)]
    analysis = analyse(questions([question(number, close_time=close) for number, close in enumerate(closes)]))
    assert value(analysis, "temporal", "all", "span_days") == 45
    days = [4 / 24, 2.5, 45 + 1 / 24]
    for name, expected in (("mean", np.mean(days)), ("median", 2.5), ("std", np.std(days)), ("min", 4 / 24), ("max", 45 + 1 / 24)):
        assert value(analysis, "horizon", "cutoff_to_close", name) == pytest.approx(expected)
    assert analysis.to_dict()["temporal_distribution"] == {"2025-10": 2, "2025-11": 1}


def test_the_published_reading_counts_whole_days_and_leaves_out_the_day_of_the_cutoff() -> None:
    closes = [CUTOFF + timedelta(hours=4), CUTOFF + timedelta(days=2, hours=12), CUTOFF + timedelta(days=45, hours=1)]
    published = analyse(questions([question(number, close_time=close) for number, close in enumerate(closes)])).to_dict()["as_published"]
    assert published["time_horizon_stats"] == {
        "mean_days_ahead": 23.5,
        "median_days_ahead": 23.5,
        "std_days_ahead": 21.5,
        "min_days_ahead": 2,
        "max_days_ahead": 45,
    }


def test_outcomes_are_counted_overall_by_category_and_by_month() -> None:
    rows = [question(0, "yes", category="A"), question(1, "no", category="A"), question(2, "no", category="B")]
    found = analyse(questions(rows)).to_dict()
    assert found["ground_truth_distribution"] == {"yes": 1, "no": 2, "yes_rate": pytest.approx(1 / 3)}
    assert found["ground_truth_by_category"]["A"] == {"yes": 1, "no": 1, "total": 2, "yes_rate": 0.5}
    assert found["ground_truth_by_month"] == {"2025-10": {"yes": 1, "no": 2, "total": 3, "yes_rate": pytest.approx(1 / 3)}}
    assert list(found["category_distribution"].items()) == [("A", 2), ("B", 1)]


@pytest.mark.parametrize("categories", ["a", "aaaa", "ab", "aabbbc", "abcdef", "abacabadabacabae"])
def test_entropy_is_shannons_in_bits(categories: str) -> None:
    analysis = analyse(questions([question(number, category=name) for number, name in enumerate(categories)]))
    counts = Counter(categories)
    entropy = -sum(n / len(categories) * math.log2(n / len(categories)) for n in counts.values())
    assert value(analysis, "diversity", "all", "entropy") == pytest.approx(entropy, abs=1e-12)
    assert value(analysis, "diversity", "all", "effective_categories") == pytest.approx(2**entropy)
    normalized = value(analysis, "diversity", "all", "normalized_entropy")
    assert normalized is None if len(counts) == 1 else normalized == pytest.approx(entropy / math.log2(len(counts)))


def test_lengths_and_words_are_those_of_the_whole_description_and_as_published_of_its_first_2000_characters() -> None:
    long = "alpha " * 400 + "omega"
    found = analyse(questions([question(0, question="Is it?", description=long), question(1, question="Är det so?", description="Alpha!")]))
    assert value(found, "length", "question", "mean") == 8
    assert value(found, "length", "description", "max") == len(long)
    assert value(found, "words", "all", "vocabulary") == len({"is", "it", "alpha", "omega", "är", "det", "so"})
    assert value(found, "words", "all", "mean") == ((2 + 401) + (3 + 1)) / 2
    published = found.to_dict()["as_published"]
    assert published["description_length_stats"]["max"] == 2000
    assert published["total_vocabulary_size"] == len({"is", "it", "alpha", "al", "är", "det", "so"})


def test_the_market_is_scored_at_every_horizon_and_never_by_its_final_price() -> None:
    from sklearn.metrics import brier_score_loss

    frame = release()
    found = analyse(frame).to_dict()
    y, p = (frame["ground_truth"] == "yes").to_numpy(), frame["price_24h"].cast(pl.Float64).to_numpy()
    assert found["market_calibration"]["brier_score"] == pytest.approx(brier_score_loss(y, p))
    assert set(found["market_by_horizon"]) == set(HORIZONS)
    assert found["final_price"]["known_after_the_fact"] is True
    assert found["final_price"]["calibration"]["brier_score"] == pytest.approx(0.0001)
    bins = found["market_reliability_diagram"]
    assert sum(one["count"] for one in bins) == frame.height
    gaps = sum(one["count"] * abs(one["avg_confidence"] - one["avg_accuracy"]) for one in bins) / frame.height
    assert found["market_calibration"]["ece"] == pytest.approx(gaps)


def test_the_debiased_reliability_of_the_market_is_over_pairs_of_different_clusters() -> None:
    frame = release().with_columns(cluster=pl.format("{}", pl.int_range(pl.len()) % 3))
    p, y = frame["price_24h"].cast(pl.Float64).to_list(), (frame["ground_truth"] == "yes").to_list()
    bins: dict[int, list[tuple[str, float]]] = {}
    for cluster, forecast, outcome in zip(frame["cluster"], p, y, strict=True):
        bins.setdefault(min(int(forecast * 10), 9), []).append((cluster, forecast - outcome))
    total = 0.0
    for members in bins.values():
        products = [a * b for one, a in members for other, b in members if one != other]
        total += len(members) * sum(products) / max(len(products), 1)
    assert value(analyse(frame), "market", "24h", "murphy_reliability_debiased") == pytest.approx(total / len(p))


@pytest.mark.parametrize(
    ("price", "certainty"),
    [("0.19", "high"), ("0.2", "medium"), ("0.4", "low"), ("0.5", "low"), ("0.6", "low"), ("0.8", "medium"), ("0.81", "high")],
)
def test_bands_of_certainty_have_the_published_edges(price: str, certainty: str) -> None:
    analysis = analyse(questions([question(0, "yes", price_24h=Decimal(price))]))
    counts = {name: value(analysis, "market_certainty", f"24h {name}", "n") for name in ("high", "medium", "low")}
    assert counts == {name: float(name == certainty) for name in counts}
    assert value(analysis, "market_certainty", f"24h {certainty}", "accuracy") == float(Decimal(price) >= Decimal("0.5"))


def test_without_any_price_the_market_is_null() -> None:
    none = {f"price_{name}": None for name in HORIZONS}
    found = analyse(questions([question(0, **none, market_probability=None), question(1, **none, market_probability=None)])).to_dict()
    assert found["market_coverage"] == 0
    assert found["market_calibration"] is found["market_uncertainty_distribution"] is found["uncertain_market_accuracy"] is None
    assert found["market_reliability_diagram"] == []


def test_outcomes_of_one_kind_leave_skill_and_correlation_undefined() -> None:
    analysis = analyse(questions([question(number, "yes") for number in range(4)]))
    assert value(analysis, "market", "24h", "brier_skill") is None
    assert value(analysis, "cluster", "cluster", "intraclass") is None
    assert value(analysis, "cluster", "cluster", "effective_questions") is None
    assert value(analysis, "ground_truth", "all", "yes_rate") == 1


def test_copies_in_clusters_count_once_and_questions_alone_count_each() -> None:
    copies = [question(number, "yes" if number < 4 else "no", cluster=f"kalshi:{number // 2}") for number in range(8)]
    analysis = analyse(questions(copies))
    assert value(analysis, "cluster", "cluster", "intraclass") == pytest.approx(1)
    assert value(analysis, "cluster", "cluster", "effective_questions") == pytest.approx(4)
    assert value(analysis, "cluster", "cluster", "least_effective_questions") == pytest.approx(4)
    assert value(analysis, "cluster", "event", "effective_questions") == 8


def test_the_intraclass_correlation_is_that_of_the_analysis_of_variance() -> None:
    sizes, hits = [1, 3, 4, 2, 6], [1, 1, 4, 0, 3]
    rows, labels, y = [], [], []
    for cluster, (size, yes) in enumerate(zip(sizes, hits, strict=True)):
        for member in range(size):
            rows.append(question(len(rows), "yes" if member < yes else "no", cluster=f"kalshi:{cluster}"))
            labels.append(cluster)
            y.append(float(member < yes))
    outcome, label = np.array(y), np.array(labels)
    groups = [outcome[label == cluster] for cluster in range(5)]
    n, k = len(outcome), len(groups)
    between = sum(len(one) * (one.mean() - outcome.mean()) ** 2 for one in groups) / (k - 1)
    within = sum(((one - one.mean()) ** 2).sum() for one in groups) / (n - k)
    typical = (n - sum(size**2 for size in sizes) / n) / (k - 1)
    expected = (between - within) / (between + (typical - 1) * within)
    analysis = analyse(questions(rows))
    assert value(analysis, "cluster", "cluster", "intraclass") == pytest.approx(expected)
    seen = sum(size**2 for size in sizes) / n
    assert value(analysis, "cluster", "cluster", "effective_questions") == pytest.approx(n / (1 + (seen - 1) * max(expected, 0)))


def test_no_question_is_no_row_and_a_dictionary_of_nothing() -> None:
    analysis = analyse(QUESTIONS.empty())
    assert analysis.frame().is_empty()
    found = analysis.to_dict()
    assert found["total_questions"] == 0
    assert found["date_range"] == {"earliest": None, "latest": None, "span_days": None}
    assert set(found) == set(analyse(release()).to_dict())


def test_every_number_of_the_json_is_one_of_the_table() -> None:
    analysis = analyse(release())
    known = {row["value"] for row in analysis.frame().iter_rows(named=True)} | {2000.0}

    def numbers(node: Any) -> list[float]:
        if isinstance(node, dict):
            return [one for child in node.values() for one in numbers(child)]
        if isinstance(node, list):
            return [one for child in node for one in numbers(child)]
        return [float(node)] if isinstance(node, int | float) and not isinstance(node, bool) else []

    found = numbers(json.loads(json.dumps(analysis.to_dict(), allow_nan=False)))
    assert len(found) > 200
    assert set(found) <= known


def test_the_table_is_as_declared_and_hostile_names_are_kept_as_data() -> None:
    names = ["all", "| a | b |", "<script>", "two\nlines", ""]
    analysis = analyse(questions([question(number, category=name) for number, name in enumerate(names)]))
    DATASET_ANALYSIS.validate(analysis.frame())
    assert set(analysis.to_dict()["category_distribution"]) == set(names)


@pytest.mark.real
def test_the_published_question_set_has_the_published_entropy_and_extremes(recordings: Path) -> None:
    published = pl.read_parquet(recordings / "kalshibench" / "questions.parquet")
    rows = [question(number, category=name) for number, name in enumerate(published["category"])]
    found = analyse(questions(rows)).to_dict()
    assert found["category_entropy"] == pytest.approx(3.0122423270293046, abs=1e-14)
    assert (found["num_categories"], found["largest_category"], found["smallest_category"]) == (13, "Sports", "Science and Technology")
    assert found["category_distribution"]["Politics"] == 55
