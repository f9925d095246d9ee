"""Figures of recorded books: price with an agent's fills, and depth as a heat map, one panel per market, as PNG bytes; tapes in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from bellwether.report.plots_canvas import BLUE, COLOURS, GREY, INK, MOST_PANELS, PALE, Panels, dress, empty
from bellwether.report.plots_trading import dates, tail

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bellwether.replay.results.markouts import Tops
    from bellwether.replay.tape.layout import Tape

#: Columns of a picture: of a panel alone, and of one among many.
_WIDE, _NARROW = 480, 200

#: Marks of a panel. When there are more fills, those of one kind in one of so many stretches of time are one mark, the larger the more they are.
_MOST_MARKS = 300
_STRETCHES, _FEW_STRETCHES = 60, 30

#: Area of a mark where there are at most so many, and where there are more.
_FEW, _SIZES = (20, 100), (52, 28, 16)

_BUYS, _SELLS = BLUE, COLOURS[1]


def price_with_fills(tape: Tape, fills: pl.DataFrame, title: str, *, tickers: Sequence[str] = ()) -> bytes:
    """Best bid, best ask and the middle of each market with the fills of a backtest on it, as a PNG below 100 kB.

    `fills` holds rows of replay/fills of one agent in this episode. Prices are of YES: buying NO at 30 c is a sale of YES at 70 c. Triangles are
    filled for takers, hollow for makers. `tickers` are the markets in the order of their panels; when left out those with the most fills, then
    the liveliest. The range of bid and ask is grey; it has a gap where the book is not to be trusted.
    """
    from bellwether.replay.results.markouts import tops_of

    tops = tops_of(tape)
    names = list(tickers) or _liveliest(tape, tops, fills)
    sheet = Panels(names, title, alone=(7.4, 4.6), each=(3.1, 2.4))
    edges = _edges(tape, tops, sheet.alone)
    marks = _marks(fills, edges)
    for name, cell, left, _ in sheet.cells(hspace=0.55, wspace=0.25):
        axes = sheet.figure.add_subplot(cell)
        if name in tape.tickers:
            _price(axes, tops, tape.tickers.index(name), edges)
        if name in marks:
            _fills(axes, marks[name])
        if not axes.has_data():
            empty(axes, "no book")
        _finish(sheet, axes, name, edges, labelled=left)
    _fill_legend(sheet)
    sheet.note(len(names) - MOST_PANELS)
    return sheet.png()


def book_heat_map(tape: Tape, title: str, *, tickers: Sequence[str] = ()) -> bytes:
    """Contracts displayed at each price over time, bids blue and asks orange on a logarithmic scale, as a PNG below 100 kB.

    `tickers` as in `price_with_fills`, the liveliest markets when left out. White: nothing displayed, or a book that is not to be trusted.
    """
    from bellwether.replay.results.depth import depth
    from bellwether.replay.results.markouts import tops_of

    tops = tops_of(tape)
    names = list(tickers) or _liveliest(tape, tops, None)
    sheet = Panels(names, title, alone=(7.4, 4.8), each=(3.1, 2.4))
    edges = _edges(tape, tops, sheet.alone)
    shown = [name for name in sheet.names if name in tape.tickers]
    codes = np.array([tape.tickers.index(name) for name in shown], np.int64)
    contracts = depth(tape, codes, edges[1:]) / 100
    most = max(float(contracts.max(initial=0)), 1.0)
    for name, cell, left, _ in sheet.cells(hspace=0.55, wspace=0.25):
        axes = sheet.figure.add_subplot(cell)
        if name in shown:
            _heat(axes, contracts[shown.index(name)], edges, most)
            _middle(axes, tops, tape.tickers.index(name), edges)
        else:
            empty(axes, "no book")
        _finish(sheet, axes, name, edges, labelled=left)
    _scale(sheet, most)
    sheet.note(len(names) - MOST_PANELS)
    return sheet.png()


def _liveliest(tape: Tape, tops: Tops, fills: pl.DataFrame | None) -> list[str]:
    """All markets: those with the most fills first, then those whose best prices changed most."""
    count = dict(fills["ticker"].value_counts().iter_rows()) if fills is not None else {}
    changes = np.diff(tops.first)
    return sorted(tape.tickers, key=lambda name: (-count.get(name, 0), -changes[tape.tickers.index(name)], name))


def _edges(tape: Tape, tops: Tops, alone: bool) -> np.ndarray:
    """int64 ns, the borders of the picture's columns."""
    return np.linspace(tape.start, max(tops.until, tape.start + 1), (_WIDE if alone else _NARROW) + 1).astype(np.int64)


