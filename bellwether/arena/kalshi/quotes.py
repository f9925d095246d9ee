"""Prices of Kalshi's contracts: of order books, which hold the bids for YES and for NO, and of candles."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from bellwether.arena.market import Level, Quote, complement
from bellwether.arena.units import micros, middle, price_micros
from bellwether.units import MicroShares

BOOK, CANDLES = "orderbook", "candlesticks"

Sizes = Sequence[tuple[Decimal, Decimal]]


class Candle(NamedTuple):
    """The end of a candle: best bid and ask for YES in dollars; None where there was none."""

    at: datetime
    bid: Decimal | None
    ask: Decimal | None


def quote_of_book(yes: Sizes, no: Sizes, at: datetime) -> Quote:
    """The quote of YES from the bids of both sides, (price, contracts) in any order: who bids for NO offers YES at what that leaves of a dollar."""
    bids = sorted(_levels(yes), key=lambda level: -level.price)
    asks = sorted((Level(complement(level.price), level.shares) for level in _levels(no)), key=lambda level: level.price)
    bid, ask = (side[0].price if side else None for side in (bids, asks))
    return Quote(middle(bid, ask), bid, ask, at, BOOK, tuple(bids), tuple(asks))


def quote_of_candle(candle: Candle) -> Quote:
    """The quote of YES at the end of a candle; what rested in the book is not kept."""
    bid, ask = price_micros(candle.bid), price_micros(candle.ask)
    return Quote(middle(bid, ask), bid, ask, candle.at, CANDLES)


def as_of(candles: Sequence[Candle], at: datetime) -> Candle | None:
    """The last candle that had ended by an instant."""
    return max((candle for candle in candles if candle.at <= at), default=None, key=lambda candle: candle.at)


def _levels(side: Sizes) -> list[Level]:
    found = ((price_micros(price), MicroShares(micros(size))) for price, size in side)
    return [Level(price, shares) for price, shares in found if price is not None and shares > 0]
