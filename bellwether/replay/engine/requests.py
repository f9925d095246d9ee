"""Commands of agents and the single compiled function that runs them. Strategies send commands through `kernel`, Python through `Session`.

`sim` is the whole replay, `m` a market, `side` YES 0 or NO 1, `action` BUY 0 or SELL 1. Prices in $0.0001 of the side, sizes in lots, times
in ns UTC. The *batch* is an array with a command per row: its arguments, and the answer.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from bellwether.replay.engine.accounts import value_account
from bellwether.replay.engine.book import count_resting
from bellwether.replay.engine.callbacks import next_callback
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
    batch_of,
    call_engine,
    orders_of,
    sides_of,
    state_of,
)
from bellwether.replay.engine.order_transit import amend_order, cancel_order, has_room_for_messages, is_immediate, place_order, send_message
from bellwether.replay.engine.order_updates import has_room_for_updates, is_watching_orders, record_updates
from bellwether.replay.engine.quotes import are_quotes_in_place, forget_quotes, quote_market
from bellwether.replay.engine.state import CANCEL_ALL_MESSAGE, UNUSED

_NOT_RESTING, _RESTING = np.int64(Reason.NOT_RESTING), np.int64(Status.RESTING)
#: All markets, or all orders.
_ALL = np.int64(-1)


@compiled
def place(sim, m, side, action, price, lots, tif, expires):
    """Send an order; see `kernel.place`."""
    if not _has_room_for_call(sim, m):
        return FULL
    o = place_order(sim, m, side, action, price, lots, tif, expires)
    _record_updates_now(sim)
    return o


@compiled
def _has_room_for_call(sim, m):
    """Return True if the arrays have room for all rows that one command may add; if not, request growth."""
    state = state_of(sim)
    if state.full == 1:
        return False
    if state.orders + 2 > len(orders_of(sim)) or not has_room_for_messages(sim):
        state.full = 1
        return False
    if not has_room(sim, m if 0 <= m < state.tickers else _ALL):
        return False
    if is_watching_orders(state) and not has_room_for_updates(sim):
        state.full = 1
        return False
    return True


@compiled
def _record_updates_now(sim):
    """Record the order updates of a command, if commands take effect at once."""
    state = state_of(sim)
    if is_watching_orders(state) and is_immediate(sim):
        record_updates(sim, state.now)


@compiled
def _is_order(sim, o):
    """Return True if `o` is the number of an order and the replay is not over."""
    return state_of(sim).over == 0 and 0 <= o < state_of(sim).orders


@compiled
def cancel(sim, o):
    """Cancel an order; see `kernel.cancel`."""
    if not _is_order(sim, o):
        return 0
    if not _has_room_for_call(sim, _ALL):
        return FULL
    answer = cancel_order(sim, o)
    forget_quotes(sim, orders_of(sim)[o].market, o)
    _record_updates_now(sim)
    return answer


@compiled
def amend(sim, o, price, lots):
    """Change an order; see `kernel.amend`."""
    if not _is_order(sim, o):
        return _NOT_RESTING
    if not _has_room_for_call(sim, orders_of(sim)[o].market):
        return FULL
    answer = amend_order(sim, o, price, lots)
    _record_updates_now(sim)
    return answer


@compiled
def cancel_all(sim, m):
    """Cancel all orders; see `kernel.cancel_all`."""
    if state_of(sim).over == 1:
        return 0
    if not _has_room_for_call(sim, _ALL):
        return FULL
    count = count_resting(sim, m)
    if is_immediate(sim):
        cancel_resting(sim, m, state_of(sim).now)
    else:
        send_message(sim, CANCEL_ALL_MESSAGE, m, UNUSED, UNUSED)
    forget_quotes(sim, m, _ALL)
    _record_updates_now(sim)
    return count


@compiled
def quote(sim, m, yes_price, no_price, lots):
    """Keep quotes in a market; see `kernel.quote`."""
    if not 0 <= m < state_of(sim).tickers or are_quotes_in_place(sim, m, yes_price, no_price):
        return 1
    if not _has_room_for_call(sim, m):
        return FULL
    quote_market(sim, m, yes_price, no_price, lots)
    _record_updates_now(sim)
    return 1


@compiled
def quote_batch(sim, lots, n):
    """Quote the markets `quoted`..n-1 at the two prices in each market's row. Returns 1, or FULL; the next call then continues."""
    state, batch = state_of(sim), batch_of(sim)
    for m in range(state.quoted, n):
        if quote(sim, m, batch[m].market, batch[m].side, lots) == FULL:
            return FULL
        state.quoted = m + 1
    return 1


@compiled
def place_batch(sim, first, n):
    """Place the orders in rows first..n-1 of the batch and store each number as answer. Returns the first unprocessed row, n if none."""
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
    """Cancel the orders whose numbers are in the first field of rows first..n-1. Returns the first unprocessed row, n if none."""
    batch = batch_of(sim)
    for i in range(first, n):
        answer = cancel(sim, batch[i].market)
        if answer == FULL:
            return i
        batch[i].answer = answer
    return n


@compiled
def resting_batch(sim, m):
    """Store the numbers of the agent's resting orders as answers in the batch, by side and price-time priority. Returns their count."""
    sides, orders, batch = sides_of(sim), orders_of(sim), batch_of(sim)
    n = 0
    for s in range(2 * state_of(sim).tickers):
        i = sides[s].head if m < 0 or s >> 1 == m else -1
        while i >= 0:
            if orders[i].status == _RESTING:
                batch[n].answer = i
                n += 1
            i = orders[i].next
    return n


def _dispatch(sim, code, a, b, c, d, e, f, g):
    """Run the command `code` with the arguments `a` to `g` of its function, and return the function's result."""
    if code == STEP:
        return advance(sim)
    if code == QUOTE:
        return quote(sim, a, b, c, d)
    if code == PLACE:
        return place(sim, a, b, c, d, e, f, g)
    if code == CANCEL:
        return cancel(sim, a)
    if code == AMEND:
        return amend(sim, a, b, c)
    if code == CANCEL_ALL:
        return cancel_all(sim, a)
    if code == PLACE_BATCH:
        return place_batch(sim, a, b)
    if code == CANCEL_BATCH:
        return cancel_batch(sim, a, b)
    if code == RESTING_BATCH:
        return resting_batch(sim, a)
    if code == QUOTE_BATCH:
        return quote_batch(sim, a, b)
    if code == NEWS:
        return next_callback(sim)
    return value_account(state_of(sim), sides_of(sim))


@cache
def engine_address() -> int:
    """Return the address of the engine's compiled code in this process; the first call compiles or loads the code."""
    return address_of(_dispatch, ENTRY)


@compiled_alone
def command(sim, code, first, n):
    """Run a command from Python: a single one with arguments in the batch's first row, or one for each of the rows first..n-1.

    RESTING_BATCH takes the market in `first`, QUOTE_BATCH the lots.
    """
    if PLACE <= code <= QUOTE:
        row = batch_of(sim)[0]
        return call_engine(sim, code, row.market, row.side, row.action, row.price, row.lots, row.tif, row.expires)
    return call_engine(sim, code, first, n, 0, 0, 0, 0, 0)
