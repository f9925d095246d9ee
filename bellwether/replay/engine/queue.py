"""Queue positions of own resting orders, and their fills by prints and by books that cross them.

An order's queue position is the number of lots ahead. Each order has three: in the account, under the chosen queue model, and in the
slowest and the fastest *history*, the extremes of what the recording allows. `sim` is the whole replay, `m` a market, `s` a side, `o` an
order, `ts` ns UTC.
"""

from __future__ import annotations

from bellwether.replay.engine.accounts import book_fill, compute_reserved_fee, update_reserve, update_reserves
from bellwether.replay.engine.book import consume, count_at_level, first_order_at, link, unlink
from bellwether.replay.engine.bounds import fill_histories, record_fill_chance
from bellwether.replay.engine.codes import Queue, Reason, Role, Status, Tif
from bellwether.replay.engine.compilation import compiled, inlined
from bellwether.replay.engine.memory import levels_of, markets_of, orders_of, scratch_of, shown_of, sides_of, state_of
from bellwether.replay.engine.state import JOINS_BOTH
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


@inlined
def is_linked(order):
    """Return True if an order rests in the account or in a history."""
    return order.status == _RESTING or order.left_slow + order.left_fast > 0


@compiled
def join_queue(sim, o, ts, lots, slow, fast):
    """Add an order at the back of its queue with `lots` in the account, `slow` in the slowest history and `fast` in the fastest.

    0 lots: it does not join there.
    """
    state, order, side = state_of(sim), orders_of(sim)[o], sides_of(sim)[2 * orders_of(sim)[o].market + orders_of(sim)[o].bid_side]
    level = order.level
    first = first_order_at(sim, 2 * order.market + order.bid_side, level) if state.behind_own == 1 else -1
    shown = shown_of(sim)[side.book + level]
    row = levels_of(sim)[side.book + level]
    was_linked = is_linked(order)
    if lots > 0:
        order.ahead = orders_of(sim)[first].ahead if first >= 0 else shown
        order.status, order.reason, order.queued = _RESTING, _NO_REASON, ts
        side.own += 1
    if state.bounds == 0:
        order.ahead_slow = order.ahead_fast = order.ahead
        slow = fast = 0
    if slow > 0:
        order.left_slow, order.ahead_slow = slow, shown + row.taken - row.taken_min
    if fast > 0:
        order.left_fast, order.ahead_fast = fast, max(0, shown + row.taken - row.taken_max)
    if order.tif == _GTD and order.expires < state.expiry:
        state.expiry, state.expiry_at = order.expires, -1
    if not was_linked:
        link(sides_of(sim), orders_of(sim), o)
        count_at_level(sim, o, 1)


@compiled
def remove_order(sim, o, status, reason, ts):
    """End an order in the account and in both histories. The caller updates the reserve of cash."""
    order = orders_of(sim)[o]
    unlink(sides_of(sim), orders_of(sim), o)
    count_at_level(sim, o, -1)
    order.left_slow = order.left_fast = 0
    if order.status == _RESTING:
        sides_of(sim)[2 * order.market + order.bid_side].own -= 1
        set_ended(order, status, reason, ts)


@compiled
def end_order(sim, o, status, reason, ts):
    """End an order in the account and in both histories, and release its reserve of cash."""
    order = orders_of(sim)[o]
    rested = order.status == _RESTING
    remove_order(sim, o, status, reason, ts)
    if rested:
        update_reserve(sim, 2 * order.market + order.bid_side)


@compiled
def end_all_orders(sim, m, reason, ts):
    """Cancel all orders of a market that rest in the account or a history. Returns how many rested in the account."""
    count, orders = 0, orders_of(sim)
    for s in range(2 * m, 2 * m + 2):
        i = sides_of(sim)[s].head
        while i >= 0:
            following = orders[i].next
            count += 1 if orders[i].status == _RESTING else 0
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
        if order.level == level:
            ahead = order.ahead_fast
            order.ahead_fast = min(ahead if traded else max(0, ahead - cut), value)
            if state.queue != _TRADE_ONLY:
                order.ahead_slow = min(order.ahead_slow, value)
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
    state, orders, shown = state_of(sim), orders_of(sim), shown_of(sim)
    for s in range(2 * m, 2 * m + 2):
        side = sides_of(sim)[s]
        i = side.head
        while i >= 0:
            order = orders[i]
            if state.queue != _TRADE_ONLY:
                order.ahead = min(order.ahead, shown[side.book + order.level])
                order.ahead_slow = min(order.ahead_slow, shown[side.book + order.level])
            i = order.next


