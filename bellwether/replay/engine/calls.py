"""Compiled: what agents ask for, in every account. `kernel` is how strategies ask for it, `commands` how Python does.

`sim` is the whole replay, a tuple of arrays, of which the first dimension of those from the fifth to the ninth is the account: the agent sees the
first, and what it asks for is asked for in all; `a` is an account, `ticker` a code, `side` YES 0 or NO 1, `action` BUY 0 or SELL 1. Prices in mills of
the side, sizes in lots, times in ns UTC.
"""

from __future__ import annotations

from bellwether.replay.engine.arena import (
    H_ACCOUNTS,
    H_BOUND_QUEUE,
    H_BUDGET,
    H_CURSOR,
    H_DATA_LATENCY,
    H_FULL,
    H_LISTED,
    H_M_HEAD,
    H_M_TAIL,
    H_MAX_ORDERS,
    H_NOW,
    H_ORDER_LATENCY,
    H_ORDERS,
    H_OVER,
    H_QUEUE,
    H_REFUSED,
    H_ROOM,
    H_SAMPLES,
    H_TAKER_ONLY,
    H_TICKERS,
    H_TRADE_AFTER,
    HEADER,
    K_COLS,
    K_OWN,
    K_QUOTE,
    M_AMEND,
    M_AT,
    M_CANCEL,
    M_CANCEL_ALL,
    M_KIND,
    M_LOTS,
    M_ORDER,
    M_PLACE,
    M_PRICE,
    M_TIME,
    NEVER,
)
from bellwether.replay.engine.codes import (
    AS_IT_IS,
    FULL,
    NO_QUOTE,
    NONE,
    O_ACTION,
    O_ARRIVED,
    O_BID_PRICE,
    O_BID_SIDE,
    O_COUNT,
    O_ENDED,
    O_EXPIRES,
    O_MID2,
    O_NEXT,
    O_PREV,
    O_PRICE,
    O_QUEUED,
    O_REASON,
    O_SENT,
    O_SIDE,
    O_STATUS,
    O_TICKER,
    O_TIF,
    O_TWIN,
    Reason,
    Status,
    Tif,
)
from bellwether.replay.engine.compiling import compiled, inlined
from bellwether.replay.engine.events import LEVELS_ROOM, after, has_room
from bellwether.replay.engine.known import carried, is_known_to_have_ended, is_late
from bellwether.replay.engine.matching import amend_now, arrive, cancel_now, cancel_resting
from bellwether.replay.engine.updates import note, updates_fit, watches_orders
from bellwether.replay.engine.words import (
    cores_of,
    fills_of,
    grid_of,
    messages_of,
    orders_of,
    samples_of,
    seen_of,
    seen_orders_of,
    series_of,
    ts_of,
)
from bellwether.replay.units import DOLLAR

_PENDING, _RESTING, _FILLED, _REJECTED = int(Status.PENDING), int(Status.RESTING), int(Status.FILLED), int(Status.REJECTED)
_IOC, _FOK, _POST_ONLY = int(Tif.IOC), int(Tif.FOK), int(Tif.POST_ONLY)
_AGENT, _NO_BOOK, _NOT_RESTING = int(Reason.AGENT), int(Reason.NO_BOOK), int(Reason.NOT_RESTING)


@compiled
def place(sim, ticker, side, action, price, lots, tif, expires):
    """Send an order; returns its number, also of one that is rejected, or -1 where nothing is logged. Price 0: market order."""
    if not _call_fits(sim):
        return FULL
    if tif != _IOC and tif != _FOK:  # noqa: PLR1714
        _open_bounds(sim)
    o = _place(sim, 0, ticker, side, action, price, lots, tif, expires)
    for a in range(1, cores_of(sim)[0, H_ACCOUNTS]):
        twin = _place(sim, a, ticker, side, action, price, lots, tif, expires)
        if o >= 0:
            orders_of(sim)[0, o, O_TWIN + a - 1] = twin
    _note_now(sim)
    return o


