"""Tables of results as text: the episodes of each agent, and comparisons of agents.

Columns and formats are those of PredictionMarketBench's tables 3 to 6, followed by the P&L in sampled queue histories.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import polars as pl

from bellwether.formatting import NOTHING, earning, money, percent
from bellwether.replay.results.summary import sort_by_pnl
from bellwether.replay.rules import PMB

#: Minimum width of a name; names are folded before numbers.
_NAME = 12
_EPISODES = ("PnL ($)", "Return (%)", "Max DD (%)", "Contracts", "Fill (%)")
_AGENTS = (*_EPISODES[:-1], "Orders", _EPISODES[-1])

#: Marks of a P&L with limits.
_UNSETTLED, _DEFAULT = "*", "†"
_MARKED = f"{_UNSETTLED} a position is unsettled: valued at its mark."
_BY_DEFAULT = f"{_DEFAULT} the fees of a market are unknown: the venue's general fees were used, which its own may exceed."

_HINT = "--queues 20 repeats each run in 20 sampled queue histories, and shows how much the P&L depends on the place in the queue."


@dataclass(frozen=True, slots=True)
class Lines:
    """Table whose cells are texts. The first cell of a row is an untrusted name, the other cells are numbers. notes: texts below the table."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def agent_tables(backtests: pl.DataFrame, summary: pl.DataFrame, titles: Mapping[str, str] | None = None) -> list[Lines]:
    """Build a table per agent and rule set, with a line per episode and the total.

    Args:
        backtests: Rows of replay/backtests.
        summary: Rows of replay/summary, of these backtests.
        titles: Agents' names in the tables.
    """
    ordered = backtests.sort("episode")
    return [
        _agent_table((titles or {}).get(total["agent"], total["agent"]), ordered.filter(agent=total["agent"], rules=total["rules"]), total)
        for total in summary.sort("agent", "rules").iter_rows(named=True)
    ]


def comparison_table(summary: pl.DataFrame, titles: Mapping[str, str] | None = None) -> Lines:
    """Build the table that compares agents, with a row per agent and rule set by decreasing P&L, from rows of replay/summary. titles:
    agents' names in the table.
    """
    counts = sorted(set(summary["episodes"]))
    over = " to ".join(str(count) for count in (counts[0], counts[-1])[: len(counts)]) if counts else "no"
    heads, about = _queue_columns(summary.filter(pl.col("episodes") > 0).to_dicts())
    rows = tuple((name, *_cells(row, _AGENTS, heads, _UNSETTLED)) for name, row in _sort_by_pnl(summary, titles))
    notes = ["Return and Fill: mean over episodes. Max DD: the largest.", *about]
    most = max(summary["unsettled"].to_list(), default=0)
    if most:
        episodes = f"{most} episode{'' if most == 1 else 's'}"
        notes.append(f"{_UNSETTLED} up to {episodes} with an unsettled position are excluded.")
    if summary["default_fees"].sum():
        notes.append(_BY_DEFAULT)
    return Lines(f"All agents over {over} episode{'' if counts == [1] else 's'}", ("Agent", *_AGENTS, *heads), rows, tuple(notes))


def _sort_by_pnl(summary: pl.DataFrame, titles: Mapping[str, str] | None) -> list[tuple[str, dict[str, Any]]]:
    """Return the name and the row of each line of a comparison, by decreasing P&L, agents without an order last."""
    ordered = sort_by_pnl(summary)
    several = ordered["rules"].n_unique() > 1
    named = ((titles or {}).get(row["agent"], row["agent"]) for row in ordered.iter_rows(named=True))
    return [(f"{name} ({row['rules']})" if several else name, row) for name, row in zip(named, ordered.iter_rows(named=True), strict=True)]


def _agent_table(title: str, rows: pl.DataFrame, total: Mapping[str, Any]) -> Lines:
    failed = rows.filter(pl.col("failure").is_not_null())
    runs = rows.to_dicts()
    heads, notes = _queue_columns(runs)
    notes += tuple(f"{episode}: ended early: {why}" for episode, why in failed.select("episode", "failure").iter_rows())
    if rows["unsettled"].any():
        notes += (f"{_MARKED} The total covers {total['episodes']} of {rows.height}.",)
    if rows["default_fees"].any():
        notes += (_BY_DEFAULT,)
    lines = [(row["episode"], *_cells(row, _EPISODES, heads, _UNSETTLED)) for row in runs]
    lines.append(("Total", *_cells(total, _EPISODES, heads)))
    return Lines(f"{title} under {total['rules']}", ("Episode", *_EPISODES, *heads), tuple(lines), notes)