@compiled
def invalidate_book(sim, m):
    """At the start of a gap, set the lots ahead to 0 in the fastest history, because unrecorded cancels may follow."""
    orders = orders_of(sim)
    for s in range(2 * m, 2 * m + 2):
        i = sides_of(sim)[s].head
        while i >= 0:
            orders[i].ahead_fast = 0
            i = orders[i].next


@compiled
def fill_resting(sim, o, lots, ts):
    """Fill up to `lots` of a resting order in the account. Returns how many lots were filled.

    An order that cash cannot pay ends, and stays linked until `sweep_filled`.
    """
    state, order = state_of(sim), orders_of(sim)[o]
    if order.status != _RESTING:
        return 0
    size = min(lots, order.count - order.filled)
    if size <= 0:
        return 0
    state.sweep = 1
    if not book_fill(sim, o, order.bid_price, size, _MAKER, ts):
        set_ended(order, _CANCELLED, _INSUFFICIENT_CASH, ts)
        sides_of(sim)[2 * order.market + order.bid_side].own -= 1
        order.left_slow = order.left_fast = 0
        return 0
    order.reserved_fee = compute_reserved_fee(sim, order, order.count - order.filled)
    if order.filled >= order.count:
        set_ended(order, _FILLED, _NO_REASON, ts)
        sides_of(sim)[2 * order.market + order.bid_side].own -= 1
    return size


@compiled
def sweep_filled(sim, s):
    """Remove from a side's list the orders that have ended in the account and both histories, then update the market's reserves."""
    orders = orders_of(sim)
    state_of(sim).sweep = 0
    i = sides_of(sim)[s].head
    while i >= 0:
        following = orders[i].next
        if not is_linked(orders[i]):
            unlink(sides_of(sim), orders, i)
            count_at_level(sim, i, -1)
        i = following
    update_reserves(sim, s >> 1)


@compiled
def _fill_order(sim, o, available, slowest, fastest, reaching, ts):
    """Fill a resting order with the lots that reach it: `available` in the account, `slowest` and `fastest` in the two histories.

    `reaching`: the maximum with nothing ahead. Returns the lots filled in the account, and their minimum and maximum over all histories.
    """
    order = orders_of(sim)[o]
    remaining = order.count - order.filled if order.status == _RESTING else 0
    if state_of(sim).bounds == 0:
        return fill_resting(sim, o, available, ts), 0, 0
    slowest, fastest = max(0, slowest), max(0, fastest)
    fewest, most = min(remaining, order.left_slow, order.left_fast, slowest), min(max(remaining, order.left_slow, order.left_fast), fastest)
    if order.joins != JOINS_BOTH:
        # Histories joined the order at different times: any position between is possible.
        fewest, most = 0, min(sides_of(sim)[2 * order.market + order.bid_side].quote_most, max(0, reaching))
    main = fill_resting(sim, o, available, ts)
    slow, fast = min(order.left_slow, slowest), min(order.left_fast, fastest)
    if most > 0:
        record_fill_chance(sim, order, ts)
    if main + slow + fast > 0:
        fill_histories(sim, o, main, slow, fast, ts)
        state_of(sim).sweep = 1
    return main, fewest, most


