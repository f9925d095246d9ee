"""Drawing of an event's markets (legs): their claims on the latent path, their texts and their strikes.

W(1) is the end of the latent path, which decides the outcome. A ladder asks whether a quantity exceeds each of several strikes; brackets
ask which of several ranges it falls into.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise
from typing import Any

from bellwether.sandbox.world.catalogue import Quantity, QuestionSeries, build_code
from bellwether.sandbox.world.random_draws import NORMAL, RandomDraws


@dataclass(frozen=True, slots=True)
class Leg:
    """Market to be drawn for an event: YES wins if lower < W(1) <= upper. words: values of the texts' placeholders. strike: fields of the
    market object. suffix: of the ticker; empty for the event's own ticker.
    """

    lower: float
    upper: float
    suffix: str
    label: str
    words: dict[str, str] = field(default_factory=dict)
    strike: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Legs:
    """All markets of an event. exclusive: at most one can be YES. answer: function from W(1) to the text of the outcome."""

    legs: tuple[Leg, ...]
    exclusive: bool
    answer: Callable[[float], str]
    words: dict[str, str] = field(default_factory=dict)


def _single(series: QuestionSeries, draw: RandomDraws) -> Legs:
    """Draw the only market of an event, with an initial probability of about 0.4 on average."""
    prior = 0.03 + 0.94 * draw.unit() ** 1.55
    return Legs((Leg(NORMAL.inv_cdf(1 - prior), math.inf, "", series.name),), False, lambda _: "")


def _contest(series: QuestionSeries, draw: RandomDraws) -> Legs:
    """Draw one market per option, of which at most one wins. Some events do not list every possible winner."""
    family = series.family
    options = draw.sample(family.options, 2 if family.pair else draw.integer(3, 6))
    listed = 1.0 if family.pair or draw.chance(0.7) else draw.uniform(0.7, 0.95)
    weights = [(draw.unit() + 0.08) ** 2 for _ in options]
    edges, reached = [-math.inf], 0.0
    for weight in weights:
        reached += listed * weight / sum(weights)
        edges.append(NORMAL.inv_cdf(reached) if reached < 1 - 1e-9 else math.inf)
    legs: list[Leg] = []
    for option, (lower, upper) in zip(options, pairwise(edges), strict=True):
        code = build_code(option, 4)
        suffix = f"{code}{len(legs)}" if code in {leg.suffix for leg in legs} else code
        legs.append(Leg(lower, upper, suffix, option, {"option": option}, {"custom_strike": {"option": option}, "strike_type": "custom"}))

    def answer(end: float) -> str:
        return next((leg.label for leg in legs if leg.lower < end <= leg.upper), "")

    return Legs(tuple(legs), True, answer, {"a": options[0], "b": options[1]})


@dataclass(frozen=True, slots=True)
class _Scale:
    """Linear map from W(1) to the quantity in question: mean + spread * W(1)."""

    number: Quantity
    mean: float
    spread: float
    step: Decimal

    @classmethod
    def draw(cls, series: QuestionSeries, draw: RandomDraws) -> _Scale:
        number = series.family.number
        if number is None:
            raise ValueError(f"family {series.family.prefix} of the catalogue has no number")
        factor = float(series.scale)
        return cls(number, draw.uniform(*number.centre) * factor, number.spread * factor, number.step * series.scale)

    def strikes(self, count: int, draw: RandomDraws) -> list[Decimal]:
        """Draw neighbouring strikes around the mean."""
        middle = round((self.mean + self.spread * 0.5 * draw.normal()) / float(self.step))
        lowest = max(middle - count // 2, 1)
        return [(lowest + rung) * self.step for rung in range(count)]

    def at(self, strike: Decimal) -> float:
        """Return the value of W(1) at which the quantity is `strike`."""
        return (float(strike) - self.mean) / self.spread

    def answer(self, end: float) -> str:
        """Return the text of the quantity for the path's end W(1)."""
        return self.number.text(Decimal(repr(round(self.mean + self.spread * end, 8))), 1)


def _plain(value: Decimal) -> str:
    """Format a strike as in a ticker."""
    return f"{value.normalize():f}"


def _ladder(series: QuestionSeries, draw: RandomDraws) -> Legs:
    """Draw markets that ask whether a quantity exceeds each of several strikes."""
    scale = _Scale.draw(series, draw)
    legs = []
    for strike in scale.strikes(draw.integer(2, 6), draw):
        value = scale.number.text(strike)
        fields = {"floor_strike": float(strike), "strike_type": "greater"}
        legs.append(Leg(scale.at(strike), math.inf, f"T{_plain(strike)}", f"Above {value}", {"value": value}, fields))
    return Legs(tuple(legs), False, scale.answer)


def _brackets(series: QuestionSeries, draw: RandomDraws) -> Legs:
    """Draw markets that ask into which of several ranges a quantity falls; the first and the last range are open."""
    scale = _Scale.draw(series, draw)
    edges = scale.strikes(draw.integer(2, 5), draw)
    first, last = edges[0], edges[-1]
    below, above = f"{scale.number.text(first)} or below", f"above {scale.number.text(last)}"
    lowest = {"cap_strike": float(first), "strike_type": "less_or_equal"}
    highest = {"floor_strike": float(last), "strike_type": "greater"}
    legs = [Leg(-math.inf, scale.at(first), f"L{_plain(first)}", below, {"range": below}, lowest)]
    for low, high in pairwise(edges):
        label = f"{scale.number.text(low)} to {scale.number.text(high)}"
        strike = {"floor_strike": float(low), "cap_strike": float(high), "strike_type": "between"}
        legs.append(Leg(scale.at(low), scale.at(high), f"B{_plain((low + high) / 2)}", label, {"range": label}, strike))
    legs.append(Leg(scale.at(last), math.inf, f"T{_plain(last)}", above.capitalize(), {"range": above}, highest))
    return Legs(tuple(legs), True, scale.answer)


_KINDS: dict[str, Callable[[QuestionSeries, RandomDraws], Legs]] = {
    "single": _single,
    "ladder": _ladder,
    "brackets": _brackets,
    "contest": _contest,
}


def draw_legs(series: QuestionSeries, draw: RandomDraws) -> Legs:
    """Draw the markets of an event of this series."""
    return _KINDS[series.family.kind](series, draw)
