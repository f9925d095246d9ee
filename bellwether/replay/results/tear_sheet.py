"""Tear sheet (report on one backtest: an agent in an episode), as a page of the site or as one file.

Contains metrics, equity, prices with fills, inventory, markouts and orders.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from bellwether.figures.canvas import palette
from bellwether.figures.equity import add_drawdown
from bellwether.pages import charts, columns
from bellwether.pages.model import Chart, Facts, Head, Note, Page, PageTable, Part, Section, Stats
from bellwether.pages.values import cast_decimals, earning, instant, money, number, percent, text, thin_indices
from bellwether.replay.results.books import books
from bellwether.replay.results.frames import frames
from bellwether.replay.results.metrics import end_time
from bellwether.replay.results.text_tables import format_signed, queue_note
from bellwether.tables.replay import BACKTESTS, EQUITY, FILLS, HORIZONS_S, MARKET_PNL, ORDERS

if TYPE_CHECKING:
    from bellwether.replay.run_record import RunRecord

#: Numbers that the page shows above the further ones, or that have no plain value.
_SHOWN = ("pnl", "return", "max_drawdown", "fill_ratio", "fees", "sharpe", "sharpe_annualised", "queue_pnls")
#: Format of an instant on a chart's time axis.
_AT = "%Y-%m-%dT%H:%M:%S%.3fZ"
#: Rows of a replay table, amounts as floats.
Rows = Sequence[Mapping[str, Any]]
#: Maximum points of a curve, instants of a book, fills of a market and markets in charts; tables are complete.
_POINTS, _INSTANTS, _MARKS, _MARKETS = 240, 120, 400, 8
#: Maximum orders of a page in one file.
_MOST_ORDERS = 1_000


def tear_sheet(backtest: RunRecord) -> Page:
    """Build the tear sheet of a backtest. Names, errors and tickers are escaped."""
    tables = frames(backtest)
    run = tables[BACKTESTS.name].row(0, named=True)
    book = books(backtest.tape, backtest.episode, end_time(backtest))
    orders, fills, markets = (cast_decimals(tables[table.name]).rows(named=True) for table in (ORDERS, FILLS, MARKET_PNL))
    parts = sections(
        run,
        equity=equity_points(tables[EQUITY.name]).get(backtest.agent, []),
        orders=orders[:_MOST_ORDERS],
        fills=fills,
        markets=markets,
        book=book_rows(book),
    )
    facts = [("Episodes", text(", ".join(backtest.episodes)))] if len(backtest.episodes) > 1 else []
    facts += [("Parameters", text(backtest.parameters)), ("Seed", number(backtest.seed))]
    notes = [Note(note) for note in _notes(backtest, run)]
    if len(orders) > _MOST_ORDERS:
        notes.append(Note(f"The first {_MOST_ORDERS:,} of {len(orders):,} orders are listed."))
    first = Section("The backtest", [*notes, Facts(facts)])
    lead = f"P&L {format_signed(run['pnl'])} dollars{', a mark and no settlement' if run['unsettled'] else ''}"
    return Page("", f"{backtest.agent} in {backtest.episode}", lead, [first, *parts])


def _notes(backtest: RunRecord, run: Mapping[str, Any]) -> Iterator[str]:
    if backtest.failure is not None:
        yield f"The agent failed at decision {backtest.failure.step}: {backtest.failure}. Its orders were cancelled, the rest was replayed."
    if run["unsettled"]:
        yield "The recording does not settle all positions: the P&L contains their mark, not a settlement."
    if run["default_fees"]:
        yield "The fees of a market are unknown: the venue's general fees were used, which its own may exceed."


def sections(
    run: Mapping[str, Any],
    *,
    equity: Rows,
    orders: Rows,
    fills: Rows,
    markets: Rows,
    book: Mapping[str, Rows],
    colours: Mapping[str, str] | None = None,
) -> list[Section]:
    """Build the sections of a tear sheet from rows of the replay tables.

    Args:
        run: Row of replay/backtests.
        equity: Points of the agent from `equity_points`.
        orders: Rows of replay/orders.
        fills: Rows of replay/fills.
        markets: Rows of replay/market_pnl.
        book: Best prices by market from `book_rows`.
        colours: Colours by agent.
    """
    return [
        Section("", [_headline(run)]),
        Section("Equity", _equity(run["agent"], equity, (colours or {}).get(run["agent"], charts.LINE)), (8, 4)),
        Section("Fills on the price", _prices(run, fills, markets, book)),
        Section("Markouts", _markouts(fills)),
        Section("Markets", [_markets(markets)]),
        Section("Orders", [_orders(orders)]),
        Section("Fills", [_fills(fills)]),
        Section("Further numbers", [columns.facts(BACKTESTS.name, run, _SHOWN)]),
    ]


def _headline(run: Mapping[str, Any]) -> Stats:
    """Build the tear sheet's six main numbers. The Sharpe ratio is not annualised, because an episode takes hours."""
    return Stats(
        [
            ("P&L", money(run["pnl"], signed=True), queue_note(run)),
            ("Return", earning(run["return"]), "on the bankroll"),
            ("Largest drawdown", percent(run["max_drawdown"], 2), "from an earlier peak"),
            ("Fill ratio", percent(run["fill_ratio"], 1), "of the contracts of its orders"),
            ("Fees", money(run["fees"]), ""),
            (
                "Ratio per sample",
                number(run["sharpe"], 3),
                f"mean over deviation of returns, each {run['sample_seconds']:g} s" if run["sample_seconds"] else "",
            ),
        ]
    )


