"""Queue positions of own resting orders, and their fills by prints and by books that cross them.

An order's queue position is the number of lots ahead. `sim` is the whole replay, `m` a market, `s` a side, `o` an order, `ts` ns UTC.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from bellwether.replay.engine.account import book_fill, compute_reserved_fee, update_reserve, update_reserves
from bellwether.replay.engine.book import JOINED, LEFT, consume, count_at_level, link, unlink
from bellwether.replay.engine.codes import QUEUE, REASON, ROLE, STATUS, TIF
from bellwether.replay.engine.compilation import compiled, inlined
from bellwether.replay.engine.state import markets_of, orders_of, shown_of, sides_of, state_of


@inlined
def set_ended(order, status, reason, ts):
    """Mark an order as ended in the account."""
    order.status, order.reason, order.ended = status, reason, ts


@compiled
def join_queue(sim, o, ts):
    """Add an order at the back of its queue."""
    state, order, side = state_of(sim), orders_of(sim)[o], sides_of(sim)[2 * orders_of(sim)[o].market + orders_of(sim)[o].bid_side]
    order.ahead = shown_of(sim)[side.book + order.level]
    order.status, order.reason, order.queued = STATUS.RESTING, REASON.NONE, ts
    side.own += 1
    if order.tif == TIF.GTD and order.expires < state.expiry:
        state.expiry, state.expiry_at = order.expires, -1
    link(sides_of(sim), orders_of(sim), o)
    count_at_level(sim, o, JOINED)


@compiled
def remove_order(sim, o, status, reason, ts):
    """End a resting order. The caller updates the reserve of cash."""
    order = orders_of(sim)[o]
    unlink(sides_of(sim), orders_of(sim), o)
    count_at_level(sim, o, LEFT)
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
            remove_order(sim, i, STATUS.CANCELLED, reason, ts)
            i = following
        update_reserve(sim, s)
    return count


@compiled
def apply_level_change(sim, s, level, recorded, value, traded, event):
    """Update queue positions after a level changes from `recorded` to `value` lots.

    traded: prints caused the reduction. event: index of the change on the tape.
    """
    state, orders = state_of(sim), orders_of(sim)
    if state.queue == QUEUE.TRADE_ONLY:
        return
    cancelled = 0 if traded else max(0, recorded - value)
    place = draw_place(state.queue_number, s, event, value) if state.queue == QUEUE.SAMPLED and cancelled > 0 else 0
    i = sides_of(sim)[s].head
    while i >= 0 and orders[i].level >= level:
        order = orders[i]
        if order.level == level:
            order.ahead = min(
                order.ahead - cancelled_ahead(state.queue, state.queue_number, order.ahead, recorded, cancelled, place), value
            )
        i = order.next


@inlined
def cancelled_ahead(queue, exponent, ahead, recorded, cancelled, place):
    """Return how many of `cancelled` lots of a level were ahead of an order under a queue model, proportional unless it is another.

    ahead, recorded: lots ahead and lots at the level before. place: first cancelled lot of the queue, for the model sampled.
    """
    if queue == QUEUE.SAMPLED:
        return min(cancelled, max(0, ahead - place))
    if queue == QUEUE.OPTIMISTIC:
        return min(cancelled, ahead)
    behind = max(0, recorded - ahead)
    if cancelled == 0 or ahead + behind == 0:
        return 0
    front, back = (ahead, behind) if exponent == 1 else power_weights(ahead, behind, exponent)
    return min(max(cancelled * front // (front + back), cancelled - behind), ahead)


@compiled
def power_weights(ahead, behind, exponent):
    """Compute ahead^exponent and behind^exponent, both divided by the larger, in units of 2^-24, rounded down at every step."""
    larger = max(ahead, behind)
    quotient, power = (min(ahead, behind) << 24) // larger, 1 << 24
    for _ in range(exponent):
        power = power * quotient >> 24
    return (1 << 24, power) if ahead == larger else (power, 1 << 24)


@compiled
def draw_place(history, s, event, remaining):
    """Draw the place of a cancel in its queue, from 0 to `remaining`, the lots that stay at the level.

    The place is floor(u^g x (remaining + 1)) with u uniform in [0, 1), a hash of the history's number, the side and the event, so that it is
    the same for every order and every agent. g is 1/4, 1/2, 1, 2 or 4 by history: nothing is known of where in a queue cancels happen.
    """
    draw = _mix(_mix(np.uint64(history) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(s)) ^ np.uint64(event))
    u = float(draw >> np.uint64(11)) / 9007199254740992.0
    for _ in range(abs(history % 5 - 2)):
        u = sqrt(u) if history % 5 < 2 else u * u
    return min(np.int64(u * (remaining + 1)), remaining)


@inlined
def _mix(x):
    """Mix the bits of a 64-bit word: the finalizer of splitmix64 (Steele, Lea & Flood, 2014)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@compiled
def restore_book(sim, m):
    """After a gap, limit the queue positions in a market to the sizes now displayed, except under the model trade_only."""
    orders, shown = orders_of(sim), shown_of(sim)
    if state_of(sim).queue == QUEUE.TRADE_ONLY:
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
    if not book_fill(sim, o, np.int64(order.bid_price), size, ROLE.MAKER, ts):
        _set_over(sim, order, STATUS.CANCELLED, REASON.INSUFFICIENT_CASH, ts)
        return 0
    order.reserved_fee = compute_reserved_fee(sim, order, order.count - order.filled)
    if order.filled >= order.count:
        _set_over(sim, order, STATUS.FILLED, REASON.NONE, ts)
    return size


@compiled
def _sweep_ended(sim, s):
    """Remove ended orders from a side's list after fills, and update the market's reserves."""
    orders = orders_of(sim)
    state_of(sim).sweep = 0
    i = sides_of(sim)[s].head
    while i >= 0:
        following = orders[i].next
        if orders[i].status != STATUS.RESTING:
            unlink(sides_of(sim), orders, i)
            count_at_level(sim, i, LEFT)
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
    sides, shown, orders = sides_of(sim), shown_of(sim), orders_of(sim)
    dollar = markets_of(sim)[m].levels + 1
    for s in range(2 * m, 2 * m + 2):
        side, other = sides[s], sides[s ^ 1]
        highest = min(other.best, dollar - 1 - side.best)
        lowest = dollar - side.top
        if side.head < 0 or highest < lowest:
            continue
        i = side.head
        while i >= 0:
            order = orders[i]
            level = highest
            while level >= dollar - order.level and order.status == STATUS.RESTING:
                lots = _fill_resting(sim, i, shown[other.book + level], ts)
                if lots > 0:
                    consume(sim, s ^ 1, level, lots)
                level -= 1
            i = order.next
        _sweep_ended(sim, s)