@compiled
def apply_print(sim, s, level, lots, ts):
    """Apply a trade of `lots` with the bids of a side at `level`: fill own orders above the level, then those at it in queue order.

    The caller has checked that an order rests at `level` or above.
    """
    state, orders = state_of(sim), orders_of(sim)
    i = sides_of(sim)[s].head
    first = orders[i]
    if first.level == level and min(first.ahead, first.ahead_fast) >= lots and (first.next < 0 or orders[first.next].level < level):
        first.ahead -= lots
        first.ahead_slow -= lots
        first.ahead_fast -= lots
        return
    # Lots of the print that own orders have not taken so far: in the account, and the minimum and maximum over the histories.
    remaining, fewest, most = lots, lots, lots
    while i >= 0 and orders[i].level > level:
        if state.through == 1:
            orders[i].ahead = orders[i].ahead_slow = orders[i].ahead_fast = 0
            filled, filled_min, filled_max = _fill_order(sim, i, remaining, fewest, most, most, ts)
            remaining, fewest, most = remaining - filled, fewest - filled_max, most - filled_min
        i = orders[i].next
    _fill_at_level(sim, i, level, remaining, fewest, most, ts)
    if state.sweep == 1:
        sweep_filled(sim, s)


@compiled
def _fill_at_level(sim, first, level, remaining, fewest, most, ts):
    """Fill own orders at the level of a trade in queue order, after the lots ahead. remaining, fewest, most: lots of the trade left.

    remaining: in the account; fewest, most: over the histories. Lots ahead are consumed once, also if several orders wait behind them.
    """
    orders = orders_of(sim)
    consumed, i = 0, first
    while i >= 0 and orders[i].level == level:
        order = orders[i]
        if order.status == _RESTING:
            waits = min(remaining, max(0, order.ahead - consumed))
            consumed += waits
            remaining -= waits
        slowest, fastest = fewest - order.ahead_slow, most - order.ahead_fast
        order.ahead_slow = max(0, order.ahead_slow - max(0, fewest))
        order.ahead_fast = max(0, order.ahead_fast - max(0, most))
        filled, filled_min, filled_max = _fill_order(sim, i, remaining, slowest, fastest, most, ts)
        remaining, fewest, most = remaining - filled, fewest - filled_max, most - filled_min
        i = order.next
    i = first
    while i >= 0 and orders[i].level == level:
        orders[i].ahead = max(0, orders[i].ahead - consumed)
        i = orders[i].next


@compiled
def fill_crossed(sim, m, ts):
    """Fill own resting orders of a market that the other side of its book crosses; the fills reduce the displayed sizes."""
    sides, shown, levels, scratch = sides_of(sim), shown_of(sim), levels_of(sim), scratch_of(sim)
    dollar = markets_of(sim)[m].levels + 1
    for s in range(2 * m, 2 * m + 2):
        side, other = sides[s], sides[s ^ 1]
        if side.head < 0:
            continue
        highest = min(other.best, dollar - 1 - side.best)
        lowest = dollar - side.top
        if highest < lowest:
            continue
        for q in range(lowest, highest + 1):
            at = other.book + q
            recorded = shown[at] + levels[at].taken
            scratch[3 * q] = shown[at]
            scratch[3 * q + 1] = recorded - levels[at].taken_max
            scratch[3 * q + 2] = recorded - levels[at].taken_min
        _cross_side(sim, s, highest, ts)
        sweep_filled(sim, s)


@compiled
def _cross_side(sim, s, highest, ts):
    """Fill own orders of a side with the other side's displayed sizes up to level `highest`, in the account and both histories."""
    orders, sizes = orders_of(sim), scratch_of(sim)
    dollar = markets_of(sim)[s >> 1].levels + 1
    i = sides_of(sim)[s].head
    while i >= 0:
        order = orders[i]
        q = highest
        while q >= dollar - order.level and is_linked(order):
            if sizes[3 * q] > 0 or sizes[3 * q + 2] > 0:
                main, fewest, most = _fill_order(sim, i, sizes[3 * q], sizes[3 * q + 1], sizes[3 * q + 2], sizes[3 * q + 2], ts)
                sizes[3 * q] -= main
                sizes[3 * q + 1] -= most
                sizes[3 * q + 2] -= fewest
                if main + most > 0:
                    consume(sim, s ^ 1, q, main, fewest, most)
            q -= 1
        i = order.next