def equity_points(equity: pl.DataFrame) -> dict[str, Rows]:
    """Return the points of the equity charts by agent, from rows of replay/equity.

    A point has x, equity, and the drawdown from the running peak; null if not finite.
    """
    points: dict[str, Rows] = {}
    for (agent,), part in equity.partition_by("agent", as_dict=True, include_key=False).items():
        numbers = (pl.when(pl.col(name).is_finite()).then(name) for name in ("equity", "drawdown"))
        points[agent] = add_drawdown(part, _POINTS).select(pl.col("at").dt.strftime(_AT).alias("x"), *numbers).rows(named=True)
    return points


def _equity(agent: str, equity: Rows, colour: str) -> list[Part]:
    if not equity:
        return [Note("The warehouse has no equity of this backtest.")]
    rows = [{"name": agent, "x": row["x"], "y": row["equity"]} for row in equity]
    falls = [{"name": agent, "x": row["x"], "y": row["drawdown"]} for row in equity]
    return [
        charts.lines("Equity", "UTC", "dollars", rows, {agent: colour}),
        charts.lines("Drawdown from the running peak", "UTC", "share", falls, {agent: colour}),
    ]


#: Fields of a row of a book chart: the book with its trades, and a fill.
_BOOK, _FILL = ("bid_prices", "bid_sizes", "ask_prices", "ask_sizes", "traded", "trade_price"), ("fill", "way", "what")


def book_rows(book: pl.DataFrame, most: int = _INSTANTS) -> dict[str, Rows]:
    """Return the rows of book charts by market, from rows of replay/books: about `most` rows per market, evenly spaced.

    A row has name, x (its time), until (that of the next row), the book, and the trades since the previous row.
    """
    by_market: dict[str, Rows] = {}
    lists = [
        pl.col(name).list.eval(pl.element().cast(pl.Float64)) for side in ("bid", "ask") for name in (f"{side}_prices", f"{side}_sizes")
    ]
    for (ticker,), part in cast_decimals(book).with_columns(lists).sort("ticker", "at").group_by("ticker", maintain_order=True):
        is_kept = pl.Series(range(part.height)).is_in(list(thin_indices(part.height, most)))
        size, price = pl.col("traded").sum(), (pl.col("traded") * pl.col("trade_price")).sum() / pl.col("traded").sum()
        trades = part.group_by(is_kept.shift(1, fill_value=False).cum_sum().alias("stretch"), maintain_order=True).agg(
            size, trade_price=price
        )
        rows = part.filter(is_kept).with_columns(
            trades.select("traded", pl.when(pl.col("traded") > 0).then(pl.col("trade_price").round(4)).alias("trade_price")),
            x=pl.col("at").dt.strftime(_AT),
            until=pl.col("at").shift(-1).fill_null(pl.col("at")).dt.strftime(_AT),
            name=pl.lit(ticker),
        )
        by_market[str(ticker)] = rows.select("name", "x", "until", *_BOOK).rows(named=True)
    return by_market


def book_chart(title: str, tickers: Sequence[str], book: Mapping[str, Rows], fills: Rows) -> Chart:
    """Draw the books of markets with trades and fills, in prices of YES. Readers select markets; at first the chart shows the first market."""
    return charts.book_heat_map(title, [row for ticker in tickers for row in _book_and_fills(ticker, book, fills)], tickers[:1])


def _book_and_fills(ticker: str, book: Mapping[str, Rows], fills: Rows, most: int = _MARKS) -> list[dict[str, Any]]:
    own = [row for row in fills if row["ticker"] == ticker]
    states = [{**{name: row[name] for name in ("name", "x", "until", *_BOOK)}, **dict.fromkeys(_FILL)} for row in book.get(ticker, ())]
    return [*states, *(_fill(own[place]) for place in thin_indices(len(own), most))]


