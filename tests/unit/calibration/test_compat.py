"""Scores by the published definitions of KalshiBench, with one test per defect."""

from __future__ import annotations

from typing import Any

import pytest

from bellwether.calibration.compat import BinRow, recompute
from bellwether.errors import ScoringError


def entry(question: str, answer: str | None, p: float | None, truth: str = "no", category: str = "Sports", **more: Any) -> dict[str, Any]:
    return {"question_id": question, "predicted_answer": answer, "p_yes": p, "ground_truth": truth, "category": category, **more}


def test_the_last_entry_of_an_id_decides_for_all_of_them() -> None:
    numbers = recompute([entry("a", "yes", 0.8, "yes", "Sports"), entry("a", "no", 0.4, "no", "Politics")]).flat()
    assert (numbers["tp"], numbers["fp"], numbers["tn"]) == (0, 1, 1)
    assert numbers["category[Politics].count"] == 2
    assert "category[Sports].count" not in numbers


def test_an_entry_without_an_answer_counts_in_the_parse_rate_only() -> None:
    numbers = recompute([entry("a", "no", 0.2), entry("b", None, 0.5, "yes")]).flat()
    assert (numbers["num_samples"], numbers["parse_rate"], numbers["brier_score"]) == (2, 0.5, pytest.approx(0.04))


def test_certainty_is_in_no_bin_and_still_in_the_divisor() -> None:
    published = recompute([entry("a", "yes", 1.0), entry("b", "no", 0.25)])
    assert published.scalars["ece"] == pytest.approx(0.25 / 2)
    assert published.reliability == {"0.2-0.3": BinRow(0.25, 0.0, 1)}


def test_an_undefined_rate_is_zero_and_an_undefined_mean_is_null() -> None:
    scalars = recompute([entry("a", "no", 0.4), entry("b", "no", 0.45)]).scalars
    assert (scalars["precision_yes"], scalars["recall_yes"], scalars["f1_yes"], scalars["brier_skill_score"]) == (0.0, 0.0, 0.0, 0.0)
    assert (scalars["avg_confidence_when_wrong"], scalars["overconfidence_rate_70"]) == (None, None)


def test_thresholds_are_compared_in_floats() -> None:
    """In floats 1 − 0.7 is slightly more than 0.3. So a forecast of 0.3 counts as more than 70 % confident, and 0.7 does not."""
    assert recompute([entry("a", "yes", 0.3)]).scalars["overconfidence_rate_70"] == 1.0
    assert recompute([entry("a", "yes", 0.7)]).scalars["overconfidence_rate_70"] is None


def test_the_stored_order_decides_the_bins_of_ace() -> None:
    rows = [entry(str(index), "no", 0.5, "yes" if index < 10 else "no") for index in range(20)]
    outcomes_apart = [row | {"ace_bin": index // 2} for index, row in enumerate(rows)]
    outcomes_mixed = [row | {"ace_bin": index % 10} for index, row in enumerate(rows)]
    assert recompute(outcomes_apart).scalars["ace"] == pytest.approx(0.5)
    assert recompute(outcomes_mixed).scalars["ace"] == pytest.approx(0.0)


def test_without_a_stored_order_the_last_bin_of_ace_takes_the_rest() -> None:
    rows = [entry(str(index), "no", index / 100, "yes" if index == 18 else "no") for index in range(19)]
    by_hand = (sum(index / 100 for index in range(9)) + abs(sum(index / 100 for index in range(9, 19)) - 1)) / 19
    assert recompute(rows).scalars["ace"] == pytest.approx(by_hand)


def test_totals_are_over_all_entries_and_costs_are_rounded() -> None:
    usage = {"latency_ms": 100.0, "input_tokens": 7, "output_tokens": 3}
    scalars = recompute([entry("a", "no", 0.2, **usage), entry("b", None, None, **usage)], prices=(2.0, 9.0)).scalars
    assert (scalars["avg_latency_ms"], scalars["total_tokens"], scalars["total_cost_usd"]) == (100.0, 20, 0.0001)


def test_the_cost_is_that_of_the_totals() -> None:
    """150 tokens at a dollar per million lie halfway between two multiples of 0.0001. In floats one product rounds down, and the sum of ten
    up.
    """
    usage = {"input_tokens": 15, "output_tokens": 0}
    rows = [entry(str(index), "no", 0.2, **usage) for index in range(10)]
    assert round(sum(15 / 1e6 * 1.0 for _ in rows), 4) == 0.0002
    assert recompute(rows, prices=(1.0, 1.0)).scalars["total_cost_usd"] == round(150 / 1e6 * 1.0, 4) == 0.0001


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"question_id": "a"}], "lack predicted_answer, p_yes"),
        ([entry("a", None, 0.5)], "no prediction has an answer"),
        ([entry("a", "no", None)], "p_yes of 'a' is None"),
        ([entry("a", "no", 0.5, ace_bin=None)], "ace_bin of 'a' is null"),
        ([entry("a", "no", 0.5, latency_ms=0.1), entry("b", "no", 0.5)], "latency_ms of 'b' is null"),
        ([entry("a", "no", 1.5)], "p_yes of 'a' is 1.5"),
        ([entry("a", "no", 0.5, "void")], "ground_truth .* of 'a' is 'void'"),
    ],
)
def test_predictions_that_cannot_be_scored_are_named(rows: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(ScoringError, match=message):
        recompute(rows)
