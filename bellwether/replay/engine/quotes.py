"""Quotes: one post-only bid on each side of a market.

The quote of a side is the last order that `quote_market` sent for it, until the agent withdraws it. `sim` is the whole replay, `m` a market,
`s` a side, `o` an order.
"""

from __future__ import annotations

from bellwether.replay.engine.codes import AS_IT_IS, NO_QUOTE, NONE, Tif
from bellwether.replay.engine.compilation import compiled, inlined
from bellwether.replay.engine.memory import orders_of, sides_of, state_of
from bellwether.replay.engine.order_transit import cancel_order, is_live, place_order

_POST_ONLY = int(Tif.POST_ONLY)


@inlined
def _is_in_place(sim, s, price):
    """Return True if a side's quote is in transit or rests at `price`, and no amendment of it is in transit."""
    o = sides_of(sim)[s].quote
    if price == AS_IT_IS:
        return True
    if o < 0:
        return price == NO_QUOTE
    return is_live(sim, o) and orders_of(sim)[o].price == price and orders_of(sim)[o].amends == 0


@inlined
def are_quotes_in_place(sim, m, yes_price, no_price):
    """Return True if the quotes of both sides of a market are as requested, so that nothing is to send."""
    return _is_in_place(sim, 2 * m, yes_price) and _is_in_place(sim, 2 * m + 1, no_price)


@compiled
def quote_market(sim, m, yes_price, no_price, lots):
    """Keep a bid of `lots` for YES and one for NO at these prices. Returns 1, or 0 if the limit of calls is reached.

    The caller ensures that all rows fit.
    """
    for side in range(2):
        if not _withdraw_quote(sim, 2 * m + side, yes_price if side == 0 else no_price):
            return 0
    state = state_of(sim)
    for side in range(2):
        price = yes_price if side == 0 else no_price
        if price <= NO_QUOTE or sides_of(sim)[2 * m + side].quote >= 0:
            continue
        if state.budget <= 0:
            return 0
        state.budget -= 1
        sides_of(sim)[2 * m + side].quote = place_order(sim, m, side, 0, price, lots, _POST_ONLY, 0)
    return 1


@compiled
def _withdraw_quote(sim, s, price):
    """Cancel a side's quote unless it is in place at `price`. Returns False if the limit of calls is reached."""
    state, side = state_of(sim), sides_of(sim)[s]
    if _is_in_place(sim, s, price):
        return True
    if side.quote >= 0 and is_live(sim, side.quote):
        if state.budget <= 0:
            return False
        state.budget -= 1
        cancel_order(sim, side.quote)
    side.quote = NONE
    return True


@compiled
def forget_quotes(sim, m, o):
    """Forget the quotes of a market (-1: of all markets), or only the order `o` unless it is NONE, because their cancels are sent."""
    sides = sides_of(sim)
    for s in range(2 * state_of(sim).tickers):
        if (m < 0 or s >> 1 == m) and (o == NONE or sides[s].quote == o):
            sides[s].quote = NONE
