"""The recorded top of the books of an episode over time, as rows of `replay/books`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from bellwether.replay.results.depth import depth
from bellwether.replay.results.frames import instants_of, prices_of, sizes_of
from bellwether.replay.results.markouts import NONE, Tops, tops_of
from bellwether.replay.tape.layout import CLOSE, INVALID, PRINT, SETTLE, VALID, VOID, Tape, unpack
from bellwether.replay.units import DOLLAR, MICROS, MILLISECOND, SECOND
from bellwether.tables.replay import BOOK_INSTANTS, BOOK_LEVELS, BOOKS

#: Micro-dollars of a contract per mill.
_MILL = MICROS // DOLLAR
#: Markets whose books are looked at together: all prices of one at all instants are 8 MB.
_TOGETHER = 4
#: Stretches of time of a picture: of a panel alone, and of one among many.
_WIDE, _NARROW = 320, 100
#: Markets of a picture.
MOST_PANELS = 12


def books(tape: Tape, episode: str, known_at: datetime) -> pl.DataFrame:
    """Rows of `replay/books`, by market in the order of the tape and by time. known_at: as of when the episode was known."""
    times, states, count = grid(tape), _states(tape), len(tape.tickers)
    parts = [BOOKS.empty().drop("episode", "known_at")]
    for first in range(0, count, _TOGETHER):
        markets = np.arange(first, min(first + _TOGETHER, count))
        shown = depth(tape, markets, times, step=1)
        for place, market in enumerate(markets.tolist()):
            parts.append(_rows(tape.tickers[market], shown[place], times, _valid(states, market, times)))
    rows = pl.concat(parts)
    literals = [pl.lit(value, BOOKS.schema[name]).alias(name) for name, value in (("episode", episode), ("known_at", known_at))]
    return BOOKS.validate(rows.with_columns(literals).select(BOOKS.names), unique=False)


def grid(tape: Tape) -> np.ndarray:
    """int64 ns, ascending: the start of the episode, every so many whole seconds (of a short one, milliseconds) after it, and the end of its
    books; at most `BOOK_INSTANTS`.

    What follows the books, such as a settlement days later, has no instants of its own.
    """
    kind, *_ = unpack(tape.event)
    last = np.flatnonzero((kind != PRINT) & (kind != SETTLE) & (kind != VOID))
    end = max(tape.end, int(tape.ts[last[-1]]) if len(last) else tape.start)
    span = end - tape.start
    unit = SECOND if span > (BOOK_INSTANTS - 1) * SECOND else MILLISECOND
    step = max(1, -(-span // ((BOOK_INSTANTS - 1) * unit))) * unit
    return np.append(np.arange(tape.start, end, step, dtype=np.int64), np.int64(end))


def _rows(ticker: str, shown: np.ndarray, times: np.ndarray, valid: np.ndarray) -> pl.DataFrame:
    """The instants at which something of a market differs from the instant before, and the last. shown: lots of (side, price of YES, instant)."""
    bid, bid_size, bid_depth = _side(shown[0])
    # Asks by what they are below a dollar: of both sides the best price is then the highest.
    below, ask_size, ask_depth = _side(shown[1, ::-1])
    ask = np.where(below >= 0, DOLLAR - below, -1)
    columns = {"bid": bid, "ask": ask, "bid_size": bid_size, "ask_size": ask_size, "bid_depth": bid_depth, "ask_depth": ask_depth}
    state = np.column_stack([*(np.where(valid, column, -1) for column in columns.values()), valid])
    kept = np.append(True, (state[1:] != state[:-1]).any(axis=1))
    kept[-1] = True
    prices = {name: prices_of(np.where(columns[name] >= 0, columns[name] * _MILL, NONE)[kept]) for name in ("bid", "ask")}
    sizes = {name: sizes_of(column[kept]) for name, column in columns.items() if name not in prices}
    rows = pl.DataFrame({"at": instants_of(times[kept]), **prices, **sizes, "valid": valid[kept]})
    dark = (pl.when("valid").then(name).alias(name) for name in columns)
    return rows.with_columns(*dark, ticker=pl.lit(ticker)).select(name for name in BOOKS.names if name not in {"episode", "known_at"})


def _side(lots: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Highest price with lots (-1 without any), lots at it, and lots at the highest `BOOK_LEVELS` prices; lots: (prices, instants)."""
    falling = lots[::-1]
    held = falling > 0
    first = held.argmax(axis=0)
    best = np.where(held.any(axis=0), len(lots) - 1 - first, -1)
    counted = held & (np.cumsum(held, axis=0, dtype=np.int16) <= BOOK_LEVELS)
    return best, np.take_along_axis(falling, first[None], axis=0)[0], np.where(counted, falling, 0).sum(axis=0)


