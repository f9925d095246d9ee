"""Compiled: fees, positions, reserves and marks. Prices in mills, sizes in lots, money in micro-dollars, times in ns.

`core` is the engine's state (`arena`), `k` the offset of a ticker's row in it.
"""

from __future__ import annotations

from math import ceil, sqrt

from bellwether.replay.engine.arena import (
    H_CANONICAL_SELL,
    H_CASH,
    H_COLLATERAL,
    H_EQUITY,
    H_FEES,
    H_FIFTY,
    H_FILLS,
    H_MID_EQUITY,
    H_NET,
    H_REALISED,
    H_RESERVED,
    H_TICKERS,
    HEADER,
    K_BALANCE_UNIT,
    K_BASIS,
    K_BEST,
    K_COLS,
    K_FEE_UNIT,
    K_FEES,
    K_HEAD,
    K_PAID,
    K_POSITION,
    K_REALISED,
    K_REBATE_ABOVE,
    K_REBATE_UNIT,
    K_RESERVE,
)
from bellwether.replay.engine.codes import (
    F_ACTION,
    F_FEE,
    F_LOTS,
    F_ORDER,
    F_PRICE,
    F_ROLE,
    F_SIDE,
    F_TICKER,
    F_TS,
    F_WAIT,
    O_ACC,
    O_ACTION,
    O_BID_PRICE,
    O_BID_SIDE,
    O_COST,
    O_COUNT,
    O_FEES,
    O_FILLED,
    O_NEXT,
    O_PRICE,
    O_QUEUED,
    O_RESERVED_FEE,
    O_SIDE,
    O_TAKEN,
    O_TICKER,
    Role,
)
from bellwether.replay.engine.compiling import compiled, inlined
from bellwether.replay.rules.terms import (
    BY_SHARES_0,
    BY_SHARES_2,
    BY_SHARES_HALF,
    BY_VALUE,
    BY_VALUE_0,
    BY_VALUE_2,
    BY_VALUE_HALF,
    FLOAT,
    FREE,
    QUADRATIC,
)
from bellwether.replay.tape.layout import MAKER_KIND, PRICES, TAKER_KIND, WAIVER_UNTIL
from bellwether.replay.units import CENT_MICROS, CONTRACT, DOLLAR, MICROS, MILL_LOT

_TAKER, _MAKER = int(Role.TAKER), int(Role.MAKER)

_DIGIT = 2**31 - 1
#: Micro-dollars that a lot of YES and one of NO pay together.
PAIR = DOLLAR * MILL_LOT


@inlined
def share(total, part, whole):
    """Total x part // whole without overflow for 0 <= part <= whole < 3 x 10^9 and total >= 0."""
    if part == whole:
        return total
    return total // whole * part + total % whole * part // whole


