"""Money of the arena at its largest: stakes of 10^15 dollars at a millionth of a dollar per share, whose wins are bet again."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import duckdb
import polars as pl
import pytest

from bellwether.arena.facts import Agent, Trade
from bellwether.arena.frames import (
    agents_frame,
    agents_from_rows,
    ledger_frame,
    portfolios_frame,
    positions_frame,
    trades_frame,
    trades_from_rows,
)
from bellwether.arena.ledger import Ledger, fold
from bellwether.arena.marks import compute_portfolio_curves
from bellwether.arena.rankings.equity import compute_equity_tables
from bellwether.arena.results import Facts, compute_leaderboard, find_changed_cash
from bellwether.arena.units import LARGEST, dollars
from bellwether.lake.sql import sql_text
from bellwether.tables import table
from bellwether.tables.arena import EVIDENCE, PRICES
from bellwether.units import MicroDollars
from tests.arena.world import AGENT, COHORT, NOW, V1, buy_trade, won

#: Largest stake in micro-dollars.
MOST = int(LARGEST) * 1_000_000


def year_of_wins(cash: int) -> tuple[Agent, Ledger, list[Trade]]:
    """Return an agent that bets a quarter of its cash, at most `LARGEST`, every week for a year at the lowest price, and always wins.
    cash: in micro-dollars.
    """
    agent = AGENT._replace(initial_cash=MicroDollars(cash))
    trades, settlements = [], []
    for week in range(52):
        stake, at = min(cash // 4, MOST), NOW + timedelta(weeks=week)
        trade = buy_trade("1", "1", market_id=f"m{week}", leg=week + 1, executed_at=at, base=cash)
        trades.append(trade._replace(shares=stake * 1_000_000, amount=stake, price=1))
        settlements.append(won("Yes", market_id=f"m{week}", at=at + timedelta(days=1)))
        cash += stake * 999_999
    return agent, fold([agent], trades, settlements), trades


@pytest.mark.parametrize("start", [10_000, 1_000_000, 1_000_000_000])
def test_a_year_of_wins_is_counted_exactly_in_every_table(start: int) -> None:
    agent, ledger, trades = year_of_wins(start * 1_000_000)
    final = start * 1_000_000 + sum(trade.shares - trade.amount for trade in trades)
    assert final > 10**28
    total, moved = dollars(final), sum(trade.amount for trade in trades)

    agents, rows = agents_frame([agent], {"acme": "m"}, COHORT, NOW), trades_frame(trades)
    assert agents_from_rows(agents) == [agent]
    assert trades_from_rows(rows) == sorted(trades, key=lambda trade: trade.trade_id)
    folded = {
        "arena/ledger": ledger_frame(ledger),
        "arena/positions": positions_frame(ledger),
        "arena/portfolios": portfolios_frame(compute_portfolio_curves(ledger, []), ledger),
    }
    assert folded["arena/ledger"].sort("number")["cash"][-1] == total
    assert folded["arena/positions"]["paid"].sum() == dollars(sum(trade.shares for trade in trades))
    assert folded["arena/portfolios"].sort("at")["total"][-1] == total

    facts = Facts(agents, table("arena/decisions").empty(), table("arena/refusals").empty(), rows, EVIDENCE.empty(), PRICES.empty())
    board = compute_leaderboard(facts, ledger, folded, {"v1": V1}).row(0, named=True)
    profit = dollars(final - start * 1_000_000)
    assert [board[name] for name in ("initial_cash", "cash", "total", "profit")] == [start, total, total, profit]
    assert board["return"] == pytest.approx(float(Fraction(final, start * 1_000_000) - 1), rel=1e-15)
    assert board["turnover"] == pytest.approx(float(Fraction(moved, start * 1_000_000)), rel=1e-15)
    exported = dict(zip(*_exported(agents, rows, folded), strict=True))
    assert [exported[name] for name in ("initial_cash", "cash", "total", "profit")] == [start, total, total, profit]
    assert find_changed_cash(facts, ledger) == []


def _exported(agents: pl.DataFrame, trades: pl.DataFrame, folded: dict[str, pl.DataFrame]) -> Iterator[Any]:
    """Yield the columns of the first row, and its values, of the query in exports."""
    frames = {"agents": agents, "trades": trades, **{name.removeprefix("arena/"): frame for name, frame in folded.items()}}
    with duckdb.connect() as connection:
        for name in ("agents", "decisions", "refusals", "trades", "settlements", "ledger", "positions", "portfolios"):
            connection.register(name, frames.get(name, table(f"arena/{name}").empty()).to_arrow())
        text = sql_text("export/arena_leaderboard")
        for name in ("agents", "decisions", "refusals", "trades", "settlements", "ledger", "positions", "portfolios"):
            text = text.replace(f"read_parquet('data/{name}.parquet')", f'"{name}"')
        relation = connection.sql(text)
        yield relation.columns
        yield relation.fetchone()


def test_the_mean_of_the_largest_portfolios_is_exact() -> None:
    totals = [10**30 - 1, 10**30 - 4, 10**30 - 7_000_000]
    rows = [{"agent_id": f"a{number}", "at": NOW, "total": dollars(total)} for number, total in enumerate(totals)]
    group = {"methodology": "v1", "reconstructed": False, "contaminated": False, "family": "x", "cohort": COHORT, "initial_cash": 1e9}
    entrants = pl.DataFrame([{**group, "agent_id": row["agent_id"]} for row in rows])
    portfolios = table("arena/portfolios").frame(rows).select("agent_id", "at", "total")
    by_day, by_age = compute_equity_tables(SimpleNamespace(entrants=entrants, portfolios=portfolios))  # type: ignore[arg-type]
    mean, rest = divmod(sum(totals), 3)
    assert by_day["total"].item() == by_age["total"].item() == dollars(mean + (rest == 2))
