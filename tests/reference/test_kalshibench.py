"""A complete folder of KalshiBench: twelve models, two samples of questions, and numbers of a second implementation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from bellwether.errors import ConfigError
from bellwether.kalshibench import compare_numbers, read_labels, read_results
from tests.reference.kalshibench import TIERS, A, B, World, world

OF_A = [name for cutoff, models in TIERS.values() if cutoff == A for name in models]
OF_B = [name for cutoff, models in TIERS.values() if cutoff == B for name in models]
CLAUDE = "tier1_flagships/claude_opus_4.5_20251217_023819.json"

Compare = Callable[[Path, list[dict[str, Any]] | pl.DataFrame], pl.DataFrame]


@pytest.fixture(scope="module")
def original() -> World:
    """Twelve models in three tiers, as KalshiBench publishes them."""
    return world()


@pytest.fixture(scope="module")
def twelve(original: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all twelve models."""
    return original.write(tmp_path_factory.mktemp("twelve"))


@pytest.fixture
def compare(tmp_path: Path) -> Compare:
    """Return the compared numbers of a folder, with labels read from a file with these rows."""

    def compare(folder: Path, rows: list[dict[str, Any]] | pl.DataFrame) -> pl.DataFrame:
        path = tmp_path / "labels.parquet"
        pl.DataFrame(rows, infer_schema_length=None).write_parquet(path)
        return compare_numbers(read_results(folder), read_labels(path))

    return compare


def with_sort(original: World) -> list[dict[str, Any]]:
    """Return the labels of each model's entries with the bins of its published ACE."""
    rows = []
    for cutoff, models in TIERS.values():
        for model in models:
            bins = original.ace_bins[model]
            rows += [row | {"model": model, "ace_bin": one} for row, one in zip(original.labels(cutoff), bins, strict=True)]
    return rows


def test_every_number_of_all_twelve_models_comes_out_to_the_last_bit(twelve: Path, original: World, compare: Compare) -> None:
    numbers = compare(twelve, with_sort(original))
    assert set(numbers["model"]) == {*OF_A, *OF_B}
    assert numbers["source"].n_unique() == 14  # twelve result files and two summaries
    assert numbers.filter(pl.col("status") != "equal").rows() == []


def test_without_the_published_sort_only_ace_depends_on_ties(twelve: Path, original: World, compare: Compare) -> None:
    """The published machine sorted ties in reverse of any stable sort."""
    others = compare(twelve, original.labels(A, B)).filter(pl.col("status") != "equal")
    assert set(others["status"]) == {"ties"}
    assert set(others["metric"]) == {"ace"}


def test_a_number_that_does_not_follow_differs(original: World, compare: Compare, tmp_path: Path) -> None:
    """No order of ties gives the ACE."""
    wrong = World(files={CLAUDE: original.files[CLAUDE] | {"ace": 0.5, "brier_score": 0.1}})
    numbers = compare(wrong.write(tmp_path / "wrong"), original.labels(A))
    found = numbers.filter(pl.col("status") != "equal").select("metric", "status").rows()
    assert found == [("brier_score", "differs"), ("ace", "differs")]


def test_labels_apply_to_the_models_with_their_questions(twelve: Path, original: World, compare: Compare) -> None:
    numbers = compare(twelve, original.labels(A))
    of_b = numbers.filter(pl.col("model").is_in(OF_B))
    assert set(of_b["status"]) == {"equal", "not recomputed"}
    assert set(of_b["reason"].drop_nulls()) == {"needs labels with the same ids as its questions"}
    assert numbers.filter(pl.col("model").is_in(OF_A))["reason"].null_count() == numbers.height - of_b.height


def test_one_row_per_id_is_enough(twelve: Path, original: World, compare: Compare) -> None:
    """The last entry of an id gave the outcome of all its entries."""
    rows = pl.DataFrame(original.labels(A)).unique("question_id", keep="last").drop("entry_index")
    numbers = compare(twelve, rows).filter(pl.col("model").is_in(OF_A))
    assert set(numbers.filter(pl.col("metric") != "ace")["status"]) == {"equal"}


def test_one_missing_outcome_leaves_out_the_numbers_that_need_outcomes(original: World, compare: Compare, tmp_path: Path) -> None:
    folder = World(files={CLAUDE: original.files[CLAUDE]}).write(tmp_path / "results")
    rows = original.labels(A)
    rows[-1]["ground_truth"] = None
    numbers = compare(folder, rows)
    without = numbers.filter(pl.col("status") == "not recomputed")
    assert without["reason"].str.contains(f"'{rows[-1]['question_id']}'", literal=True).all()
    assert {"brier_score", "tp"} <= set(without["metric"])
    assert {"parse_rate", "total_cost_usd", "avg_confidence"} <= set(numbers.filter(pl.col("status") == "equal")["metric"])


def test_labels_that_fit_two_sets_are_refused(twelve: Path, original: World, compare: Compare) -> None:
    rows = original.labels(A)
    other = [row | {"question_set": "other", "ground_truth": "yes"} for row in rows]
    with pytest.raises(ConfigError, match=f"{A}, other"):
        compare(twelve, [*rows, *other])
