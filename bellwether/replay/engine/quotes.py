"""Quotes: one post-only bid on each side of a market, kept as a *chain* of orders at one price, each sent when the last is filled.

The account is one course of the queues; the slowest and the fastest *history* (`bounds`) are the extremes that the recording allows. In
each history the quote rests until it is filled there. It is then sent again when the agent next quotes: as the account's new order, or at
the back of the queue of the account's current order. A changed price ends the chain. `sim` is the whole replay, `m` a market, `s` a side,
`o` an order; `joins` are the histories that an order rests in (JOINS_*).
"""

from __future__ import annotations

from bellwether.replay.engine.codes import AS_IT_IS, NO_QUOTE, NONE, Status, Tif
from bellwether.replay.engine.compilation import compiled, inlined
from bellwether.replay.engine.matching import is_crossing
from bellwether.replay.engine.memory import markets_of, orders_of, sides_of, state_of
from bellwether.replay.engine.order_transit import cancel_order, is_immediate, is_live, place_order, send_message
from bellwether.replay.engine.queue import is_linked, join_queue
from bellwether.replay.engine.state import JOINS_BOTH, JOINS_FAST, JOINS_SLOW, REJOIN_MESSAGE

_PENDING, _RESTING = int(Status.PENDING), int(Status.RESTING)
_POST_ONLY = int(Tif.POST_ONLY)


@inlined
def _is_in_place(sim, s, price, lots):
    """Return True if a side's quote rests at `price` with its size in the account and in both histories, so that nothing is to send."""
    side = sides_of(sim)[s]
    if price == AS_IT_IS:
        return True
    if side.quote < 0:
        return price == NO_QUOTE and side.quote_slow < 0
    order = orders_of(sim)[side.quote]
    if order.price != price or order.status != _RESTING or order.amends > 0:
        return False
    return state_of(sim).bounds == 0 or (order.left_slow > 0 and order.left_fast > 0 and side.quote_lots == lots)


@inlined
def are_quotes_in_place(sim, m, yes_price, no_price, lots):
    """Return True if both quotes of a market already rest at the given prices."""
    return _is_in_place(sim, 2 * m, yes_price, lots) and _is_in_place(sim, 2 * m + 1, no_price, lots)


@inlined
def _keeps_price(order, price):
    """Return True if an order has this price and no amendment of it is in transit."""
    return order.price == price and order.amends == 0


@compiled
def quote_market(sim, m, yes_price, no_price, lots):
    """Keep a bid of `lots` for YES and one for NO at these prices. Returns 1, or 0 if the limit of calls is reached.

    The caller ensures that all rows fit.
    """
    for place in range(2):
        if not _end_chain(sim, 2 * m + place, yes_price if place == 0 else no_price):
            return 0
    for place in range(2):
        price = yes_price if place == 0 else no_price
        if price > NO_QUOTE and not _quote_side(sim, m, place, price, lots):
            return 0
    return 1


@compiled
def _end_chain(sim, s, price):
    """Cancel a side's quotes if `price` is not their price. The account's quote is forgotten once it no longer rests.

    Returns False if the limit of calls is reached.
    """
    state, side, orders = state_of(sim), sides_of(sim)[s], orders_of(sim)
    if price == AS_IT_IS:
        return True
    o = side.quote
    if o >= 0 and is_live(sim, o):
        if _keeps_price(orders[o], price):
            return True
        if state.budget <= 0:
            return False
        state.budget -= 1
    chain = side.quote_slow if side.quote_slow >= 0 else o
    if chain >= 0 and not _keeps_price(orders[chain], price):
        cancel_quotes(sim, s)
    side.quote = NONE
    return True


@inlined
def forget_quotes(side):
    """Forget a side's quotes in the account and both histories, so that the next quote is a new order."""
    side.quote = side.quote_slow = side.quote_fast = NONE


@compiled
def cancel_quotes(sim, s):
    """Cancel a side's quotes in the account and both histories. Returns 1 if the account's quote may have been resting, else 0."""
    side = sides_of(sim)[s]
    answer = cancel_order(sim, side.quote) if side.quote >= 0 else 0
    if side.quote_slow >= 0 and side.quote_slow != side.quote:
        cancel_order(sim, side.quote_slow)
    if side.quote_fast >= 0 and side.quote_fast not in (side.quote, side.quote_slow):
        cancel_order(sim, side.quote_fast)
    forget_quotes(side)
    return answer


