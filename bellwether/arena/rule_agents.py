"""Rule agents: agents that follow a fixed rule instead of a model, the baselines of the arena. Their answers are parsed like those of models."""

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

#: Maximum number of bets per decision.
MOST_BETS = 3

Rule = Callable[[Sequence[Market], Limits, str], dict[str, Any]]


def hold(markets: Sequence[Market], limits: Limits, key: str) -> dict[str, Any]:
    """Never bet: the baseline for doing nothing."""
    return {"action": "HOLD", "reasoning": "It never bets."}


def bet_on_favourites(markets: Sequence[Market], limits: Limits, key: str) -> dict[str, Any]:
    """Bet the maximum on the most expensive sides below a dollar, and state their prices as probabilities: the baseline for following the market."""
    sides = sorted(_priced_sides(markets), key=lambda side: (-side[2], side[0], side[1]))
    return _size_bets(sides[:MOST_BETS], limits, lambda price: 1.0, "The sides that the market is surest of.")


def bet_proportionally(markets: Sequence[Market], limits: Limits, key: str) -> dict[str, Any]:
    """Bet on the likelier side of the first markets. The side's price is used as the share of the maximum bet and as the stated probability."""
    firsts: dict[str, tuple[str, str, SharePrice]] = {}
    for market_id, side, price in _priced_sides(markets):
        best = firsts.get(market_id)
        if best is None or price > best[2]:
            firsts[market_id] = market_id, side, price
    return _size_bets(list(firsts.values())[:MOST_BETS], limits, lambda price: price / MICROS, "As much as the market believes.")


def bet_randomly(markets: Sequence[Market], limits: Limits, key: str) -> dict[str, Any]:
    """Bet on random sides with random sizes and probabilities: the baseline for luck. key: seed."""
    random = Random(hashlib.sha256(key.encode()).digest())
    sides = _priced_sides(markets)
    chosen = random.sample(sides, min(len(sides), random.randint(1, MOST_BETS)))
    answer = _size_bets(chosen, limits, lambda price: 0.2 + 0.8 * random.random(), "Drawn by lot.")
    for bet in answer.get("bets", ()):
        bet["probability"] = round(random.random(), 4)
    return answer


#: Rules by their name in lineups.
RULES: Mapping[str, Rule] = MappingProxyType(
    {"hold": hold, "favourite": bet_on_favourites, "proportional": bet_proportionally, "random": bet_randomly}
)


def answer_by_rule(rule: str, markets: Sequence[Market], limits: Limits, key: str) -> str:
    """Return the answer of a rule as JSON text. key: id of the decision, the seed of random choices."""
    return json.dumps(RULES[rule](markets, limits, key))


def _priced_sides(markets: Sequence[Market]) -> list[tuple[str, str, SharePrice]]:
    """Return (market, side, price) of every side with a price between 0 and a dollar, in the order of `markets`."""
    sides = []
    for market in markets:
        for side in ("YES", "NO") if market.binary else market.outcomes:
            price = market.price(side)
            if price is not None and 0 < price < MICROS:
                sides.append((market.market_id, side, price))
    return sides


def _size_bets(
    sides: Sequence[tuple[str, str, SharePrice]], limits: Limits, share: Callable[[SharePrice], float], reasoning: str
) -> dict[str, Any]:
    """Return an answer with a bet on each side: a share of the maximum, in whole cents. share: computes that share from the price. Bets below the
    minimum are omitted; without bets the answer is HOLD.
    """
    largest = limits.most // max(len(sides), 1) if limits.limit == "decision" else min(limits.most, limits.cash // max(len(sides), 1))
    bets = []
    for market_id, side, price in sides:
        amount = int(largest * share(price)) // CENT * CENT
        if amount >= limits.least:
            bets.append({"market_id": market_id, "side": side, "amount": float(dollars(amount)), "probability": round(price / MICROS, 6)})
    return {"action": "BET", "bets": bets, "reasoning": reasoning} if bets else {"action": "HOLD", "reasoning": "No bet is possible."}
