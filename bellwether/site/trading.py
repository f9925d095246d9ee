"""Pages of trading: recorded episodes (books and trades of one event), agents, and the tear sheet of each agent in each episode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from bellwether.figures.canvas import palette
from bellwether.figures.equity import extremes
from bellwether.figures.statistics import weighted_spread
from bellwether.formatting import counted
from bellwether.pages import charts, columns
from bellwether.pages.charts import Colours
from bellwether.pages.model import Cell, Chart, Facts, Grid, Head, Note, Page, PageTable, Part, Section, Stats
from bellwether.pages.render import File, render
from bellwether.pages.values import (
    cast_decimals,
    earning,
    finite,
    group_rows,
    money,
    number,
    percent,
    slug,
    text,
    timestamp,
    yes_no,
)
from bellwether.replay.results import tear_sheet
from bellwether.replay.results.summary import LEAST_EPISODES, describe_winners, find_winners, sort_by_pnl
from bellwether.replay.results.tear_sheet import BOOK_NOTE, book_chart, book_rows
from bellwether.replay.results.text_tables import queue_note
from bellwether.site.source import SiteSource
from bellwether.site.unit import Unit, key
from bellwether.tables.replay import BOOK_LEVELS, BOOK_PRICES, HORIZONS_S

#: Columns of replay/books that are read.
BOOK_COLUMNS = (
    "ticker", "at", "bid", "ask", "bid_depth", "ask_depth", "bid_prices", "bid_sizes", "ask_prices", "ask_sizes", "traded", "trade_price"
)  # fmt: skip
#: Maximum of drawn markets.
_BOOK_CHARTS = 8

_TABLES = tuple(f"replay/{name}" for name in ("episodes", "orders", "fills", "equity", "backtests", "market_pnl", "books"))
_ABOVE = [("Trading", "trading/index.html")]
_EQUITY = ("agent", "at", "equity")
#: Amounts of a market, and columns of replay/market_pnl that are read.
_AMOUNTS = ("trading_pnl", "settlement_pnl", "unrealised", "fees", "pnl")
_MARKET_COLUMNS = ("agent", "episode", "ticker", "fills", *_AMOUNTS)
#: Maximum of best markets, and of worst ones.
_MARKETS = 10
#: Order statistics summed and averaged over episodes.
_SUMS = ("orders", "rejected", "fills", "contracts", "fees", "slippage")
_MEANS = ("fill_ratio", "maker_share", "turnover", "time_in_market", "queue_wait_median")
#: Definition of the ratio per episode.
_RATIO = "mean P&L of an episode over its standard deviation, not annualised; from three settled episodes"
_QUEUES = ("queue_pnl_median", "queue_pnl_low", "queue_pnl_high", "queue_profitable")
#: Points of a curve in a chart of several.
_POINTS = 100


def episode_path(episode: str) -> str:
    """Return the path of the page of an episode."""
    return f"trading/episode/{slug(episode)}/index.html"


def run_path(episode: str, agent: str) -> str:
    """Return the path of the page of an agent in an episode."""
    return f"trading/episode/{slug(episode)}/agent/{slug(agent)}.html"


def agent_path(agent: str) -> str:
    """Return the path of the page of an agent."""
    return f"trading/agent/{slug(agent)}.html"


def agent_names(source: SiteSource) -> list[str]:
    """Return the names of all trading agents, by the earliest `known_at` of a backtest."""
    runs = source.frame("replay/backtests", "agent", "known_at")
    return runs.group_by("agent").agg(pl.col("known_at").min()).sort("known_at", "agent")["agent"].to_list()


def units(source: SiteSource, colours: Colours) -> Iterator[Unit]:
    """Yield the units of trading (groups of files built together): one for the overview and the agents, and one per episode with the tear sheets of
    its backtests.
    """
    episodes, runs, summary = source.frame("replay/episodes"), source.frame("replay/backtests"), source.frame("replay/summary")
    markets = source.frame("replay/market_pnl", *_MARKET_COLUMNS)
    of_names = colours.of(runs["agent"].unique().sort().to_list())
    overview = partial(_overview, episodes, runs, summary, markets, of_names)
    yield Unit("trading", key(episodes, runs, summary, markets, of_names), overview, source.date("replay/summary"))
    for (name,), markets in episodes.group_by("episode", maintain_order=True):
        digest = source.digest(*_TABLES, starts=str(name))
        part = runs.filter(pl.col("episode") == name)
        yield Unit(f"episode {name}", key(name, digest, of_names), partial(_episode, source, str(name), markets, part, of_names))


def summary_heads(summary: pl.DataFrame) -> list[Head]:
    """Build the column heads of the table of agents."""
    return [
        *columns.heads("replay/summary", "agent", "rules", "episodes", "pnl"),
        *queue_heads("replay/summary", summary),
        *columns.heads("replay/summary", "pnl_mean", "pnl_min", "pnl_max", "return_mean", "max_drawdown"),
        Head("Ratio per episode", _RATIO, number=True),
        *columns.heads("replay/summary", "fill_ratio_mean", "contracts", "fees", "profitable"),
    ]


def summary_rows(summary: pl.DataFrame, ratios: Mapping[tuple[str, str], float]) -> list[list[Cell]]:
    """Build the rows of the table of agents, the highest P&L first. ratios: from `ratios_of`."""
    return [
        [
            text(row["agent"], agent_path(row["agent"])),
            text(row["rules"]),
            number(row["episodes"]),
            money(row["pnl"], signed=True),
            *queue_cells(row),
            *(money(row[name], signed=True) for name in ("pnl_mean", "pnl_min", "pnl_max")),
            earning(row["return_mean"]),
            percent(row["max_drawdown"], 1),
            number(ratios.get((row["agent"], row["rules"])), 2),
            percent(row["fill_ratio_mean"], 1),
            number(row["contracts"], 0),
            money(row["fees"]),
            percent(row["profitable"]),
        ]
        for row in sort_by_pnl(summary).iter_rows(named=True)
    ]


def ratios_of(runs: pl.DataFrame) -> dict[tuple[str, str], float]:
    """Compute the mean P&L per episode divided by the standard deviation, by agent and rules. Only with three or more settled episodes."""
    settled = runs.filter(~pl.col("unsettled")).group_by("agent", "rules").agg(pl.len(), pl.col("pnl").cast(pl.Float64).alias("pnl"))
    ratios = settled.filter(pl.col("len") >= 3).select("agent", "rules", ratio=pl.col("pnl").list.mean() / pl.col("pnl").list.std())
    return {(agent, rules): ratio for agent, rules, ratio in ratios.iter_rows() if finite(ratio) is not None}


def queue_heads(table: str, rows: pl.DataFrame) -> list[Head]:
    """Build the column heads of the P&L over sampled queue histories. table: name of the table of `rows`."""
    first, *others = columns.heads(table, *_QUEUES)
    most = max(rows["queues"].to_list(), default=0)
    return [first._replace(text=f"{most} sampled queues, median P&L"), *others]


def queue_cells(row: Mapping[str, Any]) -> list[Cell]:
    """Format the P&L over sampled queue histories. row: of replay/backtests or replay/summary."""
    return [*(money(row[name], signed=True) for name in _QUEUES[:-1]), percent(row["queue_profitable"])]


def _overview(
    episodes: pl.DataFrame, runs: pl.DataFrame, summary: pl.DataFrame, markets: pl.DataFrame, colours: dict[str, str]
) -> Iterator[File]:
    lead = "Recorded markets, replayed order by order. Sampled queues are whole runs in queue histories that the recordings allow; they are no bound."
    sections = [Section("", [Stats([*leader_tiles(summary), *_totals(episodes, runs)])])] if summary.height else []
    sections += [Section("Agents", _agents(summary, ratios_of(runs), colours)), Section("Episodes", [_episodes(episodes, runs)])]
    yield from render(Page("trading/index.html", "Trading", lead, sections))
    for (name,), part in runs.group_by("agent", maintain_order=True):
        own = pl.col("agent") == name
        yield from _agent(str(name), part, summary.filter(own), markets.filter(own), colours)


def leader_tiles(summary: pl.DataFrame) -> list[tuple[str, Cell, str]]:
    """Build the headline numbers of the agent with the highest mean P&L over at least three episodes. summary: rows of replay/summary."""
    compared = summary.filter(pl.col("episodes") >= LEAST_EPISODES)
    winners = find_winners(compared, "pnl_mean")
    if len(winners) != 1:
        none = describe_winners(compared, winners, "pnl_mean") if compared.height else f"No leader: fewer than {LEAST_EPISODES} episodes"
        return [("Leader", Cell(none), f"of {summary['agent'].n_unique()} agents")]
    best = winners[0]
    return [
        ("Leader", text(best["agent"], agent_path(best["agent"])), f"of {summary['agent'].n_unique()} agents"),
        ("Mean P&L", money(best["pnl_mean"], signed=True), _spread_note(best)),
        ("Episodes", number(best["episodes"]), best["rules"]),
    ]


def _spread_note(row: Mapping[str, Any]) -> str:
    """Format the lowest and the highest P&L of an episode. row: of replay/summary."""
    ends = [money(row[name], signed=True).text for name in ("pnl_min", "pnl_max")]
    return f"from {ends[0]} to {ends[1]} in {counted(row['episodes'], 'episode')}" if row["episodes"] else ""


def _totals(episodes: pl.DataFrame, runs: pl.DataFrame) -> list[tuple[str, Cell, str]]:
    return [
        ("Markets", number(episodes.height), f"of {episodes['episode'].n_unique()} episodes"),
        ("Recorded trades", number(episodes["trades"].sum()), f"{number(episodes['volume'].sum(), 0).text} contracts"),
        ("Fills", number(runs["fills"].sum()), f"of {number(runs['orders'].sum()).text} orders in {runs.height} backtests"),
    ]


def mean_rows(summary: pl.DataFrame) -> list[dict[str, object]]:
    """Build chart rows of the agents' mean P&L with the lowest and the highest episode."""
    return summary.drop_nulls("pnl_mean").select(name="agent", value="pnl_mean", lower="pnl_min", upper="pnl_max").to_dicts()


