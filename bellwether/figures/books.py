"""Figures of order books: heat maps of contracts by price, prices with fills, and depth."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from bellwether.figures.canvas import (
    BLUE,
    INK,
    MOST_PANELS,
    ORANGE,
    PALE,
    PALETTE,
    Palette,
    Rows,
    chart_rows,
    colour,
    empty_figure,
    fill_chart,
    layer_charts,
    number,
    panels,
    tail,
    time,
)  # fmt: skip

_PRICE = "price of YES (c)"
#: Maximum of marks in a panel; more fills are merged by kind within this number of time stretches.
_MOST_MARKS, _STRETCHES, _FEW_STRETCHES = 120, 60, 20
#: Shades of a side, from few contracts to many on a logarithmic scale.
_SHADES = 12
#: Opacity of a price by its contracts, colour of fills, and title of the price axis.
_SIZES = alt.Scale(type="log", range=[0.15, 1])
_FILL, _YES = "#d8006c", "price of YES, dollars"
_ROLES = alt.Scale(domain=["taker", "maker"], range=[1, 0.45])
_WAYS = alt.Scale(domain=["bought", "sold"], range=["triangle-up", "triangle-down"])


def heat_map() -> alt.LayerChart:
    """Build a chart without data: contracts at each price of a book over time, bids blue and asks orange, trades as dots and fills as triangles.

    The rows are filled in later. Each is a state of the book from x until `until` (bid_prices, bid_sizes, ask_prices and ask_sizes as lists), the
    trades before x (trade_price, traded), or a fill (fill: its price, way: `bought` or `sold`, what: a text). All rows have name and x; other
    fields are null.
    """
    trades = _drop_missing(alt.Chart(), "trade_price").mark_circle(style="ink", opacity=0.85)
    fills = _drop_missing(alt.Chart(), "fill").mark_point(filled=True, size=70, opacity=1, fill=_FILL, style="ink", strokeWidth=0.8)
    amount = alt.Scale(type="sqrt", range=[4, 90])
    return layer_charts(
        *(_side_cells(side, shade) for side, shade in (("bid", PALETTE[0]), ("ask", PALETTE[1]))),
        trades.encode(
            x=time("x", "UTC"),
            y=number("trade_price", title=_YES),
            size=alt.Size("traded:Q", scale=amount, legend=None),
            tooltip=[_NAME, _AT, alt.Tooltip("traded:Q", title="contracts traded"), alt.Tooltip("trade_price:Q", title="mean price")],
        ),
        fills.encode(
            x=time("x", "UTC"),
            y=number("fill", title=_YES),
            shape=alt.Shape("way:N", scale=_WAYS, legend=None),
            tooltip=[_NAME, _AT, alt.Tooltip("fill:Q", title="price"), alt.Tooltip("what:N", title="fill")],
        ),
    ).properties(height=340)


def _side_cells(side: str, shade: str) -> alt.Chart:
    """Return the layer of a book's side ("bid" or "ask"): a cent-high rectangle per price, more opaque for more contracts. shade: colour."""
    price, size = f"{side}_prices", f"{side}_sizes"
    own = alt.Chart().transform_filter(f"datum.{price} != null").transform_flatten([price, size])
    own = own.transform_calculate(low=f"datum.{price} - 0.005", high=f"datum.{price} + 0.005")
    return own.mark_rect(color=shade).encode(
        x=time("x", "UTC"),
        x2="until:T",
        y=number("low", title=_YES),
        y2="high:Q",
        opacity=alt.Opacity(f"{size}:Q", scale=_SIZES, legend=None),
        tooltip=[_NAME, _AT, alt.Tooltip(f"{price}:Q", title=side), alt.Tooltip(f"{size}:Q", title="contracts")],
    )


def depths(names: Palette) -> alt.LayerChart:
    """Build a chart without data: contracts of a book over time, bids above zero and asks below. names: colour of each market.

    The rows are filled in later: name, x, until, bid_depth, ask_depth.
    """
    y: dict[str, Any] = {"title": "contracts", "axis": alt.Axis(labelExpr="format(abs(datum.value), ',')")}
    tips = [_NAME, _AT, *(alt.Tooltip(f"{side}_depth:Q", title=f"{side}s") for side in ("bid", "ask"))]
    own = alt.Chart().encode(x=time("x", "UTC"), x2="until:T", color=colour(names))
    bids, asks = _drop_missing(own, "bid_depth"), _drop_missing(own, "ask_depth").transform_calculate(below="-datum.ask_depth")
    return layer_charts(
        bids.mark_rect(opacity=0.7).encode(y=alt.Y("bid_depth:Q", **y), y2=alt.datum(0), tooltip=tips),
        asks.mark_rect(opacity=0.4).encode(y=alt.Y("below:Q", **y), y2=alt.datum(0), tooltip=tips),
    ).properties(height=220)


