"""Account of a replay: fills, positions, reserves, settlements and marks (values of positions).

Every order is handled as its *canonical* bid: a sale of YES at 0.60 is a bid for NO at 0.40. `sim` is the whole replay, `s` the side of
that bid, `m` a market, `o` an order. Prices in $0.0001, sizes in lots, money in micro-dollars, times in ns UTC.
"""

from __future__ import annotations

from bellwether.replay.engine.codes import Role, Status
from bellwether.replay.engine.compilation import compiled, inlined
from bellwether.replay.engine.fees import fill_fee, trade_fee
from bellwether.replay.engine.memory import fills_of, markets_of, orders_of, sides_of, state_of
from bellwether.replay.units import CONTRACT, DOLLAR, MICROS

_TAKER, _MAKER = int(Role.TAKER), int(Role.MAKER)
_RESTING = int(Status.RESTING)


@inlined
def prorate(total, part, whole):
    """Return total × part // whole without overflowing 64 bits, for 0 <= part <= whole < 3 × 10^9 and total >= 0."""
    if part == whole:
        return total
    return total // whole * part + total % whole * part // whole


@inlined
def booked_price(state, order, price, role):
    """Return the price to record for a fill at canonical `price`: of the order's own side, or, for makers under some rules, `price`."""
    if order.action == 0 or (role == _MAKER and state.canonical_sell == 1):
        return price
    return DOLLAR - price


@compiled
def book_fill(sim, o, price, lots, role, ts):
    """Record a fill of an order at canonical `price`. Returns False, and changes nothing, if a maker's fill would take cash below 0."""
    state, order, sides = state_of(sim), orders_of(sim)[o], sides_of(sim)
    market = markets_of(sim)[order.market]
    side, other = sides[2 * order.market + order.bid_side], sides[2 * order.market + 1 - order.bid_side]
    booked = booked_price(state, order, price, role)
    fee, rounding = fill_fee(market, role, order.action, booked, lots, ts, order.rounding)
    change = booked * lots if order.action == 1 else -booked * lots
    if state.net == 1:
        change = DOLLAR * min(other.position, lots) - price * lots
    if role == _MAKER and state.collateral == 1 and state.cash + change - fee < 0:
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
    if state.net == 1:
        profit = _move_netted(side, other, price, lots)
    else:
        profit = _move_separate(sides[2 * order.market + order.side], order.action, booked, lots)
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


@compiled
def _move_separate(side, action, price, lots):
    """Update the position and cost of a side, which may be short because the rules keep YES and NO apart. Returns the realised P&L."""
    sign, position, profit = (1 if action == 0 else -1), side.position, 0
    closed = min(lots, abs(position)) if position * sign < 0 else 0
    if closed > 0:
        removed = prorate(abs(side.basis), closed, abs(position))
        profit = -sign * (price * closed - removed)
        side.basis += sign * removed
    side.basis += sign * price * (lots - closed)
    side.position += sign * lots
    return profit


@compiled
def compute_reserve(sim, s, yes, no, level, price, lots, fee, action, below):
    """Compute the cash reserved for a side's orders below level `below`. yes, no: lots held. Other arguments: an order not yet resting.

    Includes one more resting order of `lots` at `level`, with its price, maker fee and action, unless `lots` is 0. Returns micro-dollars.
    """
    orders, net = orders_of(sim), state_of(sim).net == 1
    opposite, own = (no, yes) if s & 1 == 0 else (yes, no)
    cover, cover_buys = max(0, opposite), (0 if net else max(0, -own))
    total = 0 if net else DOLLAR * max(0, -own)
    i = sides_of(sim)[s].head
    waiting = lots > 0
    while waiting or i >= 0:
        if waiting and (i < 0 or orders[i].level < level):
            at, size, is_sale, due = price, lots, action == 1, fee
            waiting = False
        else:
            order = orders[i]
            i = order.next
            if order.status != _RESTING or order.level >= below:
                continue
            at, size, is_sale, due = order.bid_price, order.count - order.filled, order.action == 1, order.reserved_fee
        if net or is_sale:
            covered = min(cover, size)
            cover -= covered
        else:
            covered = min(cover_buys, size)
            cover_buys -= covered
        # Proceeds of closing pay the fee first.
        total += at * (size - covered) + max(0, due - (DOLLAR - at) * covered)
    return total


@compiled
def update_reserve(sim, s):
    """Recompute the reserve of a side after a change of its orders or positions."""
    state, side, other = state_of(sim), sides_of(sim)[s], sides_of(sim)[s ^ 1]
    if state.collateral == 0:
        return
    yes, no = (side.position, other.position) if s & 1 == 0 else (other.position, side.position)
    reserve = compute_reserve(sim, s, yes, no, 0, 0, 0, 0, 0, DOLLAR)
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
    if state_of(sim).collateral == 0:
        return 0
    return trade_fee(markets_of(sim)[order.market], _MAKER, order.price, lots)


@compiled
def pay_positions(sim, m, value, void):
    """Settle a market at `value` micro-dollars per YES contract and a dollar less `value` per NO contract; if void, refund the cost."""
    state, market = state_of(sim), markets_of(sim)[m]
    for place in range(2):
        side = sides_of(sim)[2 * m + place]
        # Rounded down, also for a short.
        pay = side.basis if void else (value if place == 0 else MICROS - value) * side.position // CONTRACT
        state.cash += pay
        state.realised += pay - side.basis
        market.realised += pay - side.basis
        market.settled += pay - side.basis
        side.position = side.basis = 0


@compiled
def value_account(state, sides):
    """Compute equity with positions at the liquidation side (bid if long, ask if short) and at mid; return the equity at liquidation."""
    equity, mid2_equity, fifty = state.cash, 0, state.fifty == 1
    for s in range(2 * state.tickers):
        side = sides[s]
        lots = side.position
        if lots == 0:
            continue
        bid, other = side.price, sides[s ^ 1].price
        ask = DOLLAR - other
        mid2 = DOLLAR if fifty and (bid == 0 or other == 0) else bid + ask
        if fifty:
            bid = bid if bid > 0 else DOLLAR // 2
            ask = ask if other > 0 else DOLLAR // 2
        equity += (bid if lots > 0 else ask) * lots
        mid2_equity += mid2 * lots
    state.equity, state.mid_equity = equity, state.cash + mid2_equity // 2
    return equity
