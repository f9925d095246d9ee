"""The tear sheet of a backtest: one HTML page with its numbers, equity, fills, inventory, markouts and orders."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from bellwether.pages import COLOURS, GREY, Cell, Page, Rows, Section, plot, translucent
from bellwether.replay.engine import codes
from bellwether.replay.engine.codes import Role
from bellwether.replay.results.curve import drawdowns
from bellwether.replay.results.downsampling import extremes
from bellwether.replay.results.lines import band, signed
from bellwether.replay.results.markouts import tops_of
from bellwether.replay.results.metrics import HORIZONS, mean_markouts, sampled_band, sampled_curve
from bellwether.replay.units import MICROS, SECOND

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from bellwether.replay.backtest import Backtest

#: Points of a curve that are drawn, and markets and orders that are shown.
_MOST_POINTS, _MOST_MARKETS, _MOST_ORDERS = 2_000, 8, 1_000

_BUY, _SELL = COLOURS[0], COLOURS[1]
_NONE = "–"


def write_tear_sheet(backtest: Backtest, path: Path) -> None:
    """Write the page whole. It loads nothing from elsewhere; the same backtest gives the same bytes."""
    tear_sheet(backtest).write(path)


def tear_sheet(backtest: Backtest) -> Page:
    """The page of a backtest. Names, errors and tickers are escaped."""
    row = backtest.summary.row(0, named=True)
    start, end = (_instant(at) for at in (backtest.tape.start, tops_of(backtest.tape).until))
    facts = [
        *([("episodes", ", ".join(backtest.episodes))] if len(backtest.episodes) > 1 else []),
        ("rules", backtest.rules.name),
        ("queue", str(row["queue_model"])),
        ("decision every", f"{row['cadence_seconds']:g} s"),
        ("bankroll", f"{row['bankroll']:,.2f} dollars"),
        ("parameters", backtest.parameters),
        ("seed", str(backtest.seed)),
    ]
    notes = []
    if backtest.failure is not None:
        notes.append(
            f"The agent failed at decision {backtest.failure.step}: {backtest.failure}. Its orders were cancelled, the rest was replayed."
        )
    if row["unsettled"]:
        notes.append("Positions were left that nothing on the recording settles: the P&L holds their mark, not a settlement.")
    if row["default_fees"]:
        notes.append("Nothing states the fees of a market: they are the venue's general ones, which its own may exceed.")
    markets = _traded(backtest)
    if len(markets) > _MOST_MARKETS:
        notes.append(f"Plots show the {_MOST_MARKETS} markets with the most fills of {len(markets)}.")
    marked = ", a mark and no settlement" if row["unsettled"] else ""
    lead = f"P&L {signed(row['pnl'])} dollars{marked} ({band(row)} under other queues), {start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC"
    if backtest.failure is not None:
        lead += f"; failed at decision {backtest.failure.step}"
    return Page(f"{backtest.agent} in {backtest.episode}", lead, facts, list(_sections(backtest, row, markets[:_MOST_MARKETS])), notes)


def _sections(backtest: Backtest, row: dict[str, Any], markets: list[str]) -> Iterator[Section]:
    yield Section("Numbers", _numbers(row))
    yield Section(
        "Equity and drawdown",
        text="Positions at the price at which they could be sold. Band: what the queue model alone can change. Dotted: the bankroll.",
        plot=plot(_equity(backtest), "equity"),
    )
    if not markets:
        yield Section("Orders", _orders(backtest), "Nothing was filled.")
        return
    yield Section(
        "By market",
        _markets(backtest),
        "YES bought and sold: a purchase of NO sells YES. Trading and settlement: profit over average cost.",
    )
    for number, ticker in enumerate(markets):
        yield Section(
            f"{ticker}: price, fills and inventory",
            text="" if number else "Prices are of YES. Up: bought YES or sold NO; down: the opposite. Filled: as taker; hollow: as maker.",
            plot=plot(_market(backtest, ticker), f"market-{number}"),
        )
    yield Section(
        "Markouts",
        _markouts(backtest),
        "What a fill was worth some time later, at the middle of the book, against its price; weighted by contracts, without fees. "
        "Below 0 the market moved against the fill.",
    )
    yield Section("Orders", _orders(backtest), details=_each_order(backtest))


def _numbers(row: dict[str, Any]) -> Rows:
    def share(name: str) -> str:
        return _NONE if row[name] is None else f"{100 * row[name]:.2f} %"

    def money(name: str) -> str:
        return _NONE if row[name] is None else f"{row[name]:+,.2f} $"

    def number(name: str, digits: int = 2, unit: str = "") -> str:
        return _NONE if row[name] is None else f"{row[name]:,.{digits}f}{unit}"

    shown = (
        ("P&L", money("pnl"), "Return", share("return"), "Orders", number("orders", 0)),
        ("Pessimistic queue", money("pnl_pessimistic"), "Max. drawdown", share("max_drawdown"), "Rejected", number("rejected", 0)),
        ("Optimistic queue", money("pnl_optimistic"), "Sharpe, annualised", number("sharpe_annualised"), "Fills", number("fills", 0)),
        ("By settlement", money("settlement_pnl"), "Time in market", share("time_in_market"), "Contracts", number("contracts")),
        ("Fees", number("fees", 2, " $"), "Turnover", share("turnover"), "Fill ratio", share("fill_ratio")),
        (
            "Slippage",
            number("slippage", 2, " $"),
            "Maker share",
            share("maker_share"),
            "Median queue wait",
            number("queue_wait_median", 1, " s"),
        ),
    )
    return Rows(("", "", "", "", "", ""), [[Cell(text) for text in line] for line in shown])


def _equity(backtest: Backtest) -> go.Figure:
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    ts, main = sampled_curve(backtest)
    low, high = sampled_band(backtest)
    fallen = 100 * drawdowns(main)
    kept = extremes(main, most=_MOST_POINTS)
    at = _instants(ts[kept])
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, row_heights=[0.7, 0.3], vertical_spacing=0.04)
    for values, fill in ((low, None), (high, "tonexty")):
        figure.add_trace(
            go.Scatter(
                x=at,
                y=_dollars(values[kept]),
                mode="lines",
                line={"width": 0, "shape": "hv"},
                fill=fill,
                fillcolor=translucent(_BUY, 0.15),
                hoverinfo="skip",
                showlegend=False,
            ),
            1,
            1,
        )
    line = {"color": _BUY, "width": 1.5, "shape": "hv"}
    figure.add_trace(go.Scatter(x=at, y=_dollars(main[kept]), mode="lines", line=line, name="equity", hovertemplate="%{y:,.2f} $"), 1, 1)
    figure.add_trace(
        go.Scatter(
            x=at,
            y=(-fallen[kept]).round(4).tolist(),
            mode="lines",
            line={"color": _SELL, "width": 1, "shape": "hv"},
            fill="tozeroy",
            fillcolor=translucent(_SELL, 0.2),
            hovertemplate="%{y:.2f} %",
            name="drawdown",
        ),
        2,
        1,
    )
    figure.add_hline(main[0] / MICROS, line={"dash": "dot", "color": GREY, "width": 1}, row=1, col=1)
    figure.update_yaxes(title="equity ($)", row=1, col=1).update_yaxes(title="drawdown (%)", row=2, col=1)
    return figure.update_layout(height=480, margin={"t": 20}, showlegend=False)


def _markets(backtest: Backtest) -> Rows:
    rows = []
    for one in backtest.market_pnl.sort("pnl", "ticker", descending=[True, False]).iter_rows(named=True):
        marked = " (marked)" if one["unsettled"] else ""
        money = [_money(one[name]) for name in ("trading_pnl", "settlement_pnl", "unrealised")]
        sizes = [Cell(f"{one[name]:,.2f}") for name in ("yes_bought", "yes_sold")]
        total = Cell(f"{one['pnl']:+,.2f}{marked}")
        rows.append([Cell(one["ticker"]), Cell(str(one["fills"])), *sizes, *money, Cell(f"{one['fees']:,.2f}"), total])
    return Rows(
        ("market", "fills", "YES bought", "YES sold", "trading ($)", "settlement ($)", "unrealised ($)", "fees ($)", "P&L ($)"), rows
    )


def _market(backtest: Backtest, ticker: str) -> go.Figure:
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, row_heights=[0.7, 0.3], vertical_spacing=0.04)
    at, bid, ask = _touch(backtest, ticker)
    for values, name, colour in ((bid, "bid", COLOURS[5]), (ask, "ask", COLOURS[4])):
        line = {"color": colour, "width": 1, "shape": "hv"}
        figure.add_trace(go.Scatter(x=at, y=values, mode="lines", line=line, name=name, hovertemplate="%{y:.1f} c"), 1, 1)
    own = backtest.fills.filter(ticker=ticker)
    yes = (pl.col("side") == "yes") == (pl.col("action") == "buy")
    price = pl.when(pl.col("side") == "yes").then(pl.col("price")).otherwise(1 - pl.col("price"))
    own = own.with_columns(up=yes, cents=price.cast(pl.Float64) * 100, size=pl.col("size").cast(pl.Float64))
    for up in (True, False):
        for role in ("taker", "maker"):
            marks = own.filter((pl.col("up") == up) & (pl.col("role") == role))
            if marks.height:
                figure.add_trace(_marks(marks, up=up, role=role), 1, 1)
    figure.add_trace(_inventory(backtest, ticker, own), 2, 1)
    figure.update_yaxes(title="price of YES (c)", row=1, col=1).update_yaxes(title="YES contracts", row=2, col=1)
    return figure.update_layout(height=460, margin={"t": 20}, legend={"orientation": "h", "y": 1.08})


def _marks(marks: pl.DataFrame, *, up: bool, role: str) -> go.Scatter:
    import plotly.graph_objects as go

    texts = [
        f"{row['action']} {row['size']:g} {row['side'].upper()} at {100 * float(row['price']):g} c as {row['role']}<br>fee {row['fee']:.4f} $"
        for row in marks.iter_rows(named=True)
    ]
    symbol = f"triangle-{'up' if up else 'down'}{'-open' if role == 'maker' else ''}"
    return go.Scatter(
        x=_datetimes(marks["filled_at"]),
        y=marks["cents"].round(4).to_list(),
        mode="markers",
        marker={"symbol": symbol, "size": 9, "color": _BUY if up else _SELL, "line": {"width": 1.2}},
        name=f"{'bought' if up else 'sold'} YES as {role}",
        hovertext=texts,
        hovertemplate="%{hovertext}<extra></extra>",
    )


def _inventory(backtest: Backtest, ticker: str, own: pl.DataFrame) -> go.Scatter:
    """The position in YES over time, that in NO counted as short; a settlement ends it."""
    import plotly.graph_objects as go

    signed_size = pl.when("up").then(pl.col("size")).otherwise(-pl.col("size"))
    held = own.select("filled_at", position=signed_size.cum_sum())
    tops = tops_of(backtest.tape)
    settled = int(tops.settled[backtest.tape.tickers.index(ticker)])
    done = settled <= tops.until
    last = _datetimes(pl.Series([min(settled, tops.until)], dtype=pl.Datetime("ns", "UTC")))
    position = held["position"].round(2).to_list()
    return go.Scatter(
        x=[*_datetimes(held["filled_at"]), *last],
        y=[*position, 0.0 if done else position[-1]],
        mode="lines",
        line={"color": COLOURS[2], "width": 1.5, "shape": "hv"},
        fill="tozeroy",
        fillcolor=translucent(COLOURS[2], 0.15),
        name="inventory",
        showlegend=False,
        hovertemplate="%{y:,.2f} contracts",
    )


def _markouts(backtest: Backtest) -> Rows:
    rows, fills = [], backtest.outcome.fills
    for role in (Role.MAKER, Role.TAKER):
        own = fills[fills[:, codes.F_ROLE] == role]
        if len(own):
            means = [_NONE if mean is None else f"{100 * mean:+.2f}" for mean in mean_markouts(backtest.tape, own)]
            rows.append([Cell(text) for text in (f"as {role.name.lower()}", str(len(own)), *means)])
    return Rows(("fills", "n", *(f"{seconds} s (c)" for seconds in HORIZONS)), rows)


def _orders(backtest: Backtest) -> Rows:
    """Orders by how they ended."""
    groups = (
        backtest.orders.group_by("status", "reason")
        .agg(pl.len(), pl.col("size").sum(), pl.col("filled").sum(), pl.col("fees").sum())
        .sort("len", "status", "reason", descending=[True, False, False], nulls_last=True)
    )
    rows = [
        [
            Cell(row["status"]),
            Cell(row["reason"] or ""),
            Cell(str(row["len"])),
            *(Cell(f"{row[name]:,.2f}") for name in ("size", "filled", "fees")),
        ]
        for row in groups.iter_rows(named=True)
    ]
    return Rows(("ended as", "reason", "orders", "contracts", "filled", "fees ($)"), rows, texts=2)


def _each_order(backtest: Backtest) -> list[tuple[str, Rows]]:
    shown = backtest.orders.head(_MOST_ORDERS)
    rows = []
    for row in shown.iter_rows(named=True):
        price = "market" if row["price"] is None else f"{100 * row['price']:g}"
        texts = [f"{row['sent_at']:%m-%d %H:%M:%S}", row["ticker"], f"{row['action']} {row['side']}", row["time_in_force"]]
        numbers = [price, f"{row['size']:g}", f"{row['filled']:g}", f"{row['fees']:.4f}"]
        ended = row["status"] + (f", {row['reason']}" if row["reason"] and row["reason"] != row["status"] else "")
        rows.append([Cell(str(row["order_id"])), *map(Cell, texts), Cell(ended), *map(Cell, numbers)])
    heads = ("order", "sent", "market", "", "in force", "ended as", "price (c)", "contracts", "filled", "fees ($)")
    count = backtest.orders.height
    title = "All orders" if count <= _MOST_ORDERS else f"The first {_MOST_ORDERS:,} of {count:,} orders"
    return [(title, Rows(heads, rows, texts=6))] if count else []


def _traded(backtest: Backtest) -> list[str]:
    """Markets with fills, those with the most first."""
    counts = backtest.fills["ticker"].value_counts().sort("count", "ticker", descending=[True, False])
    return [str(ticker) for ticker in counts["ticker"]]


def _touch(backtest: Backtest, ticker: str) -> tuple[list[str], list[float | None], list[float | None]]:
    """Times, best bid and best ask of YES in cents, null where there is none; of many changes those that hold at evenly spaced instants."""
    tops = tops_of(backtest.tape)
    rows = tops.of(backtest.tape.tickers.index(ticker))
    ts, bid, ask = tops.ts[rows], tops.bid[rows], tops.ask[rows]
    if len(ts) > _MOST_POINTS:
        grid = np.linspace(ts[0], ts[-1], _MOST_POINTS).astype(np.int64)
        places = np.searchsorted(ts, grid, side="right") - 1
        ts, bid, ask = grid, bid[places], ask[places]
    bids, asks = ([None if price < 0 else price / 10 for price in side.tolist()] for side in (bid, ask))
    return _instants(ts), bids, asks


def _dollars(micros: np.ndarray) -> list[float]:
    return [value / MICROS for value in micros.tolist()]


def _money(value: Decimal) -> Cell:
    return Cell(f"{value:+,.2f}" if value else _NONE)


def _instants(ns: np.ndarray) -> list[str]:
    return _datetimes(pl.Series(ns, dtype=pl.Int64).cast(pl.Datetime("ns", "UTC")))


def _datetimes(values: pl.Series) -> list[str]:
    """As plotly reads times, to the millisecond."""
    return values.dt.strftime("%Y-%m-%d %H:%M:%S%.3f").to_list()


def _instant(ns: int) -> Any:
    return pl.Series([ns // SECOND * SECOND], dtype=pl.Int64).cast(pl.Datetime("ns", "UTC")).to_list()[0]