def _agents(summary: pl.DataFrame, ratios: Mapping[tuple[str, str], float], colours: dict[str, str]) -> list[Part]:
    if not summary.height:
        return [Note("The warehouse has no summary of backtests yet.")]
    table = PageTable("Agents over all their episodes, by P&L", summary_heads(summary), summary_rows(summary, ratios))
    rules = summary["rules"].unique(maintain_order=True).to_list()
    parts: list[Part] = []
    for rule in rules:
        rows = mean_rows(summary.filter(pl.col("rules") == rule).sort("pnl_mean", descending=True, nulls_last=True))
        if rows:
            parts.append(charts.intervals(f"Mean, lowest and highest P&L of an episode under {rule}", "dollars", rows, colours))
    return [*parts, table]


def winner_cells(runs: pl.DataFrame) -> tuple[Cell, Cell]:
    """Return the cells of an episode's best agent and of its P&L. runs: backtests of the episode."""
    winners = find_winners(runs, "pnl")
    if len(winners) != 1:
        return Cell(describe_winners(runs, winners, "pnl")), Cell("–")
    best = winners[0]
    return text(best["agent"], run_path(best["episode"], best["agent"])), money(best["pnl"], signed=True)


def _episodes(episodes: pl.DataFrame, runs: pl.DataFrame) -> Grid | Note:
    if not episodes.height:
        return Note("The warehouse has no episodes yet.")
    counts = dict(runs.group_by("episode").len().iter_rows())
    rows = []
    for (name,), part in episodes.group_by("episode", maintain_order=True):
        rows.append(
            [
                text(name, episode_path(str(name))),
                text(part["title"][0]),
                text(part["venue"][0]),
                timestamp(part["start_at"].min()),  # type: ignore[arg-type]
                number(part.height),
                number(part["trades"].sum()),
                number(counts.get(name, 0)),
                *winner_cells(runs.filter(pl.col("episode") == name)),
            ]
        )
    heads = [Head("Episode"), Head("Title"), Head("Venue"), Head("Start"), Head("Markets", number=True), Head("Trades", number=True)]
    heads += [Head("Agents", number=True), Head("Best agent"), Head("Its P&L", number=True)]
    return Grid("episodes", "Episodes", heads, rows, filters=(2,), search=(0, 1))


