"""Synthetic day of trading: 10 tickers, a million level changes and 300,000 trades on the 0.1 cent grid. Equal seeds give equal bytes.

Sizes and distances are as in recorded basketball games: half of the changes within two ticks of the touch, a twentieth beyond thirty; thousands of
contracts at a level and tens in a print, both with long tails, so that a print takes a tenth of its level in the mean and all of it in one case of
ten. New orders step into a wide spread. A print precedes its cut at the same instant. No book is locked, crossed or one-sided.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numba import njit

from bellwether.replay.rules import fee_terms, rule_set
from bellwether.replay.tape.layout import CLOSE, LEVEL, PRINT, SETTLE, TRADED, Tape, pack
from bellwether.replay.units import DOLLAR, MILL

RULES = "kalshi-2026-08-30"
TICKERS, LEVEL_CHANGES, PRINTS = 10, 1_000_000, 300_000
DAY = 86_400 * 10**9
START = 1_790_000_000 * 10**9
_DEPTH = 40
_WIDE = 12
_LARGEST = 2**31 - 1


def synthetic(seed: int = 5, *, prints: int = PRINTS, changes: int = LEVEL_CHANGES, tickers: int = TICKERS, length: int = DAY) -> Tape:
    """Generate the tape (episode in the simulator's integers) of a synthetic day, or of `length` ns. Makers pay fees, and even tickers resolve YES."""
    generator = np.random.default_rng(seed)
    opening = 2 * tickers * _DEPTH
    steps = changes - opening  # a print's cut is one of the level changes
    is_print = np.zeros(steps, np.bool_)
    is_print[generator.permutation(steps)[:prints]] = True
    draws = generator.random((steps, 4))
    near = generator.random(steps) < 0.6
    distance = np.where(near, generator.geometric(0.4, steps), generator.geometric(0.07, steps)) - 1
    normal = generator.standard_normal(steps)
    lots = 100 * np.exp(np.where(is_print, np.log(40) + 1.8 * normal, np.log(3_000) + 1.3 * normal)).astype(np.int64).clip(1, 10**6)
    instants = np.sort(generator.integers(1, length - 1, steps))
    mids = generator.integers(250, 750, tickers)
    ts, event, written = _simulate(is_print, draws, distance, lots, instants, mids)
    assert written == changes + prints
    ends = np.array(
        [word for code in range(tickers) for word in (pack(CLOSE, code, 0, 0, 0), pack(SETTLE, code, 0, 0, 10**6 * (1 - code % 2)))]
    )
    ts = np.concatenate([ts, np.full(len(ends), length, np.int64)]) + START
    event = np.concatenate([event, ends])
    terms = fee_terms(rule_set(RULES), {"type": "quadratic_with_maker_fees", "multiplier": 1})
    return Tape(
        ts=ts,
        event=event,
        tickers=tuple(f"SYN-{code}" for code in range(tickers)),
        start=START,
        end=START + length,
        fees=np.tile(terms, (tickers, 1)),
        levels=(np.arange(0, DOLLAR + 1, MILL),) * tickers,
        digest=hashlib.sha256(ts.tobytes() + event.tobytes()).hexdigest(),
    )


@njit(cache=True)
def _simulate(is_print, draws, distance, lots, instants, mids):
    tickers = len(mids)
    book = np.zeros((tickers, 2, 1001), np.int64)
    best = np.zeros((tickers, 2), np.int64)
    ts = np.zeros(2 * len(is_print) + 2 * tickers * _DEPTH, np.int64)
    event = np.zeros_like(ts)
    n = 0
    for ticker in range(tickers):
        for side in range(2):
            best[ticker, side] = (mids[ticker] if side == 0 else 1000 - mids[ticker]) - 2
            for depth in range(_DEPTH):
                price = best[ticker, side] - depth
                book[ticker, side, price] = 100_000 * (1 + depth)
                event[n] = pack(LEVEL, ticker, side, price, book[ticker, side, price])
                n += 1
    for i in range(len(is_print)):
        ticker, side = int(draws[i, 0] * tickers), int(draws[i, 1] * 2)
        size = lots[i]
        top = best[ticker, side]
        old = book[ticker, side, top]
        if is_print[i]:
            taken = min(size, old)
            if taken == old and _next(book, ticker, side, top) < 5:
                taken = (old + 1) // 2
            ts[n], event[n] = instants[i], pack(PRINT, ticker, side, top, taken)
            ts[n + 1], event[n + 1] = instants[i], pack(TRADED, ticker, side, top, old - taken)
            n += 2
            book[ticker, side, top] = old - taken
            if old == taken:
                best[ticker, side] = _next(book, ticker, side, top)
            continue
        spread = 1000 - best[ticker, 0] - best[ticker, 1]
        if spread > 1 and draws[i, 3] < (0.5 if spread > _WIDE else 0.07):
            price = top + 1
            if spread > _WIDE:
                price = top + 1 + int(draws[i, 2] * spread / 3)
            value = size
            best[ticker, side] = price
        else:
            price = max(top - distance[i], 1)
            value = size
            if draws[i, 3] > 0.7 and book[ticker, side, price] > 0:
                value = 0
            elif draws[i, 3] > 0.4:
                value = book[ticker, side, price] + size
            if price == top and value == 0:
                lower = _next(book, ticker, side, top)
                if lower < 5:
                    value = size
                else:
                    best[ticker, side] = lower
        book[ticker, side, price] = min(value, _LARGEST)
        ts[n], event[n] = instants[i], pack(LEVEL, ticker, side, price, book[ticker, side, price])
        n += 1
    return ts[:n].copy(), event[:n].copy(), n


@njit(cache=True)
def _next(book, ticker, side, top):
    price = top - 1
    while price > 0 and book[ticker, side, price] == 0:
        price -= 1
    return price
