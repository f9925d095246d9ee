"""Drawing of an event: the instants of its life, its markets with their texts and trading, and their outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import numpy as np

from bellwether.sandbox.timestamps import DAY, HOUR, MINUTE, SECOND, format_time, midnight, to_datetime
from bellwether.sandbox.world.catalogue import QuestionFamily, QuestionSeries
from bellwether.sandbox.world.latent_paths import SLOT, Path, PathClaim
from bellwether.sandbox.world.legs import Leg, draw_legs
from bellwether.sandbox.world.model import FIRST_DAY, Determination, Life, Market, WorldEvent, to_day_number
from bellwether.sandbox.world.random_draws import NumberCode, Purpose, RandomDraws
from bellwether.sandbox.world.tape import draw_trading, list_price_ranges

#: Maximum days that a market exists before its close, and from its close to its last settlement. Listings rely on these bounds.
LONGEST_LIFE, LATEST_SETTLEMENT = 58, 50

#: Close that is announced by markets without a deadline.
FAR_FUTURE = midnight(date(2099, 12, 1))

_LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PLACE_BITS, CODE_BITS = 32, 20
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_SECONDARY = (
    "Revisions published after the market has been determined are not considered.",
    "If the underlying is postponed beyond the latest expiration, the market may resolve to a fair price in accordance with the rules.",
    "Times are Eastern unless the rules say otherwise.\n\nThis market was made up; any likeness to real people or companies is an accident.",
)


def format_day(day: date) -> str:
    """Format a date as in a question: Apr 10, 2025."""
    return f"{_MONTHS[day.month - 1]} {day.day}, {day.year}"


def build_event_code(code: NumberCode, home: int) -> str:
    """Build the code in an event's ticker from the number of its day: four letters that do not reveal it."""
    hidden = code.hide(home, CODE_BITS)
    return "".join(_LETTERS[hidden >> shift & 31] for shift in (15, 10, 5, 0))


def read_event_code(code: NumberCode, text: str) -> int | None:
    """Return the number of the day in an event's ticker code; None for an invalid code."""
    if len(text) != 4 or not set(text) <= set(_LETTERS):
        return None
    hidden = 0
    for letter in text:
        hidden = hidden << 5 | _LETTERS.index(letter)
    return code.show(hidden, CODE_BITS)


def _draw_determination(draw: RandomDraws) -> int:
    """Draw the delay from a market's close to the decision about its result: mostly hours, sometimes days, rarely weeks."""
    return draw.delay((0.85, 2 * MINUTE, 6 * HOUR), (0.99, 6 * HOUR, 6 * DAY), (1.0, 14 * DAY, 33 * DAY))


def _draw_life(home: int, family: QuestionFamily, corrected: bool, draw: RandomDraws) -> Life:
    """Draw the life of an event whose markets close on day number `home`. corrected: it is settled twice."""
    begin = midnight(FIRST_DAY) + home * DAY
    closes = begin + draw.integer(family.hours[0] * 60, family.hours[1] * 60 - 1) * MINUTE
    scheduled = closes
    if family.early == "result":
        closes += draw.integer(0, 59) * SECOND
        scheduled = (closes + draw.integer(2 * DAY, 14 * DAY)) // HOUR * HOUR
    elif family.early == "deadline" and draw.chance(0.45):
        scheduled = FAR_FUTURE if draw.chance(0.06) else closes + draw.integer(3, 45) * DAY
    opens = (closes - draw.integer(family.life[0] * 24, family.life[1] * 24) * HOUR) // SLOT * SLOT
    determined = closes + _draw_determination(draw)
    disputed = determined + draw.integer(HOUR, 12 * HOUR) if draw.chance(0.01) else None
    settled = (disputed + draw.integer(DAY, 5 * DAY) if disputed else determined) + draw.choose((60, 300, 1800, 3600)) * SECOND
    return Life(
        created=opens - draw.integer(5 * MINUTE, 3 * HOUR),
        opens=opens,
        closes=closes,
        scheduled=scheduled,
        determined=determined,
        disputed=disputed,
        settled=settled,
        corrected=settled + draw.integer(2 * HOUR, 9 * DAY) if corrected else None,
    )


@dataclass(frozen=True, slots=True)
class _Ends:
    """End of an event's markets: by their claims, at half a dollar (a tie), at a fair price, or void.

    moment: from 0 to 1, where in the market's life its fair price is taken.
    """

    way: str
    moment: float
    answer: str

    @classmethod
    def draw(cls, answer: str, pair: bool, draw: RandomDraws) -> _Ends:
        """Draw it: nearly always by the claims. pair: the event is a game, which can end in a tie."""
        luck = draw.unit()
        way = "void" if luck < 0.006 else "tie" if pair and luck < 0.02 else "fair" if not pair and luck < 0.016 else "claim"
        return cls(way, draw.unit(), answer)

    def of(self, claim: PathClaim) -> Determination:
        """Return the end of the market with this claim."""
        if self.way == "void":
            return Determination("void", None, "")
        if self.way == "tie":
            return Determination("scalar", 5_000, "Tie")
        if self.way == "fair":
            prices = claim.probabilities()
            cents = int(np.rint(100 * prices[int(self.moment * len(prices))]))
            return Determination("scalar", 100 * min(max(cents, 1), 99), "")
        return Determination("yes", 10_000, self.answer) if claim.pays else Determination("no", 0, self.answer)


def _reverse(determination: Determination) -> Determination:
    """Return the opposite result, with which a market that is corrected was first settled."""
    return Determination("no", 0, "") if determination.result == "yes" else Determination("yes", 10_000, "")


