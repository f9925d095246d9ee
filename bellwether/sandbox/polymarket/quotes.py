"""Quotes, book levels and turnover of a market at any instant.

The answer is the instant at which the outcome becomes known; from then on quotes are next to the expected value. Twice a price is used,
because the mid of two integers may not be an integer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from bellwether.sandbox.polymarket.listing import Purpose
from bellwether.sandbox.polymarket.model import ListedMarket
from bellwether.sandbox.polymarket.resolution_steps import HALF, NO, YES
from bellwether.sandbox.timestamps import DAY
from bellwether.sandbox.world.latent_paths import SLOT
from bellwether.sandbox.world.random_draws import create_generator
from bellwether.sandbox.world.tape import DOLLAR, NO_ASK, NO_BID, MarketTape, record_tape, reserve_size

#: Price in tenths of a cent, size in hundredths of a share.
RawLevel = tuple[int, int]

#: Traded dollars are integers of 1/100000 dollar: a tenth of a cent times a hundredth of a share.
MONEY = 100_000

_DEPTH = 9


@dataclass(frozen=True, slots=True)
class MarketQuote:
    """Quote of YES: prices in tenths of a cent, sizes in hundredths of a share.

    twice_price: twice the market's price. last: price of the last trade; 0 without one. since: instant since when the quote is known to be
    valid.
    """

    bid: int
    ask: int
    bid_size: int
    ask_size: int
    twice_price: int
    last: int
    since: int


@lru_cache(maxsize=192)
def build_tape(market: ListedMarket) -> MarketTape:
    """Draw the quotes and trades of a market from its opening to the answer."""
    return record_tape.__wrapped__(market.claim, market.trading)


def _pinned(value: int, tick: int) -> tuple[int, int]:
    """Return the bid and ask that are next to a known value of YES (0, half a dollar or one dollar)."""
    if value == HALF:
        return HALF - tick, HALF + tick
    return (DOLLAR - tick, NO_ASK) if value == YES else (NO_BID, tick)


def _answer(market: ListedMarket) -> int:
    """Return the value of YES that traders expect once the outcome is known."""
    return market.truth if market.truth is not None else YES if market.claim.pays else NO


def _pins(market: ListedMarket) -> list[tuple[int, int, int]]:
    """Return the changes of the quote from the answer on, as (instant, bid, ask)."""
    values = [(market.answered, _answer(market))]
    values += [(step.at, step.value) for step in market.steps if step.value is not None]
    return [(at, *_pinned(value, market.tick)) for at, value in values]


def compute_quote(market: ListedMarket, at: int) -> MarketQuote | None:
    """Compute the quote at an instant; None before the opening. After the close the last quote remains."""
    at = min(at, market.closes - 1)
    if at < market.opens:
        return None
    tape = build_tape(market)
    slot = tape.at(min(at, market.answered - 1))
    if at < market.answered:
        fields = {name: int(getattr(tape, name)[slot]) for name in ("bid", "ask", "bid_size", "ask_size", "twice_price", "last")}
        return MarketQuote(**fields, since=market.opens + slot * SLOT)
    since, bid, ask = next(pin for pin in reversed(_pins(market)) if pin[0] <= at)
    size = 5_000 * market.trading.size
    return MarketQuote(bid, ask, size if bid > NO_BID else 0, size if ask < NO_ASK else 0, bid + ask, int(tape.last[slot]), since)


def compute_twice_prices(market: ListedMarket, times: NDArray[np.int64]) -> NDArray[np.int64]:
    """Compute twice the price of YES at each of `times`, at which the market must trade."""
    tape = build_tape(market)
    slots = np.clip((times - market.opens) // SLOT, 0, len(tape.price) - 1)
    prices = tape.twice_price[slots].astype(np.int64)
    for at, bid, ask in _pins(market):
        prices = np.where(times >= at, bid + ask, prices)
    return prices


def _side(best: int, size: int, step: int, luck: list[float]) -> list[RawLevel]:
    """Build the levels of one side, best first. step: distance of two prices in tenths of a cent; negative for bids. luck: random
    numbers.
    """
    if not size:
        return []
    prices = range(best, DOLLAR if step > 0 else 0, step)[: 2 + int(luck[0] * (_DEPTH - 1))]
    sizes = [size if place == 0 else 1 + int(size * (0.4 + 4.0 * luck[place])) for place in range(len(prices))]
    if len(prices) > 1:
        sizes[1] += reserve_size(prices[1], 1)
    return list(zip(prices, sizes, strict=True))


def build_levels(market: ListedMarket, seed: int, quote: MarketQuote) -> tuple[list[RawLevel], list[RawLevel]]:
    """Draw the bids and asks of YES behind a quote, best first."""
    luck = create_generator(seed, Purpose.BOOK, market.number, quote.since).random(2 * _DEPTH + 2).tolist()
    bids = _side(quote.bid, quote.bid_size, -market.tick, luck[: _DEPTH + 1])
    return bids, _side(quote.ask, quote.ask_size, market.tick, luck[_DEPTH + 1 :])


@dataclass(frozen=True, slots=True)
class Turnover:
    """Traded value up to an instant, in 1/100000 dollars: in total, and in the last day, week, 30 days and year."""

    total: int
    day: int
    week: int
    month: int
    year: int


def compute_turnover(market: ListedMarket, at: int) -> Turnover:
    """Compute the turnover up to an instant."""
    tape = build_tape(market)
    end = tape.at(at) + 1
    money = tape.price[:end].astype(np.int64) * tape.size[:end].astype(np.int64)
    starts = [max(tape.at(at - days * DAY) + 1, 0) for days in (1, 7, 30, 365)]
    return Turnover(int(money.sum()), *(int(money[start:].sum()) for start in starts))


def compute_changes(market: ListedMarket, at: int) -> dict[str, int]:
    """Compute by how much twice the price of YES has changed in the last hour, day, week and month, by Gamma's field.

    Periods that begin before the opening are left out.
    """
    periods = {"oneHourPriceChange": DAY // 24, "oneDayPriceChange": DAY, "oneWeekPriceChange": 7 * DAY, "oneMonthPriceChange": 30 * DAY}
    at = min(at, market.closes - 1)
    names = [name for name, period in periods.items() if at - period >= market.opens]
    if not names:
        return {}
    prices = compute_twice_prices(market, np.asarray([at, *(at - periods[name] for name in names)], dtype=np.int64)).tolist()
    return {name: prices[0] - price for name, price in zip(names, prices[1:], strict=True)}
