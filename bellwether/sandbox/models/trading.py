"""What a personality does with money: the simplest policy that acts on its probabilities."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bellwether.sandbox.models.reading import Holding, Offer, cash, holdings, least_bet, most_share, offers

#: A price must be off by so much (dollars) before it is worth acting on.
EDGE = 0.05

#: The probability of yes of the market with this id, about which this text is; None where it is unknown.
Belief = Callable[[str, str], float | None]


@dataclass(frozen=True, slots=True)
class Trade:
    """The purchase with the largest edge: the side, its price in dollars, and the probability that it pays."""

    market_id: str
    side: str
    price: float
    probability: float


def best_trade(text: str, belief: Belief) -> Trade | None:
    """The offer in the text that is furthest from what is believed; None where none is off by `EDGE`."""
    trades = [trade for offer in offers(text) if (trade := _trade(offer, belief)) and trade.probability - trade.price >= EDGE]
    return max(trades, key=lambda trade: trade.probability - trade.price, default=None)


def _trade(offer: Offer, belief: Belief) -> Trade | None:
    p = belief(offer.market_id, offer.text)
    if p is None:
        return None
    if p >= offer.yes:
        return Trade(offer.market_id, "YES", offer.yes, p)
    return Trade(offer.market_id, "NO", 1 - offer.yes, 1 - p)


def _to_sell(text: str, belief: Belief) -> list[Holding]:
    """Positions that are believed to be worth less than they bring."""
    sold = []
    for holding in holdings(text):
        p = belief(holding.position_id, holding.text)
        if p is not None and holding.price - (p if holding.side == "YES" else 1 - p) >= EDGE:
            sold.append(holding)
    return sold


def decide(text: str, belief: Belief, thoughts: str) -> dict[str, Any]:
    """A decision of the arena: sell what is too dear; else bet on the largest edge; else hold.

    The bet is the allowed share of cash times the probability that it pays, so that its size states the probability.
    """
    if sold := _to_sell(text, belief):
        return {"action": "SELL", "sells": [{"position_id": one.position_id, "percentage": 100} for one in sold], "reasoning": thoughts}
    trade, money = best_trade(text, belief), cash(text)
    if trade is not None and money is not None:
        amount = math.floor(100 * money * most_share(text) * trade.probability) / 100
        if amount >= least_bet(text):
            bet = {"market_id": trade.market_id, "side": trade.side, "amount": amount}
            return {"action": "BET", "bets": [bet], "reasoning": thoughts}
    return {"action": "HOLD", "reasoning": thoughts}