@inlined
def _note_now(sim):
    """Note what a call has changed at once."""
    main = cores_of(sim)[0]
    if watches_orders(main) and _is_immediate(sim):
        note(sim, main[H_NOW])


@compiled
def _call_fits(sim):
    """Return whether what one call may add fits into the arrays of every account; if not, they are marked to grow."""
    cores = cores_of(sim)
    if cores[0, H_FULL] == 1:
        return False
    for a in range(cores[0, H_ACCOUNTS]):
        core = cores[a]
        if (
            core[H_ORDERS] + 2 > orders_of(sim).shape[1]
            or core[H_M_TAIL] + 4 > messages_of(sim).shape[1]
            or not has_room(core, fills_of(sim), 0)
        ):
            cores[0, H_FULL], cores[0, H_ROOM] = 1, LEVELS_ROOM
            return False
    if watches_orders(cores[0]) and not updates_fit(sim, 2):
        cores[0, H_FULL], cores[0, H_ROOM] = 1, LEVELS_ROOM
        return False
    return True


@compiled
def _open_bounds(sim):
    """Give the bounds a state of their own, before the first order that may rest: up to here the queue has made no difference."""
    cores, orders, samples, messages = cores_of(sim), orders_of(sim), samples_of(sim), messages_of(sim)
    main = cores[0]
    if main[H_ACCOUNTS] == cores.shape[0] or main[H_OVER] == 1 or main[H_TAKER_ONLY] == 1:
        return
    for a in range(1, cores.shape[0]):
        for i in range(cores.shape[1]):
            cores[a, i] = main[i]
        cores[a, H_QUEUE], cores[a, H_BUDGET] = main[H_BOUND_QUEUE + a - 1], NEVER
        _copy_rows(orders, a, 0, main[H_ORDERS])
        _copy_rows(samples, a, 0, main[H_SAMPLES])
        _copy_rows(messages, a, main[H_M_HEAD], main[H_M_TAIL])
        for o in range(main[H_ORDERS]):
            orders[0, o, O_TWIN + a - 1] = o
    main[H_ACCOUNTS] = cores.shape[0]


@compiled
def _copy_rows(arrays, a, first, end):
    for i in range(first, end):
        for column in range(arrays.shape[2]):
            arrays[a, i, column] = arrays[0, i, column]


@compiled
def _place(sim, a, ticker, side, action, price, lots, tif, expires):
    core, orders = cores_of(sim)[a], orders_of(sim)[a]
    o = core[H_ORDERS]
    if core[H_OVER] == 1 or o >= core[H_MAX_ORDERS]:
        core[H_REFUSED] += 1
        return NONE
    _write_order(core, orders, o, ticker, side, action, price, lots, tif, expires)
    core[H_ORDERS] = o + 1
    if a == 0 and is_late(core):
        seen_orders = seen_orders_of(sim)
        for column in range(orders.shape[1]):
            seen_orders[o, column] = orders[o, column]
    if not _is_immediate(sim):
        _send(sim, a, M_PLACE, o, 0, 0)
        return o
    arrive(core, grid_of(sim), orders, fills_of(sim)[a], o, core[H_NOW])
    if core[H_TRADE_AFTER] == 1 and orders[o, O_STATUS] == _REJECTED and orders[o, O_REASON] == _NO_BOOK:
        core[H_ORDERS] = o
        return NONE
    return o


@compiled
def _write_order(core, orders, o, ticker, side, action, price, lots, tif, expires):
    row = orders[o]
    row[:] = 0
    row[O_TICKER] = ticker if 0 <= ticker < core[H_TICKERS] else NONE
    row[O_SIDE], row[O_ACTION], row[O_PRICE], row[O_TIF], row[O_COUNT], row[O_EXPIRES] = side, action, price, tif, lots, expires
    row[O_SENT] = core[H_NOW]
    row[O_ARRIVED] = row[O_QUEUED] = row[O_ENDED] = row[O_MID2] = row[O_NEXT] = row[O_PREV] = row[O_TWIN] = row[O_TWIN + 1] = NONE
    row[O_BID_SIDE] = side if action == 0 else 1 - side
    row[O_BID_PRICE] = DOLLAR - 1 if price == 0 else price if action == 0 else DOLLAR - price


