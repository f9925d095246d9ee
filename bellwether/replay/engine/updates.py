"""Compiled: the updates of own orders, one row each time that an order of the chosen account has changed, for agents that are told of it, or learn of
it late.

`core` is that account's state (`arena`). `noted` has a row for each order that was open when it was last looked at, as it was then.
"""

from __future__ import annotations

from bellwether.replay.engine.arena import H_L_TAIL, H_NOTED, H_OPEN, H_ORDERS, H_U_TAIL, H_WATCH, WATCH_LATE, WATCH_ORDERS
from bellwether.replay.engine.codes import (
    O_COST,
    O_COUNT,
    O_FEES,
    O_FILLED,
    O_PRICE,
    O_QUEUED,
    O_REASON,
    O_STATUS,
    U_COST,
    U_COUNT,
    U_FEES,
    U_FILLED,
    U_ORDER,
    U_PRICE,
    U_QUEUED,
    U_REASON,
    U_STATUS,
    U_TIME,
    Status,
)
from bellwether.replay.engine.compiling import compiled, inlined
from bellwether.replay.engine.known import is_late, remember
from bellwether.replay.engine.words import cores_of, ledgers_of, noted_of, orders_of, updates_of

_PENDING, _RESTING = int(Status.PENDING), int(Status.RESTING)

#: Columns of `noted`.
N_ORDER, N_STATUS, N_PRICE, N_COUNT, N_FILLED = range(5)
N_COLS = 5


@inlined
def watches_orders(core):
    """Return whether updates of orders are noted."""
    return core[H_WATCH] & (WATCH_ORDERS | WATCH_LATE) != 0


@inlined
def updates_fit(sim, fresh):
    """Return whether a row for each open order, and for `fresh` new ones, fits, and a ledger."""
    core = cores_of(sim)[0]
    rows = core[H_U_TAIL] + core[H_OPEN] + core[H_ORDERS] - core[H_NOTED] + fresh
    return rows <= updates_of(sim).shape[0] and core[H_L_TAIL] < ledgers_of(sim).shape[0]


@compiled
def note(sim, time):
    """Add an update for each order that has changed since the last look, at `time`; the caller has seen that they fit."""
    core, orders, updates, noted = cores_of(sim)[0], orders_of(sim)[0], updates_of(sim), noted_of(sim)
    before = core[H_U_TAIL]
    for o in range(core[H_NOTED], core[H_ORDERS]):
        row = noted[core[H_OPEN]]
        row[N_ORDER], row[N_STATUS], row[N_FILLED] = o, _PENDING, 0
        row[N_PRICE], row[N_COUNT] = orders[o, O_PRICE], orders[o, O_COUNT]
        core[H_OPEN] += 1
    core[H_NOTED] = core[H_ORDERS]
    kept = 0
    for i in range(core[H_OPEN]):
        o = noted[i, N_ORDER]
        if _changed(orders[o], noted[i]):
            _add(core, orders[o], updates, o, time)
        if orders[o, O_STATUS] <= _RESTING:
            row = noted[kept]
            row[N_ORDER], row[N_STATUS], row[N_FILLED] = o, orders[o, O_STATUS], orders[o, O_FILLED]
            row[N_PRICE], row[N_COUNT] = orders[o, O_PRICE], orders[o, O_COUNT]
            kept += 1
    core[H_OPEN] = kept
    if is_late(core):
        remember(sim, time, core[H_U_TAIL] > before)


@inlined
def _changed(order, before):
    return (
        order[O_STATUS] != before[N_STATUS]
        or order[O_FILLED] != before[N_FILLED]
        or order[O_PRICE] != before[N_PRICE]
        or order[O_COUNT] != before[N_COUNT]
    )


@inlined
def _add(core, order, updates, o, time):
    row = updates[core[H_U_TAIL]]
    row[U_TIME], row[U_ORDER], row[U_STATUS], row[U_REASON] = time, o, order[O_STATUS], order[O_REASON]
    row[U_PRICE], row[U_COUNT], row[U_FILLED] = order[O_PRICE], order[O_COUNT], order[O_FILLED]
    row[U_COST], row[U_FEES], row[U_QUEUED] = order[O_COST], order[O_FEES], order[O_QUEUED]
    core[H_U_TAIL] += 1