def _cells(row: Mapping[str, Any], columns: Sequence[str], heads: Sequence[str], unsettled: str = "") -> tuple[str, ...]:
    """Format a row of replay/backtests or replay/summary. unsettled: mark of a P&L with an unsettled position."""
    marks = (unsettled if row["unsettled"] else "") + (_DEFAULT if row["default_fees"] else "")
    if row.get("episodes") == 0:
        return (NOTHING + marks, *[NOTHING] * (len(columns) - 1 + len(heads)))
    mean = "_mean" if "episodes" in row else ""
    cells = {
        "PnL ($)": format_signed(row["pnl"]) + marks,
        "Return (%)": earning(row[f"return{mean}"], sign="+", unit=""),
        "Max DD (%)": percent(row["max_drawdown"], 2, ""),
        "Contracts": _format_contracts(row["contracts"]),
        "Orders": f"{row['orders']:,}",
        "Fill (%)": percent(row[f"fill_ratio{mean}"], 1, ""),
    }
    return (*(cells[name] for name in columns), *_queue_cells(row, heads))


def _queue_columns(rows: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the heads of the columns on sampled queue histories, and the notes on them; a hint if no row has any but could. rows: of
    replay/backtests or replay/summary.
    """
    counts = {row["queues"] for row in rows} - {0}
    if not counts:
        return (), (_HINT,) if any(row["rules"] != PMB for row in rows) else ()
    name = f"{counts.pop()} sampled queues" if len(counts) == 1 else "Sampled queues"
    note = f"{name}: the whole run in queue histories that the recording allows: median, share with a profit, and range of 5 to 95 %, no bound."
    return (f"{name} ($)",), (note,)


def _queue_cells(row: Mapping[str, Any], heads: Sequence[str]) -> tuple[str, ...]:
    if not heads or not row["queues"]:
        return (NOTHING,) * len(heads)
    median, won, low, high = _format_queues(row)
    return (f"{median}, {won}" if low == high else f"{median}, {won} ({low}…{high})",)


def queue_note(row: Mapping[str, Any]) -> str:
    """Describe the P&L over sampled queue histories. row: of replay/backtests or replay/summary."""
    if not row["queues"]:
        return "without sampled queues"
    median, won, low, high = _format_queues(row)
    return f"{row['queues']} sampled queues: median {median}, 5–95 % {low} to {high}, {won} with a profit"


def _format_queues(row: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Format the median of the P&L over sampled queue histories, the share with a profit, and the ends of the range."""
    median, low, high = (format_signed(row[f"queue_pnl_{name}"]) for name in ("median", "low", "high"))
    return median, percent(row["queue_profitable"], 0, "%"), low, high


def format_signed(value: Decimal | float) -> str:
    """Format dollars or a percentage with two decimals and a sign."""
    return money(value, sign="+")


def _format_contracts(value: Decimal) -> str:
    """Format a number of contracts, with two decimals unless it is whole."""
    return f"{value:,.0f}" if value == value.to_integral_value() else f"{value:,.2f}"


def print_table(lines: Lines, most: int | None = None) -> None:
    """Print a table and its notes. most: maximum number of rows. Cells are printed as text, never as markup."""
    from rich.text import Text

    from bellwether.console import console, plain_grid

    table = plain_grid(Text(_plain(lines.title)), padding=(0, 1, 0, 0))
    table.add_column(Text(lines.header[0]), overflow="fold", min_width=_NAME)
    for place, name in enumerate(lines.header[1:], start=1):
        words = [name, *(row[place] for row in lines.rows[:most])]
        table.add_column(Text(name), justify="right", width=max(len(word) for text in words for word in text.split()))
    for row in lines.rows[:most]:
        table.add_row(*(Text(_plain(cell)) for cell in row))
    console().print(table)
    if most is not None and len(lines.rows) > most:
        console().print(Text(f"the best {most} of {len(lines.rows)}; --out or --json has all", style="dim"))
    for note in lines.notes:
        console().print(Text(_plain(note), style="dim"))


def _plain(text: str) -> str:
    """Replace control characters, which untrusted names may contain, by spaces."""
    return "".join(sign if sign.isprintable() else " " for sign in text)