def _agent(name: str, runs: pl.DataFrame, summary: pl.DataFrame, markets: pl.DataFrame, colours: dict[str, str]) -> Iterator[File]:
    heads = [
        *columns.heads("replay/backtests", "episode", "pnl"),
        *queue_heads("replay/backtests", runs),
        *columns.heads("replay/backtests", "return", "max_drawdown", "fill_ratio", "contracts", "fees", "failure"),
    ]
    rows = [
        [
            text(row["episode"], run_path(row["episode"], name)),
            money(row["pnl"], signed=True),
            *queue_cells(row),
            earning(row["return"]),
            percent(row["max_drawdown"], 2),
            percent(row["fill_ratio"], 1),
            number(row["contracts"], 0),
            money(row["fees"]),
            text(row["failure"]),
        ]
        for row in runs.iter_rows(named=True)
    ]
    drawn = [
        {"name": row["episode"], "value": float(row["pnl"])}
        | {
            end: float(row["pnl"] if row[name] is None else row[name])
            for end, name in (("lower", "queue_pnl_low"), ("upper", "queue_pnl_high"))
        }
        for row in runs.iter_rows(named=True)
    ]
    parts: list[Part] = [Grid("episodes", f"Episodes of {name}", heads, rows, search=(0, 11))]
    figures: list[Part] = _cumulative(name, runs, colours)
    if len(drawn) <= 40:
        every = {row["name"]: colours[name] for row in drawn}
        figures.append(charts.intervals("P&L by episode, with 5 to 95 % of the sampled queues", "dollars", drawn, every))
    ratios = ratios_of(runs)
    sections = [Section(line["rules"], [_headline(line, ratios)]) for line in summary.iter_rows(named=True)]
    sections += [
        Section.even("Equity and drawdown", figures),
        Section("P&L by market", [_best_and_worst(name, markets)]),
        Section("Markouts and orders", [_markouts(runs, colours[name]), _order_statistics(runs)], (6, 6)),
        Section("Episodes", parts),
    ]
    for line in summary.iter_rows(named=True):
        facts = columns.facts("replay/summary", line, [column for column in line if column.startswith("sharpe")])
        sections.append(Section(f"Summary under {line['rules']}", [facts]))
    yield from render(Page(agent_path(name), name, f"A tear sheet over {runs.height} episodes.", sections, _ABOVE))


