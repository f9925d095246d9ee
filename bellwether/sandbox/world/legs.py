"""Drawing of an event's markets (legs): their claims on the latent path, their texts and their strikes.

W(1) is the end of the latent path, which decides the outcome. A ladder asks whether a quantity exceeds each of several strikes; brackets
ask which of several ranges it falls into.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise
from typing import Any

from bellwether.sandbox.world.catalogue import Quantity, QuestionSeries, build_option_code
from bellwether.sandbox.world.random_draws import NORMAL, RandomDraws

_NAMES = uuid.UUID("6f1c0f0e-3c55-4f0e-9d55-9a1f6d1c7b11")


@dataclass(frozen=True, slots=True)
class Leg:
    """Market to be drawn for an event: YES wins if lower < W(1) <= upper on the event's path number `path`. words: values of the texts'
    placeholders. strike: fields of the market object. suffix: of the ticker; empty for the event's own ticker.
    """

    lower: float
    upper: float
    suffix: str
    label: str
    words: dict[str, str] = field(default_factory=dict)
    strike: dict[str, Any] = field(default_factory=dict)
    path: int = 0


@dataclass(frozen=True, slots=True)
class Legs:
    """All markets of an event. exclusive: at most one can be YES. answer: function from W(1) to the text of the outcome."""

    legs: tuple[Leg, ...]
    exclusive: bool
    answer: Callable[[float], str]
    words: dict[str, str] = field(default_factory=dict)


def _no_answer(_: float) -> str:
    """Return the empty text, for events whose outcome has no name or number."""
    return ""


def _prior(draw: RandomDraws) -> float:
    """Draw the initial probability of YES in (0, 1), with a mean of about 0.4."""
    return 0.03 + 0.94 * draw.unit() ** 1.55


def _single(series: QuestionSeries, draw: RandomDraws) -> Legs:
    """Draw the only market of an event."""
    prior = _prior(draw)
    suffix = "" if draw.chance(0.7) else "Y"
    return Legs((Leg(NORMAL.inv_cdf(1 - prior), math.inf, suffix, series.name),), False, _no_answer)


def _members(series: QuestionSeries, draw: RandomDraws) -> Legs:
    """Draw one independent market per option."""
    options = draw.sample(series.family.options, draw.integer(2, 6))
    codes = _codes(options)
    legs = tuple(
        Leg(
            NORMAL.inv_cdf(1 - _prior(draw)),
            math.inf,
            codes[option],
            option,
            {"option": option},
            {"custom_strike": {"Word": option}, "strike_type": "custom"},
            path,
        )
        for path, option in enumerate(options)
    )
    return Legs(legs, False, _no_answer)


def _codes(options: list[str]) -> dict[str, str]:
    """Build a short ticker code for each option; codes that would be equal are numbered."""
    codes: dict[str, str] = {}
    for option in options:
        code = build_option_code(option)
        codes[option] = code if code not in codes.values() else f"{code[:3]}{len(codes)}"
    return codes


def _contest(series: QuestionSeries, draw: RandomDraws) -> Legs:
    """Draw one market per option, of which at most one wins."""
    family = series.family
    ordered = len(family.options) <= 5
    count = 2 if family.pair else draw.integer(2, min(6, len(family.options)))
    options = list(family.options) if ordered else draw.sample(family.options, count)
    listed = 1.0 if family.pair or ordered or draw.chance(0.7) else draw.uniform(0.7, 0.95)
    weights = [(draw.unit() + 0.08) ** 2 for _ in options]
    edges, reached = [-math.inf], 0.0
    for weight in weights:
        reached += listed * weight / sum(weights)
        edges.append(NORMAL.inv_cdf(reached) if reached < 1 - 1e-9 else math.inf)
    codes = _codes(options)
    legs = tuple(
        Leg(
            lower,
            upper,
            codes[option],
            option,
            {"option": option},
            {"custom_strike": {"competitor": str(uuid.uuid5(_NAMES, option))}, "strike_type": "structured"},
        )
        for option, (lower, upper) in zip(options, pairwise(edges), strict=True)
    )
    pair = {"a": options[0], "b": options[1]} if family.pair else {}

    def answer(end: float) -> str:
        return next((leg.label for leg in legs if leg.lower < end <= leg.upper), "")

    return Legs(legs, True, answer, pair)


@dataclass(frozen=True, slots=True)
class _Scale:
    """Linear map from W(1) to the quantity in question: mean + spread * W(1)."""

    number: Quantity
    mean: float
    spread: float
    step: Decimal

    def at(self, strike: Decimal) -> float:
        """Return the value of W(1) at which the quantity is `strike`."""
        return (float(strike) - self.mean) / self.spread

    def answer(self, end: float) -> str:
        """Return the text of the quantity for the path's end W(1)."""
        value = Decimal(repr(round(self.mean + self.spread * end, 6)))
        return f"{value:.0f}" if self.number.half else self.number.text(value)


