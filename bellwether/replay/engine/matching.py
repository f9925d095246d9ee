"""Compiled: orders that arrive. Checks, the walk through what is displayed, money, and what rests; cancels, amends and expiries.

`core` is the engine's state (`arena`), `k` the offset of a ticker's row in it, `o` an order, `ts` ns UTC.
"""

from __future__ import annotations

from bellwether.replay.engine.arena import (
    H_CANCEL_MAKER,
    H_CASH,
    H_COLLATERAL,
    H_EXPIRY,
    H_EXPIRY_AT,
    H_GTD_RESTS,
    H_MARKET_GRID,
    H_MAX_RESTING,
    H_NET,
    H_REMAINDER_RESTS,
    H_RESERVED,
    H_SELF_TRADE,
    H_TAKER_ONLY,
    H_TICKERS,
    HEADER,
    K_BEST,
    K_COLS,
    K_HEAD,
    K_LOT_STEP,
    K_MIN_LOTS,
    K_OWN,
    K_POSITION,
    K_RESERVE,
    K_STATUS,
    NEVER,
)
from bellwether.replay.engine.codes import (
    MAX_ORDER_LOTS,
    O_ACC,
    O_ACTION,
    O_AHEAD,
    O_ARRIVED,
    O_BID_PRICE,
    O_BID_SIDE,
    O_COUNT,
    O_EXPIRES,
    O_FILLED,
    O_MID2,
    O_NEXT,
    O_PREV,
    O_PRICE,
    O_RESERVED_FEE,
    O_SIDE,
    O_STATUS,
    O_TICKER,
    O_TIF,
    Reason,
    Role,
    Status,
    TickerStatus,
    Tif,
)
from bellwether.replay.engine.compiling import compiled, inlined
from bellwether.replay.engine.money import (
    PAIR,
    book_fill,
    booked_price,
    fill_fee,
    reserve_side,
    reserved_fee,
    side_reserve,
)
from bellwether.replay.engine.queues import consume, end, first_at, join, leave, leave_all, level_at, link_between, unlink
from bellwether.replay.tape.layout import PRICES
from bellwether.replay.units import DOLLAR, MILL_LOT

_IOC, _GTC, _POST_ONLY, _FOK, _GTD = (int(tif) for tif in Tif)
_RESTING, _FILLED, _CANCELLED = int(Status.RESTING), int(Status.FILLED), int(Status.CANCELLED)
_REJECTED, _EXPIRED_STATUS = int(Status.REJECTED), int(Status.EXPIRED)
_TAKER = int(Role.TAKER)
_NO_REASON, _BAD_TICKER, _BAD_SIZE, _BAD_PRICE = int(Reason.NONE), int(Reason.BAD_TICKER), int(Reason.BAD_SIZE), int(Reason.BAD_PRICE)
_BAD_REQUEST, _EXPIRED, _SETTLED, _CLOSED = int(Reason.BAD_REQUEST), int(Reason.EXPIRED), int(Reason.SETTLED), int(Reason.CLOSED)
_HALTED, _NO_BOOK, _INVALID_BOOK = int(Reason.HALTED), int(Reason.NO_BOOK), int(Reason.INVALID_BOOK)
_RESTING_LIMIT, _WOULD_NOT_CROSS = int(Reason.RESTING_LIMIT), int(Reason.WOULD_NOT_CROSS)
_WOULD_CROSS, _INSUFFICIENT_CASH = int(Reason.WOULD_CROSS), int(Reason.INSUFFICIENT_CASH)
_FOK_UNFILLED, _REMAINDER, _SELF_TRADE = int(Reason.FOK_UNFILLED), int(Reason.REMAINDER), int(Reason.SELF_TRADE)
_AGENT, _NOT_RESTING = int(Reason.AGENT), int(Reason.NOT_RESTING)
_IS_SETTLED, _IS_CLOSED, _IS_HALTED = int(TickerStatus.SETTLED), int(TickerStatus.CLOSED), int(TickerStatus.HALTED)
_HAS_NO_BOOK, _IS_INVALID = int(TickerStatus.NO_BOOK), int(TickerStatus.INVALID)


