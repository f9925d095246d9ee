"""Pages of trading: recorded episodes (books and trades of one event), agents, and the tear sheet of each agent in each episode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from bellwether.figures.canvas import palette
from bellwether.figures.equity import extremes
from bellwether.formatting import counted
from bellwether.pages import charts, columns
from bellwether.pages.charts import Colours
from bellwether.pages.columns import Row, Shown, build_column, build_table, estimate_column, hidden_columns
from bellwether.pages.model import Cell, Chart, Note, Page, Part, Section, Stats
from bellwether.pages.render import File, render
from bellwether.pages.values import cast_decimals, earning, group_rows, money, number, percent, text
from bellwether.replay.results import tear_sheet
from bellwether.replay.results.summary import describe_winners, find_winners, sort_by_pnl
from bellwether.replay.results.tear_sheet import BOOK_NOTE, book_chart, book_rows
from bellwether.replay.results.text_tables import queue_note
from bellwether.site.paths import episode_path, run_path, trader_path
from bellwether.site.source import SiteSource
from bellwether.tables.replay import BOOK_PRICES

#: Columns of replay/books that are read.
BOOK_COLUMNS = (
    "ticker", "at", "bid", "ask", "bid_prices", "bid_sizes", "ask_prices", "ask_sizes", "traded", "trade_price"
)  # fmt: skip
#: Maximum of drawn markets.
_BOOK_CHARTS = 8

_ABOVE = [("Trading", "trading/index.html")]
_EQUITY = ("agent", "at", "equity")
#: Points of a curve in a chart of several.
_POINTS = 100


def pages(source: SiteSource, colours: Colours) -> Iterator[File]:
    """Yield the overview, and the pages of agents and of episodes with the tear sheets of their backtests."""
    markets, runs, summary = source.frame("replay/episodes"), source.frame("replay/backtests"), source.frame("replay/summary")
    of_names = colours.of(runs["agent"].unique().sort().to_list())
    sections = [Section("Agents", [_agents(summary)]), Section("Episodes", [_episodes(source.query("episodes"), runs)])]
    lead = (
        "Recorded markets, replayed order by order. An episode is the recording of one event; an agent trades it against the recorded book."
    )
    yield from render(Page("trading/index.html", "Trading", lead, sections))
    for (name,), part in runs.group_by("agent", maintain_order=True):
        yield from _agent(str(name), part, summary.filter(pl.col("agent") == name), of_names)
    for (name,), part in markets.group_by("episode", maintain_order=True):
        yield from _episode(source, str(name), part, runs.filter(pl.col("episode") == name), of_names)


#: Column of the P&L over sampled queue histories.
_QUEUES = estimate_column(
    "Sampled queues [5 to 95 %]",
    "queue_pnl_median",
    "median P&L of whole runs in queue histories that the recordings allow",
    2,
    unit="$",
    ends=("queue_pnl_low", "queue_pnl_high"),
)


def mean_column() -> Shown:
    """Build the column of mean P&L with the lowest and the highest episode."""
    return estimate_column(
        "Mean P&L [lowest, highest]",
        "pnl_mean",
        "profit or loss of an episode after the fees of the venue, with positions at their settlement",
        2,
        unit="$",
        reference=0.0,
        drawn=True,
        ends=("pnl_min", "pnl_max"),
    )


def trader_column() -> Shown:
    """Build the column of trading agents."""
    return build_column(
        "Agent", lambda row: text(row["agent"], trader_path(row["agent"]))._replace(note=counted(row["episodes"], "episode"))
    )


def _spread_note(row: Row) -> str:
    """Format the lowest and the highest P&L of an episode. row: of replay/summary."""
    ends = [money(row[name], signed=True).text for name in ("pnl_min", "pnl_max")]
    return f"from {ends[0]} to {ends[1]} in {counted(row['episodes'], 'episode')}" if row["episodes"] else ""


def _agents(summary: pl.DataFrame) -> Part:
    table = "replay/summary"
    return build_table(
        table,
        "Agents over all their episodes, by P&L",
        sort_by_pnl(summary).iter_rows(named=True),
        trader_column(),
        mean_column(),
        build_column("P&L", lambda row: money(row["pnl"], signed=True), columns.definition(table, "pnl"), numeric=True),
        _QUEUES,
        build_column("Mean return", lambda row: earning(row["return_mean"]), columns.definition(table, "return_mean"), numeric=True),
        "max_drawdown",
        *hidden_columns(table, "fill_ratio_mean", "contracts", "fees", "profitable", "queue_profitable", "rules"),
        filters=("Rules",),
        search=("Agent",),
        empty="The warehouse has no summary of backtests yet.",
        name="agents",
        size=50,
        leading=3,
    )


def winner_cells(runs: pl.DataFrame) -> tuple[Cell, Cell]:
    """Return the cells of an episode's best agent and of its P&L. runs: backtests of the episode."""
    winners = find_winners(runs, "pnl")
    if len(winners) != 1:
        return Cell(describe_winners(runs, winners, "pnl")), Cell("–")
    best = winners[0]
    return text(best["agent"], run_path(best["episode"], best["agent"])), money(best["pnl"], signed=True)


