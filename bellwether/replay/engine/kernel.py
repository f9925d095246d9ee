"""Compiled: what agents and strategies call. A strategy is `@strategy def f(sim, params): while next_step(sim): ...`.

`sim` is the whole replay, a tuple of arrays; `ticker` a code, `side` YES 0 or NO 1, `action` BUY 0 or SELL 1. Prices in mills of the side, sizes in
lots, money in micro-dollars, times in ns UTC. A strategy keeps its state in local variables or in `params`; when an array of the engine turns out
too small, the engine starts it again from where it began, with room: it must do the same again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bellwether.replay.engine.arena import (
    H_CALLS,
    H_CASH,
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
    H_REFUSED,
    H_RESERVED,
    H_STEP,
    H_TICKERS,
    H_TRADE_AFTER,
    HEADER,
    K_BEST,
    K_COLS,
    K_HEAD,
    K_OWN,
    K_POSITION,
    K_QUOTE,
    K_STATUS,
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
)
from bellwether.replay.engine.clock import advance, after, has_room
from bellwether.replay.engine.codes import (
    NONE,
    O_ACTION,
    O_ARRIVED,
    O_BID_PRICE,
    O_BID_SIDE,
    O_COUNT,
    O_ENDED,
    O_EXPIRES,
    O_FILLED,
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
    Reason,
    Status,
    Tif,
)
from bellwether.replay.engine.compiling import compiled, inlined
from bellwether.replay.engine.matching import amend_now, arrive, cancel_now, cancel_resting
from bellwether.replay.engine.money import value_accounts
from bellwether.replay.engine.queues import level_at
from bellwether.replay.units import DOLLAR

#: What `place` returns when an array must grow first.
FULL = -2
#: Prices of a quote that is not wanted, and of one that stays as it is.
NO_QUOTE, AS_IT_IS = 0, -1

_PENDING, _RESTING, _FILLED, _REJECTED = int(Status.PENDING), int(Status.RESTING), int(Status.FILLED), int(Status.REJECTED)
_POST_ONLY = int(Tif.POST_ONLY)
_AGENT, _NO_BOOK, _NOT_RESTING = int(Reason.AGENT), int(Reason.NO_BOOK), int(Reason.NOT_RESTING)


def strategy(function: Callable[..., Any]) -> Any:
    """Compile a strategy, or a function that it calls, as the engine's own are: cached, and without counting references, which would take half of
    the time. So it cannot make arrays: a function under `@njit(cache=True)`, which counts, can make them and hand them to one under this."""
    return compiled(function)


@compiled
def next_step(sim):
    """Go on to the next decision; False when none is left, and the tape is then processed to its end."""
    return advance(sim)


@compiled
def place(sim, ticker, side, action, price, lots, tif, expires):
    """Send an order; returns its number, also of one that is rejected, or -1 where nothing is logged. Price 0: market order."""
    core, orders, fills = sim[4], sim[5], sim[6]
    o = core[H_ORDERS]
    if core[H_OVER] == 1 or o >= core[H_MAX_ORDERS]:
        core[H_REFUSED] += 1
        return NONE
    if core[H_FULL] == 1:
        return FULL
    if o >= orders.shape[0] or not has_room(core, fills, 0):
        core[H_FULL] = 1
        return FULL
    immediate = _is_immediate(core)
    if not immediate and not _message_fits(sim):
        return FULL
    _write_order(core, orders, o, ticker, side, action, price, lots, tif, expires)
    core[H_ORDERS] = o + 1
    if not immediate:
        _send(sim, M_PLACE, o, 0, 0)
        return o
    arrive(core, sim[2], orders, fills, o, core[H_NOW])
    if core[H_TRADE_AFTER] == 1 and orders[o, O_STATUS] == _REJECTED and orders[o, O_REASON] == _NO_BOOK:
        core[H_ORDERS] = o
        return NONE
    return o


@inlined
def _write_order(core, orders, o, ticker, side, action, price, lots, tif, expires):
    row = orders[o]
    row[:] = 0
    row[O_TICKER] = ticker if 0 <= ticker < core[H_TICKERS] else NONE
    row[O_SIDE], row[O_ACTION], row[O_PRICE], row[O_TIF], row[O_COUNT], row[O_EXPIRES] = side, action, price, tif, lots, expires
    row[O_SENT] = core[H_NOW]
    row[O_ARRIVED] = row[O_QUEUED] = row[O_ENDED] = row[O_MID2] = row[O_NEXT] = row[O_PREV] = NONE
    row[O_BID_SIDE] = side if action == 0 else 1 - side
    row[O_BID_PRICE] = DOLLAR - 1 if price == 0 else price if action == 0 else DOLLAR - price


@inlined
def _is_immediate(core):
    """Whether orders arrive as they are sent: nothing is late, neither they nor the data that the agent sees."""
    return core[H_ORDER_LATENCY] + core[H_DATA_LATENCY] == 0


@inlined
def _is_live(orders, order):
    """Whether an order is on its way or rests."""
    return orders[order, O_STATUS] == _PENDING or orders[order, O_STATUS] == _RESTING


@inlined
def _message_fits(sim):
    if sim[4][H_M_TAIL] < sim[8].shape[0]:
        return True
    sim[4][H_FULL] = 1
    return False


@inlined
def _send(sim, kind, order, price, lots):
    """Put a message on its way; the caller has seen that it fits."""
    core, messages = sim[4], sim[8]
    n = core[H_M_TAIL]
    core[H_M_TAIL] = n + 1
    time = core[H_NOW] + core[H_ORDER_LATENCY]
    messages[n, M_KIND], messages[n, M_ORDER], messages[n, M_PRICE], messages[n, M_LOTS] = kind, order, price, lots
    messages[n, M_TIME] = time
    with_last = n > core[H_M_HEAD] and messages[n - 1, M_TIME] == time
    messages[n, M_AT] = messages[n - 1, M_AT] if with_last else after(sim[0], core[H_CURSOR], time)


@compiled
def cancel(sim, order):
    """Cancel an order: 1 if it rests (or, with latency, may rest when this arrives), 0 if not, FULL if an array must grow first."""
    core, orders = sim[4], sim[5]
    if core[H_OVER] == 1 or order < 0 or order >= core[H_ORDERS]:
        return 0
    if core[H_LISTED] == 1 and orders[order, O_STATUS] == _FILLED and orders[order, O_QUEUED] >= 0:
        return 1
    if _is_immediate(core):
        return 1 if cancel_now(core, orders, order, _AGENT, core[H_NOW]) else 0
    if not _is_live(orders, order):
        return 0
    if not _message_fits(sim):
        return FULL
    _send(sim, M_CANCEL, order, 0, 0)
    return 1


@compiled
def amend(sim, order, price, lots):
    """Change a resting order to `lots` remaining at `price`: 0, the code of the reason why it stays as it was, or FULL. With latency 0 means sent."""
    core, orders = sim[4], sim[5]
    if core[H_OVER] == 1 or order < 0 or order >= core[H_ORDERS]:
        return _NOT_RESTING
    if core[H_FULL] == 1 or not has_room(core, sim[6], 0):
        return FULL
    if _is_immediate(core):
        return amend_now(core, sim[2], orders, sim[6], order, price, lots, core[H_NOW])
    if not _is_live(orders, order):
        return _NOT_RESTING
    if not _message_fits(sim):
        return FULL
    _send(sim, M_AMEND, order, price, lots)
    return 0


@compiled
def cancel_all(sim, ticker):
    """Cancel every resting order of a ticker, or of all for -1; returns how many rest, or FULL."""
    core = sim[4]
    if core[H_OVER] == 1:
        return 0
    if _is_immediate(core):
        return cancel_resting(core, sim[5], ticker, core[H_NOW])
    if not _message_fits(sim):
        return FULL
    _send(sim, M_CANCEL_ALL, ticker, 0, 0)
    return resting_count(sim, ticker)


@inlined
def _take_back(sim, at, price):
    """Cancel the quote noted at `at` unless it has this price; forget it when it does not stand any more."""
    core, orders = sim[4], sim[5]
    o = core[at]
    if o < 0 or price == AS_IT_IS:
        return 1
    if _is_live(orders, o):
        if orders[o, O_PRICE] == price:
            return 1
        if core[H_CALLS] <= 0:
            return 0
        if cancel(sim, o) == FULL:
            return FULL
        core[H_CALLS] -= 1
    core[at] = NONE
    return 1


@compiled
def quote(sim, ticker, yes_price, no_price, lots):
    """Have one post-only bid of `lots` per side, or none for NO_QUOTE, or what there is for AS_IT_IS.

    A quote that is on its way or rests at its price stays and keeps its place. Those at other prices are cancelled before new ones are sent. 1 when
    done; else 0 when the calls are used up, or FULL: calling again then goes on.
    """
    core = sim[4]
    at = HEADER + ticker * K_COLS + K_QUOTE
    for side in range(2):
        price = yes_price if side == 0 else no_price
        done = _take_back(sim, at + side, price)
        if done != 1:
            return done
    for side in range(2):
        price = yes_price if side == 0 else no_price
        if price <= NO_QUOTE or core[at + side] >= 0:
            continue
        if core[H_CALLS] <= 0:
            return 0
        o = place(sim, ticker, side, 0, price, lots, _POST_ONLY, 0)
        if o == FULL:
            return FULL
        core[H_CALLS] -= 1
        core[at + side] = o
    return 1


@compiled
def tickers(sim):
    """How many tickers there are."""
    return sim[4][H_TICKERS]


@compiled
def now(sim):
    """Time of the decision, ns UTC."""
    return sim[4][H_NOW]


@compiled
def step_index(sim):
    """Number of the decision, from 0."""
    return sim[4][H_STEP] - 1


@compiled
def cash(sim):
    """Micro-dollars of the main model."""
    return sim[4][H_CASH]


@compiled
def available(sim):
    """Cash that no resting order needs, micro-dollars."""
    return sim[4][H_CASH] - sim[4][H_RESERVED]


@compiled
def equity(sim):
    """Cash and positions at the liquidation side, micro-dollars."""
    return value_accounts(sim[4])


@compiled
def best_bid(sim, ticker, side):
    """Mills of a side's best displayed bid, 0 when there is none. The other side's ask is 1000 less it."""
    return sim[4][HEADER + ticker * K_COLS + K_BEST + side]


@compiled
def displayed(sim, ticker, side, price):
    """Lots displayed at a bid price of a side, less own consumption."""
    return sim[4][level_at(sim[4], HEADER + ticker * K_COLS, side, price)]


@compiled
def position(sim, ticker, side):
    """Lots held of a side."""
    return sim[4][HEADER + ticker * K_COLS + K_POSITION + side]


@compiled
def ticker_status(sim, ticker):
    """Bits of `TickerStatus`; 0: open with a book."""
    return sim[4][HEADER + ticker * K_COLS + K_STATUS]


@compiled
def order_status(sim, order):
    """`Status` of an order."""
    return sim[5][order, O_STATUS]


@compiled
def order_price(sim, order):
    """Mills of the side as sent."""
    return sim[5][order, O_PRICE]


@compiled
def remaining(sim, order):
    """Lots of an order that are not filled in the main model."""
    return sim[5][order, O_COUNT] - sim[5][order, O_FILLED]


@compiled
def resting_count(sim, ticker):
    """How many own orders rest in a ticker, or in all for -1."""
    core = sim[4]
    count = 0
    for t in range(core[H_TICKERS]):
        if ticker < 0 or t == ticker:
            count += core[HEADER + t * K_COLS + K_OWN] + core[HEADER + t * K_COLS + K_OWN + 1]
    return count


@compiled
def first_resting(sim, ticker, bid_side):
    """The resting order with priority on a canonical side (bids of YES, or of NO), -1 for none."""
    return sim[4][HEADER + ticker * K_COLS + K_HEAD + bid_side]


@compiled
def next_resting(sim, order):
    """The resting order behind another one, -1 for none."""
    return sim[5][order, O_NEXT]
