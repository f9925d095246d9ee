"""Bounds of fills and equity over all queue histories.

A *queue history* is a course of all queues that the recording allows. The *slowest* history fills an order as late and as little as
possible, the *fastest* as early and as much as possible; the account's fills lie between: `filled_min` <= `filled` <= `filled_max`. The
*band* is the minimum and maximum of equity over all histories.

Equity is linear in the fills of each order except for the mark of a market's net position, which is concave: YES is marked at the bid if
the position is long and at the ask if it is short. The lower end of the band therefore combines the worse end of each order with the worse
mark. The upper end combines the better end of each order with the mark between bid and ask that minimises the sum.

At a level, `short` lots are filled in the account but not in the slowest history, `extra` lots only in the fastest. They are the
*uncertain* fills. The *net* price of a level includes the maker fee. A side's *pivot* is the highest level whose uncertain fills gain at
the last mark; the sums `under_*` end there. A market's *slack* is the rounding of fees that may differ between histories.

`sim` is the whole replay, `m` a market, `s` a side (2 × market + side of the bid), `o` an order.
"""

from __future__ import annotations

from bellwether.replay.engine.codes import Role
from bellwether.replay.engine.compilation import compiled, compiled_alone, inlined
from bellwether.replay.engine.fees import max_fill_rounding, trade_fee
from bellwether.replay.engine.memory import fills_of, levels_of, markets_of, orders_of, prices_of, sides_of, state_of
from bellwether.replay.rules.terms import FREE
from bellwether.replay.tape.layout import MAKER_KIND, WAIVER_UNTIL
from bellwether.replay.units import CONTRACT, DOLLAR, MAX_LOTS, MICROS

_MAKER = int(Role.MAKER)
#: Bits of `unsure`: histories differ; an event could fill the order under a fee waiver, or without one; both are counted.
_UNSURE, _WAIVED, _CHARGED, _COUNTED = 1, 2, 4, 8
#: 10^-9 dollars in a micro-dollar.
_NANO = 1_000


@compiled
def record_difference(sim, s, level, short, extra):
    """Add `short` and `extra` lots at a level to the uncertain fills of its side."""
    if short == 0 and extra == 0:
        return
    side = sides_of(sim)[s]
    if side.high < side.low:
        _set_net(sim, s)
    row = levels_of(sim)[side.book + level]
    row.short += short
    row.extra += extra
    side.short += short
    side.short_cost += short * row.net
    side.extra += extra
    side.extra_cost += extra * row.net
    if level <= side.pivot:
        _move_under(side, row.net, short, extra)
    side.low, side.high = min(side.low, level), max(side.high, level)


@compiled
def _set_net(sim, s):
    """Compute the net price of each level of a side, 10^-9 dollars per lot, with the fee rate of the largest possible fill."""
    market, side, prices, levels = markets_of(sim)[s >> 1], sides_of(sim)[s], prices_of(sim), levels_of(sim)
    for level in range(1, market.levels + 1):
        price = prices[market.prices + level]
        levels[side.book + level].net = _NANO * price + trade_fee(market, _MAKER, price, MAX_LOTS) * _NANO // MAX_LOTS


@inlined
def _move_under(side, net, short, extra):
    """Add `short` and `extra` lots of a level to a side's sums `under_*`. net: net price of the level."""
    side.under_short += short
    side.under_short_cost += short * net
    side.under_extra += extra
    side.under_extra_cost += extra * net


@compiled
def fill_histories(sim, o, main, slow, fast, ts):
    """Record the lots of an order filled by one event: `main` in the account, `slow` in the slowest history, `fast` in the fastest."""
    order = orders_of(sim)[o]
    order.filled_min += slow
    order.filled_max += fast
    order.left_slow -= slow
    order.left_fast -= fast
    if slow > 0 and order.left_slow == 0:
        order.latest = order.done_slow = ts
    if fast > 0 and order.left_fast == 0:
        order.done_fast = ts
        if order.earliest < 0:
            order.earliest = ts
    if order.unsure & _UNSURE or main != slow or main != fast:
        order.unsure |= _UNSURE
        _add_slack(sim, order)
        record_difference(sim, 2 * order.market + order.bid_side, order.level, main - slow, fast - main)


