"""The page of the trading report in Markdown: the results tables, how orders were executed, failures, figures. All names are anyone's text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from bellwether.formatting import interval, money, number, percent
from bellwether.replay.results.intervals import LEAST_EPISODES
from bellwether.replay.results.lines import Lines, agent_tables, comparison_table
from bellwether.report.markdown import table, text
from bellwether.report.material import Picture
from bellwether.report.trading_inputs import TradingInputs

#: Agents whose episodes are listed on the page, and lines of each; the JSON beside it has all.
_MOST_AGENTS, _MOST_LINES = 20, 60


def page(inputs: TradingInputs, pictures: Mapping[str, Picture], files: Mapping[str, str]) -> str:
    """The whole page."""
    parts = [
        _head(inputs),
        _comparison(inputs, pictures),
        _risk(inputs),
        _execution(inputs, pictures),
        _failures(inputs),
        _agents(inputs),
        _books(pictures),
        _definitions(),
        _files(files),
    ]
    return "\n".join(line for part in parts for line in part).rstrip() + "\n"


def _head(inputs: TradingInputs) -> list[str]:
    rows = inputs.backtests
    sampling = ", ".join(f"{seconds:g} s" for seconds in rows["sample_seconds"].unique().sort())
    facts = [
        ("Agents", number(len(inputs.agents))),
        ("Episodes", number(len(inputs.episodes))),
        ("Backtests", number(rows.height)),
        ("Rules", ", ".join(text(name) for name in rows["rules"].unique().sort())),
        ("Queue model", ", ".join(text(name) for name in rows["queue_model"].unique().sort())),
        ("Bankroll ($)", ", ".join(f"{amount:,.2f}" for amount in rows["bankroll"].unique().sort())),
        ("Equity sampled every", sampling),
        ("Version of the simulator", ", ".join(text(name) for name in rows["engine_version"].unique().sort())),
    ]
    return [
        f"# Trading report: {text(inputs.name)}",
        "",
        f"Data known until {inputs.known_at:%Y-%m-%d %H:%M:%S} UTC. Every number is in the JSON file beside this page.",
        "",
        *table(("", "Value"), facts, texts=2),
    ]


def _comparison(inputs: TradingInputs, pictures: Mapping[str, Picture]) -> list[str]:
    return ["## Agents", "", *_lines(comparison_table(inputs.summary, inputs.titles)), *_pictures(pictures, "pnl", "equity")]


def _risk(inputs: TradingInputs) -> list[str]:
    rows = [
        (
            *_who(inputs, row),
            number(row["pnl_mean"], 2),
            interval(row["pnl_mean_lower"], row["pnl_mean_upper"], 2),
            number(row["pnl_mean_df"], 0),
            number(row["pnl_median"], 2),
            percent(row["profitable"]),
            percent(row["max_drawdown_mean"], 2),
            percent(row["max_drawdown"], 2),
            _counted(row["sharpe_mean"], row["sharpe_episodes"], row["episodes"]),
            interval(row["sharpe_mean_lower"], row["sharpe_mean_upper"], 1),
            number(row["episodes"]),
        )
        for row in _ordered(inputs)
    ]
    header = (
        "Agent",
        "Rules",
        "Mean P&L ($)",
        "95 %",
        "df",
        "Median ($)",
        "Profitable",
        "Mean max DD",
        "Max DD",
        "Sharpe, annualised",
        "95 %",
        "Episodes",
    )
    note = (
        "Intervals take episodes as independent, and are missing below "
        f"{LEAST_EPISODES} of them. Sharpe: mean of the episodes that have one, in parentheses how many where not all; annualised from samples of"
        " one or a few days, so that it compares agents and promises nothing."
    )
    return ["## Profit and risk by episode", "", *table(header, rows, texts=2), note, ""]


def _execution(inputs: TradingInputs, pictures: Mapping[str, Picture]) -> list[str]:
    rows = []
    for row in _ordered(inputs):
        own = inputs.backtests.filter((pl.col("agent") == row["agent"]) & (pl.col("rules") == row["rules"]))
        rows.append(
            (
                *_who(inputs, row),
                number(row["orders"]),
                number(int(own["rejected"].sum())),
                number(int(own["fills"].sum())),
                f"{row['contracts']:,.2f}",
                percent(row["fill_ratio_mean"]),
                percent(row["maker_share"]),
                money(row["fees"]),
                money(row["slippage"]),
                number(_mean(own, "adverse_selection_30s", 100), 2),
                number(_mean(own, "queue_wait_median", 1), 1),
                percent(_mean(own, "time_in_market", 1)),
                percent(_mean(own, "turnover", 1)),
            )
        )
    header = (
        "Agent",
        "Rules",
        "Orders",
        "Rejected",
        "Fills",
        "Contracts",
        "Fill ratio",
        "As maker",
        "Fees ($)",
        "Slippage ($)",
        "Adverse selection, 30 s (c)",
        "Queue wait (s)",
        "In market",
        "Turnover",
    )
    note = (
        "Fill ratio, adverse selection, queue wait, time in market and turnover: mean over the episodes that have them; the queue wait of an episode"
        " is its median."
    )
    return ["## Execution", "", *table(header, rows, texts=2), note, "", *_pictures(pictures, "markouts")]


def _failures(inputs: TradingInputs) -> list[str]:
    failed = inputs.backtests.filter(pl.col("failure").is_not_null())
    if failed.is_empty():
        return []
    rows = [
        (text(inputs.title(row["agent"])), text(row["episode"]), text(row["failure"]), number(row["failed_step"]))
        for row in failed.iter_rows(named=True)
    ]
    said = "The agent's episode ended at that decision: its orders were cancelled, what it held was settled or marked."
    return ["## Failures", "", said, "", *table(("Agent", "Episode", "Why", "Decision"), rows, texts=3)]


def _agents(inputs: TradingInputs) -> list[str]:
    tables = agent_tables(inputs.results, inputs.titles)
    shown = [line for lines in tables[:_MOST_AGENTS] for line in (f"### {text(lines.title)}", "", *_lines(lines))]
    more = len(tables) - _MOST_AGENTS
    return ["## Results by agent", "", *shown, *([f"And {more} more in the JSON file.", ""] if more > 0 else [])]


def _lines(lines: Lines) -> list[str]:
    """A table, its total kept where its lines are cut."""
    rows = list(lines.rows)
    cut = len(rows) - _MOST_LINES
    shown = [*rows[: _MOST_LINES - 1], rows[-1]] if cut > 0 else rows
    body = table([text(name) for name in lines.header], [(text(row[0]), *row[1:]) for row in shown])
    notes = [text(note, 400) for note in lines.notes]
    if cut > 0:
        notes.append(f"{cut} more lines are in the JSON file.")
    return [*body, *(line for note in notes for line in (note, ""))]


def _books(pictures: Mapping[str, Picture]) -> list[str]:
    drawn = [name for name in pictures if name.startswith(("book_", "fills_"))]
    return ["## Books and fills", "", *_pictures(pictures, *drawn)] if drawn else []


def _pictures(pictures: Mapping[str, Picture], *names: str) -> list[str]:
    return [line for name in names if name in pictures for line in pictures[name].lines()]


def _definitions() -> list[str]:
    return [
        "## What the numbers are",
        "",
        "P&L is final equity less bankroll; positions are marked at the side at which they could be sold, at nothing where nobody bids. Max DD is the"
        " largest fall of the sampled equity from its running peak, as a share of the peak. The P&L band has the pessimistic queue"
        " (only trades move it) and the optimistic one (every cancellation was ahead): of the same calls, or, where it says rerun, of the agent's own"
        " runs. Slippage is what takers paid beyond the middle of the"
        " book, without fees. Adverse selection is the mean markout of maker fills: negative when the market moved against them.",
        "",
    ]


def _files(files: Mapping[str, str]) -> list[str]:
    ordered = sorted(files.items(), key=lambda file: (file[0].endswith(".png"), file[0]))
    return [
        "## Files",
        "",
        *table(("File", "What it holds"), [(f"[`{name}`]({name})", text(what, 200)) for name, what in ordered], texts=2),
    ]


def _ordered(inputs: TradingInputs) -> list[dict[str, Any]]:
    return inputs.ordered.to_dicts()


def _who(inputs: TradingInputs, row: Mapping[str, Any]) -> tuple[str, str]:
    return text(inputs.title(row["agent"])), text(row["rules"])


def _counted(value: float | None, n: int, of: int) -> str:
    shown = number(value, 1)
    return shown if value is None or n == of else f"{shown} ({n})"


def _mean(rows: pl.DataFrame, name: str, factor: float) -> float | None:
    value = rows[name].mean()
    return None if value is None else factor * float(value)  # type: ignore[arg-type]
