"""Queue positions of own resting orders, and their fills by prints and by books that cross them.

An order's queue position is the number of lots ahead. `sim` is the whole replay, `m` a market, `s` a side, `o` an order, `ts` ns UTC.
"""

from __future__ import annotations

from bellwether.replay.engine.accounts import book_fill, compute_reserved_fee, update_reserve, update_reserves
from bellwether.replay.engine.book import consume, count_at_level, first_order_at, link, unlink
from bellwether.replay.engine.codes import Queue, Reason, Role, Status, Tif
from bellwether.replay.engine.compilation import compiled, inlined
from bellwether.replay.engine.memory import markets_of, orders_of, scratch_of, shown_of, sides_of, state_of
from bellwether.replay.units import CONTRACT

_RESTING, _FILLED, _CANCELLED = int(Status.RESTING), int(Status.FILLED), int(Status.CANCELLED)
_TRADE_ONLY, _PROPORTIONAL, _OPTIMISTIC = int(Queue.TRADE_ONLY), int(Queue.PROPORTIONAL), int(Queue.OPTIMISTIC)
_POWER, _LOG = int(Queue.POWER), int(Queue.LOG)
_INSUFFICIENT_CASH, _NO_REASON = int(Reason.INSUFFICIENT_CASH), int(Reason.NONE)
_MAKER, _GTD = int(Role.MAKER), int(Tif.GTD)


@inlined
def set_ended(order, status, reason, ts):
    """Mark an order as ended in the account."""
    order.status, order.reason, order.ended = status, reason, ts


@compiled
def join_queue(sim, o, ts):
    """Add an order at the back of its queue."""
    state, order, side = state_of(sim), orders_of(sim)[o], sides_of(sim)[2 * orders_of(sim)[o].market + orders_of(sim)[o].bid_side]
    first = first_order_at(sim, 2 * order.market + order.bid_side, order.level) if state.behind_own == 1 else -1
    order.ahead = orders_of(sim)[first].ahead if first >= 0 else shown_of(sim)[side.book + order.level]
    order.status, order.reason, order.queued = _RESTING, _NO_REASON, ts
    side.own += 1
    if order.tif == _GTD and order.expires < state.expiry:
        state.expiry, state.expiry_at = order.expires, -1
    link(sides_of(sim), orders_of(sim), o)
    count_at_level(sim, o, 1)


@compiled
def remove_order(sim, o, status, reason, ts):
    """End a resting order. The caller updates the reserve of cash."""
    order = orders_of(sim)[o]
    unlink(sides_of(sim), orders_of(sim), o)
    count_at_level(sim, o, -1)
    _set_over(sim, order, status, reason, ts)


@inlined
def _set_over(sim, order, status, reason, ts):
    sides_of(sim)[2 * order.market + order.bid_side].own -= 1
    set_ended(order, status, reason, ts)


@compiled
def end_order(sim, o, status, reason, ts):
    """End a resting order, and release its reserve of cash."""
    order = orders_of(sim)[o]
    remove_order(sim, o, status, reason, ts)
    update_reserve(sim, 2 * order.market + order.bid_side)


@compiled
def end_all_orders(sim, m, reason, ts):
    """Cancel all resting orders of a market. Returns how many rested."""
    count, orders = 0, orders_of(sim)
    for s in range(2 * m, 2 * m + 2):
        i = sides_of(sim)[s].head
        while i >= 0:
            following = orders[i].next
            count += 1
            remove_order(sim, i, _CANCELLED, reason, ts)
            i = following
        update_reserve(sim, s)
    return count


@compiled
def apply_level_change(sim, s, level, recorded, value, traded):
    """Update queue positions after a level changes from `recorded` to `value` lots. traded: prints caused the reduction."""
    state, orders = state_of(sim), orders_of(sim)
    cut = max(0, recorded - value)
    i = sides_of(sim)[s].head
    while i >= 0 and orders[i].level >= level:
        order = orders[i]
        if order.level == level and state.queue != _TRADE_ONLY:
            order.ahead = _ahead_after_change(state.queue, state.exponent, order.ahead, recorded, cut, value, traded)
        i = order.next


@inlined
def _ahead_after_change(queue, exponent, ahead, recorded, cut, value, traded):
    """Return the lots ahead of an order under a queue model, after `cut` lots have left its level and `value` remain.

    ahead, recorded: lots ahead and lots at the level before. traded: prints caused the reduction.
    """
    if traded or cut == 0:
        return min(ahead, value)
    if queue == _PROPORTIONAL:
        behind = max(0, recorded - ahead)
        if ahead + behind > 0:
            ahead -= cut * ahead // (ahead + behind)
    elif queue == _OPTIMISTIC:
        ahead = max(0, ahead - cut)
    elif queue in (_POWER, _LOG):
        behind = max(0, recorded - ahead)
        front, back = power_weights(ahead, behind, exponent) if queue == _POWER else (log_weight(ahead), log_weight(behind))
        part = cut * front // (front + back) if front + back > 0 else 0
        ahead -= min(max(part, cut - behind), ahead)
    return min(ahead, value)


@compiled
def power_weights(ahead, behind, exponent):
    """Compute ahead^exponent and behind^exponent, both divided by the larger, in units of 2^-24, rounded down at every step."""
    larger = max(ahead, behind)
    if larger == 0:
        return 0, 0
    quotient, power = (min(ahead, behind) << 24) // larger, 1 << 24
    for _ in range(exponent):
        power = power * quotient >> 24
    return (1 << 24, power) if ahead == larger else (power, 1 << 24)


