"""Minimum samples of a rank, and the relative score, in small arenas with hand-computed numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from bellwether.arena.rankings import compute_rankings
from bellwether.formatting import floor_percent, rounded_down, rounded_up
from tests.arena.test_questions import PLAN, Bet, arena, submitted


def ranks(rows: pl.DataFrame, metric: str = "brier_vs_price") -> dict[str, tuple[int | None, str | None]]:
    chosen = rows.filter(metric=metric)
    return {row["family"]: (row["rank"], row["unranked_because"]) for row in chosen.iter_rows(named=True)}


def world(count: int = 20) -> list[Bet]:
    return [Bet("agent", f"m{number}", "YES", 0.4, won=number % 3 == 0, price=0.35) for number in range(count)]


def with_forecasts(said: list[tuple[str, str, float, bool]], count: int = 20) -> pl.DataFrame:
    return compute_rankings(replace(arena(world(count)), submissions=submitted(said)), PLAN)["arena/rankings"]


def test_one_safe_forecast_has_no_rank_and_says_why() -> None:
    found = with_forecasts([("safe", "m1", 0.0001, False)])
    for metric in ("brier_stated", "brier_vs_price", "skill_price", "log_loss"):
        assert ranks(found, metric)["safe"] == (None, "forecasts of 1 of 20 questions (5%); a rank needs 90%"), metric
    assert ranks(found)["agent"] == (1, None)


def test_nine_of_ten_questions_earn_a_rank_and_fewer_do_not() -> None:
    said = [("wide", f"m{number}", 0.33, False) for number in range(18)]
    assert ranks(with_forecasts(said))["wide"][1] is None
    assert ranks(with_forecasts(said[:17]))["wide"] == (None, "forecasts of 17 of 20 questions (85%); a rank needs 90%")


def test_a_score_over_few_events_has_no_rank() -> None:
    found = compute_rankings(arena(world(9)), PLAN)["arena/rankings"]
    assert ranks(found)["agent"] == (None, "scored on 9 events; a rank needs 10")
    assert ranks(found, "win_rate")["agent"][0] is None
    missing = found.filter(pl.col("rank").is_null() == pl.col("unranked_because").is_null())
    assert missing.is_empty()


def test_the_relative_score_is_the_difference_of_both_brier_scores() -> None:
    found = compute_rankings(arena(world()), PLAN)["arena/rankings"]
    row: dict[str, Any] = found.filter(metric="brier_vs_price").row(0, named=True)
    won = np.array([number % 3 == 0 for number in range(20)])
    assert row["value"] == pytest.approx(((0.4 - won) ** 2).mean() - ((0.35 - won) ** 2).mean())
    assert row["lower"] < row["value"] < row["upper"]


@pytest.mark.parametrize(
    ("share", "text"), [(269 / 300, "89.6%"), (0.9, "90%"), (0.89999, "89.9%"), (1.0, "100%"), (0.29, "29%"), (0.0, "0%")]
)
def test_a_share_below_a_minimum_never_appears_to_reach_it(share: float, text: str) -> None:
    assert floor_percent(share) == text
    assert rounded_down(share) <= share <= float(rounded_up(share) or 0)