def _headline(line: Mapping[str, Any], ratios: Mapping[tuple[str, str], float]) -> Stats:
    return Stats(
        [
            ("P&L", money(line["pnl"], signed=True), f"{counted(line['episodes'], 'episode')}; {queue_note(line)}"),
            ("Mean P&L", money(line["pnl_mean"], signed=True), _spread_note(line)),
            ("Ratio per episode", number(ratios.get((line["agent"], line["rules"])), 2), "mean over deviation of P&L, not annualised"),
            ("Largest drawdown", percent(line["max_drawdown"], 2), "of an episode"),
            ("Fill ratio", percent(line["fill_ratio_mean"], 1), "mean of the episodes"),
            ("Profitable", percent(line["profitable"]), "of the episodes"),
        ]
    )


def _best_and_worst(name: str, markets: pl.DataFrame) -> PageTable | Note:
    """Build the table of the markets on which an agent gained and lost the most. name: the agent."""
    if not markets.height:
        return Note("No market was traded.")
    ranked = cast_decimals(markets.sort(["pnl", "episode", "ticker"], descending=[True, False, False]))
    ends = ranked if ranked.height <= 2 * _MARKETS else pl.concat([ranked.head(_MARKETS), ranked.tail(_MARKETS)])
    rows = [
        [
            text(row["ticker"]),
            text(row["episode"], run_path(row["episode"], name)),
            number(row["fills"]),
            *(money(row[column], signed=column != "fees") for column in _AMOUNTS),
        ]
        for row in ends.iter_rows(named=True)
    ]
    caption = f"All {ranked.height} markets" if ends is ranked else f"Best and worst {_MARKETS} of {ranked.height} markets"
    return PageTable(caption, columns.heads("replay/market_pnl", "ticker", "episode", "fills", *_AMOUNTS), rows)


