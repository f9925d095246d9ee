"""Summaries of agents over their episodes: builds replay/summary from rows of replay/backtests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import polars as pl

from bellwether.formatting import NOTHING, money
from bellwether.tables.replay import SUMMARY

#: Minimum number of episodes for a leader.
LEAST_EPISODES = 3


def summarise(backtests: pl.DataFrame, *, unsettled: bool = False) -> pl.DataFrame:
    """Build the rows of replay/summary, one per agent and rule set, with `sql/replay/summary.sql`. unsettled: include episodes with an
    unsettled position, valued at its mark; otherwise such episodes are only counted.
    """
    query = files("sql").joinpath("replay/summary.sql").read_text(encoding="utf-8")
    query = query.replace("$unsettled", str(unsettled).lower())
    context = pl.SQLContext(backtests=backtests.drop("queue_pnls"), histories=histories(backtests), eager=True)
    rows = context.execute(query)
    return SUMMARY.validate(rows.select(SUMMARY.names).cast(pl.Schema(SUMMARY.schema)))


def histories(backtests: pl.DataFrame) -> pl.DataFrame:
    """Return the P&L of rows of replay/backtests in each sampled queue history: agent, rules, episode, history (number) and pnl."""
    number = pl.int_ranges(pl.col("queue_pnls").list.len())
    return backtests.select("agent", "rules", "episode", history=number, pnl="queue_pnls").explode("history", "pnl").drop_nulls()


def select_counted(rows: pl.DataFrame, *, unsettled: bool) -> pl.DataFrame:
    """Return the rows that summaries count: runs of single episodes (those of several if an agent has only these), and unsettled ones only
    if `unsettled` is true.
    """
    is_joined = pl.col("episode").str.contains("+", literal=True)
    rows = rows.filter(is_joined == is_joined.min().over("agent", "rules"))
    return rows if unsettled else rows.filter(~pl.col("unsettled"))


def sort_by_pnl(rows: pl.DataFrame) -> pl.DataFrame:
    """Sort rows of replay/summary or replay/backtests by P&L, the highest first, agents without an order last."""
    keys = ["agent", *(name for name in ("rules",) if name in rows.columns)]
    return rows.sort(pl.col("orders") == 0, "pnl", *keys, descending=[False, True, *[False] * len(keys)])


def find_winners(rows: pl.DataFrame, metric: str) -> list[dict[str, Any]]:
    """Return the rows with the highest value of a metric among agents that sent an order, several for a tie. rows: as in `sort_by_pnl`."""
    active = rows.filter(pl.col("orders") > 0, pl.col(metric).is_not_null())
    return active.filter(pl.col(metric) == pl.col(metric).max()).sort("agent").to_dicts()


def describe_winners(rows: pl.DataFrame, winners: Sequence[Mapping[str, Any]], metric: str) -> str:
    """Return a sentence on a comparison without a single winner. rows, winners, metric: arguments and result of `find_winners`."""
    if not winners:
        return "No agent traded" if rows.height else NOTHING
    return f"No winner: {len(winners)} agents tie at ${money(winners[0][metric])}"
