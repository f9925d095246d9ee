"""Orders, cancels and amends on their way to the market: immediate without latency, otherwise messages that arrive in the order of sending.

`sim` is the whole replay, `m` a market, `o` an order.
"""

from __future__ import annotations

import numpy as np

from bellwether.replay.engine.codes import NONE, Reason, Status
from bellwether.replay.engine.compilation import compiled, inlined
from bellwether.replay.engine.events import first_after
from bellwether.replay.engine.matching import amend_now, cancel_now, process_arrival, set_bid_price
from bellwether.replay.engine.memory import messages_of, orders_of, state_of, ts_of
from bellwether.replay.engine.state import AMEND_MESSAGE, CANCEL_MESSAGE, PLACE_MESSAGE, UNUSED

_PENDING, _RESTING = np.int64(Status.PENDING), np.int64(Status.RESTING)
_AGENT, _NOT_RESTING = np.int64(Reason.AGENT), np.int64(Reason.NOT_RESTING)


@inlined
def is_immediate(sim):
    """Return True if the agent's commands take effect at once, because nothing has latency."""
    state = state_of(sim)
    return state.order_latency + state.data_latency == 0


@inlined
def is_live(sim, o):
    """Return True if an order is in transit or rests in the account."""
    return orders_of(sim)[o].status <= _RESTING


@compiled
def has_room_for_messages(sim):
    """Return True if ten more messages fit, after moving those in transit to the start of the array if half of it is free."""
    state, messages = state_of(sim), messages_of(sim)
    count = state.message_tail - state.message_head
    if state.message_tail + 10 > len(messages) and 2 * count + 20 <= len(messages):
        for n in range(count):
            messages[n] = messages[state.message_head + n]
        state.message_head, state.message_tail = 0, count
    return state.message_tail + 10 <= len(messages)


@compiled
def send_message(sim, kind, order, price, lots):
    """Send a message of a kind `*_MESSAGE` from the agent to the market. The caller ensures that it fits in the array."""
    state, messages = state_of(sim), messages_of(sim)
    n = state.message_tail
    state.message_tail = n + 1
    time = state.now + state.order_latency
    message = messages[n]
    message.kind, message.order, message.price, message.lots, message.time = kind, order, price, lots, time
    if n > state.message_head and messages[n - 1].time == time:
        message.at = messages[n - 1].at
    else:
        message.at = first_after(ts_of(sim), state.cursor, time)


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
    order.side, order.action, order.price, order.tif, order.count, order.expires = side, action, price, tif, lots, expires
    order.status, order.reason, order.sent, order.tag, order.amends = _PENDING, 0, state.now, 0, 0
    order.arrived = order.queued = order.ended = order.mid2 = order.next = order.prev = NONE
    order.bid_side = side if action == 0 else 1 - side
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
        return 1 if cancel_now(sim, o, _AGENT, state_of(sim).now) else 0
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
        return _NOT_RESTING
    orders_of(sim)[o].amends += 1
    send_message(sim, AMEND_MESSAGE, o, price, lots)
    return 0