def _columns(tops: Tops, market: int, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Per column of the picture, float64 cents: lowest bid, highest ask, and the middle at its end; NaN where there is none."""
    rows = tops.of(market)
    places = np.searchsorted(tops.ts[rows], edges, side="right")
    bid, ask = (np.where(side[rows] >= 0, side[rows] / 10, np.nan) for side in (tops.bid, tops.ask))
    low, high, middle = (np.full(len(edges) - 1, np.nan) for _ in range(3))
    for column, (start, stop) in enumerate(zip(places[:-1].tolist(), places[1:].tolist(), strict=True)):
        within = slice(max(start - 1, 0), stop)
        low[column] = np.fmin.reduce(bid[within], initial=np.nan)
        high[column] = np.fmax.reduce(ask[within], initial=np.nan)
        if stop:
            middle[column] = (bid[stop - 1] + ask[stop - 1]) / 2
    return low, high, middle


def _price(axes: Axes, tops: Tops, market: int, edges: np.ndarray) -> None:
    low, high, middle = _columns(tops, market, edges)
    at = _instants(edges[1:])
    axes.fill_between(at, low, high, step="pre", color=PALE, alpha=0.55, linewidth=0, zorder=1)
    for side in (low, high):
        axes.plot(at, side, color=PALE, linewidth=0.6, drawstyle="steps-pre", zorder=1)
    axes.plot(at, middle, color=INK, linewidth=0.8, drawstyle="steps-pre", zorder=2)


def _marks(fills: pl.DataFrame, edges: np.ndarray) -> dict[str, pl.DataFrame]:
    """The marks of each market: role, whether it goes up, where it stands, and of how many fills it is."""
    yes, bought = pl.col("side") == "yes", pl.col("action") == "buy"
    price = 100 * pl.col("price").cast(pl.Float64)
    placed = fills.select(
        "ticker",
        "role",
        at=pl.col("filled_at").dt.timestamp("ns"),
        price=pl.when(yes).then(price).otherwise(100 - price),
        up=yes == bought,
    )
    stretches = _STRETCHES if len(edges) > _WIDE else _FEW_STRETCHES
    width = max(int(edges[-1] - edges[0]) // stretches, 1)
    many = pl.len().over("ticker") > _MOST_MARKS
    stretch = pl.when(many).then((pl.col("at") - int(edges[0])) // width).otherwise(pl.int_range(pl.len()))
    cells = placed.group_by("ticker", "role", "up", stretch=stretch).agg(pl.col("at").mean(), pl.col("price").mean(), n=pl.len())
    return {str(name): part for (name,), part in cells.sort("stretch").partition_by("ticker", as_dict=True).items()}


def _fills(axes: Axes, cells: pl.DataFrame) -> None:
    at, price = _instants(cells["at"].to_numpy().astype(np.int64)), cells["price"].to_numpy()
    size = _SIZES[int(np.searchsorted(_FEW, cells.height))] + 5 * np.log2(cells["n"].to_numpy())
    taken, ups = (cells["role"] == "taker").to_numpy(), cells["up"].to_numpy()
    for taker in (False, True):
        for up in (True, False):
            own = (taken == taker) & (ups == up)
            if not own.any():
                continue
            colour = _BUYS if up else _SELLS
            axes.scatter(
                at[own],
                price[own],
                s=size[own],
                marker="^" if up else "v",
                facecolors=colour if taker else "white",
                edgecolors="white" if taker else colour,
                linewidths=0.5 if taker else 1.0,
                zorder=4 if taker else 3,
                clip_on=False,
            )


def _fill_legend(sheet: Panels) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    def triangle(up: bool, taker: bool) -> Line2D:
        colour = _BUYS if up else _SELLS
        return Line2D(
            [],
            [],
            linestyle="",
            marker="^" if up else "v",
            markersize=5.5,
            markeredgecolor=colour,
            markerfacecolor=colour if taker else "white",
        )

    handles = [Patch(color=PALE, alpha=0.55), Line2D([], [], color=INK, linewidth=0.9)]
    handles += [triangle(up, taker) for taker in (True, False) for up in (True, False)]
    labels = ["best bid to best ask", "middle", "bought as taker", "sold as taker", "bought as maker", "sold as maker"]
    sheet.legend(handles, labels, loc="lower center", ncols=6 if sheet.columns > 2 else 3)


def _heat(axes: Axes, contracts: np.ndarray, edges: np.ndarray, most: float) -> None:
    """contracts: float64 (2, prices, columns), bids and asks."""
    from matplotlib.dates import date2num

    bids, asks = (np.log1p(side) / np.log1p(most) for side in contracts)
    ends = date2num(_instants(edges[[0, -1]]))
    half = 50 / (contracts.shape[1] - 1)
    axes.imshow(
        _blend(bids, asks),
        extent=(ends[0], ends[1], -half, 100 + half),
        origin="lower",
        aspect="auto",
        interpolation="nearest",
    )
    held = np.flatnonzero(contracts.any(axis=(0, 2)))
    if len(held):
        axes.set_ylim(max(held[0] - 2, 0) - half, min(held[-1] + 2, 100) + half)


def _blend(bids: np.ndarray, asks: np.ndarray) -> np.ndarray:
    """Colours of cells, uint8 (..., 3), from intensities of 0 to 1: the larger side decides."""
    from matplotlib.colors import to_rgb

    blue, orange, white = (np.array(to_rgb(colour)) for colour in ("#0d3b66", "#a8400f", "#ffffff"))
    amount = np.maximum(bids, asks)[..., None]
    # steps of a 24th: a picture of few colours is small
    amount = np.ceil(amount * 24) / 24
    strong = np.where((bids >= asks)[..., None], blue, orange)
    return np.rint(255 * (white + (strong - white) * amount**0.8)).astype(np.uint8)


def _middle(axes: Axes, tops: Tops, market: int, edges: np.ndarray) -> None:
    limits = axes.get_ylim()
    axes.plot(_instants(edges[1:]), _columns(tops, market, edges)[2], color=INK, linewidth=0.5, drawstyle="steps-pre")
    axes.set_ylim(limits)


def _scale(sheet: Panels, most: float) -> None:
    """What the colours mean, at the bottom of the sheet."""
    axes = sheet.figure.add_axes((0.35, 0.32 / sheet.height, 0.3, 0.2 / sheet.height))
    ramp = np.linspace(0, 1, 96)[None, :]
    nothing = np.zeros_like(ramp)
    axes.imshow(np.vstack((_blend(ramp, nothing), _blend(nothing - 1, ramp))), extent=(0, 1, 0, 2), aspect="auto", interpolation="nearest")
    powers = [10**power for power in range(0, int(np.log10(most)) + 1, 1 + int(np.log10(most)) // 6)]
    axes.set_xticks([np.log1p(value) / np.log1p(most) for value in powers], [f"{value:,}" for value in powers])
    axes.set_yticks([])
    axes.tick_params(labelsize=7, colors=GREY, length=2)
    for spine in axes.spines.values():
        spine.set_visible(False)
    for at, label, colour in ((1.5, "bids", _BUYS), (0.5, "asks", _SELLS)):
        axes.text(-0.01, at, label, ha="right", va="center", fontsize=7, color=colour)
    axes.text(1.01, 1.0, "contracts", ha="left", va="center", fontsize=7, color=GREY)


def _finish(sheet: Panels, axes: Axes, name: str, edges: np.ndarray, *, labelled: bool) -> None:
    """What every panel of a market has: its time, its name, and the label of its prices where it stands on the left."""
    _frame(axes, edges, sheet.alone)
    sheet.head(axes, tail(name))
    if labelled:
        axes.set_ylabel("price of YES (c)", fontsize=8, color=INK)
    dress(axes)


def _frame(axes: Axes, edges: np.ndarray, alone: bool) -> None:
    first, last = _instants(edges[[0, -1]])
    dates(axes, first, last, most=7 if alone else 4)


def _instants(ns: np.ndarray) -> np.ndarray:
    return ns.astype("datetime64[ns]")