def _episodes(episodes: pl.DataFrame, runs: pl.DataFrame) -> Part:
    backtests = {name: runs.filter(pl.col("episode") == name) for name in episodes["episode"]}
    best = {name: winner_cells(rows) for name, rows in backtests.items()}
    return build_table(
        "replay/episodes",
        "Episodes",
        episodes.iter_rows(named=True),
        *("episode", "title", "venue", ("start_at", "Start"), "markets", "trades"),
        build_column("Agents", lambda row: number(backtests[row["episode"]].height), numeric=True),
        build_column("Best agent", lambda row: best[row["episode"]][0]),
        build_column("Its P&L", lambda row: best[row["episode"]][1], numeric=True),
        links={"episode": lambda row: episode_path(row["episode"])},
        filters=("Venue",),
        search=("Episode", "Title"),
        empty="The warehouse has no episodes yet.",
        name="episodes",
    )


def _runs(caption: str, runs: pl.DataFrame, first: str, **options: Any) -> Part:
    """Build a table of backtests. first: column of their agents or episodes."""
    table = "replay/backtests"
    pnl = estimate_column(
        "P&L [5 to 95 % of sampled queues]", "pnl", columns.definition(table, "pnl"), 2, unit="$", reference=0.0, drawn=True,
        ends=("queue_pnl_low", "queue_pnl_high"),
    )  # fmt: skip
    return build_table(
        table,
        caption,
        runs.iter_rows(named=True),
        first,
        pnl,
        build_column("Return", lambda row: earning(row["return"]), columns.definition(table, "return"), numeric=True),
        *("max_drawdown", "orders", "fills", "fill_ratio", "contracts", "fees", "unsettled", "failure"),
        links={first: lambda row: run_path(row["episode"], row["agent"])},
        **options,
    )


def _agent(name: str, runs: pl.DataFrame, summary: pl.DataFrame, colours: dict[str, str]) -> Iterator[File]:
    sections = [Section(line["rules"], [_headline(line)]) for line in summary.iter_rows(named=True)]
    sections += [
        Section("P&L over episodes", [_cumulative(name, runs, colours)]),
        Section("Episodes", [_runs(f"Episodes of {name}", runs, "episode", search=("Episode", "Failure"), name="episodes")]),
    ]
    yield from render(Page(trader_path(name), name, f"A tear sheet over {runs.height} episodes.", sections, _ABOVE))


def _headline(line: Row) -> Stats:
    return Stats(
        [
            ("P&L", money(line["pnl"], signed=True), f"{counted(line['episodes'], 'episode')}; {queue_note(line)}"),
            ("Mean P&L", money(line["pnl_mean"], signed=True), _spread_note(line)),
            ("Largest drawdown", percent(line["max_drawdown"], 2), "of an episode"),
            ("Profitable", percent(line["profitable"]), "of the episodes"),
        ]
    )


def _cumulative(name: str, runs: pl.DataFrame, colours: dict[str, str]) -> Chart:
    """Build the chart of an agent's P&L, cumulated over episodes in the order of settlement."""
    rows = []
    several = runs["rules"].n_unique() > 1
    for (rules,), part in runs.sort("settled_at", "episode", nulls_last=True).group_by("rules", maintain_order=True):
        totals = pl.concat([pl.Series("pnl", [0.0]), part["pnl"].cast(pl.Float64)]).cum_sum().round(6)
        rows += [{"name": rules if several else name, "x": place, "y": total} for place, total in enumerate(totals)]
    lines = dict(palette(str(row["name"]) for row in rows)) if several else {name: colours[name]}
    return charts.lines("Cumulative P&L over episodes", "episodes", "dollars", rows, lines, time=False)


