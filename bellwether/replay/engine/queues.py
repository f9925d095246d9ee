"""Compiled: own resting orders. Their price-time lists, what book changes and prints do to their places, and books that cross them.

`core` is the engine's state (`arena`), `k` the offset of a ticker's row in it, `o` an order.
"""

from __future__ import annotations

from bellwether.replay.engine.arena import (
    H_BEHIND_OWN,
    H_BOOK,
    H_COLLATERAL,
    H_CONSUME,
    H_EXPIRY,
    H_EXPIRY_AT,
    H_EXPONENT,
    H_MARKS,
    H_QUEUE,
    H_SCRATCH,
    H_SWEEP,
    H_TAKEN,
    H_THROUGH,
    HEADER,
    K_BEST,
    K_BUSY,
    K_COLS,
    K_HEAD,
    K_OWN,
    K_TOP,
)
from bellwether.replay.engine.codes import (
    O_AHEAD,
    O_BID_PRICE,
    O_BID_SIDE,
    O_COUNT,
    O_ENDED,
    O_EXPIRES,
    O_FILLED,
    O_NEXT,
    O_PREV,
    O_QUEUED,
    O_REASON,
    O_RESERVED_FEE,
    O_STATUS,
    O_TICKER,
    O_TIF,
    Queue,
    Reason,
    Role,
    Status,
    Tif,
)
from bellwether.replay.engine.compiling import compiled, inlined
from bellwether.replay.engine.money import book_fill, reserve_side, reserved_fee
from bellwether.replay.tape.layout import PRICES
from bellwether.replay.units import CONTRACT, DOLLAR

_RESTING, _FILLED, _CANCELLED = int(Status.RESTING), int(Status.FILLED), int(Status.CANCELLED)
_TRADE_ONLY, _PROPORTIONAL, _OPTIMISTIC = int(Queue.TRADE_ONLY), int(Queue.PROPORTIONAL), int(Queue.OPTIMISTIC)
_POWER, _LOG = int(Queue.POWER), int(Queue.LOG)
_INSUFFICIENT_CASH, _NO_REASON = int(Reason.INSUFFICIENT_CASH), int(Reason.NONE)
_MAKER, _GTD = int(Role.MAKER), int(Tif.GTD)


