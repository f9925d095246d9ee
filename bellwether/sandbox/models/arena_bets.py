"""Decisions of a model in the arena, by its beliefs about the markets that the prompt lists.

The same prompt gives the same decision at any time of the sandbox's clock, because beliefs depend on the date in the prompt.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bellwether.sandbox.timestamps import parse_time

if TYPE_CHECKING:
    from bellwether.sandbox.models.request import ChatRequest

#: Minimum difference between belief and price for a bet, in dollars.
EDGE = 0.05
#: Maximum number of bets of one decision.
MOST_BETS = 3
#: Minimum difference between price and belief for a sale, in dollars.
DEAR = 0.1

_DATE = re.compile(r"^Date: (\d{4}-\d{2}-\d{2}) ", re.MULTILINE)
_LEAST = re.compile(r"smallest bet is \$([\d,.]*\d)")
_MOST = re.compile(r"^(Largest single bet|Most for all bets together): \$([\d,.]*\d)", re.MULTILINE)
_TEXT = r'"(?:[^"\\]|\\.)*"'
_MARKET = re.compile(
    rf"^- market_id ({_TEXT}) \| ({_TEXT}) \| category {_TEXT} \| (?:binary|multi) \| (.*) \| volume [^|]* \| closes [^|]*$"
)
_POSITION = re.compile(rf"^- position_id ({_TEXT}) \| ({_TEXT}) \| side ({_TEXT}) \| .* \| current ([\d.]+)% \| [^|]* \| [^|]*$")
_PRICE = re.compile(rf"(YES|NO|{_TEXT}) ([\d.]+)%")


@dataclass(frozen=True, slots=True)
class PromptMarket:
    """Market that a prompt offers. prices: dollars by side."""

    market_id: str
    question: str
    prices: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class PromptPosition:
    """Position that a prompt states. price: current price of the held side, in dollars."""

    position_id: str
    question: str
    side: str
    price: float


@dataclass(frozen=True, slots=True)
class ArenaPrompt:
    """Content of an arena prompt: date, bounds of a bet, markets and positions.

    at: instant of its date. least, most: bounds of a bet in dollars; `most` is 0 if no bet is possible. together: the maximum is for all
    bets together instead of each.
    """

    at: int
    least: float
    most: float
    together: bool
    markets: tuple[PromptMarket, ...]
    positions: tuple[PromptPosition, ...]


@dataclass(frozen=True, slots=True)
class Belief:
    """Believed probability that one of the two outcomes of a market wins."""

    outcome: str
    probability: float

    def of(self, side: str) -> float:
        """Return the probability that a side wins."""
        return self.probability if side.casefold() == self.outcome.casefold() else 1 - self.probability


#: Returns the belief about a market by its id; None for an unknown market.
Beliefs = Callable[[str], Belief | None]


def read_arena_prompt(request: ChatRequest) -> ArenaPrompt | None:
    """Parse the arena prompt in a request; None for any other request."""
    text = request.question
    date, least = _DATE.search(text), _LEAST.search(request.instructions)
    if request.tools or date is None or least is None or "\nMarkets (" not in text:
        return None
    lines = text.splitlines()
    most = _MOST.search(text)
    return ArenaPrompt(
        at=parse_time(f"{date[1]}T00:00:00Z"),
        least=_dollars(least[1]),
        most=_dollars(most[2]) if most else 0.0,
        together=most is not None and most[1].startswith("Most"),
        markets=tuple(_parse_markets(match) for line in lines if (match := _MARKET.match(line))),
        positions=tuple(_parse_positions(match) for line in lines if (match := _POSITION.match(line))),
    )


def _parse_markets(match: re.Match[str]) -> PromptMarket:
    prices = {(name if name in ("YES", "NO") else json.loads(name)): float(price) / 100 for name, price in _PRICE.findall(match[3])}
    return PromptMarket(json.loads(match[1]), json.loads(match[2]), prices)


def _parse_positions(match: re.Match[str]) -> PromptPosition:
    return PromptPosition(json.loads(match[1]), json.loads(match[2]), json.loads(match[3]), float(match[4]) / 100)


def _dollars(text: str) -> float:
    return float(text.replace(",", ""))


def decide_bets(slip: ArenaPrompt, beliefs: Beliefs, thoughts: str) -> dict[str, Any]:
    """Decide the response of a model to an arena prompt (`slip`): sell overpriced positions; without any, bet on the most underpriced
    sides; else hold. thoughts: stated reasoning.

    The amount of a bet is the maximum times the probability that it wins.
    """
    believed = {market.market_id: belief for market in slip.markets if (belief := beliefs(market.market_id)) is not None}
    if sold := _find_sales(slip, believed):
        return {
            "action": "SELL",
            "sells": [{"position_id": position.position_id, "percentage": 100} for position in sold],
            "reasoning": thoughts,
        }
    chosen = sorted(_find_edges(slip, believed), reverse=True)[:MOST_BETS]
    most = slip.most / len(chosen) if slip.together and chosen else slip.most
    bets = [
        {"market_id": market_id, "side": side, "amount": amount, "probability": round(p, 4)}
        for _, market_id, side, p in chosen
        if (amount := math.floor(100 * most * p) / 100) >= slip.least
    ]
    return {"action": "BET", "bets": bets, "reasoning": thoughts} if bets else {"action": "HOLD", "reasoning": thoughts}


def _find_sales(slip: ArenaPrompt, believed: Mapping[str, Belief]) -> list[PromptPosition]:
    """Return the overpriced positions, among those whose question belongs to exactly one market of the prompt."""
    counts = Counter(market.question for market in slip.markets)
    beliefs = {market.question: believed.get(market.market_id) for market in slip.markets if counts[market.question] == 1}
    return [item for item in slip.positions if (belief := beliefs.get(item.question)) and item.price - belief.of(item.side) >= DEAR]


def _find_edges(slip: ArenaPrompt, believed: Mapping[str, Belief]) -> list[tuple[float, str, str, float]]:
    """Return (belief minus price, market id, side, belief) of the most underpriced side, for each market worth a bet."""
    edges = []
    for market in slip.markets:
        if len(market.prices) != 2 or (belief := believed.get(market.market_id)) is None:
            continue
        edge, side = max((belief.of(side) - price, side) for side, price in market.prices.items())
        if edge >= EDGE and 0 < market.prices[side] < 1:
            edges.append((round(edge, 6), market.market_id, side, belief.of(side)))
    return edges


def complete_fields(decision: Mapping[str, Any]) -> dict[str, Any]:
    """Add the missing fields of a decision as null, as a strict schema requires."""
    return {name: decision.get(name) for name in ("action", "bets", "sells", "reasoning")}
