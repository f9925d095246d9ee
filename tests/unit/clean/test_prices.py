"""clean/prices: quotes at the end of each candle, and none after the close."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import polars as pl

from bellwether.lake.sql import run_sql
from bellwether.tables import clean, raw
from tests.clean.rows import CLOSE, DAY, KNOWN, market, markets, raw_candle

NO_POLYMARKET = {"polymarket_prices": raw.POLYMARKET_PRICES.empty()}


def clean_prices(*candles: dict[str, Any], of: pl.DataFrame | None = None) -> pl.DataFrame:
    inputs = {
        **NO_POLYMARKET,
        "kalshi_candles": raw.KALSHI_CANDLES.frame(list(candles)),
        "markets": markets(market()) if of is None else of,
    }
    return run_sql(clean.PRICES, inputs, {"first_day": DAY, "last_day": DAY})


def test_a_price_is_what_stood_at_the_end_of_its_candle() -> None:
    row = clean_prices(raw_candle(24)).row(0, named=True)
    assert row["at"] == CLOSE - timedelta(hours=24)
    assert (row["bid"], row["ask"], row["last"]) == (Decimal("0.40"), Decimal("0.44"), Decimal("0.43"))


def test_without_a_trade_the_last_trade_is_the_previous_one() -> None:
    rows = clean_prices(raw_candle(3, price_close=None), raw_candle(2, price_close=None, price_previous=None))
    assert rows["last"].to_list() == [Decimal("0.41"), None]


def test_a_candle_that_ends_after_the_close_is_left_out() -> None:
    rows = clean_prices(raw_candle(1), raw_candle(0), raw_candle(-0.01), raw_candle(-1))
    assert rows["at"].to_list() == [CLOSE - timedelta(hours=1), CLOSE]


def test_a_candle_without_a_market_is_left_out() -> None:
    assert clean_prices(raw_candle(ticker="ANOTHER")).height == 0


def test_of_candles_that_end_at_once_the_shortest_stands() -> None:
    rows = clean_prices(raw_candle(24, period_minutes=1440, yes_bid_close=None), raw_candle(24, period_minutes=1), raw_candle(24))
    assert rows["period_minutes"].to_list() == [1]


def test_known_at_covers_the_candle_and_the_market_whose_close_bounds_it() -> None:
    later = KNOWN + timedelta(hours=1)
    assert clean_prices(raw_candle(known_at=later))["known_at"].to_list() == [later]
    assert clean_prices(raw_candle(), of=markets(market(known_at=later)))["known_at"].to_list() == [later]