@compiled
def arrive(core, grid, orders, fills, o, ts):
    """An order reaches the market: it is rejected with a reason, or fills, rests or both."""
    orders[o, O_ARRIVED] = ts
    reason = _refused(core, grid, orders, o, ts)
    if reason == _NO_REASON:
        reason = execute(core, orders, fills, o, orders[o, O_COUNT], ts)
    if reason != _NO_REASON:
        end(orders, o, _REJECTED, reason, ts)


@compiled
def _refused(core, grid, orders, o, ts):
    """The first check that an order fails without a look at what it would trade with."""
    t = orders[o, O_TICKER]
    if t < 0:
        return _BAD_TICKER
    k = HEADER + t * K_COLS
    side, tif, price = orders[o, O_SIDE], orders[o, O_TIF], orders[o, O_PRICE]
    known = 0 <= side <= 1 and 0 <= orders[o, O_ACTION] <= 1 and _IOC <= tif <= _GTD
    if known:
        bid, other = core[k + K_BEST + side], core[k + K_BEST + 1 - side]
        orders[o, O_MID2] = bid + DOLLAR - other if bid > 0 and other > 0 else -1
    if _bad_size(core, k, orders[o, O_COUNT]):
        return _BAD_SIZE
    if not known:
        return _BAD_REQUEST
    if _bad_price(core, grid, t, price, tif):
        return _BAD_PRICE
    if tif == _GTD and orders[o, O_EXPIRES] <= ts:
        return _EXPIRED
    return _closed_to_orders(core[k + K_STATUS])


@inlined
def _bad_size(core, k, lots):
    return lots <= 0 or lots > MAX_ORDER_LOTS or lots < core[k + K_MIN_LOTS] or lots % core[k + K_LOT_STEP] != 0


@inlined
def _bad_price(core, grid, t, price, tif):
    if price == 0:
        return tif not in (_IOC, _FOK)
    if not 0 < price < DOLLAR:
        return True
    return core[H_MARKET_GRID] == 1 and grid[t, price] == 0


@inlined
def _closed_to_orders(status):
    if status == 0:
        return _NO_REASON
    if status & _IS_SETTLED:
        return _SETTLED
    if status & _IS_CLOSED:
        return _CLOSED
    if status & _IS_HALTED:
        return _HALTED
    if status & _HAS_NO_BOOK:
        return _NO_BOOK
    return _INVALID_BOOK if status & _IS_INVALID else _NO_REASON


@inlined
def crosses(core, orders, k, side, price):
    """Return whether a canonical bid meets a displayed size, or an own order where own orders may not trade with each other."""
    if core[k + K_BEST + 1 - side] >= DOLLAR - price:
        return True
    head = core[k + K_HEAD + 1 - side]
    return core[H_SELF_TRADE] == 0 and head >= 0 and orders[head, O_BID_PRICE] >= DOLLAR - price


@compiled
def execute(core, orders, fills, o, lots, ts):
    """Judge and execute an order of `lots` that is in no list. Returns the reason of a rejection, with nothing changed, or NONE."""
    k = HEADER + orders[o, O_TICKER] * K_COLS
    side, price, tif = orders[o, O_BID_SIDE], orders[o, O_BID_PRICE], orders[o, O_TIF]
    crossing = crosses(core, orders, k, side, price)
    filled, change, stopped, reached = 0, 0, False, PRICES
    if crossing and tif != _POST_ONLY:
        filled, change, stopped, reached = walk(core, orders, fills, o, lots, ts, False)
    rest = lots - filled
    rests = rest > 0 and _may_rest(core, tif, crossing, stopped)
    if rests and core[k + K_OWN + side] >= core[H_MAX_RESTING]:
        return _RESTING_LIMIT
    if core[H_TAKER_ONLY] == 1 and not crossing and orders[o, O_PRICE] != 0:
        return _WOULD_NOT_CROSS
    if crossing and tif == _POST_ONLY:
        return _WOULD_CROSS
    fee = reserved_fee(core, orders, o, rest) if rests else 0
    if core[H_COLLATERAL] == 1 and not _affords(core, orders, k, o, filled, change, rest if rests else 0, fee, reached):
        return _INSUFFICIENT_CASH
    if tif == _FOK and rest > 0:
        return _FOK_UNFILLED
    if crossing:
        walk(core, orders, fills, o, lots, ts, True)
    orders[o, O_RESERVED_FEE] = fee
    if rests:
        join(core, orders, o, ts)
        reserve_side(core, orders, k, side)
    elif rest == 0:
        end(orders, o, _FILLED, _NO_REASON, ts)
    else:
        end(orders, o, _CANCELLED, _SELF_TRADE if stopped else _REMAINDER, ts)
    if crossing:
        reserve_side(core, orders, k, side)
        reserve_side(core, orders, k, 1 - side)
    return _NO_REASON


