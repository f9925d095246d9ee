"""Commands of agents and the single compiled function that runs them. Strategies send commands through `kernel`, Python through `Session`.

Without latency a command takes effect at once; otherwise messages arrive in the order of sending. The quote of a side is the last order
that `quote_market` sent for it, until the agent withdraws it.

`sim` is the whole replay, `m` a market, `s` a side of it, `o` an order, `side` YES 0 or NO 1, `action` BUY 0 or SELL 1. Prices in $0.0001 of
the side, sizes in lots, times in ns UTC. The *batch* is an array with the arguments of a command per row.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from bellwether.replay.engine.account import value_account
from bellwether.replay.engine.book import count_resting
from bellwether.replay.engine.callbacks import collect_news, next_callback
from bellwether.replay.engine.clock import advance, first_after, is_watching_orders, record_updates
from bellwether.replay.engine.codes import (
    AMEND,
    AS_IT_IS,
    BUY,
    CANCEL,
    CANCEL_ALL,
    COLLECT,
    NEWS,
    NO_QUOTE,
    NONE,
    PLACE,
    QUOTE,
    QUOTE_BATCH,
    REASON,
    STATUS,
    STEP,
    TIF,
)
from bellwether.replay.engine.compilation import address_of, compiled, compiled_alone, inlined
from bellwether.replay.engine.matching import amend_now, cancel_now, cancel_resting, process_arrival, set_bid_price
from bellwether.replay.engine.state import (
    AMEND_MESSAGE,
    CANCEL_ALL_MESSAGE,
    CANCEL_MESSAGE,
    ENTRY,
    PLACE_MESSAGE,
    UNUSED,
    batch_of,
    call_engine,
    messages_of,
    orders_of,
    sides_of,
    state_of,
    ts_of,
)

_BUY = np.int64(BUY)
#: All markets, or all orders.
_ALL = np.int64(-1)
_LARGEST = np.int64(2**31 - 1)


@inlined
def is_immediate(sim):
    """Return True if the agent's commands take effect at once, because nothing has latency."""
    state = state_of(sim)
    return state.order_latency + state.data_latency == 0


@inlined
def is_live(sim, o):
    """Return True if an order is in transit or rests in the account."""
    return orders_of(sim)[o].status <= STATUS.RESTING


@compiled
def _move_messages(sim):
    """Move the messages in transit to the start of their array, which is full at its end. If all of it is in transit, the run ends."""
    state, messages = state_of(sim), messages_of(sim)
    count = state.message_tail - state.message_head
    for n in range(count):
        messages[n] = messages[state.message_head + n]
    state.message_head, state.message_tail = 0, count
    if count == len(messages):
        state.full = 1


@compiled
def send_message(sim, kind, order, price, lots):
    """Send a message of a kind `*_MESSAGE` from the agent to the market."""
    state, messages = state_of(sim), messages_of(sim)
    if state.message_tail == len(messages):
        _move_messages(sim)
        if state.full == 1:
            return
    n = state.message_tail
    state.message_tail = n + 1
    time = state.now + state.order_latency
    message = messages[n]
    message.kind, message.order, message.price, message.lots, message.time = kind, order, price, lots, time
    if n > state.message_head and messages[n - 1].time == time:
        message.at = messages[n - 1].at
    else:
        message.at = first_after(ts_of(sim), state.cursor, time)


@inlined
def _fit(value, most):
    """Limit a value to what the order's record can store. Orders with values beyond that are rejected."""
    return min(max(value, -most), most)


@compiled
def place_order(sim, m, side, action, price, lots, tif, expires):
    """Send an order. Returns its number, or NONE if it is not recorded."""
    state, orders = state_of(sim), orders_of(sim)
    o = state.orders
    if state.over == 1 or o >= state.max_orders:
        state.refused += 1
        return NONE
    order = orders[o]
    order.market = m if 0 <= m < state.tickers else NONE
    order.side, order.action, order.tif, order.expires = _fit(side, 127), _fit(action, 127), _fit(tif, 127), expires
    order.price, order.count = _fit(price, _LARGEST), _fit(lots, _LARGEST)
    order.status, order.reason, order.sent, order.tag, order.amends = STATUS.PENDING, 0, state.now, 0, 0
    order.arrived = order.queued = order.ended = order.mid2 = order.next = order.prev = NONE
    order.bid_side = order.side if action == 0 else 1 - order.side
    order.level = order.bid_price = 0
    if order.market >= 0 and 0 <= side <= 1:
        set_bid_price(sim, order)
    state.orders = o + 1
    if not is_immediate(sim):
        send_message(sim, PLACE_MESSAGE, o, UNUSED, UNUSED)
        return o
    process_arrival(sim, o, state.now)
    return o


