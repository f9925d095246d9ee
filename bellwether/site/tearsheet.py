"""The tear sheet of an agent in an episode: equity with its queue band, drawdown, fills on the price, markouts, orders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import polars as pl

from bellwether.site import charts
from bellwether.site.model import Cell, Facts, Grid, Head, Note, Page, Part, Section, Table
from bellwether.site.render import File, render
from bellwether.site.values import any_value, floats, money, number, seconds, slug, text, thin, when, yes_no
from bellwether.tables.replay import HORIZONS_S

#: Rows of a table of the replay.
Rows = Sequence[Mapping[str, Any]]
_POINTS = 240
#: Fills that are drawn; the table has all.
_MARKS = 400
#: Markets whose price is drawn; the table of fills has all.
_CHARTS = 6
#: Colours of what is drawn on the price.
_ON_PRICE = {"middle of the book": charts.GREY, "bought": "#3a7fc1", "sold": "#d9703f"}


def episode_path(episode: str) -> str:
    """The page of an episode."""
    return f"trading/episode/{slug(episode)}/index.html"


def run_path(episode: str, agent: str) -> str:
    """The page of an agent in an episode."""
    return f"trading/episode/{slug(episode)}/agent/{slug(agent)}.html"


def agent_path(agent: str) -> str:
    """The page of an agent over all episodes."""
    return f"trading/agent/{slug(agent)}.html"


def pages(
    run: dict[str, Any],
    title: str,
    colours: dict[str, str],
    *,
    equity: Rows,
    orders: Rows,
    fills: Rows,
    markets: Rows,
) -> Iterator[File]:
    """The page. run: its row of replay/backtests. equity: those of its agent, as `drawn` gives them."""
    sections = [
        Section("Equity", _equity(run["agent"], equity, colours)),
        Section("Fills on the price", price(orders, fills)),
        Section("Markouts", _markouts(fills)),
        Section("Markets", [_markets(markets)]),
        Section("Orders", [_orders(orders)]),
        Section("Fills", [_fills(fills)]),
        Section("Every number of the backtest", [Facts([(name, any_value(value)) for name, value in run.items()])]),
    ]
    above = [("Trading", "trading/index.html"), (title, episode_path(run["episode"])), (run["agent"], agent_path(run["agent"]))]
    lead = f"P&L {money(run['pnl'], signed=True).text} in {run['episode']}; between {money(run['pnl_pessimistic'], signed=True).text} and "
    lead += f"{money(run['pnl_optimistic'], signed=True).text} with the place in the queue."
    yield from render(Page(run_path(run["episode"], run["agent"]), f"{run['agent']} in {title}", lead, sections, above))


def drawn(equity: pl.DataFrame) -> dict[str, Rows]:
    """Rows of replay/equity of an episode that are drawn, by agent: x, the curve with its band, and the drawdown from the running peak.

    What is not finite is null.
    """
    fall = pl.col("equity") / pl.col("equity").cum_max() - 1
    rows = floats(equity).with_columns(fall.over("agent").alias("drawdown"))
    numbers = (pl.when(pl.col(name).is_finite()).then(name) for name in ("equity", "equity_pessimistic", "equity_optimistic", "drawdown"))
    rows = rows.select("agent", seconds("at").alias("x"), *numbers)
    parts = rows.partition_by("agent", as_dict=True, include_key=False)
    return {
        agent: (part[list(thin(part.height, _POINTS))] if part.height > _POINTS else part).rows(named=True)
        for (agent,), part in parts.items()
    }


def _equity(agent: str, equity: Rows, colours: dict[str, str]) -> list[Part]:
    if not equity:
        return [Note("The warehouse has no equity of this backtest.")]
    rows = [
        {"name": agent, "x": row["x"], "y": row["equity"], "lower": row["equity_pessimistic"], "upper": row["equity_optimistic"]}
        for row in equity
    ]
    falls = [{"name": agent, "x": row["x"], "y": row["drawdown"]} for row in equity]
    colour = {agent: colours.get(agent, charts.LINE)}
    return [
        charts.lines("Equity, with the band between the pessimistic and the optimistic queue", "UTC", "dollars", rows, colour, band=True),
        charts.lines("Drawdown from the running peak", "UTC", "share", falls, colour, height=140),
    ]


def price(orders: Rows, fills: Rows) -> list[Part]:
    """Fills of one agent or of several on the price of each market, in terms of YES: a NO contract at 0.30 is YES at 0.70."""
    parts: list[Part] = []
    several = len({row["agent"] for row in fills}) > 1
    for ticker in sorted({row["ticker"] for row in fills})[:_CHARTS]:
        seen = [row for row in orders if row["ticker"] == ticker and row["mid"] is not None and row["arrived_at"] is not None]
        seen.sort(key=lambda row: row["arrived_at"])
        rows: list[dict[str, Any]] = []
        for row in (seen[place] for place in thin(len(seen), _MARKS)):
            mid = row["mid"] if row["side"] == "yes" else 1 - row["mid"]
            rows.append({"name": "middle of the book", "x": _instant(row["arrived_at"]), "y": mid, "what": ""})
        own = [row for row in fills if row["ticker"] == ticker]
        for row in (own[place] for place in thin(len(own), _MARKS)):
            is_yes = row["side"] == "yes"
            bought = (row["action"] == "buy") == is_yes
            at = row["price"] if is_yes else 1 - row["price"]
            what = f"{row['agent'] + ': ' if several else ''}{row['action']} {row['size']} {row['side']} as {row['role']}"
            rows.append({"name": "bought" if bought else "sold", "x": _instant(row["filled_at"]), "y": at, "what": what})
        parts.append(charts.points(f"{ticker}: price of YES", "UTC", "dollars", rows, _ON_PRICE, line="middle of the book"))
    if not parts:
        return [Note("Nothing was filled.")]
    return [Note("The line is the middle of the book whenever an order arrived; bought and sold are in terms of YES."), *parts]


def _instant(at: datetime) -> str:
    return f"{at.isoformat(timespec='milliseconds')[:23]}Z"


def _markouts(fills: Rows) -> list[Part]:
    if not fills:
        return [Note("Nothing was filled.")]
    rows = []
    for role in sorted({row["role"] for row in fills}):
        part = [row for row in fills if row["role"] == role]
        cells = [text(role), number(len(part))]
        for horizon in HORIZONS_S:
            known = [(row[f"markout_{horizon}s"], row["size"]) for row in part if row[f"markout_{horizon}s"] is not None]
            size = sum(weight for _, weight in known)
            cells.append(number(sum(value * weight for value, weight in known) / size if size else None, 4))
        rows.append(cells)
    heads = [Head("Role"), Head("Fills", number=True), *(Head(f"after {horizon} s", number=True) for horizon in HORIZONS_S)]
    return [Table("Mean markout in dollars per contract, weighted by contracts: positive is a gain", heads, rows)]


def _markets(markets: Rows) -> Table | Note:
    if not markets:
        return Note("It traded no market.")
    money_columns = ("trading_pnl", "settlement_pnl", "unrealised", "fees", "pnl")
    heads = [
        Head("Market"),
        Head("Fills", number=True),
        *(Head(name.replace("_", " ").replace("pnl", "P&L"), number=True) for name in money_columns),
    ]
    heads += [Head("YES left", number=True), Head("NO left", number=True), Head("Unsettled")]
    rows = []
    for row in markets:
        cells: list[Cell] = [
            text(row["ticker"]),
            number(row["fills"]),
            *(money(row[name], signed=name != "fees") for name in money_columns),
        ]
        rows.append([*cells, number(row["yes_position"]), number(row["no_position"]), yes_no(row["unsettled"])])
    return Table("P&L by market", heads, rows)


def _orders(orders: Rows) -> Grid | Note:
    if not orders:
        return Note("It sent no order.")
    heads = [Head("#", number=True), Head("Market"), Head("Side"), Head("Action"), Head("In force"), Head("Price", number=True)]
    heads += [
        Head("Size", number=True),
        Head("Filled", number=True),
        Head("Status"),
        Head("Reason"),
        Head("Sent"),
        Head("Ended"),
        Head("Fees", number=True),
    ]
    rows = [
        [
            number(row["order_id"]),
            text(row["ticker"]),
            text(row["side"]),
            text(row["action"]),
            text(row["time_in_force"]),
            number(row["price"], 4),
            number(row["size"]),
            number(row["filled"]),
            text(row["status"]),
            text(row["reason"]),
            when(row["sent_at"], seconds=True),
            when(row["ended_at"], seconds=True),
            money(row["fees"]),
        ]
        for row in orders
    ]
    return Grid("orders", "Orders and what became of them", heads, rows, filters=(1, 2, 3, 8, 9), search=(1, 9))


def _fills(fills: Rows) -> Grid | Note:
    if not fills:
        return Note("Nothing was filled.")
    heads = [
        Head("#", number=True),
        Head("Order", number=True),
        Head("Market"),
        Head("Side"),
        Head("Action"),
        Head("Role"),
        Head("Price", number=True),
    ]
    heads += [Head("Size", number=True), Head("Fee", number=True), Head("Time"), Head("Waited, s", number=True)]
    heads += [Head(f"Markout {horizon} s", number=True) for horizon in HORIZONS_S]
    rows = [
        [
            number(row["fill_id"]),
            number(row["order_id"]),
            text(row["ticker"]),
            text(row["side"]),
            text(row["action"]),
            text(row["role"]),
            number(row["price"], 4),
            number(row["size"]),
            money(row["fee"]),
            when(row["filled_at"], seconds=True),
            number(row["queue_wait"], 1),
            *(number(row[f"markout_{horizon}s"], 4) for horizon in HORIZONS_S),
        ]
        for row in fills
    ]
    return Grid("fills", "Fills", heads, rows, filters=(2, 3, 4, 5), search=(2,))