def _markouts(runs: pl.DataFrame, colour: str) -> Chart | Note:
    """Build a chart of the mean markout of maker fills, weighted by contracts, at several times after the fill."""
    weighted = runs.with_columns(size=pl.col("contracts").cast(pl.Float64) * pl.col("maker_share"))
    rows = []
    for horizon in HORIZONS_S:
        value, lower, upper = weighted_spread(weighted, "episode", f"adverse_selection_{horizon}s", "size")
        if value is not None:
            rows.append({"name": f"after {horizon} s", "value": value, "lower": lower, "upper": upper})
    if not rows:
        return Note("No maker fill has a markout.")
    title = "Mean markout of maker fills, and those of the lowest and the highest episode"
    return charts.intervals(title, "dollars per contract", rows, {str(row["name"]): colour for row in rows}, reference=0.0)


def _order_statistics(runs: pl.DataFrame) -> Facts:
    """Format statistics of an agent's orders and fills: counts summed, and ratios averaged over episodes."""
    sums = [pl.when(pl.col(name).is_not_null().any()).then(pl.col(name).sum()).alias(name) for name in _SUMS]
    values = cast_decimals(runs.select(*sums, pl.col(_MEANS).mean())).row(0, named=True)
    titles = {name: columns.title(name) for name in _SUMS} | {name: f"{columns.title(name)}, mean of episodes" for name in _MEANS}
    return Facts(
        [(title, columns.value_cell("replay/backtests", name, values[name])) for name, title in titles.items()],
        {title: columns.definition("replay/backtests", name) for name, title in titles.items()},
    )


def _cumulative(name: str, runs: pl.DataFrame, colours: dict[str, str]) -> list[Part]:
    """Build charts of an agent's P&L, cumulated over episodes in the order of settlement, and of its drawdown."""
    rows, falls = [], []
    several = runs["rules"].n_unique() > 1
    for (rules,), part in runs.sort("settled_at", "episode", nulls_last=True).group_by("rules", maintain_order=True):
        line, total, peak = rules if several else name, 0.0, 0.0
        for place, pnl in enumerate([0.0, *part["pnl"].cast(pl.Float64)]):
            total += pnl
            peak = max(peak, total)
            rows.append({"name": line, "x": place, "y": round(total, 6)})
            falls.append({"name": line, "x": place, "y": round(total - peak, 6)})
    lines = dict(palette(str(row["name"]) for row in rows)) if several else {name: colours[name]}
    return [
        charts.lines("Cumulative P&L over episodes", "episodes", "dollars", rows, lines, time=False),
        charts.lines("Drawdown of the cumulative P&L from its peak", "episodes", "dollars", falls, lines, time=False),
    ]


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
    parts: list[Part] = [_runs(name, ranked)] if runs.height else [Note("No agent has traded this episode yet.")]
    if curves:
        parts.append(charts.lines("Equity", "UTC", "dollars", curves, colours, first=first))
    fills = sorted((row for own in rows["fills"].values() for row in own), key=lambda row: row["filled_at"])
    recorded = source.frame("replay/books", *BOOK_COLUMNS, episode=name)
    sections = [Section("", [_episode_headline(markets, ranked)]), Section("Agents", parts)]
    sections.append(Section("Book", book_parts(recorded, fills)))
    sections.append(Section("Markets", [_markets(markets)]))
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


