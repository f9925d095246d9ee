"""Scores by the published definitions of KalshiBench, with one test per defect, from whole and partial labels."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

import numpy as np
import pytest

from bellwether.calibration.compat import BinRow, Lacking, recompute
from bellwether.calibration.compat_ace import ace, ace_range
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


def test_predictions_that_cannot_be_scored_are_refused() -> None:
    for rows in (
        [{"question_id": "a"}],
        [entry("a", None, 0.5)],
        [entry("a", "no", None)],
        [entry("a", "no", 0.5, ace_bin=None)],
        [entry("a", "no", 0.5, latency_ms=0.1), entry("b", "no", 0.5)],
        [entry("a", "no", 1.5)],
        [entry("a", "no", 0.5, "void")],
    ):
        with pytest.raises(ScoringError):
            recompute(rows)


def entries(seed: int) -> list[dict[str, Any]]:
    """Draw ten entries in three categories with few distinct forecasts, some certain, one without an answer."""
    rng = np.random.default_rng(seed)
    rows = []
    for index in range(10):
        answer = None if index == 9 else str(rng.choice(["yes", "no"]))
        p = float(rng.choice([0.05, 0.3, 0.7, 0.75, 0.95, 1.0]))
        category = str(rng.choice(["Sports", "World", "Politics"]))
        rows.append(
            {"question_id": f"q{min(index, 8)}", "predicted_answer": answer, "p_yes": p, "ground_truth": None, "category": category}
        )
    return rows


def numbers(rows: list[dict[str, Any]], truths: dict[int, str | None]) -> dict[str, Any]:
    labelled = [row | {"ground_truth": truths.get(index, row["ground_truth"])} for index, row in enumerate(rows)]
    return recompute(labelled).flat()


@pytest.mark.parametrize("seed", range(2))
def test_a_number_is_given_where_every_completion_of_the_labels_gives_it(seed: int) -> None:
    """All other numbers are missing, except some that happen to be equal in all completions."""
    rows = entries(seed)
    rng = np.random.default_rng(seed)
    unknown = sorted(rng.choice(9, size=3, replace=False).tolist())
    known: dict[int, str | None] = {index: str(rng.choice(["yes", "no"])) for index in range(10) if index not in unknown}
    partial = numbers(rows, known)
    completions = [numbers(rows, known | dict(zip(unknown, labels, strict=True))) for labels in product(["yes", "no"], repeat=3)]
    for name, value in partial.items():
        assert all(one[name] == value for one in completions), name
    assert set(partial) <= set(completions[0])
    left_out = set(completions[0]) - set(partial)
    changed = {name for name in left_out if len({one[name] for one in completions}) > 1}
    assert {"brier_score", "tp", "fn"} & changed
    assert not {name for name in left_out if name.endswith((".count", ".avg_confidence"))}


def test_what_a_number_lacks_is_counted_and_named() -> None:
    rows = [
        {"question_id": "a", "predicted_answer": "yes", "p_yes": 0.9, "ground_truth": None, "category": "World"},
        {"question_id": "b", "predicted_answer": "no", "p_yes": 0.1, "ground_truth": "no", "category": "Sports"},
        {"question_id": "c", "predicted_answer": "yes", "p_yes": 0.8, "ground_truth": None, "category": "World"},
    ]
    published = recompute(rows)
    assert published.lacking["tp"] == Lacking("ground_truth", 2, "a")
    assert published.lacking["reliability[0.8-0.9].avg_accuracy"] == Lacking("ground_truth", 1, "c")
    assert (published.flat()["tn"], published.flat()["precision_no"]) == (1, 1.0)
    assert "category[World].accuracy" not in published.flat()
    assert published.flat()["category[Sports].accuracy"] == 1.0


def test_a_category_is_whole_where_its_number_of_entries_is_known() -> None:
    rows = [
        {"question_id": question, "predicted_answer": "no", "p_yes": 0.2, "ground_truth": "no", "category": category}
        for question, category in (("a", "World"), ("b", "World"), ("c", None))
    ]
    assert "category[World].accuracy" not in recompute(rows).flat()
    assert recompute(rows, category_counts={"World": 2, "Sports": 1}).flat()["category[World].accuracy"] == 1.0
    assert "category[World].accuracy" not in recompute(rows, category_counts={"World": 3}).flat()


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
        assert ace(p, y, bins) == published
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
    found = ace_range(p, y)
    assert found.minimum == pytest.approx(min(values), abs=1e-12)
    assert found.maximum == pytest.approx(max(values), abs=1e-12)
    assert found.varies or max(values) - min(values) < 1e-12
    assert all(found.explains(value) for value in values) or not found.varies
