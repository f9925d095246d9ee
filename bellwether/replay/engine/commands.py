"""Compiled: the one door for Python, and what it does for several orders or markets in one go. `sim` as in `kernel`; rows of its batch are requests."""

from __future__ import annotations

from bellwether.replay.engine.arena import H_QUOTED, H_TICKERS, HEADER, K_COLS, K_HEAD
from bellwether.replay.engine.clock import advance
from bellwether.replay.engine.codes import O_NEXT, R_COLS
from bellwether.replay.engine.compiling import compiled
from bellwether.replay.engine.kernel import FULL, amend, cancel, cancel_all, place, quote
from bellwether.replay.engine.money import value_account

STEP, PLACE, CANCEL, AMEND, CANCEL_ALL, PLACE_BATCH, CANCEL_BATCH, RESTING_BATCH, VALUE, QUOTE, QUOTE_BATCH = range(11)


@compiled
def quote_batch(sim, lots, n):
    """Quote the markets H_QUOTED..n-1 at the prices in the first two columns of the batch. As `quote`; after FULL, calling again goes on."""
    core, batch = sim[4][0], sim[9]
    for ticker in range(core[H_QUOTED], n):
        done = quote(sim, ticker, batch[ticker, 0], batch[ticker, 1], lots)
        if done != 1:
            return done
        core[H_QUOTED] = ticker + 1
    return 1


@compiled
def place_batch(sim, first, n):
    """Place the requests in rows first..n-1 of the batch, in order; the number of each goes into the column behind. Returns the rows done."""
    batch = sim[9]
    for i in range(first, n):
        row = batch[i]
        o = place(sim, row[0], row[1], row[2], row[3], row[4], row[5], row[6])
        if o == FULL:
            return i
        batch[i, R_COLS] = o
    return n


@compiled
def cancel_batch(sim, first, n):
    """Cancel the orders named in the first column of rows first..n-1; the answers go into the column behind. Returns the rows done."""
    batch = sim[9]
    for i in range(first, n):
        answer = cancel(sim, batch[i, 0])
        if answer == FULL:
            return i
        batch[i, R_COLS] = answer
    return n


@compiled
def resting_batch(sim, ticker):
    """Write the numbers of the resting orders into the batch's first column, ticker by ticker, side by side, in price-time priority."""
    core, orders, batch = sim[4][0], sim[5][0], sim[9]
    n = 0
    for t in range(core[H_TICKERS]):
        if ticker >= 0 and t != ticker:
            continue
        for side in range(2):
            i = core[HEADER + t * K_COLS + K_HEAD + side]
            while i >= 0:
                batch[n, 0] = i
                n += 1
                i = orders[i, O_NEXT]
    return n


@compiled
def command(sim, what, first, n):
    """One function, so that only one is loaded: `what` is STEP.. QUOTE_BATCH. Arguments stand in the batch's first row, or in its rows
    first..n-1 for several orders; RESTING_BATCH takes the ticker in `first`, QUOTE_BATCH the lots."""
    if what == STEP:
        return advance(sim)
    row = sim[9][0]
    if what == PLACE:
        return place(sim, row[0], row[1], row[2], row[3], row[4], row[5], row[6])
    if what == CANCEL:
        return cancel(sim, row[0])
    if what == AMEND:
        return amend(sim, row[0], row[1], row[2])
    if what == CANCEL_ALL:
        return cancel_all(sim, row[0])
    if what == PLACE_BATCH:
        return place_batch(sim, first, n)
    if what == CANCEL_BATCH:
        return cancel_batch(sim, first, n)
    if what == RESTING_BATCH:
        return resting_batch(sim, first)
    if what == QUOTE:
        return quote(sim, row[0], row[1], row[2], row[3])
    if what == QUOTE_BATCH:
        return quote_batch(sim, first, n)
    return value_account(sim[4][0])