@inlined
def _may_rest(core, tif, crossing, stopped):
    if tif in (_IOC, _FOK) or core[H_TAKER_ONLY] == 1:
        return False
    if tif == _GTD and core[H_GTD_RESTS] == 0:
        return False
    if not crossing:
        return True
    return tif != _POST_ONLY and core[H_REMAINDER_RESTS] == 1 and not stopped


@compiled
def walk(core, orders, fills, o, lots, ts, commit):
    """Take up to `lots` from the levels that an order crosses, best first, one fill a level.

    Without `commit` nothing changes. Returns (lots filled, change of cash with fees, whether it stopped at an own order, the lowest price at which
    own orders are cancelled for it or `PRICES`).
    """
    k = HEADER + orders[o, O_TICKER] * K_COLS
    side, limit, action = orders[o, O_BID_SIDE], DOLLAR - orders[o, O_BID_PRICE], orders[o, O_ACTION]
    other = 1 - side
    base, head = level_at(core, k, other, 0), core[k + K_HEAD + other]
    guarded = core[H_SELF_TRADE] == 0 and head >= 0
    q = core[k + K_BEST + other]
    if guarded:
        q = max(q, orders[head, O_BID_PRICE])
    left, change, acc, reached = lots, 0, orders[o, O_ACC], PRICES
    while q >= limit and left > 0:
        size = min(left, core[base + q])
        own = first_at(core, orders, k, other, q) if guarded else -1
        stopped = False
        if own >= 0 and left > min(core[base + q], orders[own, O_AHEAD]):
            if core[H_CANCEL_MAKER] == 1:
                reached = q
                if commit:
                    _cancel_level(core, orders, k, other, q, ts)
            else:
                size, stopped = min(size, orders[own, O_AHEAD]), True
        if size > 0:
            if commit:
                _take(core, orders, fills, o, k, other, q, size, ts)
            else:
                booked = booked_price(core, orders, o, DOLLAR - q, _TAKER)
                fee, acc = fill_fee(core, k, _TAKER, action, booked, size, ts, acc)
                change += (MILL_LOT if action == 1 else -MILL_LOT) * booked * size - fee
            left -= size
        if stopped:
            return lots - left, change, True, reached
        q -= 1
    return lots - left, change, False, reached


@compiled
def _take(core, orders, fills, o, k, side, q, size, ts):
    """One taker fill against the bids of `side` at `q`."""
    book_fill(core, orders, fills, o, DOLLAR - q, size, _TAKER, ts, False)
    consume(core, k, side, q, size)
    if core[H_SELF_TRADE] == 1:
        return
    i = first_at(core, orders, k, side, q)
    while i >= 0 and orders[i, O_BID_PRICE] == q:
        orders[i, O_AHEAD] = max(0, orders[i, O_AHEAD] - size)
        i = orders[i, O_NEXT]


@compiled
def _cancel_level(core, orders, k, side, q, ts):
    i = first_at(core, orders, k, side, q)
    while i >= 0 and orders[i, O_BID_PRICE] == q:
        following = orders[i, O_NEXT]
        leave(core, orders, i, _CANCELLED, _SELF_TRADE, ts)
        i = following


