"""The results tables as text: per agent a line per episode and the total, and all agents beside one another.

Columns and formats are those of PredictionMarketBench's tables 3 to 6; what the queue model alone can change stands behind them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import polars as pl

NOTHING = "–"

_EPISODES = ("Episode", "PnL ($)", "Return (%)", "Max DD (%)", "Contracts", "Fill (%)", "PnL band ($)")
_AGENTS = (
    "Agent",
    "Total PnL ($)",
    "Return (%)",
    "Return 95 %",
    "Max DD (%)",
    "Contracts",
    "Orders",
    "Fill (%)",
    "PnL band ($)",
)


@dataclass(frozen=True, slots=True)
class Lines:
    """A table of text: the first cell of a row is a name, which may be anyone's text, the others are numbers. notes: below it."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def agent_tables(results: pl.DataFrame, titles: Mapping[str, str] | None = None) -> list[Lines]:
    """One table per agent and rule set from rows of replay/results: its episodes, then the total. titles: of agents, by name."""
    parts = results.sort("agent", "rules", "ordinal").partition_by("agent", "rules", as_dict=True, maintain_order=True)
    return [_agent_table((titles or {}).get(str(agent), str(agent)), str(rules), rows) for (agent, rules), rows in parts.items()]


def comparison_table(summary: pl.DataFrame, titles: Mapping[str, str] | None = None) -> Lines:
    """All agents beside one another from rows of replay/summary, the largest P&L first; under several rule sets one line each."""
    ordered = summary.sort("pnl", "agent", "rules", descending=[True, False, False])
    several = ordered["rules"].n_unique() > 1
    rows = tuple(_agent_line(row, titles or {}, several) for row in ordered.iter_rows(named=True))
    counts = sorted(set(ordered["episodes"]))
    over = " to ".join(str(count) for count in (counts[0], counts[-1])[: len(counts)]) if counts else "no"
    return Lines(
        f"All agents over {over} episode{'' if counts == [1] else 's'}",
        _AGENTS,
        rows,
        (
            "Return: mean over episodes, with its bootstrap interval (none below 3 episodes). Max DD: the largest. Fill: mean over episodes.",
            "PnL band: under the pessimistic and the optimistic queue.",
        ),
    )


def _agent_table(title: str, rules: str, rows: pl.DataFrame) -> Lines:
    failed = rows.filter(pl.col("failure").is_not_null())
    notes = tuple(f"{episode}: ended early: {why}" for episode, why in failed.select("episode", "failure").iter_rows())
    return Lines(f"{title} under {rules}", _EPISODES, tuple(_episode_line(row) for row in rows.iter_rows(named=True)), notes)


def _episode_line(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        row["episode"],
        signed(row["pnl"]),
        NOTHING if row["return"] is None else signed(100 * row["return"]),
        percent(row["max_drawdown"], 2),
        contracts(row["contracts"]),
        percent(row["fill_ratio"], 1),
        f"{signed(row['pnl_pessimistic'])} to {signed(row['pnl_optimistic'])}",
    )


def _agent_line(row: Mapping[str, Any], titles: Mapping[str, str], several: bool) -> tuple[str, ...]:
    name = titles.get(row["agent"], row["agent"])
    lower, upper = row["return_mean_lower"], row["return_mean_upper"]
    return (
        f"{name} ({row['rules']})" if several else name,
        money(row["pnl"]),
        percent(row["return_mean"], 2),
        NOTHING if lower is None or upper is None else f"{percent(lower, 2)} to {percent(upper, 2)}",
        percent(row["max_drawdown"], 2),
        contracts(row["contracts"]),
        f"{row['orders']:,}",
        percent(row["fill_ratio_mean"], 1),
        f"{signed(row['pnl_pessimistic'])} to {signed(row['pnl_optimistic'])}",
    )


def signed(value: Decimal | float) -> str:
    """Two decimals with a sign."""
    return f"{value:+z,.2f}"


def money(value: Decimal) -> str:
    """Dollars and cents."""
    return f"{value:z,.2f}"


def percent(value: float | None, digits: int) -> str:
    """A share in percent, without its sign."""
    return NOTHING if value is None else f"{100 * value:z.{digits}f}"


def contracts(value: Decimal) -> str:
    """Contracts, with hundredths where there are any."""
    return f"{value:,.0f}" if value == value.to_integral_value() else f"{value:,.2f}"