@dataclass(frozen=True, slots=True)
class _Plan:
    """Properties that all markets of an event share, from which they are built. place: number of the event's day, and its index in the day.
    key: sort key of the event.
    """

    place: tuple[int, int]
    key: tuple[int, int]
    series: QuestionSeries
    ticker: str
    life: Life
    words: dict[str, str]
    secondary: str
    grid: str
    path: Path
    ends: _Ends

    def terms(self, leg: Leg) -> dict[str, Any]:
        """Build the fields of a market's object that never change."""
        family, life = self.series.family, self.life
        words = {**self.words, **leg.words}
        expires = life.scheduled + (0 if family.early == "result" else 7 * DAY)
        terms: dict[str, Any] = {
            "can_close_early": bool(family.early),
            "created_time": format_time(life.created),
            "event_ticker": self.ticker,
            "exchange_index": 0,
            "expected_expiration_time": format_time(life.scheduled + 3 * HOUR),
            "expiration_time": format_time(expires),
            "latest_expiration_time": format_time(expires),
            "market_type": "binary",
            "no_sub_title": leg.label,
            "notional_value_dollars": "1.0000",
            "open_time": format_time(life.opens),
            "price_level_structure": self.grid,
            "price_ranges": list_price_ranges(self.grid),
            "rules_primary": f"If {family.claim.format(**words)} according to {family.sources[0]['name']}, then the market resolves to Yes.",
            "rules_secondary": self.secondary,
            "settlement_bounds_type": "default",
            "settlement_timer_seconds": 60,
            "ticker": f"{self.ticker}-{leg.suffix}" if leg.suffix else self.ticker,
            "title": family.question.format(**words),
            "yes_sub_title": leg.label,
            **leg.strike,
        }
        if family.early:
            event = "a result is declared" if family.early == "result" else "the event occurs"
            terms["early_close_condition"] = f"This market will close and expire early if {event}."
        return terms

    def body(self, exclusive: bool, category: str) -> dict[str, Any]:
        """Build the event's object without its markets."""
        family, early = self.series.family, bool(self.series.family.early)
        return {
            "category": category,
            "collateral_return_type": "MECNET" if exclusive else "",
            "event_ticker": self.ticker,
            "exchange_index": 0,
            "last_updated_ts": format_time(self.life.created),
            "mutually_exclusive": exclusive,
            "series_ticker": self.series.ticker,
            "settlement_sources": family.sources,
            **({"strike_period": ""} if early else {"strike_date": format_time(self.life.closes)}),
            "sub_title": f"Before {self.words['deadline']}" if family.early == "deadline" else f"On {self.words['date']}",
            "title": family.event.format(**self.words),
        }


def _words(series: QuestionSeries, home: int, life: Life) -> dict[str, str]:
    """Return the values of the placeholders in the texts of an event."""
    late = series.family.late
    deadline = to_datetime(life.scheduled - 5 * HOUR * late).date()
    return {"name": series.name, "date": format_day(FIRST_DAY + timedelta(days=home - late)), "deadline": format_day(deadline)}


def draw_event(seed: int, code: NumberCode, home: int, index: int, series: QuestionSeries) -> WorldEvent:
    """Draw an event, one question of the series, with its markets and their outcomes. home: number of its day. index: its number in the
    day.
    """
    draw = RandomDraws(seed, Purpose.EVENT, home, index)
    family = series.family
    legs = draw_legs(series, draw)
    end, residual = draw.normal(), draw.choose((0.0, 0.02, 0.1, 0.25))
    ends = _Ends.draw(legs.answer(end), family.pair, draw)
    # Only where the opposite of every result is possible.
    corrected = draw.chance(0.03) and ends.way == "claim" and (family.pair or family.kind == "single")
    life = _draw_life(home, family, corrected, draw)
    plan = _Plan(
        place=(home, index),
        key=(-to_day_number(life.created), code.hide(home * 64 + index, _PLACE_BITS)),
        series=series,
        ticker=f"{series.ticker}-{build_event_code(code, home)}",
        life=life,
        words={**_words(series, home, life), **legs.words},
        secondary=draw.choose(_SECONDARY),
        grid=draw.choose(("linear_cent", "linear_cent", "linear_cent", "deci_cent", "tapered_deci_cent")),
        path=Path((seed, Purpose.PATH, home, index), end, family.pace, residual, life.opens, life.closes),
        ends=ends,
    )
    markets = tuple(_draw_market(seed, plan, leg, position, draw) for position, leg in enumerate(legs.legs))
    if draw.chance(0.012):
        # An invalid object, which becomes a reject.
        draw.choose(markets).terms["notional_value_dollars"] = "-1.0000"
    body = plan.body(legs.exclusive, "" if draw.chance(0.01) else family.category)
    return WorldEvent(home, index, plan.key, plan.ticker, series.ticker, life.created, body, markets)


def _draw_market(seed: int, plan: _Plan, leg: Leg, position: int, draw: RandomDraws) -> Market:
    claim = PathClaim(plan.path, leg.lower, leg.upper)
    terms, determination = plan.terms(leg), plan.ends.of(claim)
    return Market(
        key=(*plan.key, position),
        ticker=terms["ticker"],
        event_ticker=plan.ticker,
        series_ticker=plan.series.ticker,
        latent=claim,
        trading=draw_trading((seed, Purpose.TRADING, *plan.place, position), plan.grid, draw),
        life=plan.life,
        determination=determination,
        mistaken=_reverse(determination) if plan.life.corrected is not None else None,
        terms=terms,
    )