@compiled
def _quote_side(sim, m, place, price, lots):
    """Send a side's quote where none rests: in the account, or in a history that filled it. Returns False at the limit of calls."""
    state, side, orders = state_of(sim), sides_of(sim)[2 * m + place], orders_of(sim)
    joins = _histories_to_join(sim, side, lots) if state.bounds == 1 else JOINS_BOTH
    if side.quote >= 0:
        if joins and orders[side.quote].status != _PENDING:
            _quote_again(sim, side, joins, lots)
        return True
    if state.budget <= 0:
        return False
    o = place_order(sim, m, place, 0, price, lots, _POST_ONLY, 0, joins)
    state.budget -= 1
    side.quote = o
    _record_joined(side, o, joins)
    return True


@compiled
def _histories_to_join(sim, side, lots):
    """Return the histories in which no quote of a side rests, so that a quote of `lots` must join them.

    If fills have made the sizes of a chain's quotes differ, the fastest history has the largest of them, and the slowest joins no more.
    """
    if side.quote < 0 and side.quote_slow < 0 and side.quote_fast < 0:
        side.quote_lots = side.quote_most = lots
        side.quote_varied = side.quote_diverged = 0
        return JOINS_BOTH
    if lots != side.quote_lots:
        side.quote_varied = 1
        side.quote_most = max(side.quote_most, lots)
    slow_lives = side.quote_slow >= 0 and _is_live(sim, side.quote_slow, True)
    fast_lives = side.quote_fast >= 0 and _is_live(sim, side.quote_fast, False)
    mixed = side.quote_varied == 1 and side.quote_diverged == 1
    joins = (0 if slow_lives or mixed else JOINS_SLOW) + (0 if fast_lives else JOINS_FAST)
    if joins == JOINS_FAST:
        side.quote_diverged = 1
    if side.quote_varied == 1 and side.quote_diverged == 1 and fast_lives and orders_of(sim)[side.quote_fast].left_fast > 0:
        orders_of(sim)[side.quote_fast].left_fast = max(orders_of(sim)[side.quote_fast].left_fast, lots)
    return joins


@inlined
def _record_joined(side, o, joins):
    """Record order `o` as the quote of the histories that it joins."""
    if joins & JOINS_SLOW:
        side.quote_slow = o
    if joins & JOINS_FAST:
        side.quote_fast = o


@inlined
def _is_live(sim, o, slow):
    """Return True if an order is in transit or rests in a history: the slowest if `slow`, else the fastest."""
    order = orders_of(sim)[o]
    left, bit = (order.left_slow, JOINS_SLOW) if slow else (order.left_fast, JOINS_FAST)
    if left > 0 or order.joins & (bit << 2):
        return True
    return order.status == _PENDING and order.joins & bit != 0


@compiled
def _quote_again(sim, side, joins, lots):
    """Send the account's quote again in histories that filled it: they join its queue when the message arrives."""
    o = side.quote
    _record_joined(side, o, joins)
    orders_of(sim)[o].joins |= joins << 2
    if is_immediate(sim):
        rejoin_queue(sim, o, joins, lots, state_of(sim).now)
    else:
        send_message(sim, REJOIN_MESSAGE, o, joins, lots)


@compiled
def rejoin_queue(sim, o, joins, lots, ts):
    """Add the quote at the back of its queue in the histories `joins`, as part of the account's order, if the market accepts it."""
    order, market = orders_of(sim)[o], markets_of(sim)[orders_of(sim)[o].market]
    order.joins = 0
    if market.status != 0 or not is_linked(order) or is_crossing(sim, order):
        return
    slow = lots if joins & JOINS_SLOW and not _has_own_behind(sim, order) else 0
    fast = lots if joins & JOINS_FAST else 0
    if slow + fast > 0:
        order.unsure |= 1
        join_queue(sim, o, ts, 0, slow, fast)


@inlined
def _has_own_behind(sim, order):
    """Return True if another order of the agent follows `order` in the queue at its level."""
    return order.next >= 0 and orders_of(sim)[order.next].level == order.level
