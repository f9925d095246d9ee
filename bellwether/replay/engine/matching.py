"""Arrival of orders: checks, execution against displayed levels, cash, and resting; cancels, amends and expiries.

`sim` is the whole replay, `s` a side, `m` a market, `o` an order, `ts` ns UTC.
"""

from __future__ import annotations

import numpy as np

from bellwether.replay.engine.account import (
    ALL_LEVELS,
    NO_ORDER,
    book_fill,
    compute_reserve,
    compute_reserved_fee,
    fill_fee,
    own_price,
    update_reserve,
    update_reserves,
)
from bellwether.replay.engine.book import JOINED, consume, count_at_level, first_order_at, level_of, link_between, price_of
from bellwether.replay.engine.codes import MAX_ORDER_LOTS, REASON, ROLE, STATUS, TICKER_STATUS, TIF
from bellwether.replay.engine.compilation import compiled, inlined
from bellwether.replay.engine.queue import end_all_orders, end_order, join_queue, remove_order, set_ended
from bellwether.replay.engine.state import NEVER, grids_of, markets_of, orders_of, shown_of, sides_of, state_of
from bellwether.replay.units import DOLLAR

_PREVIEW, _COMMIT = np.int64(0), np.int64(1)


@compiled
def process_arrival(sim, o, ts):
    """Process an order that reaches the market: reject it, fill it, rest it, or fill a part and rest the remainder."""
    order = orders_of(sim)[o]
    order.arrived = ts
    reason = _rejection_reason(sim, order, ts)
    if reason == REASON.NONE:
        reason = execute_order(sim, o, np.int64(order.count), ts)
    if reason != REASON.NONE:
        set_ended(order, STATUS.REJECTED, reason, ts)


@compiled
def _rejection_reason(sim, order, ts):
    """Check an arriving order before it is matched. Returns the reason of the first check that fails, or NONE."""
    m = order.market
    if m < 0:
        return REASON.BAD_TICKER
    market, sides = markets_of(sim)[m], sides_of(sim)
    is_valid = 0 <= order.side <= 1 and 0 <= order.action <= 1 and TIF.IOC <= order.tif <= TIF.GTD
    if is_valid:
        bid, other = sides[2 * m + order.side].price, sides[2 * m + 1 - order.side].price
        order.mid2 = bid + DOLLAR - other if bid > 0 and other > 0 else -1
    if _is_bad_size(market, order.count):
        return REASON.BAD_SIZE
    if not is_valid:
        return REASON.BAD_REQUEST
    if _is_bad_price(sim, m, order.price, order.level, order.tif):
        return REASON.BAD_PRICE
    if order.tif == TIF.GTD and order.expires <= ts:
        return REASON.EXPIRED
    return _closure_reason(market.status)


@inlined
def _is_bad_size(market, lots):
    return lots <= 0 or lots > MAX_ORDER_LOTS or lots < market.min_lots or (market.lot_step != 1 and lots % market.lot_step != 0)


@inlined
def _is_bad_price(sim, m, price, level, tif):
    if price == 0:
        return tif not in (TIF.IOC, TIF.FOK)
    return not 0 < price < DOLLAR or level == 0 or grids_of(sim)[markets_of(sim)[m].grid + level_of(sim, m, price)] == 0


@inlined
def _closure_reason(status):
    """Return the reason why a market with these status bits accepts no orders, or NONE if it accepts orders."""
    if status == 0:
        return REASON.NONE
    if status & TICKER_STATUS.SETTLED:
        return REASON.SETTLED
    if status & TICKER_STATUS.CLOSED:
        return REASON.CLOSED
    if status & TICKER_STATUS.HALTED:
        return REASON.HALTED
    if status & TICKER_STATUS.NO_BOOK:
        return REASON.NO_BOOK
    return REASON.INVALID_BOOK if status & TICKER_STATUS.INVALID else REASON.NONE


@inlined
def set_bid_price(sim, order):
    """Set the price and level of an order's canonical bid; level 0 if the market does not have the price."""
    m, price = order.market, order.price
    if price == 0:
        order.level = markets_of(sim)[m].levels
        order.bid_price = price_of(sim, m, order.level)
    else:
        order.bid_price = price if order.action == 0 else DOLLAR - price
        order.level = level_of(sim, m, order.bid_price)


@inlined
def is_crossing(sim, order):
    """Return True if an order would trade at once with a displayed bid, or with an own order."""
    s = 2 * order.market + 1 - order.bid_side
    limit = markets_of(sim)[order.market].levels + 1 - order.level
    if sides_of(sim)[s].best >= limit:
        return True
    if sides_of(sim)[s].own == 0:
        return False
    return orders_of(sim)[sides_of(sim)[s].head].level >= limit


