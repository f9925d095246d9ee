"""Recorded books of an episode over time: rows of `replay/books`, and charts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from bellwether.replay.results.depth import BID_SIZE, IS_VALID, sample_books
from bellwether.replay.results.frames import instants_of, prices_of, sizes_of
from bellwether.replay.results.markouts import NONE, Tops, tops_of
from bellwether.replay.tape.layout import PRINT, SETTLE, VOID, Tape, unpack
from bellwether.replay.units import CENT, DOLLAR, MICROS, MILLISECOND, NO, SECOND
from bellwether.tables.replay import BOOK_INSTANTS, BOOK_PRICES, BOOKS

#: Micro-dollars of a contract per $0.0001.
_UNIT = MICROS // DOLLAR
_SIZES = ("bid_size", "ask_size", "bid_depth", "ask_depth")
#: Markets whose depth is computed at once: more would take gigabytes for a large event.
_MARKETS = 25
#: Number of intervals of a chart: of a single panel, and of one among many.
_WIDE, _NARROW = 320, 100
#: Maximum number of markets in a chart.
MOST_PANELS = 12


def books(tape: Tape, episode: str, known_at: datetime) -> pl.DataFrame:
    """Build the rows of `replay/books`: by market in the order of the tape, then by time. known_at: time from which the episode is known."""
    times = sample_times(tape)
    parts, trades = [BOOKS.empty().drop("episode", "known_at")], _sum_trades(tape, times)
    for start in range(0, len(tape.tickers), _MARKETS):
        codes = np.arange(start, min(start + _MARKETS, len(tape.tickers)))
        for code, state, lots in zip(codes.tolist(), *sample_books(tape, codes, times), strict=True):
            parts.append(_build_rows(tape.tickers[code], times, state, lots, trades[:, code]))
    rows = pl.concat(parts)
    literals = [pl.lit(value, BOOKS.schema[name]).alias(name) for name, value in (("episode", episode), ("known_at", known_at))]
    return BOOKS.validate(rows.with_columns(literals).select(BOOKS.names), unique=False)


def sample_times(tape: Tape) -> np.ndarray:
    """Return the times for which `replay/books` has the books of a tape, int64, ns UTC, ascending; at most `BOOK_INSTANTS`.

    They are the start of the episode, further times at equal steps, and the end of its books. The step is a whole number of seconds, or of
    milliseconds in short episodes. Later events, such as a settlement after days, are not sampled.
    """
    kind, *_ = unpack(tape.event)
    last = np.flatnonzero((kind != PRINT) & (kind != SETTLE) & (kind != VOID))
    end = max(tape.end, int(tape.ts[last[-1]]) if len(last) else tape.start)
    span = end - tape.start
    unit = SECOND if span > (BOOK_INSTANTS - 1) * SECOND else MILLISECOND
    step = max(1, -(-span // ((BOOK_INSTANTS - 1) * unit))) * unit
    return np.append(np.arange(tape.start, end, step, dtype=np.int64), np.int64(end))


def _sum_trades(tape: Tape, times: np.ndarray) -> np.ndarray:
    """Sum the trades of each market since the previous time in `times`. Returns lots, and lots times the price of YES in micro-dollars:
    int64[2, markets, times].
    """
    kind, ticker, side, level, lots = unpack(tape.event)
    is_trade = (kind == PRINT) & (tape.ts <= times[-1])
    ticker, side, level, lots, at = (column[is_trade] for column in (ticker, side, level, lots, tape.ts))
    price = tape.prices[tape.starts[ticker] + level]
    sums = np.zeros((2, len(tape.tickers), len(times)), np.int64)
    place = (ticker, np.searchsorted(times, at))
    np.add.at(sums[0], place, lots)
    np.add.at(sums[1], place, lots * np.where(side == NO, DOLLAR - price, price) * _UNIT)
    return sums


def _build_rows(ticker: str, times: np.ndarray, state: np.ndarray, lots: np.ndarray, trades: np.ndarray) -> pl.DataFrame:
    """Build the rows of one market: for the first and the last time, and for each time at which the book has changed or there were trades
    since the previous time. state: best prices, and lots: by side, cent and time, from `sample_books`. trades: sums by time, from
    `_sum_trades`.
    """
    near = np.stack([_best_prices(lots[0, ::-1])[::-1], _best_prices(lots[1])]) * (state[:, IS_VALID] == 1)
    changed = (state[1:] != state[:-1]).any(axis=1) | (near[..., 1:] != near[..., :-1]).any(axis=(0, 1)) | (trades[0, 1:] > 0)
    is_row = np.append(True, changed)
    is_row[-1] = True
    tops = state[is_row].T
    columns = {name: prices_of(np.where(column >= 0, column * _UNIT, NONE)) for name, column in zip(("bid", "ask"), tops, strict=False)}
    columns |= {name: sizes_of(column) for name, column in zip(_SIZES, tops[BID_SIZE:IS_VALID], strict=True)}
    columns |= _levels("bid", near[0][:, is_row], best=-1) | _levels("ask", near[1][:, is_row], best=1)
    traded, paid = trades[:, is_row]
    prices = np.where(traded > 0, np.rint(paid / np.maximum(traded, 1)).astype(np.int64), NONE)
    times_and_trades = {"at": instants_of(times[is_row]), "traded": sizes_of(traded), "trade_price": prices_of(prices)}
    rows = pl.DataFrame({**times_and_trades, "valid": tops[IS_VALID] == 1, **columns})
    dark = (pl.when("valid").then(name).alias(name) for name in columns)
    return rows.with_columns(*dark, ticker=pl.lit(ticker)).select(name for name in BOOKS.names if name not in {"episode", "known_at"})


def _best_prices(lots: np.ndarray) -> np.ndarray:
    """Return `lots`, by price (best first) and time, with 0 at all but the first `BOOK_PRICES` prices that have orders."""
    occupied = lots > 0
    return np.where(occupied.cumsum(axis=0) <= BOOK_PRICES, lots, 0)


def _levels(side: str, lots: np.ndarray, *, best: int) -> dict[str, pl.Series]:
    """Return the prices and the sizes of a side as two columns. Each row is a time and contains a list, best price first. lots: lots by
    cent and time. best: 1 if the lowest price is best, else -1.
    """
    instants, places = np.nonzero(lots[::best].T)
    cents = places if best > 0 else len(lots) - 1 - places
    levels = pl.DataFrame({"row": instants, "prices": prices_of(cents * (CENT * _UNIT)), "sizes": sizes_of(lots[cents, instants])})
    lists = levels.group_by("row", maintain_order=True).agg("prices", "sizes")
    rows = pl.DataFrame({"row": np.arange(lots.shape[1])}).join(lists, on="row", how="left", maintain_order="left")
    return {f"{side}_{name}": rows[name].fill_null([]) for name in ("prices", "sizes")}


def sample_quotes(tape: Tape, tickers: Sequence[str], stretches: int) -> pl.DataFrame:
    """Return for each market and interval the lowest bid, the highest ask and the last mid price. stretches: number of equal intervals of
    the episode.

    Columns: ticker, at (end of the interval), low (lowest bid), high (highest ask) and middle (mid price at the end, null without one).
    Prices are in cents.
    """
    tops = tops_of(tape)
    edges = interval_edges(tape, stretches)
    schema: Any = {"ticker": pl.String, "at": pl.Datetime("ns", "UTC"), **dict.fromkeys(("low", "high", "middle"), pl.Float64)}
    parts = [pl.DataFrame(schema=schema)]
    at = pl.Series("at", edges[1:]).cast(schema["at"])
    for ticker in tickers:
        low, high, middle = _extremes(tops, tape.tickers.index(ticker), edges)
        prices = pl.DataFrame({"low": low, "high": high, "middle": middle}).fill_nan(None)
        parts.append(prices.select(pl.lit(ticker).alias("ticker"), at, "low", "high", "middle"))
    return pl.concat(parts)


def price_with_fills(tape: Tape, fills: pl.DataFrame, title: str, *, tickers: Sequence[str] = ()) -> Any:
    """Draw the prices of markets and an agent's fills as an Altair chart, with `bellwether.figures.books.price_with_fills`. fills: rows of
    replay/fills of one agent in the episode. tickers: markets. Default: the most active ones.
    """
    from bellwether.figures.books import price_with_fills as chart

    names = list(tickers) or _rank_markets(tape, fills)
    markets = [name for name in names[:MOST_PANELS] if name in tape.tickers]
    return chart(sample_quotes(tape, markets, _WIDE if len(names) == 1 else _NARROW), fills, title, tickers=names)


def book_heat_map(tape: Tape, title: str, *, tickers: Sequence[str] = ()) -> Any:
    """Draw the depth of books over time as an Altair chart, with `bellwether.figures.books.book_heat_map`. tickers: markets. Default: the
    most active ones.
    """
    from bellwether.figures.books import book_heat_map as chart

    names = list(tickers) or _rank_markets(tape)
    markets = [name for name in names[:MOST_PANELS] if name in tape.tickers]
    edges = interval_edges(tape, (_WIDE if len(names) == 1 else _NARROW) // 2)
    codes = np.array([tape.tickers.index(name) for name in markets], np.int64)
    _, lots = sample_books(tape, codes, edges[1:])
    return chart(lots / 100, edges, markets, title, left_out=len(names) - MOST_PANELS)


def interval_edges(tape: Tape, stretches: int) -> np.ndarray:
    """Return the times that divide an episode into equal intervals, int64[stretches + 1], ns UTC. stretches: number of intervals."""
    return np.linspace(tape.start, max(tops_of(tape).until, tape.start + 1), stretches + 1).astype(np.int64)


def _rank_markets(tape: Tape, fills: pl.DataFrame | None = None) -> list[str]:
    """Return all tickers, those with the most fills first, then those with the most changes of the best prices. fills: rows of replay/fills."""
    count = dict(fills["ticker"].value_counts().iter_rows()) if fills is not None else {}
    changes = np.diff(tops_of(tape).first)
    return sorted(tape.tickers, key=lambda name: (-count.get(name, 0), -changes[tape.tickers.index(name)], name))


def _extremes(tops: Tops, market: int, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return for each interval the lowest bid, the highest ask, and the mid price at the end, float64 cents; NaN if missing. edges: limits
    of the intervals.
    """
    rows = tops.of(market)
    places = np.searchsorted(tops.ts[rows], edges, side="right")
    bid, ask = (np.where(side[rows] >= 0, side[rows] / CENT, np.nan) for side in (tops.bid, tops.ask))
    low, high, middle = (np.full(len(edges) - 1, np.nan) for _ in range(3))
    for column, (start, stop) in enumerate(pairwise(places.tolist())):
        within = slice(max(start - 1, 0), stop)
        low[column] = np.fmin.reduce(bid[within], initial=np.nan)
        high[column] = np.fmax.reduce(ask[within], initial=np.nan)
        if stop:
            middle[column] = (bid[stop - 1] + ask[stop - 1]) / 2
    return low, high, middle