@compiled
def _affords(core, orders, k, o, filled, change, rest, fee, reached):
    """Return whether cash covers every reserve after an order's fills and with `rest` lots of it resting."""
    side, price, action = orders[o, O_BID_SIDE], orders[o, O_BID_PRICE], orders[o, O_ACTION]
    own, opposite = core[k + K_POSITION + side], core[k + K_POSITION + 1 - side]
    cash, reserved = core[H_CASH], core[H_RESERVED]
    if filled > 0:
        if core[H_NET] == 1:
            pairs = min(opposite, filled)
            # As sent, a sale brings its price; netted, the opposite lots still pay a dollar for what was not held.
            change -= PAIR * (filled - pairs) if action == 1 else -PAIR * pairs
            own, opposite = own + filled - pairs, opposite - pairs
        elif action == 0:
            own += filled
        else:
            opposite -= filled
        cash += change
    yes, no = (own, opposite) if side == 0 else (opposite, own)
    if rest > 0 or filled > 0:
        reserved += side_reserve(core, orders, k, side, yes, no, price, rest, fee, action, PRICES) - core[k + K_RESERVE + side]
    if filled > 0 or reached < PRICES:
        reserved += side_reserve(core, orders, k, 1 - side, yes, no, 0, 0, 0, 0, reached) - core[k + K_RESERVE + 1 - side]
    return cash - reserved >= 0


@inlined
def cancel_now(core, orders, o, reason, ts):
    """Cancel an order if it rests; returns whether it did."""
    if orders[o, O_STATUS] != _RESTING:
        return False
    leave(core, orders, o, _CANCELLED, reason, ts)
    return True


@compiled
def amend_now(core, grid, orders, fills, o, price, lots, ts):
    """Change a resting order to `lots` remaining at `price` (mills of its side); returns 0 or the reason why it stays as it was."""
    if orders[o, O_STATUS] != _RESTING:
        return _NOT_RESTING
    t, filled = orders[o, O_TICKER], orders[o, O_FILLED]
    k = HEADER + t * K_COLS
    if _bad_size(core, k, lots):
        return _BAD_SIZE
    side, old_price, old_bid, old_count = orders[o, O_BID_SIDE], orders[o, O_PRICE], orders[o, O_BID_PRICE], orders[o, O_COUNT]
    if price == old_price and lots <= old_count - filled:
        orders[o, O_COUNT] = filled + lots
        orders[o, O_RESERVED_FEE] = reserved_fee(core, orders, o, lots)
        reserve_side(core, orders, k, side)
        return _NO_REASON
    if _bad_price(core, grid, t, price, orders[o, O_TIF]):
        return _BAD_PRICE
    reason = _closed_to_orders(core[k + K_STATUS])
    if reason != _NO_REASON:
        return reason
    before, after, old_fee = orders[o, O_PREV], orders[o, O_NEXT], orders[o, O_RESERVED_FEE]
    unlink(core, orders, o)
    reserve_side(core, orders, k, side)
    orders[o, O_PRICE], orders[o, O_COUNT] = price, filled + lots
    orders[o, O_BID_PRICE] = price if orders[o, O_ACTION] == 0 else DOLLAR - price
    reason = execute(core, orders, fills, o, lots, ts)
    if reason != _NO_REASON:
        orders[o, O_PRICE], orders[o, O_COUNT], orders[o, O_BID_PRICE], orders[o, O_RESERVED_FEE] = old_price, old_count, old_bid, old_fee
        link_between(core, orders, o, before, after)
        reserve_side(core, orders, k, side)
    return reason


@compiled
def cancel_resting(core, orders, ticker, ts):
    """Cancel every resting order of a ticker, or of all for -1; returns how many."""
    count = 0
    for t in range(core[H_TICKERS]):
        if ticker < 0 or t == ticker:
            count += leave_all(core, orders, HEADER + t * K_COLS, _AGENT, ts)
    return count


@compiled
def expire(core, orders, ts):
    """Take out the orders that expire at `ts` or before, and note the next expiry."""
    following = NEVER
    for t in range(core[H_TICKERS]):
        for side in range(2):
            i = core[HEADER + t * K_COLS + K_HEAD + side]
            while i >= 0:
                behind = orders[i, O_NEXT]
                if orders[i, O_TIF] == _GTD:
                    if orders[i, O_EXPIRES] <= ts:
                        leave(core, orders, i, _EXPIRED_STATUS, _EXPIRED, orders[i, O_EXPIRES])
                    else:
                        following = min(following, orders[i, O_EXPIRES])
                i = behind
    core[H_EXPIRY], core[H_EXPIRY_AT] = following, -1
