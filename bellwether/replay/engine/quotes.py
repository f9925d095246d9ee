"""Quotes: one post-only bid on each side of a market.

The quote of a side is the last order that `quote_market` sent for it, until the agent withdraws it. `sim` is the whole replay, `m` a market,
`s` a side, `o` an order.
"""

from __future__ import annotations

import numpy as np

from bellwether.replay.engine.codes import AS_IT_IS, BUY, NO_QUOTE, NONE, Tif
from bellwether.replay.engine.compilation import compiled, inlined
from bellwether.replay.engine.memory import orders_of, sides_of, state_of
from bellwether.replay.engine.order_transit import cancel_order, is_live, place_order
from bellwether.replay.engine.state import UNUSED

_POST_ONLY, _BUY = np.int64(Tif.POST_ONLY), np.int64(BUY)


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
    """Keep a bid of `lots` for YES and one for NO at these prices. The caller ensures that all rows fit."""
    sides = sides_of(sim)
    for side in range(2):
        s, price = 2 * m + side, yes_price if side == 0 else no_price
        if not _is_in_place(sim, s, price):
            if sides[s].quote >= 0:
                cancel_order(sim, sides[s].quote)
            sides[s].quote = NONE
    for side in range(2):
        s, price = 2 * m + side, yes_price if side == 0 else no_price
        if price > NO_QUOTE and sides[s].quote < 0:
            sides[s].quote = place_order(sim, m, side, _BUY, price, lots, _POST_ONLY, UNUSED)


@compiled
def forget_quotes(sim, m, o):
    """Forget the quotes of a market (-1: of all markets), or only the order `o` unless it is -1, because their cancels are sent."""
    sides = sides_of(sim)
    for s in range(2 * state_of(sim).tickers):
        if (m < 0 or s >> 1 == m) and (o < 0 or sides[s].quote == o):
            sides[s].quote = NONE
