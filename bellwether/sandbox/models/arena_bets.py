"""Bets of a model in the arena: it parses its prompt line by line, and acts on its beliefs about the listed markets.

The same prompt gives the same decision, whatever the sandbox's clock: beliefs depend on the date in the prompt.
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

#: A price must be off by so much (dollars) before it is worth acting on.
EDGE = 0.05
#: Most bets of one decision.
MOST_BETS = 3
#: A position is sold when its price exceeds what it is believed to be worth by so much (dollars).
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
    """Market in a prompt: its id, its question, and the price of each side in dollars."""

    market_id: str
    question: str
    prices: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class PromptPosition:
    """Position in a prompt that can be sold. price: of its side, in dollars."""

    position_id: str
    question: str
    side: str
    price: float


@dataclass(frozen=True, slots=True)
class ArenaPrompt:
    """Contents of an arena prompt: the date as an instant, the bounds of a bet in dollars, and the listed markets and positions.

    most: 0 if no bet is possible. together: the maximum is for all bets together instead of each.
    """

    at: int
    least: float
    most: float
    together: bool
    markets: tuple[PromptMarket, ...]
    held: tuple[PromptPosition, ...]


@dataclass(frozen=True, slots=True)
class Belief:
    """Probability that one outcome of a market wins; the other of two outcomes has the complement."""

    outcome: str
    probability: float

    def of(self, side: str) -> float:
        """Return the probability of a side."""
        return self.probability if side.casefold() == self.outcome.casefold() else 1 - self.probability


#: What is believed of the market of this id; None of one that is unknown.
Beliefs = Callable[[str], Belief | None]


def read_arena_prompt(request: ChatRequest) -> ArenaPrompt | None:
    """Parse the arena prompt in a request; None for any other request."""
    said = request.question
    date, least = _DATE.search(said), _LEAST.search(request.instructions)
    if request.tools or date is None or least is None or "\nMarkets (" not in said:
        return None
    lines = said.splitlines()
    most = _MOST.search(said)
    return ArenaPrompt(
        at=parse_time(f"{date[1]}T00:00:00Z"),
        least=_dollars(least[1]),
        most=_dollars(most[2]) if most else 0.0,
        together=most is not None and most[1].startswith("Most"),
        markets=tuple(_parse_markets(match) for line in lines if (match := _MARKET.match(line))),
        held=tuple(_parse_positions(match) for line in lines if (match := _POSITION.match(line))),
    )


def _parse_markets(match: re.Match[str]) -> PromptMarket:
    prices = {(name if name in ("YES", "NO") else json.loads(name)): float(price) / 100 for name, price in _PRICE.findall(match[3])}
    return PromptMarket(json.loads(match[1]), json.loads(match[2]), prices)


def _parse_positions(match: re.Match[str]) -> PromptPosition:
    return PromptPosition(json.loads(match[1]), json.loads(match[2]), json.loads(match[3]), float(match[4]) / 100)


def _dollars(text: str) -> float:
    return float(text.replace(",", ""))


def decide_bets(slip: ArenaPrompt, beliefs: Beliefs, thoughts: str) -> dict[str, Any]:
    """Decide to sell overpriced positions; else to bet where the price is furthest off; else to hold.

    A bet is the maximum times the probability that it wins, so that its size states the probability, which is also given as a number.
    """
    believed = {market.market_id: found for market in slip.markets if (found := beliefs(market.market_id)) is not None}
    if sold := _find_sales(slip, believed):
        return {"action": "SELL", "sells": [{"position_id": one.position_id, "percentage": 100} for one in sold], "reasoning": thoughts}
    chosen = sorted(_find_edges(slip, believed), reverse=True)[:MOST_BETS]
    most = slip.most / len(chosen) if slip.together and chosen else slip.most
    bets = [
        {"market_id": market_id, "side": side, "amount": amount, "probability": round(p, 4)}
        for _, market_id, side, p in chosen
        if (amount := math.floor(100 * most * p) / 100) >= slip.least
    ]
    return {"action": "BET", "bets": bets, "reasoning": thoughts} if bets else {"action": "HOLD", "reasoning": thoughts}


def _find_sales(slip: ArenaPrompt, believed: Mapping[str, Belief]) -> list[PromptPosition]:
    """Return positions worth less than their price, on markets whose question occurs once in the prompt."""
    asked = Counter(market.question for market in slip.markets)
    of_question = {market.question: believed.get(market.market_id) for market in slip.markets if asked[market.question] == 1}
    return [one for one in slip.held if (held := of_question.get(one.question)) and one.price - held.of(one.side) >= DEAR]


def _find_edges(slip: ArenaPrompt, believed: Mapping[str, Belief]) -> list[tuple[float, str, str, float]]:
    """Return the believed value minus the price, for the best side of each two-sided market worth a bet."""
    found = []
    for market in slip.markets:
        if len(market.prices) != 2 or (known := believed.get(market.market_id)) is None:
            continue
        edge, side = max((known.of(side) - price, side) for side, price in market.prices.items())
        if edge >= EDGE and 0 < market.prices[side] < 1:
            found.append((round(edge, 6), market.market_id, side, known.of(side)))
    return found


def complete_fields(decision: Mapping[str, Any]) -> dict[str, Any]:
    """Complete a decision for a strict schema: all fields, with null for unused ones."""
    return {name: decision.get(name) for name in ("action", "bets", "sells", "reasoning")}