@compiled
def execute_order(sim, o, lots, ts):
    """Match an order of `lots` that does not rest yet, and rest what remains.

    Returns the reason of a rejection, with nothing changed, or NONE.
    """
    state, order = state_of(sim), orders_of(sim)[o]
    s = 2 * order.market + order.bid_side
    crossing = is_crossing(sim, order)
    filled, change, stopped, reached = 0, 0, False, DOLLAR
    if crossing and order.tif != TIF.POST_ONLY:
        filled, change, stopped, reached = _walk_book(sim, o, lots, ts, _PREVIEW)
    rest = lots - filled
    rests = rest > 0 and _may_rest(state, order.tif, crossing, stopped)
    if rests and sides_of(sim)[s].own >= state.max_resting:
        return REASON.RESTING_LIMIT
    if state.taker_only == 1 and not crossing and order.price != 0:
        return REASON.WOULD_NOT_CROSS
    if crossing and order.tif == TIF.POST_ONLY:
        return REASON.WOULD_CROSS
    fee = compute_reserved_fee(sim, order, rest) if rests else 0
    if rests and not crossing:
        return _rest_order(sim, o, rest, fee, ts)
    if not _is_affordable(sim, order, filled, change, rest if rests else 0, fee, reached):
        return REASON.INSUFFICIENT_CASH
    if order.tif == TIF.FOK and rest > 0:
        return REASON.FOK_UNFILLED
    if crossing:
        _walk_book(sim, o, lots, ts, _COMMIT)
    order.reserved_fee = fee
    if rests:
        join_queue(sim, o, ts)
        update_reserve(sim, s)
    elif rest == 0:
        set_ended(order, STATUS.FILLED, REASON.NONE, ts)
    else:
        set_ended(order, STATUS.CANCELLED, REASON.SELF_TRADE if stopped else REASON.REMAINDER, ts)
    if crossing:
        update_reserves(sim, order.market)
    return REASON.NONE


@inlined
def _rest_order(sim, o, lots, fee, ts):
    """Rest `lots` of an order that crosses nothing. Returns INSUFFICIENT_CASH if cash does not cover the reserve, else NONE."""
    state, order = state_of(sim), orders_of(sim)[o]
    s = 2 * order.market + order.bid_side
    side = sides_of(sim)[s]
    reserve = compute_reserve(
        sim, s, sides_of(sim)[s ^ 1].position, np.int64(order.level), np.int64(order.bid_price), lots, fee, ALL_LEVELS
    )
    reserved = state.reserved + reserve - side.reserve
    if state.cash < reserved:
        return REASON.INSUFFICIENT_CASH
    state.reserved, side.reserve = reserved, reserve
    order.reserved_fee = fee
    join_queue(sim, o, ts)
    return REASON.NONE


@inlined
def _may_rest(state, tif, crossing, stopped):
    """Return True if the unfilled lots of an order may rest. stopped: matching stopped at an own order."""
    if tif in (TIF.IOC, TIF.FOK) or state.taker_only == 1:
        return False
    return not crossing or (tif != TIF.POST_ONLY and not stopped)


@compiled
def _walk_book(sim, o, lots, ts, commit):
    """Take up to `lots` from the levels that an order crosses, best first. commit: `_COMMIT` records a fill per level, `_PREVIEW` changes nothing.

    Returns (lots filled, change of cash with fees, whether matching stopped at an own order, the lowest level at which own orders are
    cancelled for it or `DOLLAR`).
    """
    state, order, orders = state_of(sim), orders_of(sim)[o], orders_of(sim)
    m, market = order.market, markets_of(sim)[order.market]
    s = 2 * m + 1 - order.bid_side
    side, shown, limit = sides_of(sim)[s], shown_of(sim), market.levels + 1 - order.level
    guarded = side.own > 0
    q = side.best
    if guarded:
        q = max(q, orders[side.head].level)
    remaining, change, rounding, reached = lots, 0, order.rounding, DOLLAR
    while q >= limit and remaining > 0:
        size = min(remaining, shown[side.book + q])
        own = first_order_at(sim, s, q) if guarded else -1
        stopped = False
        if own >= 0 and remaining > min(shown[side.book + q], orders[own].ahead):
            if state.cancel_maker == 1:
                reached = q
                if commit == _COMMIT:
                    _cancel_level(sim, s, q, ts)
            else:
                size, stopped = min(size, orders[own].ahead), True
        if size > 0:
            price = DOLLAR - price_of(sim, m, q)
            if commit == _COMMIT:
                _take_level(sim, o, s, q, price, size, ts)
            else:
                booked = own_price(order, price)
                fee, rounding = fill_fee(market, ROLE.TAKER, order.action, booked, size, ts, rounding)
                change += (booked if order.action == 1 else -booked) * size - fee
            remaining -= size
        if stopped:
            return lots - remaining, change, True, reached
        q -= 1
    return lots - remaining, change, False, reached