@inlined
def record_fill_chance(sim, order, ts):
    """Record that the current event may fill an order in some history, and whether a waiver of fees applies at time `ts`."""
    order.chances += 1
    order.unsure |= _WAIVED if ts < markets_of(sim)[order.market].fees[WAIVER_UNTIL] else _CHARGED
    if order.unsure & _UNSURE:
        _add_slack(sim, order)


@inlined
def _add_slack(sim, order):
    """Add to the market's slack how much the rounding of an order's fees may differ; also its whole fee, if only some histories pay it."""
    market = markets_of(sim)[order.market]
    market.slack += order.chances * max_fill_rounding(market, order.bid_price)
    order.chances = 0
    if order.unsure == _UNSURE + _WAIVED + _CHARGED:
        order.unsure += _COUNTED
        market.slack += trade_fee(market, _MAKER, order.price, order.count)


@compiled
def _move_pivot(sim, s, worth):
    """Move a side's pivot to the highest level whose net price is below `worth`, the value of a lot of the side in 10^-9 dollars."""
    side, levels = sides_of(sim)[s], levels_of(sim)
    level = side.pivot
    while level < side.high and levels[side.book + level + 1].net < worth:
        level += 1
        row = levels[side.book + level]
        _move_under(side, row.net, row.short, row.extra)
    while level >= side.low and levels[side.book + level].net >= worth:
        row = levels[side.book + level]
        _move_under(side, row.net, -row.short, -row.extra)
        level -= 1
    side.pivot = level


@compiled
def _sum_fill_effects(sim, m, mark):
    """Return the least and the greatest effect of a market's uncertain fills on equity. mark: value of YES, micro-dollars per contract.

    Returns the sum of the worse effects of all levels and that of the better ones, 10^-9 dollars.
    """
    worse, better = 0, 0
    for s in range(2 * m, 2 * m + 2):
        side = sides_of(sim)[s]
        if side.high < side.low:
            continue
        worth = (mark if s & 1 == 0 else MICROS - mark) * _NANO // CONTRACT
        _move_pivot(sim, s, worth)
        over_short, over_extra = side.short - side.under_short, side.extra - side.under_extra
        worse += side.under_short_cost - worth * side.under_short
        worse += worth * over_extra - (side.extra_cost - side.under_extra_cost)
        better += worth * side.under_extra - side.under_extra_cost
        better += side.short_cost - side.under_short_cost - worth * over_short
        if markets_of(sim)[m].fees[MAKER_KIND] != FREE:
            # The rate in `net` is rounded down by less than 10^-9 dollars per lot.
            worse -= side.short + side.extra
            better += side.short + side.extra
    return worse, better


@compiled
def _market_band(sim, m, bid, ask):
    """Return a market's part (low, high) of the band. bid, ask: value of YES if long and if short, micro-dollars per contract.

    A crossed book makes the mark convex; each sum then uses the mark in between that maximises it.
    """
    sides, prices, levels = sides_of(sim), prices_of(sim), levels_of(sim)
    market = markets_of(sim)[m]
    position = sides[2 * m].position - sides[2 * m + 1].position
    own = position * (bid if position > 0 else ask) * _NANO // CONTRACT
    inner = ask < bid
    low, high = _add_position_value(sim, m, bid, position)
    if bid != ask:
        low_ask, high_ask = _add_position_value(sim, m, ask, position)
        low = max(low, low_ask) if inner else min(low, low_ask)
        high = max(high, high_ask) if inner else min(high, high_ask)
    # Prices of uncertain fills between the marks; a settlement has a single mark.
    lowest, highest = sides[2 * m].best, market.levels + 1 - sides[2 * m + 1].best
    for level in range(min(lowest, highest) + 1, max(lowest, highest) if bid != ask else 0):
        yes, no = levels[sides[2 * m].book + level], levels[sides[2 * m + 1].book + market.levels + 1 - level]
        if yes.short != 0 or yes.extra != 0 or no.short != 0 or no.extra != 0:
            low_mark, high_mark = _add_position_value(sim, m, CONTRACT * prices[market.prices + level], position)
            low, high = (max(low, low_mark), high) if inner else (low, min(high, high_mark))
    # A settlement pays whole micro-dollars.
    rest = own % _NANO
    return (rest + low - own) // _NANO - market.slack, (rest + high - own) // _NANO + market.slack


