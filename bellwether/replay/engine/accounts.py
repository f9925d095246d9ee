"""Account of a replay: fills, positions, reserves, settlements and marks (values of positions).

Every order is handled as its *canonical* bid: a sale of YES at 0.60 is a bid for NO at 0.40. `sim` is the whole replay, `s` the side of
that bid, `m` a market, `o` an order. Prices in $0.0001, sizes in lots, money in micro-dollars, times in ns UTC.
"""

from __future__ import annotations

import numpy as np

from bellwether.replay.engine.codes import Role, Status
from bellwether.replay.engine.compilation import compiled, inlined
from bellwether.replay.engine.fees import fill_fee, trade_fee
from bellwether.replay.engine.memory import fills_of, markets_of, orders_of, sides_of, state_of
from bellwether.replay.units import CONTRACT, DOLLAR, MICROS

_TAKER, _MAKER = np.int64(Role.TAKER), np.int64(Role.MAKER)
_RESTING = np.int64(Status.RESTING)


@inlined
def prorate(total, part, whole):
    """Return total × part // whole without overflowing 64 bits, for 0 <= part <= whole < 3 × 10^9 and total >= 0."""
    if part == whole:
        return total
    return total // whole * part + total % whole * part // whole


@inlined
def own_price(order, price):
    """Return the price of the order's own side for a fill at canonical `price`."""
    return price if order.action == 0 else DOLLAR - price


@compiled
def book_fill(sim, o, price, lots, role, ts):
    """Record a fill of an order at canonical `price`. Returns False, and changes nothing, if a maker's fill would take cash below 0."""
    state, order, sides = state_of(sim), orders_of(sim)[o], sides_of(sim)
    market = markets_of(sim)[order.market]
    side, other = sides[2 * order.market + order.bid_side], sides[2 * order.market + 1 - order.bid_side]
    booked = own_price(order, price)
    fee, rounding = fill_fee(market, role, order.action, booked, lots, ts, order.rounding)
    change = DOLLAR * min(other.position, lots) - price * lots
    if role == _MAKER and state.cash + change - fee < 0:
        return False
    state.cash += change - fee
    state.fees += fee
    market.paid += fee
    order.rounding = rounding
    order.filled += lots
    order.cost += booked * lots
    order.fees += fee
    if role == _TAKER:
        order.taken += lots
    profit = _move_netted(side, other, price, lots)
    state.realised += profit
    market.realised += profit
    n = state.fills
    state.fills = n + 1
    fill = fills_of(sim)[n]
    fill.order, fill.market, fill.side, fill.action = o, order.market, order.side, order.action
    fill.price, fill.lots, fill.fee, fill.role, fill.ts = booked, lots, fee, role, ts
    fill.wait = ts - order.queued if role == _MAKER else 0
    return True


@inlined
def _move_netted(new, old, price, lots):
    """Close lots of `old`, the opposite side, and add the rest to `new`: YES and NO net to a dollar. Returns the realised P&L."""
    pairs, profit = min(old.position, lots), 0
    if pairs > 0:
        removed = prorate(old.basis, pairs, old.position)
        profit = (DOLLAR - price) * pairs - removed
        old.basis -= removed
        old.position -= pairs
    new.position += lots - pairs
    new.basis += price * (lots - pairs)
    return profit


#: Arguments of `compute_reserve`: no order besides the resting ones, and a level above all others.
NO_ORDER, ALL_LEVELS = np.int64(0), np.int64(DOLLAR)


@compiled
def compute_reserve(sim, s, yes, no, level, price, lots, fee, below):
    """Compute the cash reserved for a side's orders below level `below`. yes, no: lots held. Other arguments: an order not yet resting.

    Includes one more resting order of `lots` at `level`, with its price and maker fee, unless `lots` is 0. Returns micro-dollars.
    """
    orders = orders_of(sim)
    cover, total = (no if s & 1 == 0 else yes), 0
    i = sides_of(sim)[s].head
    waiting = lots > 0
    while waiting or i >= 0:
        if waiting and (i < 0 or orders[i].level < level):
            at, size, due = price, lots, fee
            waiting = False
        else:
            order = orders[i]
            i = order.next
            if order.status != _RESTING or order.level >= below:
                continue
            at, size, due = order.bid_price, order.count - order.filled, order.reserved_fee
        covered = min(cover, size)
        cover -= covered
        # Proceeds of closing pay the fee first.
        total += at * (size - covered) + max(0, due - (DOLLAR - at) * covered)
    return total


@compiled
def update_reserve(sim, s):
    """Recompute the reserve of a side after a change of its orders or positions."""
    state, side, other = state_of(sim), sides_of(sim)[s], sides_of(sim)[s ^ 1]
    yes, no = (side.position, other.position) if s & 1 == 0 else (other.position, side.position)
    reserve = compute_reserve(sim, s, yes, no, NO_ORDER, NO_ORDER, NO_ORDER, NO_ORDER, ALL_LEVELS)
    state.reserved += reserve - side.reserve
    side.reserve = reserve


@inlined
def update_reserves(sim, m):
    """Recompute the reserves of both sides of a market."""
    update_reserve(sim, 2 * m)
    update_reserve(sim, 2 * m + 1)


@inlined
def compute_reserved_fee(sim, order, lots):
    """Compute the maker fee reserved for `lots` of an order: the fee of one fill at its price, without waiver or account rounding."""
    return trade_fee(markets_of(sim)[order.market], _MAKER, order.price, lots)


@compiled
def pay_positions(sim, m, value, void):
    """Settle a market at `value` micro-dollars per YES contract and a dollar less `value` per NO contract; if void, refund the cost."""
    state, market = state_of(sim), markets_of(sim)[m]
    for place in range(2):
        side = sides_of(sim)[2 * m + place]
        pay = side.basis if void else (value if place == 0 else MICROS - value) * side.position // CONTRACT
        state.cash += pay
        state.realised += pay - side.basis
        market.realised += pay - side.basis
        market.settled += pay - side.basis
        side.position = side.basis = 0


@compiled
def value_account(state, sides):
    """Compute equity with positions at the bid and at mid; return the equity at the bid."""
    equity, mid2_equity = state.cash, 0
    for s in range(2 * state.tickers):
        side = sides[s]
        lots = side.position
        if lots == 0:
            continue
        equity += side.price * lots
        mid2_equity += (side.price + DOLLAR - sides[s ^ 1].price) * lots
    state.equity, state.mid_equity = equity, state.cash + mid2_equity // 2
    return equity