@compiled
def _take_level(sim, o, s, q, price, size, ts):
    """Fill a taker's order with `size` lots of the bids of side `s` at level `q`."""
    orders = orders_of(sim)
    book_fill(sim, o, price, size, ROLE.TAKER, ts)
    consume(sim, s, q, size)
    i = sides_of(sim)[s].head
    while i >= 0 and orders[i].level >= q:
        if orders[i].level == q:
            orders[i].ahead = max(0, orders[i].ahead - size)
        i = orders[i].next


@compiled
def _cancel_level(sim, s, q, ts):
    """Cancel own orders that rest at level `q` of a side, because an own taker's order would trade with them."""
    orders = orders_of(sim)
    i = first_order_at(sim, s, q)
    while i >= 0 and orders[i].level == q:
        following = orders[i].next
        end_order(sim, i, STATUS.CANCELLED, REASON.SELF_TRADE, ts)
        i = following


@compiled
def _is_affordable(sim, order, filled, change, rest, fee, reached):
    """Return True if cash covers all reserves once `filled` lots of an order have traded and the other `rest` lots rest."""
    state, sides = state_of(sim), sides_of(sim)
    s = 2 * order.market + order.bid_side
    own, opposite = sides[s].position, sides[s ^ 1].position
    cash, reserved = state.cash, state.reserved
    if filled > 0:
        pairs = min(opposite, filled)
        # A sale as sent earns its price; after netting, the opposite lots still pay a dollar for lots not held.
        change -= DOLLAR * (filled - pairs) if order.action == 1 else -DOLLAR * pairs
        own, opposite = own + filled - pairs, opposite - pairs
        cash += change
    if rest > 0 or filled > 0:
        reserved += (
            compute_reserve(sim, s, opposite, np.int64(order.level), np.int64(order.bid_price), rest, fee, ALL_LEVELS) - sides[s].reserve
        )
    if filled > 0 or reached < DOLLAR:
        reserved += compute_reserve(sim, s ^ 1, own, NO_ORDER, NO_ORDER, NO_ORDER, NO_ORDER, reached) - sides[s ^ 1].reserve
    return cash - reserved >= 0


@compiled
def cancel_now(sim, o, reason, ts):
    """Cancel an order. Returns True if it rested."""
    if orders_of(sim)[o].status != STATUS.RESTING:
        return False
    end_order(sim, o, STATUS.CANCELLED, reason, ts)
    return True


@compiled
def amend_now(sim, o, price, lots, ts):
    """Change a resting order to `lots` remaining at `price` of its side. Returns 0, or the reason why it stays unchanged."""
    order = orders_of(sim)[o]
    if order.status != STATUS.RESTING:
        return REASON.NOT_RESTING
    m = order.market
    s, market, filled = 2 * m + order.bid_side, markets_of(sim)[m], order.filled
    if _is_bad_size(market, lots):
        return REASON.BAD_SIZE
    if price == order.price and lots <= order.count - filled:
        order.count = filled + lots
        order.reserved_fee = compute_reserved_fee(sim, order, lots)
        update_reserve(sim, s)
        return REASON.NONE
    old_price, old_count, old_fee, previous, following = order.price, order.count, order.reserved_fee, order.prev, order.next
    old_bid, old_level = order.bid_price, order.level
    if _is_bad_price(sim, m, price, level_of(sim, m, price), order.tif):
        return REASON.BAD_PRICE
    reason = _closure_reason(market.status)
    if reason != REASON.NONE:
        return reason
    # Out of its queue until it is executed again below.
    remove_order(sim, o, STATUS.PENDING, REASON.NONE, order.ended)
    update_reserve(sim, s)
    order.price, order.count = price, filled + lots
    set_bid_price(sim, order)
    reason = execute_order(sim, o, lots, ts)
    if reason != REASON.NONE:
        order.price, order.count, order.bid_price, order.level, order.reserved_fee = old_price, old_count, old_bid, old_level, old_fee
        order.status = STATUS.RESTING
        sides_of(sim)[s].own += 1
        link_between(sides_of(sim), orders_of(sim), o, previous, following)
        count_at_level(sim, o, JOINED)
        update_reserve(sim, s)
    return reason


@compiled
def cancel_resting(sim, m, ts):
    """Cancel all resting orders of a market, or of all markets for -1. Returns how many rested."""
    count = 0
    for market in range(state_of(sim).tickers):
        if m < 0 or m == market:
            count += end_all_orders(sim, market, REASON.AGENT, ts)
    return count


@compiled
def expire_orders(sim, ts):
    """End the orders whose time in force is over at `ts`, and set the time of the next expiry."""
    state, orders = state_of(sim), orders_of(sim)
    following = NEVER
    for s in range(2 * state.tickers):
        i = sides_of(sim)[s].head
        while i >= 0:
            order = orders[i]
            behind = order.next
            if order.tif == TIF.GTD:
                if order.expires <= ts:
                    end_order(sim, i, STATUS.EXPIRED, REASON.EXPIRED, order.expires)
                else:
                    following = min(following, order.expires)
            i = behind
    state.expiry, state.expiry_at = following, -1
