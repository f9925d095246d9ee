"""The trading pages' order of agents and their order statistics."""

from __future__ import annotations

from decimal import Decimal

import polars as pl
import pytest

from bellwether.replay.results.summary import sort_by_pnl
from bellwether.site import trading
from bellwether.tables import table
from tests.site.world import rows


def test_slippage_without_a_taker_fill_is_no_number() -> None:
    declared = table("replay/backtests")
    runs = pl.concat(rows(declared.name, 1, episode=name, agent="maker", slippage=None, fees=Decimal(1)) for name in "ab")
    facts = dict(trading._order_statistics(runs).rows)
    assert (facts["Slippage"].text, facts["Fees"].text) == ("–", "$2.00")
    part = runs.with_columns(slippage=pl.when(pl.col("episode") == "a").then(pl.lit("0.5")).cast(declared.schema["slippage"]))
    assert dict(trading._order_statistics(part).rows)["Slippage"].text == "$0.50"


def runs_of(*agents: tuple[str, int, int]) -> pl.DataFrame:
    """Build backtests of one episode from agent, orders and P&L in dollars."""
    return pl.concat(
        rows("replay/backtests", 1, episode="e", agent=agent, orders=orders, pnl=Decimal(pnl)) for agent, orders, pnl in agents
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


def test_the_leader_of_trading_has_orders_in_three_episodes() -> None:
    def leader(*agents: tuple[str, int, int, float]) -> str:
        summary = pl.concat(
            rows("replay/summary", 1, agent=agent, episodes=episodes, orders=orders, pnl_mean=mean)
            for agent, episodes, orders, mean in agents
        )
        return trading.leader_tiles(summary)[0][1].text

    assert leader(("few", 2, 9, 7.0), ("idle", 3, 0, 0.0), ("a", 3, 9, -1.0)) == "a"
    assert leader(("few", 2, 9, 7.0)) == "No leader: fewer than 3 episodes"
    assert leader(("idle", 3, 0, 0.0)) == "No agent traded"
    assert leader(("a", 3, 1, 1.0), ("b", 3, 1, 1.0)) == "No winner: 2 agents tie at $1.00"
