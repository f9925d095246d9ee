"""Published KalshiBench numbers: recomputed from the recordings to the last bit."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from bellwether.kalshibench import compare_numbers, read_labels, read_results
from bellwether.kalshibench.metrics import Number, recompute
from tests.nightly.kalshibench_folder import token_prices, write_folder

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def data(recordings: Path) -> Path:
    return recordings / "kalshibench"


@pytest.fixture(scope="module")
def folder(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kalshibench")
    write_folder(data, folder)
    return folder


@pytest.fixture(scope="module")
def numbers(data: Path, folder: Path) -> pl.DataFrame:
    return compare_numbers(read_results(folder), read_labels(data / "questions.parquet"))


def test_every_published_number_comes_out_to_the_last_bit(numbers: pl.DataFrame, data: Path) -> None:
    """Where this machine's sort gives another ACE, another order of tied forecasts gives the published one."""
    published = pl.read_parquet(data / "published_metrics.parquet").filter(pl.col("decimals").is_null())
    assert numbers.height == published.height
    others = numbers.filter(pl.col("status") != "equal")
    assert others.filter((pl.col("metric") != "ace") | (pl.col("status") != "ties")).rows(named=True) == []


def test_the_published_sort_gives_every_ace_to_the_last_bit(published: pl.DataFrame, recomputed: dict[str, dict[str, Number]]) -> None:
    exact = published.filter(pl.col("decimals").is_null(), metric="ace")
    assert exact.height
    assert {model: recomputed[model]["ace"] for model in exact["model"]} == dict(zip(exact["model"], exact["value"], strict=True))


#: The paper rounded these twice (73.647 -> 73.65 -> 73.7). The result files, tested to the last bit, contain the number itself.
ROUNDED_TWICE = {("DeepSeek-V3.2", "avg_confidence", "paper:table5"), ("Kimi-K2", "avg_confidence", "paper:table5")}


@pytest.fixture(scope="module")
def published(recordings: Path) -> pl.DataFrame:
    return pl.read_parquet(recordings / "kalshibench" / "published_metrics.parquet")


@pytest.fixture(scope="module")
def predictions(recordings: Path) -> dict[str, pl.DataFrame]:
    frame = pl.read_parquet(recordings / "kalshibench" / "predictions.parquet").sort("model", "entry_index")
    return {str(model): rows for (model,), rows in frame.partition_by("model", as_dict=True, maintain_order=True).items()}


@pytest.fixture(scope="module")
def recomputed(predictions: dict[str, pl.DataFrame]) -> dict[str, dict[str, Number]]:
    """Recompute from each entry's own label where it is known, so that the lookup by a shared id is tested as well."""
    label = pl.coalesce("ground_truth_true", "ground_truth_scored")
    return {model: recompute(rows.with_columns(ground_truth=label), prices=token_prices(rows)) for model, rows in predictions.items()}


def test_every_number_of_the_paper_is_equal_after_rounding(published: pl.DataFrame, recomputed: dict[str, dict[str, Number]]) -> None:
    differences = []
    for row in published.filter(pl.col("decimals").is_not_null()).rows(named=True):
        ours = (recomputed[row["model"]][row["metric"]] or 0.0) * row["scale"]
        places = row["decimals"]
        if (row["model"], row["metric"], row["source"]) in ROUNDED_TWICE:
            ours = round(ours, places + 1) + 10.0 ** -(places + 3)
        if abs(round(ours, places) - row["value"]) > 1e-12:
            differences.append((row, ours))
    assert not differences