@inlined
def _is_immediate(sim):
    """Return whether orders arrive as they are sent: nothing is late, neither they, nor their answers, nor the data that the agent sees."""
    core = cores_of(sim)[0]
    return core[H_ORDER_LATENCY] + core[H_DATA_LATENCY] == 0 and not is_late(core)


@inlined
def _is_live(sim, a, order):
    """Return whether an order is on its way or rests, as far as the agent knows."""
    core, row = cores_of(sim)[a], orders_of(sim)[a, order]
    return row[O_STATUS] == _PENDING or row[O_STATUS] == _RESTING or not is_known_to_have_ended(core, series_of(sim), row)


@compiled
def _send(sim, a, kind, order, price, lots):
    """Put a message of an account on its way; the caller has seen that it fits."""
    core, messages = cores_of(sim)[a], messages_of(sim)[a]
    n = core[H_M_TAIL]
    core[H_M_TAIL] = n + 1
    series = series_of(sim)
    time = carried(series, 0, core[H_NOW]) if series.shape[0] > 0 else core[H_NOW] + core[H_ORDER_LATENCY]
    messages[n, M_KIND], messages[n, M_ORDER], messages[n, M_PRICE], messages[n, M_LOTS] = kind, order, price, lots
    messages[n, M_TIME] = time
    with_last = n > core[H_M_HEAD] and messages[n - 1, M_TIME] == time
    messages[n, M_AT] = messages[n - 1, M_AT] if with_last else after(ts_of(sim), core[H_CURSOR], time)


@compiled
def cancel(sim, order):
    """Cancel an order: 1 if it rests (or, with latency, may rest when this arrives), 0 if not, FULL if an array must grow first."""
    main = cores_of(sim)[0]
    if main[H_OVER] == 1 or order < 0 or order >= main[H_ORDERS]:
        return 0
    if not _call_fits(sim):
        return FULL
    done = _cancel(sim, 0, order)
    for a in range(1, main[H_ACCOUNTS]):
        _cancel(sim, a, _twin(sim, a, order))
    _note_now(sim)
    return done


@compiled
def _twin(sim, a, order):
    """The order of another account that a cancel or an amendment is about: what stands as the quote of that side, or what the same call sent."""
    main, ticker = cores_of(sim)[0], orders_of(sim)[0, order, O_TICKER]
    at = HEADER + ticker * K_COLS + K_QUOTE
    if ticker >= 0 and main[at] == order:
        return cores_of(sim)[a, at]
    if ticker >= 0 and main[at + 1] == order:
        return cores_of(sim)[a, at + 1]
    return orders_of(sim)[0, order, O_TWIN + a - 1]


@compiled
def _cancel(sim, a, order):
    core, orders = cores_of(sim)[a], orders_of(sim)[a]
    if order < 0:
        return 0
    if core[H_LISTED] == 1 and orders[order, O_STATUS] == _FILLED and orders[order, O_QUEUED] >= 0:
        return 1
    if _is_immediate(sim):
        return 1 if cancel_now(core, orders, order, _AGENT, core[H_NOW]) else 0
    if not _is_live(sim, a, order):
        return 0
    _send(sim, a, M_CANCEL, order, 0, 0)
    return 1


@compiled
def amend(sim, order, price, lots):
    """Change a resting order to `lots` remaining at `price`: 0, the code of the reason why it stays as it was, or FULL. With latency 0 means sent."""
    main = cores_of(sim)[0]
    if main[H_OVER] == 1 or order < 0 or order >= main[H_ORDERS]:
        return _NOT_RESTING
    if not _call_fits(sim):
        return FULL
    answer = _amend(sim, 0, order, price, lots)
    for a in range(1, main[H_ACCOUNTS]):
        _amend(sim, a, _twin(sim, a, order), price, lots)
    _note_now(sim)
    return answer


