"""Published numbers from partial labels and the range of the published ACE over all orders of ties, compared with enumerations."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

import numpy as np
import pytest

from bellwether.calibration.compat import Lacking, recompute
from bellwether.calibration.compat_ace import ace, ace_range


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
