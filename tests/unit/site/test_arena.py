"""The arena and trading on the site: curves, rankings, markets and order statistics."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import duckdb
import polars as pl
import pytest

from bellwether.lake.sql import sql_text
from bellwether.pages.model import Chart, PageTable
from bellwether.replay.results.summary import sort_by_pnl
from bellwether.site import trading
from bellwether.site.arena_agents import best_cell, find_best
from bellwether.site.arena_curves import Curves, calendar_charts, find_last_values
from bellwether.site.arena_markets import sort_markets
from bellwether.site.arena_rankings import Ranking, leaderboard, metric_tile
from bellwether.tables.schema import TIME
from tests.unit.site.world import rows as rows_of

FIRST, SECOND = date(2026, 3, 1), date(2026, 3, 8)


def test_an_agent_that_never_traded_has_its_initial_cash() -> None:
    agents = pl.DataFrame({"agent_id": ["traded", "held"], "family": ["a", "a"], "initial_cash": [10_000, 10_000]})
    start = datetime.combine(FIRST, datetime.min.time(), UTC)
    portfolios = pl.DataFrame({"agent_id": ["traded", "traded"], "at": [start + timedelta(days=8), start], "total": [11_000, 9_000]})
    assert find_last_values(agents, portfolios).rows() == [("held", "a", 10_000.0, 0.0), ("traded", "a", 11_000.0, pytest.approx(0.1))]


def test_returns_weigh_agents_that_may_and_may_not_know_outcomes() -> None:
    group = {"methodology": "v1", "family": "a", "contaminated": [False, True], "n": [3, 1], "total": [11_000, 9_000]}
    with duckdb.connect() as connection:
        connection.execute("CREATE SCHEMA arena")
        for name, frame in (
            ("equity_by_day", rows_of("arena/equity_by_day", 2, day=FIRST, **group)),
            ("equity_by_age", rows_of("arena/equity_by_age", 2, age=5, **group)),
            ("agents", rows_of("arena/agents", 1, methodology="v1", initial_cash=10_000)),
        ):
            connection.register("given", frame)
            connection.execute(f"CREATE TABLE arena.{name} AS FROM given")
        found = connection.sql(sql_text("site/arena_returns")).pl()
    assert found.select("day", "age", "y").rows() == [(FIRST, None, 0.05), (None, 5, 0.05)]


def test_releases_of_reconstructed_cohorts_are_marked_on_the_curve_of_reconstructed_cohorts_alone() -> None:
    calendar = pl.DataFrame(
        [(name, reconstructed, "a", datetime.combine(FIRST, datetime.min.time(), UTC), 0.1) for name in ("v1", "v2") for reconstructed in (False, True)],
        schema={"methodology": str, "reconstructed": bool, "family": str, "x": TIME, "y": float},
        orient="row",
    )  # fmt: skip
    used = rows_of("arena/releases", 4, family=["a", "a", "a", "b"], model=["second", "first", "again", "other"], first_cohort=[SECOND, FIRST, FIRST, FIRST],
        reconstructed=[False, False, True, False],
    )  # fmt: skip
    none = calendar.clear()
    curves = Curves(calendar, none, none, used.sort("first_cohort"))
    live, again = calendar_charts(curves, "a", {"a": "#123456"})
    assert [_marked(chart) for chart in (live, again)] == [[(str(FIRST), "first"), (str(SECOND), "second")], [(str(FIRST), "again")]]
    assert f"from {SECOND}: second" in live.description and "live" in live.title and "reconstructed" in again.title
    assert list(live.colours) == ["v1", "v2"] and live.colours["v1"] == "#123456"
    (alone, _) = calendar_charts(Curves(calendar, none, none, used.clear()), "a", {"a": "#123456"})
    assert _marked(alone) == [] and len(alone.spec["layer"]) == 2


def _marked(chart: Chart) -> list[tuple[str, str]]:
    """Return times and texts of the vertical rules of a chart."""
    marks = chart.spec.get("datasets", {}).get("marks", [])
    assert [layer["mark"]["type"] for layer in chart.spec["layer"] if layer.get("data") == {"name": "marks"}] == (
        ["rule", "text"] if marks else []
    )
    return [(row["x"], row["text"]) for row in marks]


def test_markets_of_one_volume_are_in_the_order_of_their_ids_whatever_the_order_of_rows() -> None:
    rows = [("c", None, 5), ("a", None, 5), ("b", None, 5), ("d", 2, 1), ("e", None, None)]
    schema = {"market_id": pl.String, "trades": pl.Int64, "volume": pl.Int64}
    for shift in range(len(rows)):
        listed = pl.DataFrame(rows[shift:] + rows[:shift], schema=schema, orient="row")
        assert sort_markets(listed)["market_id"].to_list() == ["d", "a", "b", "c", "e"]


def ranking(metrics: tuple[str, ...], *rows: tuple[str, str, float, int | None, bool]) -> Ranking:
    """Build a ranking from family, metric, value, rank and whether it is a baseline; intervals reach 0.05 from the value."""
    estimates = pl.DataFrame(rows, schema=["family", "metric", "value", "rank", "baseline"], orient="row").with_columns(
        lower=pl.col("value") - 0.05, upper=pl.col("value") + 0.05, unranked_because=pl.lit("why")
    )
    estimates = estimates.with_columns(pl.lit(None, pl.String).alias("letters"))
    return Ranking("v2", False, False, metrics, estimates, estimates.clear(), estimates.clear(), rows_of("arena/leaderboard", 0), {})


def test_families_are_listed_by_rank_and_baselines_and_unranked_ones_last() -> None:
    one = ranking(
        ("brier_vs_price", "return"),
        *(("a", "brier_vs_price", -0.02, 1, False), ("a", "return", 0.123, 2, False)),
        *(("b", "brier_vs_price", 0.1, 2, False), ("b", "return", 0.2, 1, False)),
        *(("copy", "brier_vs_price", 0.0, None, True), ("copy", "return", 0.3, None, True)),
        *(("rare", "brier_vs_price", -0.5, None, False), ("rare", "return", 0.3, None, False)),
    )
    assert one.families == ["a", "b", "copy", "rare"]
    assert [one.place(name).text for name in one.families] == ["1", "2", "baseline", "–"]
    assert one.place("rare").title == "why"
    title, cell, note = metric_tile(one, "return", "a")
    assert (title, cell.text, note) == ("Return", "+12.3\xa0%", "95 %: 7.3\xa0% to 17.3\xa0%")


def test_a_return_without_an_interval_has_the_range_over_cohorts() -> None:
    one = ranking(("return",), ("a", "return", 0.01, 1, False))
    sold = one.rankings.with_columns(
        **dict.fromkeys(("lower", "upper"), pl.lit(None, pl.Float64)), cohort_low=-0.02, cohort_high=0.04, reason=pl.lit("sold")
    )
    table = leaderboard(replace(one, rankings=sold))
    assert isinstance(table, PageTable)
    assert [cell.text.replace("\xa0", " ") for cell in table.rows[0] if "to" in cell.text] == ["1.0 % (−2.0 % to 4.0 %)"]


def test_tied_families_share_a_rank() -> None:
    tied = ranking(("return",), ("a", "return", 0.1, 1, False), ("b", "return", 0.1, 1, False), ("c", "return", 0.0, 3, False))
    assert [tied.place(name).text for name in tied.families] == ["=1", "=1", "3"]


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


def runs_of(*agents: tuple[str, int, int]) -> pl.DataFrame:
    """Build backtests of one episode from agent, orders and P&L in dollars."""
    return pl.concat(
        rows_of("replay/backtests", 1, episode="e", agent=agent, orders=orders, pnl=Decimal(pnl)) for agent, orders, pnl in agents
    )


@pytest.mark.parametrize(
    ("agents", "order", "winner", "pnl"),
    [
        ([("b", 1, -2), ("idle", 0, 0), ("a", 3, -2), ("c", 1, -1)], ["c", "a", "b", "idle"], "c", "−$1.00"),
        ([("b", 1, 5), ("a", 3, 5), ("c", 1, -1)], ["a", "b", "c"], "No winner: 2 agents tie at $5.00", "–"),
        ([("b", 2, 0), ("a", 2, 0), ("idle", 0, 0)], ["a", "b", "idle"], "No winner: 2 agents tie at $0.00", "–"),
        ([("b", 0, 0), ("a", 0, 0)], ["a", "b"], "No agent traded", "–"),
    ],
)
def test_an_agent_without_an_order_is_last_and_no_winner(
    agents: list[tuple[str, int, int]], order: list[str], winner: str, pnl: str
) -> None:
    runs = runs_of(*agents)
    assert sort_by_pnl(runs)["agent"].to_list() == order
    assert [cell.text for cell in trading.winner_cells(runs)] == [winner, pnl]
    assert [cell.text for cell in trading.winner_cells(runs.clear())] == ["–", "–"]
