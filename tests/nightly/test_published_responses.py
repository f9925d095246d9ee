"""KalshiBench's published responses: `compat` reads each as published; the default parser differs in known places for known reasons."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from bellwether.forecasting.parsing import compat, read_many

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def responses(recordings: Path) -> pl.DataFrame:
    return pl.read_parquet(recordings / "kalshibench" / "responses.parquet")


@pytest.fixture(scope="module")
def default(responses: pl.DataFrame) -> pl.DataFrame:
    return pl.concat([responses.drop("raw_output"), read_many(responses["raw_output"])], how="horizontal")


def test_every_response_is_read_as_published(responses: pl.DataFrame) -> None:
    different = [
        (row["model"], row["entry_index"], reading)
        for row in responses.rows(named=True)
        if (reading := compat.read(row["raw_output"]))
        and (reading.answer, reading.p_yes, reading.reasoning) != (row["expected_answer"], row["expected_p_yes"], row["expected_reasoning"])
    ]
    assert responses.height
    assert not different


def test_every_answer_comes_from_the_published_place(responses: pl.DataFrame) -> None:
    paths = [compat.read(text).path.removeprefix("compat_") for text in responses["raw_output"]]
    assert paths == responses["answer_source"].to_list()


def test_the_default_parser_reads_almost_every_tag_and_makes_no_answer_up(default: pl.DataFrame) -> None:
    tagged = default.filter(pl.col("answer_source") == "tag", pl.col("has_confidence_tag"))
    unread = tagged.filter(pl.col("p_yes").is_null())
    assert unread.height < 0.03 * tagged.height
    endless = unread["problem"] == "no answer: the reasoning has no end"
    assert endless.sum() < 0.005 * tagged.height
    unread = unread.filter(~endless)
    assert unread["problem"].str.starts_with("ambiguous number").all()
    assert unread["raw_confidence"].is_between(0, 1, closed="right").all()
    empty = default.filter(pl.col("problem") == "empty response")
    assert empty.height
    assert set(empty["answer_source"]) == {"none"}


def test_the_default_parser_differs_only_where_the_first_tag_is_not_the_last(default: pl.DataFrame) -> None:
    """The published parser takes the first tags, even drafts within the reasoning."""
    both = default.filter(pl.col("p_yes").is_not_null(), pl.col("answer_source") == "tag")
    same = (pl.col("answer") == pl.col("expected_answer")) & ((pl.col("p_yes") - pl.col("expected_p_yes")).abs() < 1e-12)
    different = both.filter(~same)
    assert 0 < different.height < 0.01 * both.height
    assert (different["n_confidence_tags"] > 1).all()