def _states(tape: Tape) -> Tape:
    """The events of a tape that say whether its books can be trusted and markets are open: few of all."""
    kind, *_ = unpack(tape.event)
    kept = np.isin(kind, (INVALID, VALID, CLOSE, SETTLE, VOID))
    return replace(tape, ts=tape.ts[kept], event=tape.event[kept])


def _valid(states: Tape, market: int, times: np.ndarray) -> np.ndarray:
    """Return whether at each instant the recording of the market has begun, its book is not lost, and it is not closed."""
    kind, ticker, *_ = unpack(states.event)
    own = ticker == market
    lost = np.flatnonzero(own & ((kind == INVALID) | (kind == VALID)))
    closed = np.flatnonzero(own & (kind != INVALID) & (kind != VALID))
    before = np.searchsorted(states.ts[lost], times, side="right")
    is_lost = np.append(False, kind[lost] == INVALID)[before]
    end = states.ts[closed[0]] if len(closed) else np.iinfo(np.int64).max
    found: np.ndarray = (times >= states.begins[market]) & ~is_lost & (times < end)
    return found


def quoted(tape: Tape, tickers: Sequence[str], stretches: int) -> pl.DataFrame:
    """Best prices of markets in so many equal stretches of the episode: ticker, at (the end), low (lowest bid), high (highest ask) and middle in cents.

    The middle is that at the end; null without one.
    """
    tops = tops_of(tape)
    edges = edges_of(tape, stretches)
    schema: Any = {"ticker": pl.String, "at": pl.Datetime("ns", "UTC"), **dict.fromkeys(("low", "high", "middle"), pl.Float64)}
    parts = [pl.DataFrame(schema=schema)]
    at = pl.Series("at", edges[1:]).cast(schema["at"])
    for ticker in tickers:
        low, high, middle = _extremes(tops, tape.tickers.index(ticker), edges)
        prices = pl.DataFrame({"low": low, "high": high, "middle": middle}).fill_nan(None)
        parts.append(prices.select(pl.lit(ticker).alias("ticker"), at, "low", "high", "middle"))
    return pl.concat(parts)


def price_with_fills(tape: Tape, fills: pl.DataFrame, title: str, *, tickers: Sequence[str] = ()) -> Any:
    """`bellwether.figures.books.price_with_fills` of a recorded episode: an Altair chart. fills: rows of replay/fills of one agent in it."""
    from bellwether.figures.books import price_with_fills as chart

    names = list(tickers) or _liveliest(tape, fills)
    known = [name for name in names[:MOST_PANELS] if name in tape.tickers]
    return chart(quoted(tape, known, _WIDE if len(names) == 1 else _NARROW), fills, title, tickers=names)


def book_heat_map(tape: Tape, title: str, *, tickers: Sequence[str] = ()) -> Any:
    """`bellwether.figures.books.book_heat_map` of a recorded episode: an Altair chart. tickers: the markets, the liveliest when left out."""
    from bellwether.figures.books import book_heat_map as chart

    names = list(tickers) or _liveliest(tape)
    known = [name for name in names[:MOST_PANELS] if name in tape.tickers]
    edges = edges_of(tape, (_WIDE if len(names) == 1 else _NARROW) // 2)
    codes = np.array([tape.tickers.index(name) for name in known], np.int64)
    return chart(depth(tape, codes, edges[1:]) / 100, edges, known, title, left_out=len(names) - MOST_PANELS)


def edges_of(tape: Tape, stretches: int) -> np.ndarray:
    """int64 ns, the ends of equal stretches of an episode."""
    return np.linspace(tape.start, max(tops_of(tape).until, tape.start + 1), stretches + 1).astype(np.int64)


def _liveliest(tape: Tape, fills: pl.DataFrame | None = None) -> list[str]:
    """All markets: those with the most fills first, then those whose best prices changed most."""
    count = dict(fills["ticker"].value_counts().iter_rows()) if fills is not None else {}
    changes = np.diff(tops_of(tape).first)
    return sorted(tape.tickers, key=lambda name: (-count.get(name, 0), -changes[tape.tickers.index(name)], name))


def _extremes(tops: Tops, market: int, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Per stretch, float64 cents: lowest bid, highest ask, and the middle at its end; NaN without one."""
    rows = tops.of(market)
    places = np.searchsorted(tops.ts[rows], edges, side="right")
    bid, ask = (np.where(side[rows] >= 0, side[rows] / 10, np.nan) for side in (tops.bid, tops.ask))
    low, high, middle = (np.full(len(edges) - 1, np.nan) for _ in range(3))
    for column, (start, stop) in enumerate(pairwise(places.tolist())):
        within = slice(max(start - 1, 0), stop)
        low[column] = np.fmin.reduce(bid[within], initial=np.nan)
        high[column] = np.fmax.reduce(ask[within], initial=np.nan)
        if stop:
            middle[column] = (bid[stop - 1] + ask[stop - 1]) / 2
    return low, high, middle