@compiled
def trade_fee(core, k, role, price, lots):
    """Micro-dollars that a fill of `lots` at `price` (of the side as booked) costs before waivers and account rounding."""
    at = k + K_FEES + (TAKER_KIND if role == _TAKER else MAKER_KIND)
    kind, num, den = core[at], core[at + 1], core[at + 2]
    unit = core[k + K_FEE_UNIT]
    if kind == FREE:
        return 0
    if kind == FLOAT:
        cents = price / 10.0
        return ceil(num / den * (lots / 100.0) * (cents / 100.0) * (1 - cents / 100.0) * 100) * CENT_MICROS
    if kind == QUADRATIC:
        value = lots * price * (DOLLAR - price)
        step = den * unit
        rest = value % step
        return (value // step * num + (rest * num + step - 1) // step) * unit
    if kind == BY_SHARES_HALF:
        return _root_fee(num * lots, den * unit, price) * unit
    if kind == BY_VALUE_HALF:
        return _root_fee(num * lots * price, den * unit, price) * unit
    power = 0 if kind in (BY_SHARES_0, BY_VALUE_0) else 2 if kind in (BY_SHARES_2, BY_VALUE_2) else 1
    return _curve_fee(num, den * unit, price, lots, power, kind in (BY_VALUE, BY_VALUE_2, BY_VALUE_0)) * unit


@compiled
def _curve_fee(num, step, price, lots, power, by_value):
    """Units of num x lots x (price x (1000 - price))^power [x price] / step, rounded half up; 0 below one unit. Exact: quotient and rest apart."""
    whole, rest = lots // step, lots % step
    factors = 2 * power + 2
    for i in range(factors):
        factor = price if i % 2 == 0 else DOLLAR - price
        if i == factors - 2:
            factor = num
        elif i == factors - 1:
            factor = price if by_value else 1
        rest *= factor
        whole = whole * factor + rest // step
        rest %= step
    return whole + (1 if 2 * rest >= step else 0) if whole > 0 else 0


@compiled
def _root_fee(amount, step, price):
    """Units of amount x sqrt(price x (1000 - price)) / step, rounded half up; 0 below one unit. Exact: a float guesses, integers decide."""
    low, high = 2 * amount * price, 2 * amount * (DOLLAR - price)
    if not _is_square_within(2 * step, low, high):
        return 0
    units = int(amount * sqrt(price * (DOLLAR - price)) / step + 0.5)
    while not _is_square_within((2 * units - 1) * step, low, high):
        units -= 1
    while _is_square_within((2 * units + 1) * step, low, high):
        units += 1
    return units


@inlined
def _is_square_within(root, low, high):
    """Return whether root x root <= low x high, for factors from 0 to 2^62: products in two digits of base 2^62."""
    square_top, square_rest = _product(root, root)
    top, rest = _product(low, high)
    return square_top < top or (square_top == top and square_rest <= rest)


@compiled
def _product(one, other):
    """(product // 2^62, product % 2^62) of factors from 0 to 2^62."""
    a, b, c, d = one >> 31, one & _DIGIT, other >> 31, other & _DIGIT
    low, first, second = b * d, a * d, b * c
    middle = (low >> 31) + (first & _DIGIT) + (second & _DIGIT)
    return a * c + (first >> 31) + (second >> 31) + (middle >> 31), (middle & _DIGIT) << 31 | low & _DIGIT


@compiled
def fill_fee(core, k, role, action, price, lots, ts, acc):
    """(fee, accumulator) of a fill after waiver and account rounding. price: mills of the side as booked; acc: the order's accumulator before."""
    fee = 0 if ts < core[k + K_FEES + WAIVER_UNTIL] else trade_fee(core, k, role, price, lots)
    unit = core[k + K_BALANCE_UNIT]
    if unit == 0:
        return fee, acc
    revenue = MILL_LOT * price * lots
    change = (revenue if action == 1 else -revenue) - fee
    charged = fee + change % unit
    acc += change % unit
    rebate_unit = core[k + K_REBATE_UNIT]
    due = (acc - 1 if core[k + K_REBATE_ABOVE] == 1 else acc) // rebate_unit
    rebate = rebate_unit * min(max(due, 0), charged // rebate_unit)
    return charged - rebate, acc - rebate


@inlined
def booked_price(core, orders, o, price, role):
    """Mills of the side as sent at which a fill of order `o` at canonical `price` is booked."""
    if orders[o, O_ACTION] == 0 or (role == _MAKER and core[H_CANONICAL_SELL] == 1):
        return price
    return DOLLAR - price


@inlined
def cash_change(core, k, action, bid_side, price, booked, lots):
    """Change of cash by a fill at canonical `price`, before its fee; `booked`: mills of the side as sent."""
    if core[H_NET] == 1:
        held = core[k + K_POSITION + 1 - bid_side]
        return PAIR * min(held, lots) - MILL_LOT * price * lots
    return (MILL_LOT if action == 1 else -MILL_LOT) * booked * lots


@compiled
def book_fill(core, orders, fills, o, price, lots, role, ts, guarded):
    """Book a fill of order `o` at canonical `price`. False, with nothing booked, if guarded and cash would fall below 0."""
    k = HEADER + orders[o, O_TICKER] * K_COLS
    action, bid_side = orders[o, O_ACTION], orders[o, O_BID_SIDE]
    booked = booked_price(core, orders, o, price, role)
    fee, acc = fill_fee(core, k, role, action, booked, lots, ts, orders[o, O_ACC])
    change = cash_change(core, k, action, bid_side, price, booked, lots)
    if guarded and core[H_CASH] + change - fee < 0:
        return False
    core[H_CASH] += change - fee
    core[H_FEES] += fee
    core[k + K_PAID] += fee
    orders[o, O_ACC] = acc
    orders[o, O_FILLED] += lots
    if core[H_NET] == 1:
        _move_net(core, k, bid_side, price, lots)
    else:
        _move_apart(core, k, orders[o, O_SIDE], action, booked, lots)
    _log_fill(core, orders, fills, o, booked, lots, fee, role, ts)
    return True


@inlined
def _log_fill(core, orders, fills, o, price, lots, fee, role, ts):
    orders[o, O_COST] += MILL_LOT * price * lots
    orders[o, O_FEES] += fee
    if role == _TAKER:
        orders[o, O_TAKEN] += lots
    n = core[H_FILLS]
    core[H_FILLS] = n + 1
    fills[n, F_ORDER], fills[n, F_TICKER] = o, orders[o, O_TICKER]
    fills[n, F_SIDE], fills[n, F_ACTION] = orders[o, O_SIDE], orders[o, O_ACTION]
    fills[n, F_PRICE], fills[n, F_LOTS], fills[n, F_FEE] = price, lots, fee
    fills[n, F_ROLE], fills[n, F_TS] = role, ts
    fills[n, F_WAIT] = ts - orders[o, O_QUEUED] if role == _MAKER else 0


@inlined
def _move_net(core, k, side, price, lots):
    """Positions and cost basis where a YES and a NO contract return a dollar at once: the old holding is closed against the new lots."""
    new, old = k + K_POSITION + side, k + K_POSITION + 1 - side
    basis = K_BASIS - K_POSITION
    pairs = min(core[old], lots)
    if pairs > 0:
        removed = share(core[old + basis], pairs, core[old])
        gained = PAIR * pairs - MILL_LOT * price * pairs - removed
        core[H_REALISED] += gained
        core[k + K_REALISED] += gained
        core[old + basis] -= removed
        core[old] -= pairs
    core[new] += lots - pairs
    core[new + basis] += MILL_LOT * price * (lots - pairs)


@compiled
def _move_apart(core, k, side, action, price, lots):
    """Positions and signed cost basis where each side stands alone and may be short."""
    at = k + K_POSITION + side
    basis = at + K_BASIS - K_POSITION
    sign = 1 if action == 0 else -1
    held = core[at]
    closed = min(lots, abs(held)) if held * sign < 0 else 0
    if closed > 0:
        removed = share(abs(core[basis]), closed, abs(held))
        gained = -sign * (MILL_LOT * price * closed - removed)
        core[H_REALISED] += gained
        core[k + K_REALISED] += gained
        core[basis] += sign * removed
    core[basis] += sign * MILL_LOT * price * (lots - closed)
    core[at] += sign * lots


@compiled
def side_reserve(core, orders, k, side, yes, no, price, lots, fee, action, below):
    """Micro-dollars reserved for the own orders of a canonical side with prices under `below`, were `yes` and `no` lots held and one more order of
    `lots` at `price` resting (0: none), with its maker fee and action.
    """
    opposite, own = (no, yes) if side == 0 else (yes, no)
    net = core[H_NET] == 1
    cover, cover_buys = max(0, opposite), (0 if net else max(0, -own))
    total = 0 if net else PAIR * max(0, -own)
    i = core[k + K_HEAD + side]
    waiting = lots > 0
    while waiting or i >= 0:
        if waiting and (i < 0 or orders[i, O_BID_PRICE] < price):
            at, size, is_sale, due = price, lots, action == 1, fee
            waiting = False
        else:
            at, size, is_sale = orders[i, O_BID_PRICE], orders[i, O_COUNT] - orders[i, O_FILLED], orders[i, O_ACTION] == 1
            skipped, due = at >= below, orders[i, O_RESERVED_FEE]
            i = orders[i, O_NEXT]
            if skipped:
                continue
        if net or is_sale:
            covered = min(cover, size)
            cover -= covered
        else:
            covered = min(cover_buys, size)
            cover_buys -= covered
        # What closing brings in pays the fee first.
        total += MILL_LOT * at * (size - covered) + max(0, due - MILL_LOT * (DOLLAR - at) * covered)
    return total


@inlined
def reserve_side(core, orders, k, side):
    """Set what is reserved for a ticker's side."""
    if core[H_COLLATERAL] == 0:
        return
    yes, no = core[k + K_POSITION], core[k + K_POSITION + 1]
    reserve = side_reserve(core, orders, k, side, yes, no, 0, 0, 0, 0, PRICES)
    core[H_RESERVED] += reserve - core[k + K_RESERVE + side]
    core[k + K_RESERVE + side] = reserve


@inlined
def reserved_fee(core, orders, o, lots):
    """Maker fee that is reserved for `lots` of an order: one fill at its price as sent, no waiver, no account rounding."""
    if core[H_COLLATERAL] == 0:
        return 0
    return trade_fee(core, HEADER + orders[o, O_TICKER] * K_COLS, _MAKER, orders[o, O_PRICE], lots)


@compiled
def settle(core, k, value, void):
    """Pay the positions: `value` micro-dollars per YES contract and the rest of a dollar per NO contract, or their basis if void."""
    for side in range(2):
        at = k + K_POSITION + side
        basis = at + K_BASIS - K_POSITION
        lots, each = core[at], (value if side == 0 else MICROS - value)
        if void:
            pay = core[basis]
        elif lots >= 0:
            pay = each * lots // CONTRACT
        else:
            pay = -((each * -lots + CONTRACT - 1) // CONTRACT)
        core[H_CASH] += pay
        core[H_REALISED] += pay - core[basis]
        core[k + K_REALISED] += pay - core[basis]
        core[at] = 0
        core[basis] = 0


@compiled
def value_account(core):
    """Set the equity at the liquidation side and at mid; returns the former."""
    equity, mid_equity = core[H_CASH], core[H_CASH]
    fifty = core[H_FIFTY] == 1
    for t in range(core[H_TICKERS]):
        k = HEADER + t * K_COLS
        for side in range(2):
            bid, other = core[k + K_BEST + side], core[k + K_BEST + 1 - side]
            ask = DOLLAR - other
            mid2 = DOLLAR if fifty and (bid == 0 or other == 0) else bid + ask
            if fifty:
                bid = bid if bid > 0 else DOLLAR // 2
                ask = ask if other > 0 else DOLLAR // 2
            lots = core[k + K_POSITION + side]
            equity += MILL_LOT * (bid if lots > 0 else ask) * lots
            mid_equity += 5 * mid2 * lots
    core[H_EQUITY], core[H_MID_EQUITY] = equity, mid_equity
    return equity