def _drop_missing(chart: alt.Chart, field: str) -> alt.Chart:
    """Return a chart that leaves out rows in which `field` is null."""
    return chart.transform_filter(alt.FieldValidPredicate(field=field, valid=True))


_NAME = alt.Tooltip("name:N", title="market")
_AT = alt.Tooltip("x:T", title="UTC", format="%Y-%m-%d %H:%M:%S")


def price_with_fills(quoted: pl.DataFrame, fills: pl.DataFrame, title: str, *, tickers: Sequence[str] = ()) -> Any:
    """Draw the best bid, best ask and their middle over time with the fills of one agent's backtest, one panel per market.

    Args:
        quoted: ticker, at, low (lowest bid), high (highest ask) and middle in cents per stretch of time, as `bellwether.replay.results.books.sample_quotes`
            returns them; null while the book is not reliable.
        fills: Rows of replay/fills of one agent in this episode.
        title: Title of the figure.
        tickers: Markets in the order of their panels (default: by number of fills, largest first).

    Prices are of YES: a purchase of NO at 30 c is a sale of YES at 70 c. Triangles point up for purchases of YES, and are hollow for makers.
    """
    counts = dict(fills["ticker"].value_counts().iter_rows())
    names = list(tickers) or sorted(quoted["ticker"].unique(), key=lambda name: (-counts.get(name, 0), name))
    if not names:
        return empty_figure(title, "no book")
    alone = len(names) == 1
    marks = _marks(fills, _STRETCHES if alone else _FEW_STRETCHES)
    build = _price_panel().properties(width=620 if alone else 220, height=300 if alone else 150)
    charts = []
    for name in names[:MOST_PANELS]:
        book = chart_rows(quoted.filter(pl.col("ticker") == name).select("low", "high", "middle", x="at"))
        charts.append((tail(name), fill_chart(build, [*book, *marks.get(name, [])])))
    note = "grey: best bid to best ask; blue ▲ bought, orange ▼ sold; filled as taker, hollow as maker"
    return panels(charts, title, note, left_out=len(names) - MOST_PANELS)


def _price_panel() -> alt.LayerChart:
    own = alt.Chart().encode(x=time("x"))
    ways = alt.Scale(domain=["bought", "sold"], range=[BLUE, ORANGE])
    fill = _drop_missing(own, "fill")
    place = {
        "y": number("fill", title=_PRICE),
        "shape": alt.Shape("way:N", scale=_WAYS, legend=None),
        "size": alt.Size("n:Q", scale=alt.Scale(type="log", domain=[1, 100], range=[28, 110], clamp=True), legend=None),
    }
    taker = fill.transform_filter(alt.FieldEqualPredicate(field="role", equal="taker")).mark_point(filled=True, opacity=0.9)
    maker = fill.transform_filter(alt.FieldEqualPredicate(field="role", equal="maker")).mark_point(
        filled=True, fill="white", strokeWidth=1.3, opacity=0.9
    )
    return layer_charts(
        own.mark_area(interpolate="step-before", color=PALE, opacity=0.55).encode(y=number("low", title=_PRICE), y2="high:Q"),
        own.mark_line(interpolate="step-before", color=INK, strokeWidth=0.8).encode(y=number("middle", title=_PRICE)),
        maker.encode(**place, stroke=alt.Stroke("way:N", scale=ways, legend=None)),
        taker.encode(**place, color=alt.Color("way:N", scale=ways, legend=None)),
    )