@inlined
def level_at(core, k, side, price):
    """Index of a displayed size in the state."""
    return core[H_BOOK] + ((k - HEADER) // K_COLS * 2 + side) * PRICES + price


@inlined
def lower_best(core, k, side, price):
    """Set a side's best bid to the highest price below `price` that shows a size, 0 when there is none."""
    base = level_at(core, k, side, 0)
    price -= 1
    while price > 0 and core[base + price] == 0:
        price -= 1
    core[k + K_BEST + side] = max(price, 0)


@inlined
def consume(core, k, side, price, lots):
    """Take own lots from what is displayed until the level changes."""
    if core[H_CONSUME] == 0:
        return
    at = level_at(core, k, side, price)
    taken = at - core[H_BOOK] + core[H_TAKEN]
    if core[taken] == 0:
        core[k + K_BUSY] += 1
        core[at - core[H_BOOK] + core[H_MARKS]] += 1
    core[taken] += lots
    core[at] -= lots
    if core[at] == 0 and core[k + K_BEST + side] == price:
        lower_best(core, k, side, price)


@inlined
def link(core, orders, o):
    """Put an order into the list of its side: highest price first, then first come."""
    k = HEADER + orders[o, O_TICKER] * K_COLS
    side, price = orders[o, O_BID_SIDE], orders[o, O_BID_PRICE]
    before, after = -1, core[k + K_HEAD + side]
    while after >= 0 and orders[after, O_BID_PRICE] >= price:
        before, after = after, orders[after, O_NEXT]
    link_between(core, orders, o, before, after)


@inlined
def link_between(core, orders, o, before, after):
    """Put an order between two neighbours of its list, -1 for none."""
    k = HEADER + orders[o, O_TICKER] * K_COLS
    side = orders[o, O_BID_SIDE]
    orders[o, O_PREV], orders[o, O_NEXT] = before, after
    if before >= 0:
        orders[before, O_NEXT] = o
    else:
        core[k + K_HEAD + side] = o
    if after >= 0:
        orders[after, O_PREV] = o
    _mark(core, orders, k, side, orders[o, O_BID_PRICE], 1)


@inlined
def unlink(core, orders, o):
    """Take an order out of its list; its own neighbours stay noted in its row."""
    k = HEADER + orders[o, O_TICKER] * K_COLS
    side, before, after = orders[o, O_BID_SIDE], orders[o, O_PREV], orders[o, O_NEXT]
    if before >= 0:
        orders[before, O_NEXT] = after
    else:
        core[k + K_HEAD + side] = after
    if after >= 0:
        orders[after, O_PREV] = before
    _mark(core, orders, k, side, orders[o, O_BID_PRICE], -1)


@inlined
def _mark(core, orders, k, side, price, change):
    """Count an order that has come to a level or gone from it, and note the best price left."""
    core[k + K_OWN + side] += change
    core[k + K_BUSY] += change
    core[level_at(core, k, side, price) - core[H_BOOK] + core[H_MARKS]] += change
    head = core[k + K_HEAD + side]
    core[k + K_TOP + side] = orders[head, O_BID_PRICE] if head >= 0 else 0


@compiled
def join(core, orders, o, ts):
    """Rest at the back of the queue: behind what is displayed, or behind the first own order there if the rules say so."""
    k = HEADER + orders[o, O_TICKER] * K_COLS
    side, price = orders[o, O_BID_SIDE], orders[o, O_BID_PRICE]
    first = first_at(core, orders, k, side, price) if core[H_BEHIND_OWN] == 1 else -1
    shown = core[level_at(core, k, side, price)]
    orders[o, O_AHEAD] = orders[first, O_AHEAD] if first >= 0 else shown
    orders[o, O_STATUS], orders[o, O_REASON], orders[o, O_QUEUED] = _RESTING, _NO_REASON, ts
    if orders[o, O_TIF] == _GTD and orders[o, O_EXPIRES] < core[H_EXPIRY]:
        core[H_EXPIRY], core[H_EXPIRY_AT] = orders[o, O_EXPIRES], -1
    link(core, orders, o)


@inlined
def first_at(core, orders, k, side, price):
    """The first own order at a price, -1 for none."""
    i = core[k + K_HEAD + side]
    while i >= 0 and orders[i, O_BID_PRICE] > price:
        i = orders[i, O_NEXT]
    return i if i >= 0 and orders[i, O_BID_PRICE] == price else -1


@inlined
def end(orders, o, status, reason, ts):
    """Note what became of an order, why and when."""
    orders[o, O_STATUS], orders[o, O_REASON], orders[o, O_ENDED] = status, reason, ts


@compiled
def leave(core, orders, o, status, reason, ts):
    """End a resting order and give back its reserve."""
    unlink(core, orders, o)
    end(orders, o, status, reason, ts)
    reserve_side(core, orders, HEADER + orders[o, O_TICKER] * K_COLS, orders[o, O_BID_SIDE])


@compiled
def leave_all(core, orders, k, reason, ts):
    """Cancel every resting order of a ticker; returns how many."""
    count = 0
    for side in range(2):
        i = core[k + K_HEAD + side]
        while i >= 0:
            following = orders[i, O_NEXT]
            unlink(core, orders, i)
            end(orders, i, _CANCELLED, reason, ts)
            count += 1
            i = following
        reserve_side(core, orders, k, side)
    return count


@compiled
def level_changed(core, orders, k, side, price, recorded, value, traded):
    """Move the places of own orders at a level whose recorded size went from `recorded` to `value`; `traded`: prints made the cut."""
    queue = core[H_QUEUE]
    if queue == _TRADE_ONLY:
        return
    i = first_at(core, orders, k, side, price)
    cut = max(0, recorded - value)
    while i >= 0 and orders[i, O_BID_PRICE] == price:
        orders[i, O_AHEAD] = _after_change(queue, core[H_EXPONENT], orders[i, O_AHEAD], recorded, cut, value, traded)
        i = orders[i, O_NEXT]


@inlined
def _after_change(queue, exponent, ahead, recorded, cut, value, traded):
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
        share = cut * front // (front + back) if front + back > 0 else 0
        ahead -= min(max(share, cut - behind), ahead)
    return min(ahead, value)


@compiled
def power_weights(ahead, behind, exponent):
    """ahead^exponent and behind^exponent over that of the larger, in 2^-24: their quotient, and each product of it, is rounded down."""
    larger = max(ahead, behind)
    if larger == 0:
        return 0, 0
    quotient, power = (min(ahead, behind) << 24) // larger, 1 << 24
    for _ in range(exponent):
        power = power * quotient >> 24
    return (1 << 24, power) if ahead == larger else (power, 1 << 24)


@compiled
def log_weight(lots):
    """log2(1 + contracts) in 2^-16."""
    return _log2(CONTRACT + lots) - _log2(CONTRACT)


@compiled
def _log2(value):
    """log2 of a whole number from 1 to 2^60 in 2^-16, digit by digit: the number over its power of two is squared, each time rounded down to 2^-30."""
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
def book_valid_again(core, orders, k):
    """Cap the places of a ticker's orders at what a rebuilt book displays, but for trade_only."""
    if core[H_QUEUE] == _TRADE_ONLY:
        return
    for side in range(2):
        i = core[k + K_HEAD + side]
        while i >= 0:
            orders[i, O_AHEAD] = min(orders[i, O_AHEAD], core[level_at(core, k, side, orders[i, O_BID_PRICE])])
            i = orders[i, O_NEXT]


@inlined
def fill_resting(core, orders, fills, o, lots, ts):
    """Fill a resting order with up to `lots`; returns the lots. One that cash cannot pay is cancelled and stays linked until `sweep`."""
    if orders[o, O_STATUS] != _RESTING:
        return 0
    size = min(lots, orders[o, O_COUNT] - orders[o, O_FILLED])
    if size <= 0:
        return 0
    core[H_SWEEP] = 1
    if not book_fill(core, orders, fills, o, orders[o, O_BID_PRICE], size, _MAKER, ts, core[H_COLLATERAL] == 1):
        end(orders, o, _CANCELLED, _INSUFFICIENT_CASH, ts)
        return 0
    orders[o, O_RESERVED_FEE] = reserved_fee(core, orders, o, orders[o, O_COUNT] - orders[o, O_FILLED])
    return size


@compiled
def sweep(core, orders, k, side, ts):
    """Take filled and cancelled orders out of a side's list, then set the reserves of both sides, whose cover may have changed."""
    core[H_SWEEP] = 0
    i = core[k + K_HEAD + side]
    while i >= 0:
        following = orders[i, O_NEXT]
        if orders[i, O_STATUS] == _RESTING and orders[i, O_FILLED] >= orders[i, O_COUNT]:
            end(orders, i, _FILLED, _NO_REASON, ts)
        if orders[i, O_STATUS] != _RESTING:
            unlink(core, orders, i)
        i = following
    reserve_side(core, orders, k, 0)
    reserve_side(core, orders, k, 1)


@compiled
def printed(core, orders, fills, k, side, price, lots, ts):
    """A print of `lots` against the bids of `side` at `price`: fills orders above it, then those at it whose turn has come.

    The caller has seen that some order stands at `price` or above.
    """
    head = core[k + K_HEAD + side]
    if orders[head, O_BID_PRICE] == price and orders[head, O_AHEAD] >= lots:
        _move_up(orders, head, price, lots)
        return
    left, i = lots, head
    while i >= 0 and orders[i, O_BID_PRICE] > price:
        if core[H_THROUGH] == 1:
            orders[i, O_AHEAD] = 0
            left -= fill_resting(core, orders, fills, i, left, ts)
        i = orders[i, O_NEXT]
    _print_at(core, orders, fills, i, price, left, ts)
    if core[H_SWEEP] == 1:
        sweep(core, orders, k, side, ts)


@inlined
def _print_at(core, orders, fills, first, price, left, ts):
    """The part of a print that reaches the orders at its own price, from the first of them on: what is ahead goes first, each lot once."""
    gone = 0
    i = first
    while i >= 0 and left > 0 and orders[i, O_BID_PRICE] == price:
        if orders[i, O_STATUS] == _RESTING:
            waits = min(left, max(0, orders[i, O_AHEAD] - gone))
            gone += waits
            left -= waits
            left -= fill_resting(core, orders, fills, i, left, ts)
        i = orders[i, O_NEXT]
    _move_up(orders, first, price, gone)


@inlined
def _move_up(orders, first, price, gone):
    """Take what a print took from in front of the orders of a level, of which `first` is the first."""
    i = first
    while i >= 0 and orders[i, O_BID_PRICE] == price:
        orders[i, O_AHEAD] = max(0, orders[i, O_AHEAD] - gone)
        i = orders[i, O_NEXT]


@compiled
def crossed(core, orders, fills, k, ts):
    """Fill resting orders that a book beyond their price crosses; they consume what is displayed."""
    for side in range(2):
        head = core[k + K_HEAD + side]
        if head < 0:
            continue
        other = 1 - side
        highest = min(core[k + K_BEST + other], DOLLAR - 1 - core[k + K_BEST + side])
        lowest = DOLLAR - orders[head, O_BID_PRICE]
        if highest < lowest:
            continue
        base, scratch = level_at(core, k, other, 0), core[H_SCRATCH]
        for q in range(lowest, highest + 1):
            core[scratch + q] = core[base + q]
        _cross_side(core, orders, fills, k, head, highest, ts)
        sweep(core, orders, k, side, ts)


@compiled
def _cross_side(core, orders, fills, k, head, highest, ts):
    left = core[H_SCRATCH]
    other = 1 - orders[head, O_BID_SIDE]
    i = head
    while i >= 0:
        q = highest
        while q >= DOLLAR - orders[i, O_BID_PRICE]:
            if core[left + q] > 0:
                size = fill_resting(core, orders, fills, i, core[left + q], ts)
                core[left + q] -= size
                if size > 0:
                    consume(core, k, other, q, size)
                if orders[i, O_FILLED] >= orders[i, O_COUNT] or orders[i, O_STATUS] != _RESTING:
                    break
            q -= 1
        i = orders[i, O_NEXT]