def _fill(row: Mapping[str, Any]) -> dict[str, Any]:
    """Build the chart row of a fill, as a trade of YES: NO at 0.30 is YES at 0.70."""
    is_yes = row["side"] == "yes"
    return {
        "name": row["ticker"],
        "x": instant(row["filled_at"]),
        **dict.fromkeys(("until", *_BOOK)),
        "fill": row["price"] if is_yes else 1 - row["price"],
        "way": "bought" if _raises_yes(row) else "sold",
        "what": f"{row['agent']}: {row['action']} {row['size']} {row['side']} as {row['role']}",
    }


def _raises_yes(row: Mapping[str, Any]) -> bool:
    """Return True if a fill raises the position in YES: a purchase of YES or a sale of NO."""
    return bool((row["action"] == "buy") == (row["side"] == "yes"))


#: Explanation of the heat map.
BOOK_NOTE = (
    "Blue: bids, orange: asks, more opaque for more contracts, at sampled instants. Dots are trades of the venue, larger for more contracts; each "
    "adds up the trades since the previous instant. Triangles are fills, up where YES was bought or NO sold. Prices are of YES."
)


def _prices(run: Mapping[str, Any], fills: Rows, markets: Rows, book: Mapping[str, Rows]) -> list[Part]:
    if not fills:
        return [Note("No fills.")]
    counts = Counter(row["ticker"] for row in fills)
    tickers = sorted(counts, key=lambda name: (-counts[name], name))[:_MARKETS]
    note = BOOK_NOTE
    if len(counts) > len(tickers):
        note += f" Of {len(counts)} markets, the {len(tickers)} with the most fills are drawn."
    colours = dict(palette(tickers))
    positions = [row for ticker in tickers for row in _inventory(run, ticker, fills, markets)]
    title = "Contracts of YES held, those of NO as negative"
    return [
        Note(note),
        book_chart("Contracts at each price over time, with trades and fills", tickers, book, fills),
        charts.lines(title, "UTC", "contracts", positions, colours, first=tickers[:1], step=True, dots=False, height=160),
    ]


def _inventory(run: Mapping[str, Any], ticker: str, fills: Rows, markets: Rows) -> Iterator[dict[str, Any]]:
    """Yield the chart rows of the position in a market after each fill, and at the end."""
    position = 0.0
    for row in fills:
        if row["ticker"] == ticker:
            position += row["size"] if _raises_yes(row) else -row["size"]
            yield {"name": ticker, "x": instant(row["filled_at"]), "y": round(position, 2)}
    for row in markets:
        if row["ticker"] == ticker:
            yield {"name": ticker, "x": instant(run["settled_at"]), "y": row["yes_position"] - row["no_position"]}


def _markouts(fills: Rows) -> list[Part]:
    if not fills:
        return [Note("No fills.")]
    rows = []
    for role in sorted({row["role"] for row in fills}):
        part = [row for row in fills if row["role"] == role]
        cells = [text(role), number(len(part))]
        for horizon in HORIZONS_S:
            values = [(row[f"markout_{horizon}s"], row["size"]) for row in part if row[f"markout_{horizon}s"] is not None]
            size = sum(weight for _, weight in values)
            cells.append(number(sum(value * weight for value, weight in values) / size if size else None, 4))
        rows.append(cells)
    heads = [Head("Role"), Head("Fills", number=True), *(Head(f"after {horizon} s", number=True) for horizon in HORIZONS_S)]
    return [PageTable("Mean markout in dollars per contract, weighted by contracts: positive is a gain", heads, rows)]


def _markets(markets: Rows) -> Part:
    return columns.build_table(
        MARKET_PNL.name,
        "P&L by market",
        sorted(markets, key=lambda row: (-row["pnl"], row["ticker"])),
        *("ticker", "fills", "trading_pnl", "settlement_pnl", "unrealised", "fees", "pnl"),
        *("yes_bought", "yes_sold", "yes_position", "no_position", "unsettled"),
        empty="No trades.",
    )


def _orders(orders: Rows) -> Part:
    return columns.build_table(
        ORDERS.name,
        "Orders and how each ended",
        orders,
        *(
            "order_id",
            "ticker",
            "side",
            "action",
            "time_in_force",
            "price",
            "size",
            "filled",
            "status",
            "reason",
            "sent_at",
            "ended_at",
            "fees",
        ),
        filters=("Market", "Side", "Action", "Status", "Reason"),
        search=("Market", "Reason"),
        name="orders",
        empty="No orders.",
    )


def _fills(fills: Rows) -> Part:
    return columns.build_table(
        FILLS.name,
        "Fills",
        fills,
        *("fill_id", "order_id", "ticker", "side", "action", "role", "price", "size", "fee", "filled_at", "queue_wait"),
        *(f"markout_{horizon}s" for horizon in HORIZONS_S),
        filters=("Market", "Side", "Action", "Role"),
        search=("Market",),
        name="fills",
        empty="No fills.",
    )