@compiled
def cancel_order(sim, o):
    """Cancel an order. Returns 1 if it rested (with latency: may rest on arrival), else 0."""
    if is_immediate(sim):
        return 1 if cancel_now(sim, o, REASON.AGENT, state_of(sim).now) else 0
    if not is_live(sim, o):
        return 0
    send_message(sim, CANCEL_MESSAGE, o, UNUSED, UNUSED)
    return 1


@compiled
def amend_order(sim, o, price, lots):
    """Change the price and the remaining lots of an order. Returns 0 if the change is made or sent, else the `Reason` as a number."""
    if is_immediate(sim):
        return amend_now(sim, o, price, lots, state_of(sim).now)
    if not is_live(sim, o):
        return REASON.NOT_RESTING
    orders_of(sim)[o].amends += 1
    send_message(sim, AMEND_MESSAGE, o, price, lots)
    return 0


@inlined
def _is_in_place(sim, s, price):
    """Return True if a side's quote is in transit or rests at `price`, and no amendment of it is in transit."""
    o = sides_of(sim)[s].quote
    if price == AS_IT_IS:
        return True
    if o < 0:
        return price == NO_QUOTE
    return is_live(sim, o) and orders_of(sim)[o].price == price and orders_of(sim)[o].amends == 0


@inlined
def are_quotes_in_place(sim, m, yes_price, no_price):
    """Return True if the quotes of both sides of a market are as requested, so that nothing is to send."""
    return _is_in_place(sim, 2 * m, yes_price) and _is_in_place(sim, 2 * m + 1, no_price)


@compiled
def quote_market(sim, m, yes_price, no_price, lots):
    """Keep a bid of `lots` for YES and one for NO at these prices."""
    sides = sides_of(sim)
    for side in range(2):
        s, price = 2 * m + side, yes_price if side == 0 else no_price
        if not _is_in_place(sim, s, price):
            if sides[s].quote >= 0:
                cancel_order(sim, sides[s].quote)
            sides[s].quote = NONE
    for side in range(2):
        s, price = 2 * m + side, yes_price if side == 0 else no_price
        if price > NO_QUOTE and sides[s].quote < 0:
            sides[s].quote = place_order(sim, m, side, _BUY, price, lots, TIF.POST_ONLY, UNUSED)


@compiled
def forget_quotes(sim, m, o):
    """Forget the quotes of a market (-1: of all markets), or only the order `o` unless it is -1, because their cancels are sent."""
    sides = sides_of(sim)
    for s in range(2 * state_of(sim).tickers):
        if (m < 0 or s >> 1 == m) and (o < 0 or sides[s].quote == o):
            sides[s].quote = NONE


@compiled
def place(sim, m, side, action, price, lots, tif, expires):
    """Send an order; see `kernel.place`."""
    o = place_order(sim, m, side, action, price, lots, tif, expires)
    _record_updates_now(sim)
    return o


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
    answer = cancel_order(sim, o)
    forget_quotes(sim, orders_of(sim)[o].market, o)
    _record_updates_now(sim)
    return answer


@compiled
def amend(sim, o, price, lots):
    """Change an order; see `kernel.amend`."""
    if not _is_order(sim, o):
        return REASON.NOT_RESTING
    answer = amend_order(sim, o, price, lots)
    _record_updates_now(sim)
    return answer


@compiled
def cancel_all(sim, m):
    """Cancel all orders; see `kernel.cancel_all`."""
    if state_of(sim).over == 1:
        return 0
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
    quote_market(sim, m, yes_price, no_price, lots)
    _record_updates_now(sim)
    return 1


@compiled
def quote_batch(sim, n, lots):
    """Quote the first n markets at the two prices in each market's row of the batch. Returns n."""
    batch = batch_of(sim)
    for m in range(n):
        quote(sim, m, batch[m].market, batch[m].side, lots)
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
    if code == QUOTE_BATCH:
        return quote_batch(sim, a, b)
    if code == NEWS:
        return next_callback(sim)
    if code == COLLECT:
        return 1 if collect_news(sim) else 0
    return value_account(state_of(sim), sides_of(sim))


@cache
def engine_address() -> int:
    """Return the address of the engine's compiled code in this process; the first call compiles or loads the code."""
    return address_of(_dispatch, ENTRY)


@compiled_alone
def command(sim, code, n, lots):
    """Run a command from Python: a single one with arguments in the batch's first row, or one for each of the batch's first n rows."""
    if PLACE <= code <= QUOTE:
        row = batch_of(sim)[0]
        return call_engine(sim, code, row.market, row.side, row.action, row.price, row.lots, row.tif, row.expires)
    return call_engine(sim, code, n, lots, 0, 0, 0, 0, 0)