def _episode(source: SiteSource, name: str, markets: pl.DataFrame, runs: pl.DataFrame, colours: dict[str, str]) -> Iterator[File]:
    equity = tear_sheet.equity_points(source.frame("replay/equity", *_EQUITY, episode=name))
    rows = {
        one: group_rows(cast_decimals(source.frame(f"replay/{one}", episode=name)), "agent") for one in ("orders", "fills", "market_pnl")
    }
    curves = [
        {"name": agent, "x": own[place]["x"], "y": own[place]["equity"]}
        for agent, own in equity.items()
        for place in extremes(np.array([row["equity"] for row in own], dtype=np.float64), most=_POINTS).tolist()
    ]
    ranked = sort_by_pnl(runs)
    first = ranked["agent"].to_list()[:5]
    parts: list[Part] = [_runs("Agents of the episode, by P&L", ranked, "agent", empty="No agent has traded this episode yet.")]
    if curves:
        parts.append(charts.lines("Equity", "UTC", "dollars", curves, colours, first=first))
    fills = sorted((row for part in rows["fills"].values() for row in part), key=lambda row: row["filled_at"])
    recorded = source.frame("replay/books", *BOOK_COLUMNS, episode=name)
    sections = [Section("Agents", parts), Section("Book", book_parts(recorded, fills)), Section("Markets", [_markets(markets)])]
    warnings = sorted({one for row in markets["warnings"].to_list() for one in row or ()})
    if warnings:
        sections.append(Section("Warnings of the validation", [Note(one) for one in warnings]))
    title = text(markets["title"][0] or name).text
    lead = f"{name}: {markets.height} markets of {markets['venue'][0]}, {runs.height} agents."
    yield from render(Page(episode_path(name), title, lead, sections, _ABOVE))
    traded = {str(one["ticker"]) for one in fills}
    book = tear_sheet.book_rows(recorded.filter(pl.col("ticker").is_in(traded)))
    for run in runs.iter_rows(named=True):
        own = {one: part.get(run["agent"], []) for one, part in rows.items()}
        yield from _run(run, title, colours, equity=equity.get(run["agent"], []), book=book, markets=own.pop("market_pnl"), **own)


def _run(run: dict[str, Any], title: str, colours: dict[str, str], **rows: Any) -> Iterator[File]:
    """Yield the tear sheet of an agent in an episode. run: the backtest. title: of the episode. rows: of the backtest's other tables."""
    above = [("Trading", "trading/index.html"), (title, episode_path(run["episode"])), (run["agent"], trader_path(run["agent"]))]
    lead = f"P&L {money(run['pnl'], signed=True).text} in {run['episode']}."
    parts = tear_sheet.sections(run, colours=colours, **rows)
    yield from render(Page(run_path(run["episode"], run["agent"]), f"{run['agent']} in {title}", lead, parts, above))


def _markets(markets: pl.DataFrame) -> Part:
    return build_table(
        "replay/episodes",
        "Markets of the episode",
        markets.iter_rows(named=True),
        *("ticker", "result", ("result_source", "Source of the result"), ("settled_at", "Settled"), "volume", "trades"),
        *(("book_rows", "Changes of the book"), "gaps", ("fee_type", "Fees"), "recording"),
    )


def book_parts(books: pl.DataFrame, fills: Sequence[Mapping[str, Any]]) -> list[Part]:
    """Build the heat map of the episode's most active markets. books: rows of replay/books. fills: of all agents, with numbers as floats."""
    if not books.height:
        return [Note("The warehouse has no books of this episode yet.")]
    # The sum of both prices is null if a side is empty.
    moves = (pl.col("bid") + pl.col("ask")).sort_by("at").drop_nulls().diff().ne(0).sum()
    activity = books.group_by("ticker").agg(pl.len(), moves=moves).sort(["moves", "len", "ticker"], descending=[True, True, False])
    drawn_tickers = activity["ticker"].head(_BOOK_CHARTS).to_list()
    rows = book_rows(books.filter(pl.col("ticker").is_in(drawn_tickers)))
    note = f"{BOOK_NOTE} Fills are those of all agents. A side shows its best {BOOK_PRICES} prices; nothing is drawn where the recording has a gap "
    note += "or the market was closed."
    if activity.height > len(drawn_tickers):
        note += f" The charts show the {len(drawn_tickers)} of {activity.height} markets with the most price changes; the table replay.books, under Data, has all."
    return [Note(note), book_chart("Contracts at each price over time, with trades and fills", drawn_tickers, rows, fills)]
