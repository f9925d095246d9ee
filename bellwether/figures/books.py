"""Heat maps of order books: contracts by price over time, with trades and fills."""

from __future__ import annotations

import altair as alt

from bellwether.figures.canvas import PALETTE, layer_charts, number, time

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


def _drop_missing(chart: alt.Chart, field: str) -> alt.Chart:
    """Return a chart that leaves out rows in which `field` is null."""
    return chart.transform_filter(alt.FieldValidPredicate(field=field, valid=True))


_NAME = alt.Tooltip("name:N", title="market")
_AT = alt.Tooltip("x:T", title="UTC", format="%Y-%m-%d %H:%M:%S")
