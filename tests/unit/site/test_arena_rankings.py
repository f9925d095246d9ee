"""The arena's rankings on the site."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from bellwether.site.arena_agents import best_cell, find_best
from bellwether.site.arena_rankings import Ranking, leader_tiles, rows


def ranking(metrics: tuple[str, ...], *rows: tuple[str, str, float, int | None, bool]) -> Ranking:
    """Build a ranking from family, metric, value, rank and whether it is a baseline; intervals reach 0.05 from the value."""
    estimates = pl.DataFrame(rows, schema=["family", "metric", "value", "rank", "baseline"], orient="row").with_columns(
        lower=pl.col("value") - 0.05, upper=pl.col("value") + 0.05, unranked_because=pl.lit("why")
    )
    return Ranking("v2", False, False, metrics, estimates, estimates.clear(), estimates.clear())


def tiles(of: Ranking) -> list[tuple[str, str, str]]:
    return [tuple(words.replace("\xa0", " ") for words in (name, cell.text, note)) for name, cell, note in leader_tiles(of)]  # type: ignore[misc]


def test_the_leader_has_the_leading_metrics() -> None:
    one = ranking(
        ("brier_vs_price", "return"),
        *(("a", "brier_vs_price", -0.02, 1, False), ("a", "return", 0.123, 2, False)),
        *(("b", "brier_vs_price", 0.1, 2, False), ("b", "return", 0.2, 1, False)),
        *(("copy", "brier_vs_price", 0.0, None, True), ("copy", "return", 0.3, None, True)),
        *(("rare", "brier_vs_price", -0.5, None, False), ("rare", "return", 0.3, None, False)),
    )
    assert tiles(one) == [
        ("Leader", "a", "of 4 families"),
        ("Brier score minus that of the price", "−0.020", "95 %: −0.070 to 0.030; below 0 is better than the market"),
        ("Return", "+12.3 %", "95 %: 7.3 % to 17.3 %"),
    ]
    assert one.families == ["a", "b", "copy", "rare"]
    assert [one.place(name).text for name in one.families] == ["1", "2", "baseline", "–"]
    assert one.place("rare").title == "why"


def test_a_return_without_an_interval_has_the_range_over_cohorts() -> None:
    one = ranking(("return",), ("a", "return", 0.01, 1, False))
    sold = one.rankings.with_columns(
        **dict.fromkeys(("lower", "upper"), pl.lit(None, pl.Float64)), cohort_low=-0.02, cohort_high=0.04, reason=pl.lit("sold")
    )
    assert tiles(replace(one, rankings=sold))[1] == ("Return", "+1.0 %", "cohorts: −2.0 % to 4.0 %")
    cells = [cell for cell in rows(replace(one, rankings=sold))[0] if "to" in cell.text]
    assert [cell.text.replace("\xa0", " ") for cell in cells] == ["1.0 % (−2.0 % to 4.0 %)"]


def test_tied_leaders_are_all_named_and_an_empty_ranking_has_none() -> None:
    tied = ranking(("return",), ("a", "return", 0.1, 1, False), ("b", "return", 0.1, 1, False), ("c", "return", 0.0, 3, False))
    assert tiles(tied)[0] == ("Leader", "a, b tie", "of 3 families")
    assert leader_tiles(tied)[0][1].title == "a, b"
    assert [tied.place(name).text for name in tied.families] == ["=1", "=1", "3"]
    assert tiles(ranking(("return",), ("a", "return", 0.1, None, False))) == [("Leader", "no family is ranked", "of 1 families")]


@pytest.mark.parametrize(
    ("returns", "shown"),
    [
        ({"w/a": -0.1, "w/b": -0.2, "w/hold": 0.0}, "a"),
        ({"w/a": 0.1, "w/b": 0.1, "w/hold": 0.0}, "a, b tie"),
        ({"w/hold": 0.0}, "no agent traded"),
    ],
)
def test_the_best_agent_of_a_cohort_has_traded(returns: dict[str, float], shown: str) -> None:
    assert best_cell(find_best(returns, frozenset({"w/a", "w/b"}))).text == shown