@compiled
def _amend(sim, a, order, price, lots):
    core, orders = cores_of(sim)[a], orders_of(sim)[a]
    if order < 0:
        return _NOT_RESTING
    if _is_immediate(sim):
        return amend_now(core, grid_of(sim), orders, fills_of(sim)[a], order, price, lots, core[H_NOW])
    if not _is_live(sim, a, order):
        return _NOT_RESTING
    _send(sim, a, M_AMEND, order, price, lots)
    return 0


@compiled
def cancel_all(sim, ticker):
    """Cancel every resting order of a ticker, or of all for -1; returns how many rest, or FULL."""
    main = cores_of(sim)[0]
    if main[H_OVER] == 1:
        return 0
    if not _call_fits(sim):
        return FULL
    count = resting_count(sim, ticker)
    for a in range(main[H_ACCOUNTS]):
        if _is_immediate(sim):
            cancel_resting(cores_of(sim)[a], orders_of(sim)[a], ticker, main[H_NOW])
        else:
            _send(sim, a, M_CANCEL_ALL, ticker, 0, 0)
    _note_now(sim)
    return count


@compiled
def quote(sim, ticker, yes_price, no_price, lots):
    """Have one post-only bid of `lots` per side, or none for NO_QUOTE, or what there is for AS_IT_IS.

    A quote that is on its way or rests at its price stays and keeps its place. Those at other prices are cancelled before new ones are sent. 1 when
    done; else 0 when the calls are used up, or FULL, with nothing done, when an array must grow first.
    """
    if not _call_fits(sim):
        return FULL
    if yes_price > NO_QUOTE or no_price > NO_QUOTE:
        _open_bounds(sim)
    main, orders = cores_of(sim)[0], orders_of(sim)
    first = main[H_ORDERS]
    done = _quote(sim, 0, ticker, yes_price, no_price, lots)
    for a in range(1, main[H_ACCOUNTS]):
        twin = cores_of(sim)[a, H_ORDERS]
        _quote(sim, a, ticker, yes_price, no_price, lots)
        for other in range(twin, cores_of(sim)[a, H_ORDERS]):
            for o in range(first, main[H_ORDERS]):
                if orders[0, o, O_SIDE] == orders[a, other, O_SIDE]:
                    orders[0, o, O_TWIN + a - 1] = other
    _note_now(sim)
    return done


@compiled
def _quote(sim, a, ticker, yes_price, no_price, lots):
    core = cores_of(sim)[a]
    at = HEADER + ticker * K_COLS + K_QUOTE
    for side in range(2):
        price = yes_price if side == 0 else no_price
        if not _take_back(sim, a, at + side, price):
            return 0
    for side in range(2):
        price = yes_price if side == 0 else no_price
        if price <= NO_QUOTE or core[at + side] >= 0:
            continue
        if core[H_BUDGET] <= 0:
            return 0
        core[at + side] = _place(sim, a, ticker, side, 0, price, lots, _POST_ONLY, 0)
        core[H_BUDGET] -= 1
    return 1


@compiled
def _take_back(sim, a, at, price):
    """Cancel the quote noted at `at` unless it has this price; forget it when it does not stand any more. False when the calls are used up."""
    core, orders = cores_of(sim)[a], orders_of(sim)[a]
    o = core[at]
    if o < 0 or price == AS_IT_IS:
        return True
    if _is_live(sim, a, o):
        if orders[o, O_PRICE] == price:
            return True
        if core[H_BUDGET] <= 0:
            return False
        _cancel(sim, a, o)
        core[H_BUDGET] -= 1
    core[at] = NONE
    return True


@compiled
def resting_count(sim, ticker):
    """Number of own resting orders in a ticker, or in all for -1, as known to the agent."""
    core = seen_of(sim)[0]
    count = 0
    for t in range(core[H_TICKERS]):
        if ticker < 0 or t == ticker:
            count += core[HEADER + t * K_COLS + K_OWN] + core[HEADER + t * K_COLS + K_OWN + 1]
    return count
