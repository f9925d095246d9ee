"""Account of a replay: fills with their fees, positions, reserves, settlements and marks (values of positions).

Every order is handled as its *canonical* bid: a sale of YES at 0.60 is a bid for NO at 0.40. `sim` is the whole replay, `s` the side of
that bid, `m` a market, `o` an order, `market` a row of the markets with its fee terms. Prices in $0.0001, sizes in lots, money in
micro-dollars, times in ns UTC. `rules.fees` has the formulas of fees in plain arithmetic.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from bellwether.replay.engine.codes import ROLE, STATUS
from bellwether.replay.engine.compilation import compiled, inlined
from bellwether.replay.engine.state import fills_of, markets_of, orders_of, sides_of, state_of
from bellwether.replay.rules.fees import (
    BY_SHARES_0,
    BY_SHARES_2,
    BY_SHARES_HALF,
    BY_VALUE,
    BY_VALUE_0,
    BY_VALUE_2,
    BY_VALUE_HALF,
    FREE,
    QUADRATIC,
)
from bellwether.replay.tape.layout import MAKER_KIND, TAKER_KIND, WAIVER_UNTIL
from bellwether.replay.units import CONTRACT, DOLLAR, MICROS

_DIGIT, _MASK = 2**31 - 1, 2**62 - 1
#: Below this, a value times a numerator below 1024 stays below 2^62, with room for a step.
_SMALL = 2**51


@compiled
def trade_fee(market, role, price, lots):
    """Compute the trade fee of a fill, before waivers and before rounding of the account's balance."""
    at = TAKER_KIND if role == ROLE.TAKER else MAKER_KIND
    kind, num, den, unit = market.fees[at], market.fees[at + 1], market.fees[at + 2], market.fee_unit
    if kind == FREE:
        return 0
    if kind == QUADRATIC:
        value, step = lots * price * (DOLLAR - price), den * DOLLAR * unit
        if value < _SMALL and num < 1024:
            return (value * num + step - 1) // step * unit
        return (value // step * num + (value % step * num + step - 1) // step) * unit
    return _curve_units(kind, num * lots, den * unit, price) * unit


@compiled
def fill_fee(market, role, action, price, lots, ts, rounding):
    """Compute a fill's whole fee, with waivers and rounding of the balance. Returns the fee and the order's new `rounding`.

    rounding: charges for rounding the order's payments that are not rebated yet.
    """
    fee = 0 if ts < market.fees[WAIVER_UNTIL] else trade_fee(market, role, price, lots)
    unit = market.balance_unit
    if unit == 0:
        return fee, rounding
    change = (price * lots if action == 1 else -price * lots) - fee
    charged = fee + change % unit
    rounding += change % unit
    due = (rounding - 1 if market.rebate_above == 1 else rounding) // market.rebate_unit
    rebate = market.rebate_unit * min(max(due, 0), charged // market.rebate_unit)
    return charged - rebate, rounding - rebate


@compiled
def _curve_units(kind, amount, step, price):
    """Compute a fee on Polymarket's curve as a number of fee units: amount × worth × (w / 10^8)^e / step, rounded half up.

    w = price × (DOLLAR − price). worth: the price by value, DOLLAR by shares. Less than one unit is 0. A float estimate is corrected in
    exact integers.
    """
    w = price * (DOLLAR - price)
    worth = price if kind in (BY_VALUE, BY_VALUE_2, BY_VALUE_0, BY_VALUE_HALF) else DOLLAR
    if kind in (BY_SHARES_HALF, BY_VALUE_HALF):
        right = _product(2 * amount, 2 * amount, worth * worth * w)
        units = int(amount * worth * sqrt(w) / DOLLAR / step + 0.5)
        root, scale = True, DOLLAR * DOLLAR
    else:
        power = 0 if kind in (BY_SHARES_0, BY_VALUE_0) else 2 if kind in (BY_SHARES_2, BY_VALUE_2) else 1
        right = _product(2 * amount, worth, w**power)
        units = int(amount * (worth * (w / (DOLLAR * DOLLAR)) ** power) / step + 0.5)
        root, scale = False, (DOLLAR * DOLLAR) ** power
    if not _covers(right, 2 * step, scale, root):
        return 0
    while not _covers(right, (2 * units - 1) * step, scale, root):
        units -= 1
    while _covers(right, (2 * units + 1) * step, scale, root):
        units += 1
    return units


@compiled
def _covers(right, left, scale, root):
    """Return True if left × scale <= right, or left² × scale <= right if `root`. right: three digits as `_product` returns them."""
    return _product(left, left if root else 1, scale) <= right


@compiled
def _product(a, b, c):
    """Multiply three factors from 0 to 2^62. Returns three digits of base 2^62, most significant first."""
    top, low = _pair(a, b)
    carry, last = _pair(low, c)
    first, second = _pair(top, c)
    second += carry
    return first + (second >> 62), second & _MASK, last


@compiled
def _pair(left, right):
    """Multiply two factors from 0 to 2^62. Returns (product // 2^62, product % 2^62)."""
    a, b, c, d = left >> 31, left & _DIGIT, right >> 31, right & _DIGIT
    low, first, second = b * d, a * d, b * c
    middle = (low >> 31) + (first & _DIGIT) + (second & _DIGIT)
    return a * c + (first >> 31) + (second >> 31) + (middle >> 31), (middle & _DIGIT) << 31 | low & _DIGIT


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
    """Record a fill of an order at canonical `price`.

    Returns False, and changes nothing, if a maker's fill would take cash below 0, or if there is no row for the fill, which ends the run.
    """
    if state_of(sim).fills == len(fills_of(sim)):
        state_of(sim).full = 1
        return False
    state, order, sides = state_of(sim), orders_of(sim)[o], sides_of(sim)
    market = markets_of(sim)[order.market]
    side, other = sides[2 * order.market + order.bid_side], sides[2 * order.market + 1 - order.bid_side]
    booked = own_price(order, price)
    fee, rounding = fill_fee(market, role, order.action, booked, lots, ts, order.rounding)
    change = DOLLAR * min(other.position, lots) - price * lots
    if role == ROLE.MAKER and state.cash + change - fee < 0:
        return False
    state.cash += change - fee
    state.fees += fee
    market.paid += fee
    order.rounding = rounding
    order.filled += lots
    order.cost += booked * lots
    order.fees += fee
    if role == ROLE.TAKER:
        order.taken += lots
    profit = _move_netted(side, other, price, lots)
    state.realised += profit
    market.realised += profit
    n = state.fills
    state.fills = n + 1
    fill = fills_of(sim)[n]
    fill.order, fill.market, fill.side, fill.action = o, order.market, order.side, order.action
    fill.price, fill.lots, fill.fee, fill.role, fill.ts = booked, lots, fee, role, ts
    fill.wait = ts - order.queued if role == ROLE.MAKER else 0
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
def compute_reserve(sim, s, cover, level, price, lots, fee, below):
    """Compute the cash reserved for a side's orders below level `below`. cover: lots held of the other side, which the orders close first.

    Includes one more resting order of `lots` at `level`, with its price and maker fee, unless `lots` is 0. Returns micro-dollars.
    """
    orders, total = orders_of(sim), 0
    i = sides_of(sim)[s].head
    waiting = lots > 0
    while waiting or i >= 0:
        if waiting and (i < 0 or orders[i].level < level):
            at, size, due = price, lots, fee
            waiting = False
        else:
            order = orders[i]
            i = order.next
            if order.status != STATUS.RESTING or order.level >= below:
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
    state, side = state_of(sim), sides_of(sim)[s]
    reserve = compute_reserve(sim, s, sides_of(sim)[s ^ 1].position, NO_ORDER, NO_ORDER, NO_ORDER, NO_ORDER, ALL_LEVELS)
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
    return trade_fee(markets_of(sim)[order.market], ROLE.MAKER, np.int64(order.price), lots)


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