@compiled
def _add_position_value(sim, m, mark, lots):
    """Return the two sums of `_sum_fill_effects`, each plus the value of `lots` of YES at `mark`."""
    worse, better = _sum_fill_effects(sim, m, mark)
    value = lots * mark * _NANO // CONTRACT
    return value + worse, value + better


@inlined
def _is_certain(sim, m):
    """Return True if a market's fills and fees are the same in all histories."""
    sides = sides_of(sim)
    return markets_of(sim)[m].slack == 0 and sides[2 * m].high < sides[2 * m].low and sides[2 * m + 1].high < sides[2 * m + 1].low


@compiled
def value_band(sim):
    """Compute both ends of the band, each less the account's equity, and store them as `low` and `high` of the state."""
    state, sides = state_of(sim), sides_of(sim)
    low, high = state.low_settled, state.high_settled
    if state.bounds == 1:
        for m in range(state.tickers):
            if not _is_certain(sim, m):
                bid, ask = CONTRACT * sides[2 * m].price, CONTRACT * (DOLLAR - sides[2 * m + 1].price)
                market_low, market_high = _market_band(sim, m, bid, ask)
                low, high = low + min(market_low, 0), high + max(market_high, 0)
    state.low, state.high = low, high


@compiled
def settle_band(sim, m, value, void):
    """Fix a market's part of the band when the market is settled. Called before positions are paid. void: positions are refunded."""
    state, sides, levels = state_of(sim), sides_of(sim), levels_of(sim)
    if state.bounds == 0 or _is_certain(sim, m):
        return
    low, high = _void_mark_band(sim, m) if void else _market_band(sim, m, value, value)
    state.low_settled += min(low, 0)
    state.high_settled += max(high, 0)
    markets_of(sim)[m].slack = 0
    for s in range(2 * m, 2 * m + 2):
        side = sides[s]
        for level in range(side.low, side.high + 1):
            row = levels[side.book + level]
            record_difference(sim, s, level, -row.short, -row.extra)
        side.low, side.high = 1 << 30, 0


@compiled
def _void_mark_band(sim, m):
    """Return a market's part (low, high) of the band if the market is void, so that the cost of positions is refunded.

    P&L is that of a mark at the average cost, which lies between the extreme prices of the fills.
    """
    state, market, sides, fills = state_of(sim), markets_of(sim)[m], sides_of(sim), fills_of(sim)
    yes, no = sides[2 * m], sides[2 * m + 1]
    if yes.short == 0 and yes.extra == 0 and no.short == 0 and no.extra == 0:
        return -market.slack, market.slack
    lowest, highest = DOLLAR, 0
    for i in range(state.fills):
        fill = fills[i]
        if fill.market == m:
            price = fill.price if fill.side == 0 else DOLLAR - fill.price
            lowest, highest = min(lowest, price), max(highest, price)
    for s in range(2 * m, 2 * m + 2):
        for level in range(sides[s].low, sides[s].high + 1):
            if levels_of(sim)[sides[s].book + level].extra > 0:
                price = prices_of(sim)[market.prices + level]
                price = price if s & 1 == 0 else DOLLAR - price
                lowest, highest = min(lowest, price), max(highest, price)
    low, high = 1 << 62, -1 << 62
    for mark in (lowest, highest):
        value = yes.position * mark + no.position * (DOLLAR - mark) - yes.basis - no.basis
        worse, better = _sum_fill_effects(sim, m, CONTRACT * mark)
        low, high = min(low, value + worse // _NANO), max(high, value - -better // _NANO)
    return low - market.slack, high + market.slack


@compiled_alone
def value_band_of(sim):
    """Call `value_band` from Python."""
    value_band(sim)
