"""Requests of agents, and the engine's one entry for them. `kernel` is how strategies ask, `Session` how Python does.

`m` is a market, `side` YES 0 or NO 1, `action` BUY 0 or SELL 1. Prices in $0.0001 of the side, sizes in lots, times in ns UTC.
"""

from __future__ import annotations

from functools import cache

from bellwether.replay.engine.agent_view import value_known
from bellwether.replay.engine.callbacks import next_news
from bellwether.replay.engine.clock import advance
from bellwether.replay.engine.codes import (
    AMEND,
    CANCEL,
    CANCEL_ALL,
    CANCEL_BATCH,
    FULL,
    NEWS,
    PLACE,
    PLACE_BATCH,
    QUOTE,
    QUOTE_BATCH,
    RESTING_BATCH,
    STEP,
    Reason,
    Status,
)
from bellwether.replay.engine.compilation import address_of, compiled, compiled_alone
from bellwether.replay.engine.events import has_room
from bellwether.replay.engine.matching import cancel_resting
from bellwether.replay.engine.memory import (
    ENTRY,
    ask,
    batch_of,
    messages_of,
    orders_of,
    seen_orders_of,
    seen_sides_of,
    seen_state_of,
    sides_of,
    state_of,
)
from bellwether.replay.engine.order_transit import amend_order, cancel_order, is_immediate, place_order, send
from bellwether.replay.engine.order_updates import note, updates_fit, watches_orders
from bellwether.replay.engine.quotes import cancel_quotes, quote_market, quotes_stand
from bellwether.replay.engine.state import CANCEL_ALL_MESSAGE, JOINS_BOTH

_NOT_RESTING, _RESTING = int(Reason.NOT_RESTING), int(Status.RESTING)


@compiled
def place(sim, m, side, action, price, lots, tif, expires):
    """Send an order; returns its number, also of one that is rejected, or -1 where nothing is logged. Price 0: market order."""
    if not _fits(sim, m):
        return FULL
    o = place_order(sim, m, side, action, price, lots, tif, expires, JOINS_BOTH)
    _note_now(sim)
    return o


@compiled
def _fits(sim, m):
    """Return whether what one call may add fits into the arrays; if not, they are marked to grow."""
    state = state_of(sim)
    if state.full == 1:
        return False
    if state.orders + 2 > len(orders_of(sim)) or state.message_tail + 10 > len(messages_of(sim)):
        state.full = 1
        return False
    if not has_room(sim, m if 0 <= m < state.tickers else -1):
        return False
    if watches_orders(state) and not updates_fit(sim, 2):
        state.full = 1
        return False
    return True


@compiled
def _note_now(sim):
    """Note what a call has changed at once."""
    state = state_of(sim)
    if watches_orders(state) and is_immediate(sim):
        note(sim, state.now)


@compiled
def _is_order(sim, o):
    return state_of(sim).over == 0 and 0 <= o < state_of(sim).orders


@compiled
def cancel(sim, o):
    """Cancel an order: 1 if it rests (or, with latency, may rest when this arrives), 0 if not, FULL if an array must grow first."""
    if not _is_order(sim, o):
        return 0
    if not _fits(sim, -1):
        return FULL
    m = orders_of(sim)[o].market
    done = -1
    for s in range(2 * m, 2 * m + 2 if m >= 0 else 2 * m):
        if sides_of(sim)[s].quote == o:
            done = cancel_quotes(sim, s)
    if done < 0:
        done = cancel_order(sim, o)
    _note_now(sim)
    return done


@compiled
def amend(sim, o, price, lots):
    """Change a resting order to `lots` remaining at `price`: 0, the code of the reason against it, or FULL. With latency 0 means sent."""
    if not _is_order(sim, o):
        return _NOT_RESTING
    if not _fits(sim, orders_of(sim)[o].market):
        return FULL
    answer = amend_order(sim, o, price, lots)
    _note_now(sim)
    return answer


@compiled
def cancel_all(sim, m):
    """Cancel every resting order of a market, or of all for -1; returns how many rest, or FULL."""
    if state_of(sim).over == 1:
        return 0
    if not _fits(sim, -1):
        return FULL
    count = resting_count(sim, m)
    if is_immediate(sim):
        cancel_resting(sim, m, state_of(sim).now)
    else:
        send(sim, CANCEL_ALL_MESSAGE, m, 0, 0)
    _note_now(sim)
    return count


