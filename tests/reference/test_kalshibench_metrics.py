"""Scores by the published definitions of KalshiBench, with one test per defect."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import polars as pl
import pytest

from bellwether.kalshibench.ace import compute_ace, compute_ace_range
from bellwether.kalshibench.metrics import Number, recompute


def entry(question: str, answer: str | None, p: float | None, truth: str = "no", category: str = "Sports", **more: Any) -> dict[str, Any]:
    return {"question_id": question, "predicted_answer": answer, "p_yes": p, "ground_truth": truth, "category": category, **more}


def numbers(rows: list[dict[str, Any]], **options: Any) -> dict[str, Number]:
    return recompute(pl.DataFrame(rows, infer_schema_length=None), **options)


def test_the_last_entry_of_an_id_decides_for_all_of_them() -> None:
    found = numbers([entry("a", "yes", 0.8, "yes", "Sports"), entry("a", "no", 0.4, "no", "Politics")])
    assert (found["tp"], found["fp"], found["tn"]) == (0, 1, 1)
    assert found["category[Politics].count"] == 2
    assert "category[Sports].count" not in found


def test_an_entry_without_an_answer_counts_in_the_parse_rate_only() -> None:
    found = numbers([entry("a", "no", 0.2), entry("b", None, 0.5, "yes")])
    assert (found["num_samples"], found["parse_rate"], found["brier_score"]) == (2, 0.5, pytest.approx(0.04))


def test_certainty_is_in_no_bin_and_still_in_the_divisor() -> None:
    found = numbers([entry("a", "yes", 1.0), entry("b", "no", 0.25)])
    assert found["ece"] == pytest.approx(0.25 / 2)
    bins = {name: value for name, value in found.items() if name.startswith("reliability[")}
    assert bins == {
        f"reliability[0.2-0.3].{field}": value for field, value in (("avg_confidence", 0.25), ("avg_accuracy", 0.0), ("count", 1))
    }


def test_an_undefined_rate_is_zero_and_an_undefined_mean_is_null() -> None:
    found = numbers([entry("a", "no", 0.4), entry("b", "no", 0.45)])
    assert (found["precision_yes"], found["recall_yes"], found["f1_yes"], found["brier_skill_score"]) == (0.0, 0.0, 0.0, 0.0)
    assert (found["avg_confidence_when_wrong"], found["overconfidence_rate_70"]) == (None, None)


def test_thresholds_are_compared_in_floats() -> None:
    """In floats 1 − 0.7 is slightly more than 0.3. So a forecast of 0.3 counts as more than 70 % confident, and 0.7 does not."""
    assert numbers([entry("a", "yes", 0.3)])["overconfidence_rate_70"] == 1.0
    assert numbers([entry("a", "yes", 0.7)])["overconfidence_rate_70"] is None


def test_the_stored_order_decides_the_bins_of_ace() -> None:
    rows = [entry(str(index), "no", 0.5, "yes" if index < 10 else "no") for index in range(20)]
    outcomes_apart = [row | {"ace_bin": index // 2} for index, row in enumerate(rows)]
    outcomes_mixed = [row | {"ace_bin": index % 10} for index, row in enumerate(rows)]
    assert numbers(outcomes_apart)["ace"] == pytest.approx(0.5)
    assert numbers(outcomes_mixed)["ace"] == pytest.approx(0.0)


def test_without_a_stored_order_the_last_bin_of_ace_takes_the_rest() -> None:
    rows = [entry(str(index), "no", index / 100, "yes" if index == 18 else "no") for index in range(19)]
    by_hand = (sum(index / 100 for index in range(9)) + abs(sum(index / 100 for index in range(9, 19)) - 1)) / 19
    assert numbers(rows)["ace"] == pytest.approx(by_hand)


def test_totals_are_over_all_entries_and_costs_are_rounded() -> None:
    usage = {"latency_ms": 100.0, "input_tokens": 7, "output_tokens": 3}
    found = numbers([entry("a", "no", 0.2, **usage), entry("b", None, None, **usage)], prices=(2.0, 9.0))
    assert (found["avg_latency_ms"], found["total_tokens"], found["total_cost_usd"]) == (100.0, 20, 0.0001)


def test_the_cost_is_that_of_the_totals() -> None:
    """150 tokens at a dollar per million lie halfway between two multiples of 0.0001. In floats one product rounds down, and the sum of ten
    up.
    """
    usage = {"input_tokens": 15, "output_tokens": 0}
    rows = [entry(str(index), "no", 0.2, **usage) for index in range(10)]
    assert round(sum(15 / 1e6 * 1.0 for _ in rows), 4) == 0.0002
    assert numbers(rows, prices=(1.0, 1.0))["total_cost_usd"] == round(150 / 1e6 * 1.0, 4) == 0.0001


@pytest.mark.parametrize(
    ("column", "absent"), [("ground_truth", "brier_score"), ("category", "category[Sports].count"), ("input_tokens", "total_tokens")]
)
def test_a_null_leaves_out_the_numbers_that_need_the_column(column: str, absent: str) -> None:
    usage = {"input_tokens": 7, "output_tokens": 3}
    rows = [entry("a", "no", 0.2, **usage), entry("b", "no", 0.2, **usage)]
    assert absent in numbers(rows)
    without = numbers([rows[0], rows[1] | {column: None}])
    assert absent not in without
    assert without["reliability[0.2-0.3].count"] == 2


def test_without_an_answer_only_counts_are_defined() -> None:
    assert numbers([entry("a", None, None)]) == {"num_samples": 1, "parse_rate": 0.0}


def test_the_mean_of_a_bin_of_ace_is_summed_in_sorted_order() -> None:
    """The order of summation decides the last bit of the published values."""
    rng = np.random.default_rng(4)
    differ = 0
    for _ in range(50):
        p = np.round(rng.random(120), 2)
        y = (rng.random(120) < p).astype(float)
        order = np.lexsort((rng.random(120), p))
        bins = np.empty(120, dtype=np.int64)
        bins[order] = np.minimum(np.arange(120) // 12, 9)
        slices = [order[12 * index : 12 * (index + 1)] for index in range(10)]
        published = sum(12 * abs(np.mean(p[one]) - np.mean(y[one])) for one in slices) / 120
        as_asked = sum(12 * abs(np.mean(p[np.sort(one)]) - np.mean(y[np.sort(one)])) for one in slices) / 120
        assert compute_ace(p, y, bins) == published
        differ += published != as_asked
    assert differ


@pytest.mark.parametrize("seed", range(4))
def test_the_range_of_ace_is_that_of_all_orders(seed: int) -> None:
    """Five tied forecasts of few values among untied ones, so that some bins begin or end within a tie."""
    rng = np.random.default_rng(seed)
    tied = rng.choice([0.4, 0.5], size=5)
    p = np.concatenate([tied, np.linspace(0.01, 0.3, int(rng.integers(7, 11))), np.linspace(0.7, 0.99, 7)])
    y = (rng.random(len(p)) < 0.5).astype(float)
    values = set()
    alone = sorted(range(5, len(p)), key=lambda index: p[index])
    for order in permutations(range(5)):
        whole = sorted([*order, *alone], key=lambda index: p[index])  # stable: ties keep the order of this permutation
        each = len(p) // 10
        ends = [*range(each, 10 * each, each), len(p)]
        starts = [0, *ends[:-1]]
        chosen = [whole[start:end] for start, end in zip(starts, ends, strict=True)]
        values.add(sum(len(one) * abs(np.mean(p[one]) - np.mean(y[one])) for one in chosen) / len(p))
    found = compute_ace_range(p, y)
    assert found.minimum == pytest.approx(min(values), abs=1e-12)
    assert found.maximum == pytest.approx(max(values), abs=1e-12)
    assert found.varies or max(values) - min(values) < 1e-12
    assert all(found.explains(value) for value in values) or not found.varies