def _scale(series: QuestionSeries, draw: RandomDraws) -> tuple[_Scale, Quantity]:
    number = series.family.number
    if number is None:
        raise ValueError(f"family {series.family.prefix} of the catalogue has no number")
    factor = float(series.scale)
    return _Scale(number, draw.uniform(*number.centre) * factor, number.spread * factor, number.step * series.scale), number


def _plain(value: Decimal) -> str:
    """Format a strike as in a ticker."""
    return f"{value.normalize():f}"


def _ladder(series: QuestionSeries, draw: RandomDraws) -> Legs:
    """Draw markets that ask whether a quantity exceeds each of several strikes."""
    scale, number = _scale(series, draw)
    count = draw.integer(2, 6)
    middle = scale.mean + scale.spread * (0.2 + 0.5 * draw.normal())
    lowest = max(Decimal(round(middle / float(scale.step)) - count // 2), Decimal(1))
    legs = []
    for rung in range(count):
        strike = (lowest + rung) * scale.step - (Decimal("0.5") if number.half else 0)
        words = {"value": number.text(strike), "least": f"{strike + Decimal('0.5'):.0f}"}
        label = f"{words['least']}+" if number.half else f"Above {words['value']}"
        legs.append(
            Leg(scale.at(strike), math.inf, f"T{_plain(strike)}", label, words, {"floor_strike": float(strike), "strike_type": "greater"})
        )
    return Legs(tuple(legs), False, scale.answer)


def _brackets(series: QuestionSeries, draw: RandomDraws) -> Legs:
    """Draw markets that ask whether a quantity falls into each of several ranges."""
    scale, number = _scale(series, draw)
    inner = draw.integer(1, 5)
    tails = not draw.chance(0.3)
    middle = scale.mean + scale.spread * 0.5 * draw.normal()
    lowest = max(Decimal(round(middle / float(scale.step)) - (inner + 1) // 2), Decimal(1)) * scale.step
    edges = [lowest + rung * scale.step for rung in range(inner + 1)]
    offset, last = (Decimal("0.5"), Decimal(1)) if number.whole else (Decimal(0), Decimal(0))
    legs = []
    if tails:
        legs.append(_tail_below(scale, edges[0], offset))
    for low, high in pairwise(edges):
        least, most = number.text(low), number.text(high - last)
        strike = {"cap_strike": float(high - last), "floor_strike": float(low), "strike_type": "between"}
        suffix = f"B{_plain((low + high - last) / 2)}"
        words = {"range": f"between {least} and {most}"}
        legs.append(Leg(scale.at(low - offset), scale.at(high - offset), suffix, f"{least} to {most}", words, strike))
    if tails:
        legs.append(_tail_above(scale, edges[-1], offset))
    return Legs(tuple(legs), True, scale.answer)


def _tail_below(scale: _Scale, edge: Decimal, offset: Decimal) -> Leg:
    text = f"below {scale.number.text(edge)}"
    strike = {"cap_strike": float(edge), "strike_type": "less"}
    return Leg(-math.inf, scale.at(edge - offset), f"T{_plain(edge)}", text.capitalize(), {"range": text}, strike)


def _tail_above(scale: _Scale, edge: Decimal, offset: Decimal) -> Leg:
    text = f"{scale.number.text(edge)} or above"
    strike = {"floor_strike": float(edge - 2 * offset), "strike_type": "greater" if offset else "greater_or_equal"}
    return Leg(scale.at(edge - offset), math.inf, f"T{_plain(edge - 2 * offset)}", text, {"range": text}, strike)


_MAKERS: dict[str, Callable[[QuestionSeries, RandomDraws], Legs]] = {
    "single": _single,
    "ladder": _ladder,
    "brackets": _brackets,
    "contest": _contest,
    "members": _members,
}


def draw_legs(series: QuestionSeries, draw: RandomDraws) -> Legs:
    """Draw the markets of an event of this series."""
    return _MAKERS[series.family.kind](series, draw)