def _episode_headline(markets: pl.DataFrame, ranked: pl.DataFrame) -> Stats:
    """Build the headline numbers of an episode. ranked: the episode's backtests, the highest P&L first."""
    best, pnl = winner_cells(ranked)
    settled = markets["settled_at"].max()
    return Stats(
        [
            ("Best agent", best, f"of {ranked.height}"),
            ("Its P&L", pnl, ""),
            ("Markets", number(markets.height), f"{(markets['result'] == 'YES').sum()} settled as YES"),
            ("Recorded trades", number(markets["trades"].sum()), f"{number(markets['volume'].sum(), 0).text} contracts"),
            ("Fills", number(ranked["fills"].sum()), f"of {number(ranked['orders'].sum()).text} orders"),
            ("Settled", timestamp(settled.date() if settled else None), ""),  # type: ignore[union-attr]
        ]
    )


def _run(run: dict[str, Any], title: str, colours: dict[str, str], **rows: Any) -> Iterator[File]:
    """Yield the tear sheet of an agent in an episode. run: the backtest. title: of the episode. rows: of the backtest's other tables."""
    above = [("Trading", "trading/index.html"), (title, episode_path(run["episode"])), (run["agent"], agent_path(run["agent"]))]
    lead = f"P&L {money(run['pnl'], signed=True).text} in {run['episode']}."
    parts = tear_sheet.sections(run, colours=colours, **rows)
    yield from render(Page(run_path(run["episode"], run["agent"]), f"{run['agent']} in {title}", lead, parts, above))


def _runs(episode: str, runs: pl.DataFrame) -> PageTable:
    heads = [
        *columns.heads("replay/backtests", "agent", "pnl"),
        *queue_heads("replay/backtests", runs),
        *columns.heads(
            "replay/backtests",
            "return",
            "max_drawdown",
            "orders",
            "fills",
            "fill_ratio",
            "maker_share",
            "fees",
            "adverse_selection_30s",
            "unsettled",
        ),
    ]
    rows = [
        [
            text(row["agent"], run_path(episode, row["agent"])),
            money(row["pnl"], signed=True),
            *queue_cells(row),
            earning(row["return"]),
            percent(row["max_drawdown"], 2),
            number(row["orders"]),
            number(row["fills"]),
            percent(row["fill_ratio"], 1),
            percent(row["maker_share"]),
            money(row["fees"]),
            number(row["adverse_selection_30s"], 4),
            yes_no(row["unsettled"]),
        ]
        for row in runs.iter_rows(named=True)
    ]
    return PageTable("Agents of the episode, by P&L", heads, rows)


def _markets(markets: pl.DataFrame) -> PageTable:
    heads = columns.heads(
        "replay/episodes",
        ("ticker", "Market"),
        "result",
        ("result_source", "Source of the result"),
        ("settled_at", "Settled"),
        "volume",
        "trades",
        ("book_rows", "Changes of the book"),
        "gaps",
        ("fee_type", "Fees"),
        "recording",
    )
    rows = [
        [
            text(row["ticker"]),
            text(row["result"]),
            text(row["result_source"]),
            timestamp(row["settled_at"]),
            number(row["volume"], 0),
            number(row["trades"]),
            number(row["book_rows"]),
            number(row["gaps"]),
            text(row["fee_type"]),
            text(row["recording"]),
        ]
        for row in markets.iter_rows(named=True)
    ]
    return PageTable("Markets of the episode", heads, rows)


def book_parts(books: pl.DataFrame, fills: Sequence[Mapping[str, Any]]) -> list[Part]:
    """Build heat maps and depth charts of the episode's most active markets. books: rows of replay/books. fills: of all agents, with numbers as
    floats.
    """
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
    depths = [
        {name: row[name] for name in ("name", "x", "until", "bid_depth", "ask_depth")} for name in drawn_tickers for row in rows[name]
    ]
    title = f"Contracts at the best {BOOK_LEVELS} prices of each side: bids above, asks below"
    return [
        Note(note),
        book_chart("Contracts at each price over time, with trades and fills", drawn_tickers, rows, fills),
        charts.depths(title, depths, dict(palette(drawn_tickers)), drawn_tickers[:1]),
    ]
