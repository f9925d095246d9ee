"""Drawing of an event: its markets with their texts, liquidity and outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np

from bellwether.sandbox.source import Key
from bellwether.sandbox.timestamps import HOUR, format_time
from bellwether.sandbox.world.catalogue import QuestionSeries
from bellwether.sandbox.world.codes import TickerCodes, format_date_code
from bellwether.sandbox.world.latent_paths import Path, PathClaim
from bellwether.sandbox.world.legs import Leg, Legs, draw_legs
from bellwether.sandbox.world.model import Determination, Life, Market, WorldEvent, to_day_number
from bellwether.sandbox.world.random_draws import Purpose, RandomDraws
from bellwether.sandbox.world.tape import TradingProfile, list_price_ranges
from bellwether.sandbox.world.timetable import Timetable, draw_leg_close, draw_timetable

#: Share of the events with a market whose notional value is invalid.
_UNFIT = 0.012
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_SECONDARY = (
    "Revisions published after the market has been determined are not considered.",
    "If the source is unavailable for 48 hours, a comparable public source may be used.",
    "If the underlying is postponed beyond the latest expiration, the market may resolve to a fair price in accordance with the rules.",
    "Times are Eastern unless the rules say otherwise.\n\nThis market was made up; any likeness to real people or companies is an accident.",
)


@dataclass(frozen=True, slots=True)
class Liquidity:
    """Class of markets with similar trading, such as deep or thin: ranges from which a `TradingProfile` is drawn."""

    half_spread: tuple[float, float]
    requote: float
    one_sided: float
    trades: float
    size: int


_DEEP = Liquidity((0.004, 0.010), 0.90, 0.0, 0.45, 40)
_NORMAL = Liquidity((0.008, 0.020), 0.35, 0.0, 0.06, 15)
_THIN = Liquidity((0.020, 0.050), 0.03, 0.01, 0.004, 6)
_DEAD = Liquidity((0.030, 0.060), 0.01, 0.25, 0.0, 3)


def draw_trading(entropy: tuple[int, ...], grid: str, whole: bool, draw: RandomDraws) -> TradingProfile:
    """Draw how a market trades: 25 % are deep, 43 % normal, 25 % thin, 7 % dead. entropy: seed. grid: name of the price grid. whole: only
    whole contracts.
    """
    luck = draw.unit()
    liquidity = _DEEP if luck < 0.25 else _NORMAL if luck < 0.68 else _THIN if luck < 0.93 else _DEAD
    return TradingProfile(
        entropy,
        grid,
        draw.uniform(*liquidity.half_spread),
        liquidity.requote,
        liquidity.one_sided,
        liquidity.trades,
        liquidity.size,
        whole,
        draw.integer(3, 8),
    )


def _grid(draw: RandomDraws) -> str:
    """Draw the name of an event's price grid."""
    luck = draw.unit()
    return "linear_cent" if luck < 0.82 else "deci_cent" if luck < 0.92 else "tapered_deci_cent"


def format_day(day: date) -> str:
    """Format a date as in a question: Apr 10, 2025."""
    return f"{_MONTHS[day.month - 1]} {day.day}, {day.year}"


def _template_fields(series: QuestionSeries, table: Timetable) -> dict[str, str]:
    """Return the values of the placeholders in the texts of an event."""
    day = table.local_date
    return {
        "name": series.name,
        "date": format_day(day),
        "deadline": format_day(table.deadline),
        "quarter": f"Q{(day.month + 2) // 3} {day.year}",
    }


def _fair_price(claim: PathClaim, draw: RandomDraws) -> int:
    """Draw the settlement value of a market whose question has no answer, in 1/10000 dollar: its price at a random time, in whole cents."""
    prices = claim.probabilities()
    cents = int(np.rint(100 * prices[draw.integer(0, len(prices) - 1)]))
    return 100 * min(max(cents, 1), 99)


class _Determinations:
    """Draws how the markets of an event end: nearly always as their claims on the latent path say, rarely void or at a fractional value."""

    def __init__(self, series: QuestionSeries, answer: str, draw: RandomDraws) -> None:
        luck = draw.unit()
        self._void = luck < 0.006
        self._tie = series.family.tie and 0.006 <= luck < 0.026
        self._fair = not self._tie and 0.006 <= luck < 0.016
        self._answer = answer
        self._moment = draw.integer(0, 1 << 30)

    def of(self, claim: PathClaim) -> Determination:
        """Return the result and the value of the market with this claim."""
        if self._void:
            return Determination("void", None, "")
        if self._tie:
            return Determination("scalar", 5_000, "Tie")
        if self._fair:
            return Determination("scalar", _fair_price(claim, RandomDraws(self._moment, Purpose.EVENT)), "")
        return Determination("yes" if claim.pays else "no", 10_000 if claim.pays else 0, self._answer)


@dataclass(frozen=True, slots=True)
class _EventPlan:
    """Properties that all markets of an event share, from which they are built. place: number of the event's day, and the event's index in
    the day.
    """

    place: tuple[int, int]
    key: Key
    series: QuestionSeries
    ticker: str
    table: Timetable
    words: dict[str, str]
    question: str
    secondary: str
    grid: str
    whole: bool


