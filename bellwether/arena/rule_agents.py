"""Agents that are rules, and need no model: what a competitor must beat. Each answers in the form that models answer in, and is read like them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from random import Random
from types import MappingProxyType
from typing import Any

from bellwether.arena.market import Market
from bellwether.arena.parsing import Limits
from bellwether.arena.units import CENT, MICROS, dollars
from bellwether.units import SharePrice

#: Most bets of one decision.
MOST_BETS = 3

Rule = Callable[[Sequence[Market], Limits, str], dict[str, Any]]


def hold(markets: Sequence[Market], limits: Limits, key: str) -> dict[str, Any]:
    """Never bets: what doing nothing earns."""
    return {"action": "HOLD", "reasoning": "It never bets."}


def favourite(markets: Sequence[Market], limits: Limits, key: str) -> dict[str, Any]:
    """Bets on the dearest sides below a dollar, each as much as is allowed: what following the market's surest words earns. States the price."""
    sides = sorted(_sides(markets), key=lambda side: (-side[2], side[0], side[1]))
    return _bets(sides[:MOST_BETS], limits, lambda price: 1.0, "The sides that the market is surest of.")


def proportional(markets: Sequence[Market], limits: Limits, key: str) -> dict[str, Any]:
    """Bets on the first markets of the universe as the market does: each side's price is its share of the largest bet, and its stated probability."""
    firsts: dict[str, tuple[str, str, SharePrice]] = {}
    for market_id, side, price in _sides(markets):
        best = firsts.get(market_id)
        if best is None or price > best[2]:
            firsts[market_id] = market_id, side, price
    return _bets(list(firsts.values())[:MOST_BETS], limits, lambda price: price / MICROS, "As much as the market believes.")


def random(markets: Sequence[Market], limits: Limits, key: str) -> dict[str, Any]:
    """Bets on random sides with random sizes, drawn from the decision's name alone: what luck earns. States a random probability."""
    draw = Random(hashlib.sha256(key.encode()).digest())
    sides = _sides(markets)
    chosen = draw.sample(sides, min(len(sides), draw.randint(1, MOST_BETS)))
    made = _bets(chosen, limits, lambda price: 0.2 + 0.8 * draw.random(), "Drawn by lot.")
    for bet in made.get("bets", ()):
        bet["probability"] = round(draw.random(), 4)
    return made


#: The rules by the name under which a lineup has them.
RULES: Mapping[str, Rule] = MappingProxyType({"hold": hold, "favourite": favourite, "proportional": proportional, "random": random})


def answer(rule: str, markets: Sequence[Market], limits: Limits, key: str) -> str:
    """The answer of a rule, as text. key: the decision's name, from which random choices follow. The same arguments give the same text."""
    return json.dumps(RULES[rule](markets, limits, key))


def _sides(markets: Sequence[Market]) -> list[tuple[str, str, SharePrice]]:
    """Every side with a price above 0 and below a dollar: market, side, price; in the order of the universe."""
    found = []
    for market in markets:
        for side in ("YES", "NO") if market.binary else market.outcomes:
            price = market.price(side)
            if price is not None and 0 < price < MICROS:
                found.append((market.market_id, side, price))
    return found


def _bets(
    sides: Sequence[tuple[str, str, SharePrice]], limits: Limits, share: Callable[[SharePrice], float], reasoning: str
) -> dict[str, Any]:
    """Bets of a share of the largest possible amount, in whole cents; none below the smallest, and a HOLD without any."""
    together = limits.most // max(len(sides), 1) if limits.limit == "decision" else min(limits.most, limits.cash // max(len(sides), 1))
    bets = []
    for market_id, side, price in sides:
        amount = int(together * share(price)) // CENT * CENT
        if amount >= limits.least:
            bets.append({"market_id": market_id, "side": side, "amount": float(dollars(amount)), "probability": round(price / MICROS, 6)})
    return {"action": "BET", "bets": bets, "reasoning": reasoning} if bets else {"action": "HOLD", "reasoning": "No bet is possible."}
