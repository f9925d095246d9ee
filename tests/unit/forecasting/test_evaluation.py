"""An interrupted evaluation is resumed with identical options, or refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest

from bellwether.errors import ConfigError
from bellwether.forecasting.evaluation import Evaluation, Evaluations
from bellwether.questions import Release, build
from tests.clean.rows import market, markets, prices

RELEASE = Release(name="test", description="test", cutoff=datetime(2026, 1, 1, tzinfo=UTC), seed=1, per_series=0)
BEGUN = datetime(2026, 11, 1, 12, tzinfo=UTC)


def make_questions(*ids: str) -> pl.DataFrame:
    return build(RELEASE, markets(*(market(one) for one in ids)).lazy(), prices().lazy())


def evaluation(questions: pl.DataFrame, begun: datetime = BEGUN, release: str = "test") -> Evaluation:
    return Evaluation.of(release, ["a", "b"], Decimal("1.25"), questions, begun)


def test_an_evaluation_comes_back_as_it_was_kept(tmp_path: Path) -> None:
    kept = replace(evaluation(make_questions("A", "B")), dollars_per_model=Decimal("0.1"))
    Evaluations(tmp_path).store(kept)
    assert Evaluations(tmp_path).read_unfinished() == kept
    assert [path.name for path in tmp_path.iterdir()] == ["evaluate-20261101T120000Z.json"]


def test_two_that_begin_in_the_same_second_share_neither_record_nor_budget(tmp_path: Path) -> None:
    every, questions = Evaluations(tmp_path), make_questions("A")
    first, second, third = (every.begin(evaluation(questions, release=name)) for name in "abc")
    assert [one.run for one in (first, second, third)] == [f"evaluate-20261101T120000Z{number}" for number in ("", "-2", "-3")]
    assert [every.read_unfinished(name) for name in "abc"] == [first, second, third]
    every.finish(third)
    assert every.read_unfinished() == second
    assert len(list(tmp_path.iterdir())) == 3


def test_the_latest_unfinished_one_of_the_release_is_resumed(tmp_path: Path) -> None:
    every = Evaluations(tmp_path)
    first, second, third = (
        evaluation(make_questions("A"), BEGUN + timedelta(hours=hour), release) for hour, release in enumerate(("r", "r", "other"))
    )
    for one in (first, second, third):
        every.store(one)
    assert every.read_unfinished() == third
    assert every.read_unfinished("r") == second
    every.finish(second)
    assert every.read_unfinished("r") == first


def test_nothing_to_resume_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no unfinished evaluation"):
        Evaluations(tmp_path / "absent").read_unfinished()


@pytest.mark.parametrize("text", ["{", "{}"])
def test_a_damaged_record_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "evaluate-20261101T120000Z.json").write_text(text)
    with pytest.raises(ConfigError, match=r"evaluate-20261101T120000Z\.json: is not a valid evaluation"):
        Evaluations(tmp_path).read_unfinished()


@pytest.mark.parametrize("column", ["question", "description"])
def test_reworded_questions_are_not_resumed(column: str) -> None:
    questions = make_questions("A", "B")
    reworded = questions.with_columns(pl.when(pl.col("market_id") == "B").then(pl.lit("other words")).otherwise(column).alias(column))
    with pytest.raises(ConfigError, match=r"1 have another text or date, 0 are new, 0 were removed, first 'kalshi:B'"):
        evaluation(questions).require_unchanged(reworded)


def test_other_questions_are_not_resumed() -> None:
    with pytest.raises(ConfigError, match="0 have another text or date, 1 are new, 1 were removed"):
        evaluation(make_questions("A", "B")).require_unchanged(make_questions("A", "C"))
