"""Compiled: the engine's one entry, and what it does for several orders or markets in one go. `sim` as in `calls`; rows of its batch are requests."""

from __future__ import annotations

from functools import cache

from bellwether.replay.engine.arena import H_QUOTED, H_TICKERS, HEADER, K_COLS, K_HEAD, W_BATCH
from bellwether.replay.engine.calls import amend, cancel, cancel_all, place, quote
from bellwether.replay.engine.clock import advance
from bellwether.replay.engine.codes import (
    AMEND,
    CANCEL,
    CANCEL_ALL,
    CANCEL_BATCH,
    FULL,
    NEWS,
    O_NEXT,
    PLACE,
    PLACE_BATCH,
    QUOTE,
    QUOTE_BATCH,
    R_COLS,
    RESTING_BATCH,
    STEP,
)
from bellwether.replay.engine.compiling import address_of, compiled, compiled_alone
from bellwether.replay.engine.known import value_of_what_is_known
from bellwether.replay.engine.telling import next_news
from bellwether.replay.engine.words import ENTRY, ask, batch_of, cores_of, load, seen_of, seen_orders_of


@compiled
def quote_batch(sim, lots, n):
    """Quote the markets H_QUOTED..n-1 at the prices in the first two columns of the batch. As `quote`; after FULL, calling again goes on."""
    core, batch = cores_of(sim)[0], batch_of(sim)
    for ticker in range(core[H_QUOTED], n):
        done = quote(sim, ticker, batch[ticker, 0], batch[ticker, 1], lots)
        if done != 1:
            return done
        core[H_QUOTED] = ticker + 1
    return 1


@compiled
def place_batch(sim, first, n):
    """Place the requests in rows first..n-1 of the batch, in order; the number of each goes into the column behind. Returns the rows done."""
    batch = batch_of(sim)
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
    batch = batch_of(sim)
    for i in range(first, n):
        answer = cancel(sim, batch[i, 0])
        if answer == FULL:
            return i
        batch[i, R_COLS] = answer
    return n


@compiled
def resting_batch(sim, ticker):
    """Write the numbers of the orders that rest, as far as the agent knows, into the batch's first column, ticker by ticker, side by side, in price-time priority."""
    core, orders, batch = seen_of(sim)[0], seen_orders_of(sim), batch_of(sim)
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


def _entry(sim, what, a, b, c, d, e, f, g):
    """Do `what`; what each of STEP.. NEWS takes and answers is with the functions that it calls."""
    if what == STEP:
        return advance(sim)
    if what == PLACE:
        return place(sim, a, b, c, d, e, f, g)
    if what == CANCEL:
        return cancel(sim, a)
    if what == AMEND:
        return amend(sim, a, b, c)
    if what == CANCEL_ALL:
        return cancel_all(sim, a)
    if what == QUOTE:
        return quote(sim, a, b, c, d)
    if what == PLACE_BATCH:
        return place_batch(sim, a, b)
    if what == CANCEL_BATCH:
        return cancel_batch(sim, a, b)
    if what == RESTING_BATCH:
        return resting_batch(sim, a)
    if what == QUOTE_BATCH:
        return quote_batch(sim, a, b)
    if what == NEWS:
        return next_news(sim)
    return value_of_what_is_known(sim)


@cache
def entry() -> int:
    """Address of the engine's compiled code in this process: loaded, or compiled, when it is first asked for."""
    return address_of(_entry, ENTRY)


@compiled_alone
def command(sim, what, first, n):
    """The door for Python. What is asked for once has its arguments in the batch's first row; for several it is rows first..n-1. RESTING_BATCH takes the
    ticker in `first`, QUOTE_BATCH the lots.
    """
    if PLACE <= what <= QUOTE:
        row = sim[W_BATCH]
        return ask(sim, what, load(row, 0), load(row, 1), load(row, 2), load(row, 3), load(row, 4), load(row, 5), load(row, 6))
    return ask(sim, what, first, n, 0, 0, 0, 0, 0)
