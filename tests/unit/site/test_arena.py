"""The arena and trading on the site: curves, rankings, markets and order statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
from bellwether.site.arena import calendar_charts
from bellwether.site.arena_rankings import Ranking, leaderboard, metric_tile
from bellwether.tables import TABLES
from tests.unit.site.world import rows as rows_of

FIRST, SECOND = date(2026, 3, 1), date(2026, 3, 8)


@pytest.fixture
def run_query() -> Iterator[Callable[..., pl.DataFrame]]:
    """A function that runs a query of the site over tables of the arena, given as rows by name; other tables are empty."""
    with duckdb.connect() as connection:
        connection.execute("CREATE SCHEMA arena; SET TimeZone = 'UTC'")

        def run(name: str, **tables: pl.DataFrame) -> pl.DataFrame:
            for one in TABLES.values():
                if one.name.startswith("arena/"):
                    connection.register("given", tables.get(one.short_name, one.empty()))
                    connection.execute(f"CREATE OR REPLACE TABLE {one.sql_name} AS FROM given")
            return connection.sql(sql_text(f"site/{name}")).pl()

        yield run


def test_an_agent_has_its_newest_portfolio_or_its_initial_cash(run_query: Callable[..., pl.DataFrame]) -> None:
    agents = rows_of("arena/agents", 2, agent_id=["traded", "held"], family=["a", "b"], week=FIRST, initial_cash=10_000)
    start = datetime.combine(FIRST, datetime.min.time(), UTC)
    portfolios = rows_of(
        "arena/portfolios", 2, agent_id="traded", at=[start + timedelta(days=8), start], total=[11_000, 9_000], cash=[500, 9_000]
    )
    found = run_query("arena_agents", agents=agents, portfolios=portfolios, trades=rows_of("arena/trades", 3, agent_id="traded"))
    assert found.select("agent_id", "total", "cash", "return", "trades", "open", "best").rows() == [
        ("traded", 11_000.0, 500.0, 0.1, 3, 0, True),
        ("held", 10_000.0, 10_000.0, 0.0, 0, 0, False),
    ]


@pytest.mark.parametrize(
    ("returns", "traders", "shown"),
    [
        ({"a": -0.1, "b": -0.2, "hold": 0.0}, ("a", "b"), ["a"]),
        ({"a": 0.1, "b": 0.1, "hold": 0.0}, ("a", "b"), ["a", "b"]),
        ({"hold": 0.0}, (), []),
    ],
)
def test_the_best_agents_of_a_cohort_have_traded(
    returns: dict[str, float], traders: tuple[str, ...], shown: list[str], run_query: Callable[..., pl.DataFrame]
) -> None:
    names = list(returns)
    agents = rows_of("arena/agents", len(names), agent_id=names, family=names, week=FIRST, initial_cash=10_000)
    portfolios = rows_of("arena/portfolios", len(names), agent_id=names, total=[10_000 * (1 + value) for value in returns.values()])
    trades = rows_of("arena/trades", len(traders), agent_id=list(traders), trade_id=list(traders))
    found = run_query("arena_agents", agents=agents, portfolios=portfolios, trades=trades)
    assert found.filter("best")["agent_id"].sort().to_list() == shown


def test_a_leg_has_the_state_of_its_position_and_the_winner_of_its_market(run_query: Callable[..., pl.DataFrame]) -> None:
    trades = rows_of(
        "arena/trades", 2, trade_id=["t1", "t2"], position_id="t1", agent_id="x", market_id="m", side="YES", action=["BUY", "SELL"]
    )
    positions = rows_of("arena/positions", 2, position_id="t1", agent_id=["x", "y"], status=["closed", "open"], realized=[5, 0])
    scores = rows_of("arena/scores", 1, trade_id="t1", winner="NO", won=False)
    universe = rows_of("arena/universe", 2, market_id="m", week=[FIRST, SECOND], question=["before", "after"])
    found = run_query("arena_legs", trades=trades, positions=positions, scores=scores, universe=universe)
    assert found.select("action", "question", "status", "realized", "winner", "won").rows() == [
        ("BUY", "after", "closed", Decimal(5), "NO", False),
        ("SELL", "after", "closed", Decimal(5), None, None),
    ]


def test_returns_weigh_agents_that_may_and_may_not_know_outcomes(run_query: Callable[..., pl.DataFrame]) -> None:
    group = {"methodology": "v1", "family": "a", "contaminated": [False, True], "n": [3, 1], "total": [11_000, 9_000]}
    found = run_query(
        "arena_curves",
        equity_by_day=rows_of("arena/equity_by_day", 2, day=FIRST, **group),
        equity_by_age=rows_of("arena/equity_by_age", 2, age=5, **group),
        agents=rows_of("arena/agents", 1, methodology="v1", initial_cash=10_000),
    )
    assert found.select("day", "age", "y").rows() == [(FIRST, None, 0.05), (None, 5, 0.05)]


def test_values_of_a_portfolio_are_thinned_up_to_the_last(run_query: Callable[..., pl.DataFrame]) -> None:
    at = [datetime.combine(FIRST, datetime.min.time(), UTC) + timedelta(minutes=10 * place) for place in range(1_000)]
    found = run_query("arena_values", portfolios=rows_of("arena/portfolios", 1_000, agent_id="a", at=at, total=list(range(1_000))))
    assert 100 < found.height <= 150 and found.row(-1) == ("a", at[-1], 999.0) and found["at"].is_sorted()


def test_a_long_curve_keeps_about_eighty_points_and_the_newest(run_query: Callable[..., pl.DataFrame]) -> None:
    days = [FIRST + timedelta(days=place) for place in range(800)]
    own = {"methodology": "v1", "family": "a", "n": 1, "total": 10_000}
    found = run_query(
        "arena_curves",
        equity_by_day=rows_of("arena/equity_by_day", 800, day=days, **own),
        equity_by_age=rows_of("arena/equity_by_age", 100, age=list(range(100)), **own),
        agents=rows_of("arena/agents", 1, methodology="v1", initial_cash=10_000),
    )
    assert 60 < found["day"].count() < 160 and found["day"].max() == days[-1] and found["age"].max() == 99


def test_releases_of_reconstructed_cohorts_are_marked_on_the_curve_of_reconstructed_cohorts_alone() -> None:
    curves = pl.DataFrame(
        [(name, reconstructed, FIRST, 0.1) for name in ("v1", "v2") for reconstructed in (False, True)],
        schema={"methodology": str, "reconstructed": bool, "day": date, "y": float},
        orient="row",
    )
    used = rows_of(
        "arena/releases",
        3,
        family="a",
        model=["first", "second", "again"],
        first_cohort=[FIRST, SECOND, FIRST],
        reconstructed=[False, False, True],
    )
    live, again = calendar_charts(curves, used, "#123456")
    assert [_marked(chart) for chart in (live, again)] == [[(str(FIRST), "first"), (str(SECOND), "second")], [(str(FIRST), "again")]]
    assert f"from {SECOND}: second" in live.description and "live" in live.title and "reconstructed" in again.title
    assert list(live.colours) == ["v1", "v2"] and live.colours["v1"] == "#123456"
    (alone, _) = calendar_charts(curves, used.clear(), "#123456")
    assert _marked(alone) == [] and len(alone.spec["layer"]) == 2


def _marked(chart: Chart) -> list[tuple[str, str]]:
    """Return times and texts of the vertical rules of a chart."""
    marks = chart.spec.get("datasets", {}).get("marks", [])
    assert [layer["mark"]["type"] for layer in chart.spec["layer"] if layer.get("data") == {"name": "marks"}] == (
        ["rule", "text"] if marks else []
    )
    return [(row["x"], row["text"]) for row in marks]


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
