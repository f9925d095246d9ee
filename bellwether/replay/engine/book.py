"""Displayed levels, the lots that the agent took from them, and the lists of its resting orders.

`sim` is the whole replay, `m` a market, `s` a side (2 × market + side of the canonical bid), `level` the number of one of its prices, `o`
an order.
"""

from __future__ import annotations

import numpy as np

from bellwether.replay.engine.compilation import compiled, inlined
from bellwether.replay.engine.state import (
    NEVER,
    markets_of,
    marks_of,
    numbers_of,
    orders_of,
    prices_of,
    shown_of,
    sides_of,
    state_of,
    taken_of,
)
from bellwether.replay.units import DOLLAR


@inlined
def price_of(sim, m, level):
    """Return the price of a level of market `m`, in $0.0001 of the side to which the level belongs."""
    return prices_of(sim)[markets_of(sim)[m].prices + level]


@inlined
def level_of(sim, m, price):
    """Return the number of the level at a price of market `m`, 0 if the market has no such price."""
    return np.int64(numbers_of(sim)[markets_of(sim)[m].numbers + price]) if 0 < price < DOLLAR else 0


@inlined
def set_best(sim, s, level):
    """Set the best displayed level of a side to `level`, 0 for an empty side."""
    side = sides_of(sim)[s]
    side.best = level
    side.price = prices_of(sim)[side.prices + level]


@inlined
def lower_best(sim, s, level):
    """Set the best displayed level of a side to the highest level below `level` that is not empty."""
    base, shown = sides_of(sim)[s].book, shown_of(sim)
    level -= 1
    while level > 0 and shown[base + level] == 0:
        level -= 1
    set_best(sim, s, max(level, 0))


@compiled
def consume(sim, s, level, lots):
    """Subtract lots that the agent took from a displayed level; they return when its recorded size next changes."""
    shown, taken, at = shown_of(sim), taken_of(sim), sides_of(sim)[s].book + level
    if taken[at] == 0:
        marks_of(sim)[at] += 1
    taken[at] += lots
    shown[at] -= lots
    if shown[at] == 0 and sides_of(sim)[s].best == level:
        lower_best(sim, s, level)


@inlined
def link(sides, orders, o):
    """Insert an order into the list of its side, sorted by level, highest first, then by time of joining."""
    order = orders[o]
    s, level = 2 * order.market + order.bid_side, order.level
    previous, following = -1, sides[s].head
    while following >= 0 and orders[following].level >= level:
        previous, following = following, orders[following].next
    link_between(sides, orders, o, previous, following)


@inlined
def link_between(sides, orders, o, previous, following):
    """Insert an order into its list between two neighbours; -1 for no neighbour."""
    s = 2 * orders[o].market + orders[o].bid_side
    _connect(sides, orders, s, previous, o)
    _connect(sides, orders, s, o, following)


@inlined
def unlink(sides, orders, o):
    """Remove an order from its list. The order's own row still names its former neighbours."""
    order = orders[o]
    _connect(sides, orders, 2 * order.market + order.bid_side, order.prev, order.next)


@inlined
def _connect(sides, orders, s, previous, following):
    """Make two orders neighbours in a side's list. -1 as `previous` is the head of the list, as `following` its end."""
    if previous >= 0:
        orders[previous].next = following
    else:
        sides[s].head = following
    if following >= 0:
        orders[following].prev = previous


#: Changes of a count.
JOINED, LEFT = np.int64(1), np.int64(-1)


@compiled
def count_at_level(sim, o, change):
    """Update a level's count of own orders and the side's best level with one, after an order joined or left: `change` is JOINED or LEFT."""
    sides, orders = sides_of(sim), orders_of(sim)
    order = orders[o]
    s = 2 * order.market + order.bid_side
    side = sides[s]
    marks_of(sim)[side.book + order.level] += change
    side.top = orders[side.head].level if side.head >= 0 else 0
    sides[s ^ 1].meets = markets_of(sim)[order.market].levels + 1 - side.top if side.top > 0 else NEVER


@inlined
def first_order_at(sim, s, level):
    """Return the agent's first order in the queue at a level, -1 for none."""
    orders = orders_of(sim)
    i = sides_of(sim)[s].head
    while i >= 0 and orders[i].level > level:
        i = orders[i].next
    return i if i >= 0 and orders[i].level == level else -1


@compiled
def count_resting(sim, m):
    """Return how many of the agent's orders rest in a market (-1: in all markets)."""
    count, sides = 0, sides_of(sim)
    for s in range(2 * state_of(sim).tickers):
        if m < 0 or s >> 1 == m:
            count += sides[s].own
    return count
