"""Trading report: results of agents in replayed episodes, as JSON, figures and a page in Markdown.

docs/metrics.md describes the files and defines every number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from bellwether import __version__
from bellwether.lake.storage import Storage, open_storage
from bellwether.pages.markdown import render
from bellwether.replay.results.tear_sheet import draw_books
from bellwether.replay.results.text_tables import Lines, agent_tables, comparison_table
from bellwether.report.draft import Draft, Picture, make_picture, sorted_files, store_report
from bellwether.report.figures import Figure
from bellwether.report.results import PACKAGES, package_version
from bellwether.report.trading_inputs import TradingInputs, busiest_episodes
from bellwether.report.writer import safe_name
from bellwether.tables.replay import BACKTESTS, SUMMARY

BENCHMARK = "Bellwether replay"

#: Maximum number of agents with a table of episodes on the page, and of its lines; the JSON file contains all.
_MOST_AGENTS, _MOST_LINES = 20, 60


def write_trading_report(inputs: TradingInputs, reports: Storage | Path | str) -> list[str]:
    """Write the trading report to its folder below `reports` (a folder, an object-store URL or a storage), and return the locations of its
    files.

    The same inputs give the same bytes. An older report of the name is removed when the new one is complete. Raises `LakeError` when a file cannot
    be written.
    """
    storage = open_storage(str(reports)) if isinstance(reports, Path | str) else reports
    return store_report(storage, safe_name(inputs.name), inputs.stamp, lambda draft: _write_files(draft, inputs), benchmark=BENCHMARK)


def trading_figures(inputs: TradingInputs) -> Iterator[Figure]:
    """Yield the figures of the report. That of equity is left out without equity, those of books without tapes."""
    from bellwether.figures import equity, intervals
    from bellwether.figures.canvas import tail

    name, labels = inputs.name, inputs.labelled(inputs.ordered)["agent"].to_list()
    caption = "P&L of every episode, with mean and median."
    yield Figure.of("pnl", caption, intervals.pnl_distribution, inputs.backtests, inputs.summary, f"P&L by agent: {name}")
    if inputs.equity.height:
        caption, curves = "P&L over time, sampled; one panel per episode.", inputs.labelled(inputs.equity)
        yield Figure.of("equity", caption, equity.equity_by_episode, curves, f"P&L over time: {name}", agents=labels)
    caption = "Contracts displayed at each price of YES over time (bids blue, asks orange), and the fills of the busiest agent."
    for episode in dict.fromkeys(name for name, _ in busiest_episodes(inputs.backtests)):
        if episode in inputs.tapes:
            agent, fills = _busiest_agent(inputs, episode)
            title, about = f"{inputs.title(agent)} in {tail(episode, 44)}", f"{episode}: book, and fills of its busiest agent"
            yield Figure.of(f"book_{safe_name(episode)}", caption, draw_books, inputs.tapes[episode], fills, title, about=about)


def _busiest_agent(inputs: TradingInputs, episode: str) -> tuple[str, pl.DataFrame]:
    """Return the agent with the most recorded fills in an episode, and the fills."""
    fills = inputs.fills.filter(pl.col("episode") == episode)
    parts = fills.partition_by("agent", "rules", as_dict=True, maintain_order=True)
    key = max(sorted(parts), key=lambda key: parts[key].height, default=None)
    return ("", fills) if key is None else (str(key[0]), parts[key])


def _write_files(draft: Draft, inputs: TradingInputs) -> None:
    stamp = inputs.stamp
    draft.json(f"results_{stamp}.json", build_results_document(inputs), "Every number: agents, their tables, each backtest")
    pictures = draft.pictures(trading_figures(inputs))
    last = f"metadata_{stamp}.json"
    files = {**draft.about, last: "Rules, versions, digests of episodes and results, and every file with its digest"}
    draft.write(f"trading_{stamp}.md", render_trading_page(inputs, pictures, files).encode(), "This page")
    draft.json(last, _metadata(inputs, draft.files), "")


def render_trading_page(inputs: TradingInputs, pictures: Mapping[str, Picture], files: Mapping[str, str]) -> str:
    """Render the report in Markdown from the template `trading.md`."""
    backtests, tables = inputs.backtests, agent_tables(inputs.backtests, inputs.summary, inputs.titles)
    tables_shown = [replace(comparison_table(inputs.summary, inputs.titles), title=""), *tables[:_MOST_AGENTS]]
    context = {
        "inputs": inputs,
        "pictures": pictures,
        "picture": make_picture,
        "files": sorted_files(files),
        "known_at": f"{inputs.known_at:%Y-%m-%d %H:%M:%S}",
        "values": lambda column: backtests[column].unique().sort(),
        "rows": [row | _execution(backtests, row) for row in inputs.ordered.iter_rows(named=True)],
        "failed": backtests.filter(pl.col("failure").is_not_null()).to_dicts(),
        "tables": [_shorten_table(lines) for lines in tables_shown],
        "more": len(tables) - _MOST_AGENTS,
        "books": [picture for name, picture in pictures.items() if name.startswith("book_")],
    }
    return render("trading.md", context)


def _execution(backtests: pl.DataFrame, row: Mapping[str, Any]) -> dict[str, Any]:
    own = backtests.filter((pl.col("agent") == row["agent"]) & (pl.col("rules") == row["rules"]))
    wait, adverse = own["queue_wait_median"].mean(), own["adverse_selection_30s"].mean()
    return {
        "rejected": int(own["rejected"].sum()),
        "fills": int(own["fills"].sum()),
        "adverse_selection": None if adverse is None else 100 * float(adverse),  # type: ignore[arg-type]
        "queue_wait": wait,
        "time_in_market": own["time_in_market"].mean(),
        "turnover": own["turnover"].mean(),
    }


def _shorten_table(lines: Lines) -> dict[str, Any]:
    """Shorten a table to `_MOST_LINES` lines, of which the last is the total."""
    rows, cut = list(lines.rows), len(lines.rows) - _MOST_LINES
    if cut > 0:
        rows = [*rows[: _MOST_LINES - 1], rows[-1]]
    return {"title": lines.title, "header": lines.header, "rows": rows, "notes": lines.notes, "cut": cut}


def build_results_document(inputs: TradingInputs) -> dict[str, Any]:
    """Build `results_<stamp>.json`: rows of replay/summary and replay/backtests. Amounts are text, so that all digits are
    kept.
    """
    return {
        "benchmark": BENCHMARK,
        "name": inputs.name,
        "timestamp": inputs.known_at,
        "agents": inputs.summary.select(SUMMARY.names).to_dicts(),
        "backtests": inputs.backtests.select(BACKTESTS.names).to_dicts(),
    }


def _metadata(inputs: TradingInputs, files: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    rows = inputs.backtests
    return {
        "benchmark": BENCHMARK,
        "version": __version__,
        "name": inputs.name,
        "timestamp": inputs.stamp,
        "known_at": inputs.known_at,
        "rules": sorted(rows["rules"].unique()),
        "queue_models": sorted(rows["queue_model"].unique()),
        "engine_versions": sorted(rows["engine_version"].unique()),
        "settings_digests": sorted(rows["settings_digest"].unique()),
        "episodes": dict(rows.select("episode", "episode_digest").unique().sort("episode").iter_rows()),
        "result_digests": [list(row) for row in rows.select("agent", "rules", "episode", "result_digest").iter_rows()],
        "tables": {table.name: table.version for table in (BACKTESTS, SUMMARY)},
        "packages": {name: installed for name in (*PACKAGES, "numba") if (installed := package_version(name)) is not None},
        "files": dict(sorted(files.items())),
    }