@compiled
def resting_count(sim, m):
    """Number of own resting orders in a market, or in all for -1, as known to the agent."""
    count, sides = 0, seen_sides_of(sim)
    for s in range(2 * seen_state_of(sim).tickers):
        if m < 0 or s >> 1 == m:
            count += sides[s].own
    return count


@compiled
def quote(sim, m, yes_price, no_price, lots):
    """Have one post-only bid of `lots` per side, or none for NO_QUOTE, or what there is for AS_IT_IS.

    A quote that is on its way or rests at its price stays and keeps its place. Those at other prices are cancelled before new ones are sent. 1 when
    done; else 0 when the calls are used up, or FULL, with nothing done, when an array must grow first.
    """
    if not 0 <= m < state_of(sim).tickers or quotes_stand(sim, m, yes_price, no_price, lots):
        return 1
    if not _fits(sim, m):
        return FULL
    done = quote_market(sim, m, yes_price, no_price, lots)
    _note_now(sim)
    return done


@compiled
def quote_batch(sim, lots, n):
    """Quote the markets `quoted`..n-1 at the prices in the first two fields of the batch. As `quote`; a call after FULL continues."""
    state, batch = state_of(sim), batch_of(sim)
    for m in range(state.quoted, n):
        done = quote(sim, m, batch[m].market, batch[m].side, lots)
        if done != 1:
            return done
        state.quoted = m + 1
    return 1


@compiled
def place_batch(sim, first, n):
    """Place the requests in rows first..n-1 of the batch, in order; the number of each is its answer. Returns the rows done."""
    batch = batch_of(sim)
    for i in range(first, n):
        row = batch[i]
        o = place(sim, row.market, row.side, row.action, row.price, row.lots, row.tif, row.expires)
        if o == FULL:
            return i
        row.answer = o
    return n


@compiled
def cancel_batch(sim, first, n):
    """Cancel the orders named in the first field of rows first..n-1. Returns the rows done."""
    batch = batch_of(sim)
    for i in range(first, n):
        answer = cancel(sim, batch[i].market)
        if answer == FULL:
            return i
        batch[i].answer = answer
    return n


@compiled
def resting_batch(sim, m):
    """Write the numbers of the orders that rest, as far as the agent knows, as answers of the batch, side by side, in price-time priority."""
    sides, orders, batch = seen_sides_of(sim), seen_orders_of(sim), batch_of(sim)
    n = 0
    for s in range(2 * seen_state_of(sim).tickers):
        i = sides[s].head if m < 0 or s >> 1 == m else -1
        while i >= 0:
            if orders[i].status == _RESTING:
                batch[n].answer = i
                n += 1
            i = orders[i].next
    return n


def _entry(sim, what, a, b, c, d, e, f, g):
    """Do `what`; what each of STEP.. NEWS takes and answers is with the functions that it calls."""
    if what == STEP:
        return advance(sim)
    if what == QUOTE:
        return quote(sim, a, b, c, d)
    if what == PLACE:
        return place(sim, a, b, c, d, e, f, g)
    if what == CANCEL:
        return cancel(sim, a)
    if what == AMEND:
        return amend(sim, a, b, c)
    if what == CANCEL_ALL:
        return cancel_all(sim, a)
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
    return value_known(sim)


@cache
def entry() -> int:
    """Address of the engine's compiled code in this process: loaded, or compiled, when it is first asked for."""
    return address_of(_entry, ENTRY)


@compiled_alone
def command(sim, what, first, n):
    """Requests of Python. A single one has its arguments in the batch's first row; several are rows first..n-1. RESTING_BATCH takes the market in
    `first`, QUOTE_BATCH the lots.
    """
    if PLACE <= what <= QUOTE:
        row = batch_of(sim)[0]
        return ask(sim, what, row.market, row.side, row.action, row.price, row.lots, row.tif, row.expires)
    return ask(sim, what, first, n, 0, 0, 0, 0, 0)