@compiled
def log_weight(lots):
    """Compute log2(1 + contracts) of a size in lots, in units of 2^-16."""
    return _log2(CONTRACT + lots) - _log2(CONTRACT)


@compiled
def _log2(value):
    """Compute log2 of an integer from 1 to 2^60 in units of 2^-16, digit by digit.

    The number divided by its power of two is squared repeatedly, each time rounded down to 2^-30.
    """
    digits = 0
    while value >> digits > 1:
        digits += 1
    rest, result = (value << (30 - digits) if digits <= 30 else value >> (digits - 30)), digits
    for _ in range(16):
        rest = rest * rest >> 30
        result *= 2
        if rest >= 1 << 31:
            rest >>= 1
            result += 1
    return result


@compiled
def restore_book(sim, m):
    """After a gap, limit the queue positions in a market to the sizes now displayed, except under the model trade_only."""
    orders, shown = orders_of(sim), shown_of(sim)
    if state_of(sim).queue == _TRADE_ONLY:
        return
    for s in range(2 * m, 2 * m + 2):
        side = sides_of(sim)[s]
        i = side.head
        while i >= 0:
            order = orders[i]
            order.ahead = min(order.ahead, shown[side.book + order.level])
            i = order.next


@compiled
def _fill_resting(sim, o, lots, ts):
    """Fill up to `lots` of a resting order. Returns how many lots were filled.

    A filled order, or one that cash cannot pay, ends and stays in its list until `_sweep_ended`.
    """
    state, order = state_of(sim), orders_of(sim)[o]
    size = min(lots, order.count - order.filled)
    if size <= 0:
        return 0
    state.sweep = 1
    if not book_fill(sim, o, order.bid_price, size, _MAKER, ts):
        _set_over(sim, order, _CANCELLED, _INSUFFICIENT_CASH, ts)
        return 0
    order.reserved_fee = compute_reserved_fee(sim, order, order.count - order.filled)
    if order.filled >= order.count:
        _set_over(sim, order, _FILLED, _NO_REASON, ts)
    return size


@compiled
def _sweep_ended(sim, s):
    """Remove ended orders from a side's list after fills, and update the market's reserves."""
    orders = orders_of(sim)
    state_of(sim).sweep = 0
    i = sides_of(sim)[s].head
    while i >= 0:
        following = orders[i].next
        if orders[i].status != _RESTING:
            unlink(sides_of(sim), orders, i)
            count_at_level(sim, i, -1)
        i = following
    update_reserves(sim, s >> 1)


@compiled
def apply_print(sim, s, level, lots, ts):
    """Apply a trade of `lots` with the bids of a side at `level`: fill own orders above the level, then those at it in queue order.

    The caller has checked that an order rests at `level` or above.
    """
    state, orders = state_of(sim), orders_of(sim)
    i = sides_of(sim)[s].head
    first = orders[i]
    if first.level == level and first.ahead >= lots and (first.next < 0 or orders[first.next].level < level):
        first.ahead -= lots
        return
    while i >= 0 and orders[i].level > level:
        if state.through == 1:
            orders[i].ahead = 0
            lots -= _fill_resting(sim, i, lots, ts)
        i = orders[i].next
    _fill_at_level(sim, i, level, lots, ts)
    if state.sweep == 1:
        _sweep_ended(sim, s)


@compiled
def _fill_at_level(sim, first, level, lots, ts):
    """Fill own orders at the level of a trade in queue order, after the lots ahead.

    Lots ahead are consumed once, also if several orders wait behind them.
    """
    orders = orders_of(sim)
    consumed, i = 0, first
    while i >= 0 and orders[i].level == level:
        waits = min(lots, max(0, orders[i].ahead - consumed))
        consumed += waits
        lots -= waits
        lots -= _fill_resting(sim, i, lots, ts)
        i = orders[i].next
    i = first
    while i >= 0 and orders[i].level == level:
        orders[i].ahead = max(0, orders[i].ahead - consumed)
        i = orders[i].next


@compiled
def fill_crossed(sim, m, ts):
    """Fill own resting orders of a market that the other side of its book crosses; the fills reduce the displayed sizes."""
    sides, shown, orders, sizes = sides_of(sim), shown_of(sim), orders_of(sim), scratch_of(sim)
    dollar = markets_of(sim)[m].levels + 1
    for s in range(2 * m, 2 * m + 2):
        side, other = sides[s], sides[s ^ 1]
        highest = min(other.best, dollar - 1 - side.best)
        lowest = dollar - side.top
        if side.head < 0 or highest < lowest:
            continue
        # Without consumption the displayed sizes stay, but each lot fills once.
        for level in range(lowest, highest + 1):
            sizes[level] = shown[other.book + level]
        i = side.head
        while i >= 0:
            order = orders[i]
            level = highest
            while level >= dollar - order.level and order.status == _RESTING:
                lots = _fill_resting(sim, i, sizes[level], ts)
                if lots > 0:
                    sizes[level] -= lots
                    consume(sim, s ^ 1, level, lots)
                level -= 1
            i = order.next
        _sweep_ended(sim, s)
