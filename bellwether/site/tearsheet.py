"""The tear sheet of an agent in an episode: equity with its queue band, drawdown, fills on the price, markouts, orders."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from bellwether.site import charts
from bellwether.site.model import Cell, Facts, Grid, Head, Note, Page, Part, Section, Table
from bellwether.site.render import File, render
from bellwether.site.values import any_value, finite, money, number, slug, text, thin, when, yes_no
from bellwether.tables.replay import HORIZONS_S

_POINTS = 240
#: Fills that are drawn; the table has all.
_MARKS = 400
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
    equity: pl.DataFrame | None,
    orders: pl.DataFrame | None,
    fills: pl.DataFrame | None,
    markets: pl.DataFrame | None,
) -> Iterator[File]:
    """The page. run: its row of replay/backtests."""
    sections = [
        Section("Equity", _equity(run["agent"], equity, colours)),
        Section("Fills on the price", _price(orders, fills)),
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


def _equity(agent: str, equity: pl.DataFrame | None, colours: dict[str, str]) -> list[Part]:
    if equity is None or not equity.height:
        return [Note("The warehouse has no equity of this backtest.")]
    peak = pl.col("equity").cast(pl.Float64).cum_max()
    fall = equity.select("at", "equity", "equity_pessimistic", "equity_optimistic", drawdown=pl.col("equity").cast(pl.Float64) / peak - 1)
    rows, falls = [], []
    for at, value, low, high, drawdown in fall[list(thin(fall.height, _POINTS))].iter_rows():
        x = f"{at:%Y-%m-%dT%H:%M:%S}Z"
        rows.append({"name": agent, "x": x, "y": finite(value), "lower": finite(low), "upper": finite(high)})
        falls.append({"name": agent, "x": x, "y": finite(drawdown)})
    colour = {agent: colours.get(agent, charts.LINE)}
    return [
        charts.lines("Equity, with the band between the pessimistic and the optimistic queue", "UTC", "dollars", rows, colour, band=True),
        charts.lines("Drawdown from the running peak", "UTC", "share", falls, colour, height=140),
    ]


def _price(orders: pl.DataFrame | None, fills: pl.DataFrame | None) -> list[Part]:
    """In terms of YES: a NO contract at 0.30 is YES at 0.70."""
    parts: list[Part] = []
    for ticker in sorted(set(fills["ticker"])) if fills is not None else ():
        rows: list[dict[str, Any]] = []
        seen = (
            orders.filter((pl.col("ticker") == ticker) & pl.col("mid").is_not_null() & pl.col("arrived_at").is_not_null())
            if orders is not None
            else None
        )
        if seen is not None:
            mids = seen.sort("arrived_at").select("arrived_at", "side", "mid")
            for at, side, mid in mids[list(thin(mids.height, _MARKS))].iter_rows():
                rows.append({"name": "middle of the book", "x": _instant(at), "y": float(mid if side == "yes" else 1 - mid), "what": ""})
        assert fills is not None
        part = fills.filter(pl.col("ticker") == ticker)
        for row in part[list(thin(part.height, _MARKS))].iter_rows(named=True):
            is_yes = row["side"] == "yes"
            bought = (row["action"] == "buy") == is_yes
            price = float(row["price"]) if is_yes else 1 - float(row["price"])
            what = f"{row['action']} {row['size']} {row['side']} as {row['role']}"
            rows.append({"name": "bought" if bought else "sold", "x": _instant(row["filled_at"]), "y": price, "what": what})
        if len(parts) < 6:
            parts.append(charts.points(f"{ticker}: price of YES", "UTC", "dollars", rows, _ON_PRICE, line="middle of the book"))
    if not parts:
        return [Note("Nothing was filled.")]
    return [Note("The line is the middle of the book whenever an order of the agent arrived; bought and sold are in terms of YES."), *parts]


def _instant(at: Any) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z"


def _markouts(fills: pl.DataFrame | None) -> list[Part]:
    if fills is None or not fills.height:
        return [Note("Nothing was filled.")]
    rows = []
    for (role,), part in sorted(fills.group_by("role"), key=lambda one: str(one[0])):
        cells = [text(role), number(part.height)]
        for horizon in HORIZONS_S:
            known = part.filter(pl.col(f"markout_{horizon}s").is_not_null())
            size = known["size"].cast(pl.Float64)
            weighted = float((known[f"markout_{horizon}s"].cast(pl.Float64) * size).sum()) / float(size.sum()) if size.sum() else None
            cells.append(number(weighted, 4))
        rows.append(cells)
    heads = [Head("Role"), Head("Fills", number=True), *(Head(f"after {horizon} s", number=True) for horizon in HORIZONS_S)]
    return [Table("Mean markout in dollars per contract, weighted by contracts: positive is a gain", heads, rows)]


def _markets(markets: pl.DataFrame | None) -> Table | Note:
    if markets is None or not markets.height:
        return Note("It traded no market.")
    money_columns = ("trading_pnl", "settlement_pnl", "unrealised", "fees", "pnl")
    heads = [
        Head("Market"),
        Head("Fills", number=True),
        *(Head(name.replace("_", " ").replace("pnl", "P&L"), number=True) for name in money_columns),
    ]
    heads += [Head("YES left", number=True), Head("NO left", number=True), Head("Unsettled")]
    rows = []
    for row in markets.iter_rows(named=True):
        cells: list[Cell] = [
            text(row["ticker"]),
            number(row["fills"]),
            *(money(row[name], signed=name != "fees") for name in money_columns),
        ]
        rows.append([*cells, number(row["yes_position"]), number(row["no_position"]), yes_no(row["unsettled"])])
    return Table("P&L by market", heads, rows)


def _orders(orders: pl.DataFrame | None) -> Grid | Note:
    if orders is None or not orders.height:
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
        for row in orders.iter_rows(named=True)
    ]
    return Grid("orders", "Orders and what became of them", heads, rows, filters=(1, 2, 3, 8, 9), search=(1, 9))


def _fills(fills: pl.DataFrame | None) -> Grid | Note:
    if fills is None or not fills.height:
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
        for row in fills.iter_rows(named=True)
    ]
    return Grid("fills", "Fills", heads, rows, filters=(2, 3, 4, 5), search=(2,))
