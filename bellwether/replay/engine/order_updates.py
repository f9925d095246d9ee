"""Updates of the agent's orders, one row per change, for agents that have `on_order`.

`sim` is the whole replay, `state` its account and clock. `noted` contains the open orders as of the last call of `record_updates`.
"""

from __future__ import annotations

import numpy as np

from bellwether.replay.engine.codes import Status
from bellwether.replay.engine.compilation import compiled, inlined
from bellwether.replay.engine.memory import noted_of, orders_of, state_of, updates_of
from bellwether.replay.engine.state import WATCH_ORDERS

_PENDING, _RESTING = np.int64(Status.PENDING), np.int64(Status.RESTING)


@inlined
def is_watching_orders(state):
    """Return True if order updates are recorded."""
    return state.watch & WATCH_ORDERS != 0


@compiled
def has_room_for_updates(sim):
    """Return True if the arrays have room for one update of every open order and of two new orders."""
    state = state_of(sim)
    rows = state.update_tail + state.open + state.orders - state.noted + 2
    return rows <= len(updates_of(sim))


@compiled
def record_updates(sim, time):
    """Append an update at `time` for each order changed since this function last ran. The caller ensures that the rows fit."""
    state, orders, noted = state_of(sim), orders_of(sim), noted_of(sim)
    for o in range(state.noted, state.orders):
        row = noted[state.open]
        row.order, row.status, row.filled, row.price, row.count = o, _PENDING, 0, orders[o].price, orders[o].count
        state.open += 1
    state.noted = state.orders
    still_open = 0
    for i in range(state.open):
        row = noted[i]
        o = row.order
        order = orders[o]
        if order.status != row.status or order.filled != row.filled or order.price != row.price or order.count != row.count:
            _add_update(sim, order, o, time)
        if order.status <= _RESTING:
            row = noted[still_open]
            row.order, row.status, row.filled, row.price, row.count = o, order.status, order.filled, order.price, order.count
            still_open += 1
    state.open = still_open


@inlined
def _add_update(sim, order, o, time):
    state = state_of(sim)
    row = updates_of(sim)[state.update_tail]
    row.time, row.order, row.status, row.reason = time, o, order.status, order.reason
    row.price, row.count, row.filled = order.price, order.count, order.filled
    state.update_tail += 1
