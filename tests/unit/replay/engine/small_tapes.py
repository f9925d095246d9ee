"""Tapes of a few events for tests of the engine: times in seconds, prices in $0.0001, sizes in lots."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numba import njit

from bellwether.replay.engine import Session
from bellwether.replay.engine.codes import Tif
from bellwether.replay.engine.kernel import best_bid, cancel, first_resting, next_step, orders_of, place, strategy, tickers
from bellwether.replay.rules import RuleSet, rule_set
from bellwether.replay.settings import BacktestSettings
from bellwether.replay.tape.build import allowed_levels, level_words
from bellwether.replay.tape.layout import CLOSE, LEVEL, PRINT, SETTLE, Tape, pack
from bellwether.replay.units import CENT, DOLLAR, MILL, NO, SECOND, YES

FREE = rule_set("kalshi-2021-07-01")
LIVE = rule_set("kalshi-2026-05-28")
MILLS = np.arange(MILL, DOLLAR, MILL)
KALSHI_FEES = (1, 7, 100, 1, 7, 400, 0)
_POST_ONLY = int(Tif.POST_ONLY)

Event = tuple[float, int, int, int, int, int]


def level(at: float, side: int, price: int, lots: int, ticker: int = 0, kind: int = LEVEL) -> Event:
    return at, kind, ticker, side, price, lots


def printed(at: float, side: int, price: int, lots: int, ticker: int = 0) -> Event:
    return at, PRINT, ticker, side, price, lots


def life(at: float, kind: int, value: int = 0, ticker: int = 0) -> Event:
    return at, kind, ticker, 0, 0, value


def tape(*events: Event, tickers: int = 1, fees: tuple[int, ...] | None = None, **columns: Any) -> Tape:
    """Return a tape from second 0 to its last event."""
    ts = np.array([round(at * SECOND) for at, *_ in events], np.int64)
    words = np.array([pack(kind, ticker, side, price, value) for _, kind, ticker, side, price, value in events], np.int64)
    if fees:
        columns["fees"] = np.tile(np.array(fees, np.int64), (tickers, 1))
    words, levels = level_words(words, [[MILLS]] * tickers)
    columns = {"levels": levels, "grids": allowed_levels(levels, [[MILLS]] * tickers)} | columns
    return Tape(ts, words, tuple(f"T{code}" for code in range(tickers)), 0, int(ts[-1]) if len(ts) else 0, **columns)


#: YES bids 45 and 40 cents, NO bids 52 and 50: YES asks 48 and 50.
BOOK = (level(0, YES, 4_500, 10_000), level(0, YES, 4_000, 20_000), level(0, NO, 5_200, 5_000), level(0, NO, 5_000, 15_000))


def session(small_tape: Tape, rules: RuleSet = FREE, **settings: Any) -> Session:
    """Return a session at its first decision, with a decision every second."""
    opened = Session(small_tape, rules, replace(BacktestSettings(cadence=SECOND), **settings))
    assert opened.step()
    return opened


def finish(opened: Session) -> Session:
    while opened.step():
        pass
    return opened


def from_python(function: Any) -> Any:
    """Return a compiled function that Python can call in place of one that only compiled functions call."""

    @njit
    def call(*arguments):
        return function(*arguments)

    return call


def busy_tape(events: int = 20_000, tickers: int = 3) -> Tape:
    """Return a market with frequent trades: one event per 50 ms, closed and settled at the end."""
    generator = np.random.default_rng(11)
    count = events - 2 * tickers
    ticker, side = generator.integers(0, tickers, count), generator.integers(0, 2, count)
    price = 4_800 - 100 * generator.integers(0, 6, count)
    is_print = generator.random(count) < 0.3
    lots = np.where(generator.random(count) < 0.1, 0, 100 * generator.integers(1, 90, count))
    words = pack(np.where(is_print, PRINT, LEVEL), ticker, side, price, np.where(is_print, lots + 100, lots))
    ends = [pack(kind, code, 0, 0, value) for code in range(tickers) for kind, value in ((CLOSE, 0), (SETTLE, 10**6 * (code % 2)))]
    ts = np.concatenate([np.arange(count), np.full(len(ends), count)]) * (SECOND // 20)
    fees = np.tile(np.array(KALSHI_FEES, np.int64), (tickers, 1))
    words, levels = level_words(np.concatenate([words, np.array(ends)]), [[np.arange(CENT, DOLLAR, CENT)]] * tickers)
    return Tape(ts, words, tuple(f"T{code}" for code in range(tickers)), 0, int(ts[-1]), fees=fees, levels=levels)


@strategy
def follow(sim, params):
    """Quote at both touches, and count quotes in params[1]."""
    while next_step(sim):
        for ticker in range(tickers(sim)):
            for side in range(2):
                order, bid = first_resting(sim, ticker, side), best_bid(sim, ticker, side)
                if order >= 0 and orders_of(sim)[order].price != bid:
                    cancel(sim, order)
                    order = -1
                if order < 0 and bid > 0:
                    params[1] += 1
                    place(sim, ticker, side, 0, bid, params[0], _POST_ONLY, 0)
