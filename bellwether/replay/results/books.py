"""Recorded books of an episode over time: rows of `replay/books`."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import polars as pl

from bellwether.replay.engine import Session
from bellwether.replay.engine.codes import TickerStatus
from bellwether.replay.results.frames import instants_of, prices_of, sizes_of
from bellwether.replay.results.markouts import NONE
from bellwether.replay.rules import rule_sets
from bellwether.replay.settings import BacktestSettings
from bellwether.replay.tape.layout import PRINT, SETTLE, VOID, Tape, unpack
from bellwether.replay.units import CENT, DOLLAR, MICROS, MILLISECOND, NO, SECOND
from bellwether.tables.replay import BOOK_INSTANTS, BOOK_LEVELS, BOOK_PRICES, BOOKS

#: Micro-dollars of a contract per $0.0001.
_UNIT = MICROS // DOLLAR
_SIZES = ("bid_size", "ask_size", "bid_depth", "ask_depth")
#: Columns of the best prices.
BID, ASK, BID_SIZE, ASK_SIZE, BID_DEPTH, ASK_DEPTH, IS_VALID = range(7)
#: Bits of the status of a market whose book is invalid, and the longest duration, ns.
_DARK, _NEVER = TickerStatus.INVALID | TickerStatus.CLOSED | TickerStatus.SETTLED, 10**18
#: Markets whose depth is computed at once: more would take gigabytes for a large event.
_MARKETS = 25


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


def sample_books(tape: Tape, markets: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the best prices and the displayed lots of books at given times, from a replay without an agent. Events at a time are included.

    The best prices are int64[M, N, 7]: best bid and ask of YES ($0.0001, -1 for an empty side), lots at them, lots at the best `BOOK_LEVELS`
    prices of each side, and 1 if the book is valid: recorded, not lost, and its market not closed. All other columns of an invalid book are
    -1. The lots are int64[M, 2, 101, N], by market, side (YES bids, YES asks), price of YES in whole cents, rounded down, and time; 0 while a
    book is invalid or its market is closed.

    Args:
        tape: Tape.
        markets: Codes of the markets, int64[M].
        times: Times, int64[N], ns UTC, ascending.
    """
    tops = np.full((len(markets), len(times), 7), -1, np.int64)
    tops[:, :, IS_VALID] = 0
    lots = np.zeros((len(markets), 2, DOLLAR // CENT + 1, len(times)), np.int64)
    session = Session(tape, next(iter(rule_sets().values())), BacktestSettings(cadence=_NEVER, sample_every=_NEVER, max_orders=0))
    session.watch(times)
    done, stopped = 0, session.open() or session.advance()
    while done < len(times):
        # After the last stop, the books stay as they are.
        upto = int(np.searchsorted(times, session.now, side="right")) if stopped else len(times)
        for place in range(done, upto):
            for row in np.flatnonzero(session.status[markets] & _DARK == 0).tolist():
                _sample_book(session, int(markets[row]), int(times[place]), tops[row, place], lots[row, :, :, place])
        done, stopped = upto, session.advance()
    return tops, lots


def _sample_book(session: Session, market: int, at: int, top: np.ndarray, lots: np.ndarray) -> None:
    """Store the present book of a market at a time, ns UTC. top, lots: of the market and the time, as `sample_books` returns them."""
    is_valid = at >= session.tape.begins[market]
    top[IS_VALID] = is_valid
    for side in range(2):
        prices, sizes = session.levels(market, side)
        of_yes = DOLLAR - prices if side == NO else prices
        np.add.at(lots[side], of_yes // CENT, sizes)
        if is_valid:
            top[side] = of_yes[0] if len(prices) else -1
            top[BID_SIZE + side], top[BID_DEPTH + side] = sizes[:1].sum(), sizes[:BOOK_LEVELS].sum()