def _marks(fills: pl.DataFrame, stretches: int) -> Mapping[str, Rows]:
    """Return the marks of fills by market: role, way (bought or sold), time, price of YES in cents, and number of fills. stretches: number of time
    spans in which many fills are merged.
    """
    if fills.is_empty():
        return {}
    yes, bought, price = pl.col("side") == "yes", pl.col("action") == "buy", 100 * pl.col("price").cast(pl.Float64)
    placed = fills.select(
        "ticker",
        "role",
        at=pl.col("filled_at").dt.timestamp("ms"),
        fill=pl.when(yes).then(price).otherwise(100 - price),
        way=pl.when(yes == bought).then(pl.lit("bought")).otherwise(pl.lit("sold")),
    ).sort("ticker", "at", "role", "way", "fill")
    first, last = placed.select(pl.col("at").min().alias("first"), pl.col("at").max().alias("last")).row(0)
    width = max((last - first) // stretches, 1)
    stretch = pl.when(pl.len().over("ticker") > _MOST_MARKS).then((pl.col("at") - first) // width).otherwise(pl.int_range(pl.len()))
    cells = placed.group_by("ticker", "role", "way", stretch=stretch).agg(pl.col("at").mean(), pl.col("fill").mean(), n=pl.len())
    rows = cells.sort("ticker", "stretch", "role", "way").with_columns(x=pl.col("at").cast(pl.Int64).cast(pl.Datetime("ms", "UTC")))
    parts = rows.select("ticker", "role", "way", "x", "fill", "n").partition_by("ticker", as_dict=True, include_key=False)
    return {str(name): chart_rows(part) for (name,), part in parts.items()}


def book_heat_map(contracts: np.ndarray, times: np.ndarray, tickers: Sequence[str], title: str, *, left_out: int = 0) -> Any:
    """Draw the contracts displayed at each price over time, bids blue and asks orange, one panel per market. Colours are on a logarithmic scale.

    Args:
        contracts: float64 (markets, 2, 101, stretches): YES bids, then YES asks, by price in cents, at the end of each stretch.
        times: int64 ns (stretches + 1), the ends of the stretches.
        tickers: Names of the markets.
        title: Title of the figure.
        left_out: Number of markets that are not drawn.

    White means that nothing is displayed, or that the book is not reliable.
    """
    if not len(contracts):
        return empty_figure(title, "no book")
    most = max(float(contracts.max(initial=0)), 1.0)
    alone = len(tickers) == 1
    build = _heat_panel().properties(width=620 if alone else 220, height=320 if alone else 160)
    charts = [(tail(name), fill_chart(build, _cells(own, times, most))) for name, own in zip(tickers, contracts, strict=True)]
    return panels(
        charts, title, f"blue: bids, orange: asks; darker: more contracts, on a logarithmic scale up to {most:,.0f}", left_out=left_out
    )


def _heat_panel() -> alt.LayerChart:
    scales = {"bids": ["#dbe7f3", "#0d3b66"], "asks": ["#fbe3d5", "#a8400f"]}
    place = alt.Chart().encode(
        x=time("x"), x2="until:T", y=alt.Y("low:Q", title=_PRICE, scale=alt.Scale(zero=False, nice=False)), y2="high:Q"
    )
    layers = [
        place.transform_filter(alt.FieldEqualPredicate(field="side", equal=side))
        .mark_rect()
        .encode(fill=alt.Fill("shade:Q", scale=alt.Scale(domain=[1, _SHADES], range=shades), legend=None))
        for side, shades in scales.items()
    ]
    return layer_charts(*layers).resolve_scale(fill="independent")


def _cells(contracts: np.ndarray, times: np.ndarray, most: float) -> Rows:
    """Return the coloured rectangles of a market: side, shade, price range, start and end. If both sides show a price, the larger side is drawn."""
    bids, asks = (np.ceil(np.log1p(side) / math.log1p(most) * _SHADES).astype(int) for side in contracts)
    shades = np.where(bids >= asks, bids, -asks)
    instants = pl.Series(times // 1_000_000, dtype=pl.Int64).cast(pl.Datetime("ms", "UTC")).dt.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_list()
    rows = []
    for price in np.flatnonzero(shades.any(axis=1)).tolist():
        line = shades[price]
        starts = np.flatnonzero(np.append(True, line[1:] != line[:-1]))
        for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(line)], strict=True):
            if line[start]:
                cell = {"side": "bids" if line[start] > 0 else "asks", "shade": abs(int(line[start]))}
                rows.append({**cell, "low": price - 0.5, "high": price + 0.5, "x": instants[start], "until": instants[stop]})
    return rows