def _market_terms(plan: _EventPlan, leg: Leg, life: Life) -> dict[str, Any]:
    family, table = plan.series.family, plan.table
    words = {**plan.words, **leg.words}
    terms: dict[str, Any] = {
        "can_close_early": bool(family.early),
        "created_time": format_time(life.created),
        "event_ticker": plan.ticker,
        "exchange_index": 0,
        "expected_expiration_time": format_time(table.expected),
        "expiration_time": format_time(table.latest),
        "latest_expiration_time": format_time(table.latest),
        "market_type": "binary",
        "no_sub_title": leg.label,
        "notional_value_dollars": "1.0000",
        "open_time": format_time(life.opens),
        "price_level_structure": plan.grid,
        "price_ranges": list_price_ranges(plan.grid),
        "rules_primary": f"If {family.claim.format(**words)} according to {family.source[0]}, then the market resolves to Yes.",
        "rules_secondary": plan.secondary,
        "settlement_bounds_type": "default",
        "settlement_timer_seconds": table.timer,
        "ticker": f"{plan.ticker}-{leg.suffix}" if leg.suffix else plan.ticker,
        "title": plan.question.format(**words),
        "yes_sub_title": leg.label,
        **leg.strike,
    }
    if family.early:
        event = "a result is declared" if family.early == "result" else "the event occurs"
        terms["early_close_condition"] = f"This market will close and expire early if {event}."
    if family.early == "result":
        terms["occurrence_datetime"] = format_time(table.expected // HOUR * HOUR)
    return terms


def _event_body(plan: _EventPlan, exclusive: bool, draw: RandomDraws) -> dict[str, Any]:
    series, family, words = plan.series, plan.series.family, plan.words
    body: dict[str, Any] = {
        "category": "" if draw.chance(0.01) else family.category,
        "collateral_return_type": "MECNET" if exclusive else "DIRECNET" if family.kind == "ladder" and draw.chance(0.3) else "",
        "event_ticker": plan.ticker,
        "exchange_index": 0,
        "last_updated_ts": format_time(plan.table.created),
        "mutually_exclusive": exclusive,
        "series_ticker": series.ticker,
        "settlement_sources": [{"name": family.source[0], "url": family.source[1]}],
        "sub_title": f"Before {words['deadline']}" if family.early == "deadline" else f"On {words['date']}",
        "title": family.event.format(**words),
    }
    if family.category == "Sports":
        body["product_metadata"] = {"competition": series.name, "competition_scope": family.tags[0]}
    strike = {"strike_period": ""} if family.early else {"strike_date": format_time(plan.table.closes)}
    return {**body, **strike}


def _markets(seed: int, plan: _EventPlan, legs: Legs, draw: RandomDraws) -> tuple[Market, ...]:
    family, table = plan.series.family, plan.table
    residual = draw.choose((0.0, 0.02, 0.1, 0.25))
    ends = {path: draw.normal() for path in sorted({leg.path for leg in legs.legs})}
    determinations = _Determinations(plan.series, legs.answer(ends[0]), draw)
    markets = []
    for position, leg in enumerate(legs.legs):
        closes = draw_leg_close(table, draw) if family.kind == "members" and family.early else table.closes
        path = Path((seed, Purpose.PATH, *plan.place, leg.path), ends[leg.path], family.pace, residual, table.opens, closes)
        claim = PathClaim(path, leg.lower, leg.upper)
        life = table.life(closes, draw)
        terms = _market_terms(plan, leg, life)
        trading = draw_trading((seed, Purpose.TRADING, *plan.place, position), plan.grid, plan.whole, draw)
        series, determination = plan.series.ticker, determinations.of(claim)
        markets.append(Market((*plan.key, position), terms["ticker"], plan.ticker, series, claim, trading, life, determination, terms))
    if draw.chance(_UNFIT):
        draw.choose(markets).terms["notional_value_dollars"] = "-1.0000"
    return tuple(markets)


def draw_event(seed: int, codes: TickerCodes, home: int, index: int, series: QuestionSeries) -> WorldEvent:
    """Draw an event, one question of the series, with its markets and their outcomes. home: number of its day. index: its number in the
    day.
    """
    draw = RandomDraws(seed, Purpose.EVENT, home, index)
    family = series.family
    table = draw_timetable(home, family, draw)
    legs = draw_legs(series, draw)
    code = codes.event(home, table.deadline.year) if family.early == "deadline" else format_date_code(table.local_date)
    plan = _EventPlan(
        place=(home, index),
        key=(-to_day_number(table.created), codes.place(home, index)),
        series=series,
        ticker=f"{series.ticker}-{code}",
        table=table,
        words={**_template_fields(series, table), **legs.words},
        question=draw.choose(family.question),
        secondary=draw.choose(_SECONDARY),
        grid=_grid(draw),
        whole=draw.chance(0.6),
    )
    body = _event_body(plan, legs.exclusive, draw)
    markets = _markets(seed, plan, legs, draw)
    created = min(market.life.created for market in markets)
    return WorldEvent(home, index, plan.key, plan.ticker, series.ticker, created, body, markets)
