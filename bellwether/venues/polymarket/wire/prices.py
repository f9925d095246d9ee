"""Answers of the CLOB's /prices-history -> rows of raw/polymarket_prices."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from functools import partial
from typing import Any

import polars as pl

from bellwether.tables.raw import POLYMARKET_PRICES
from bellwether.venues.polymarket.wire.rules import PRICE, PRICE_PLACES, plain, prepared
from bellwether.venues.wire.columns import Columns, Problems, records_of
from bellwether.venues.wire.rejects import Origin, Parsed, Quarantine, constant
from bellwether.venues.wire.repeats import repeats_of
from bellwether.venues.wire.shapes import Shape

POINT = Shape(tickers=(), decimals={"p": PRICE})


def parse_prices(points: Sequence[Any], origin: Origin, *, day: date, market_id: str, token_id: str, period_minutes: int) -> Parsed:
    """Rows of raw/polymarket_prices for the points {t, p} of one token, unique by t.

    A second point of the same instant is dropped when it says the same and a reject when it does not; a point without a price is a reject.
    """
    problems = Problems()
    columns = Columns(prepared(records_of(points, "t", problems), p=partial(plain, places=PRICE_PLACES)), problems)
    frame = pl.DataFrame(
        {
            "at": columns.epoch("t"),
            "price": columns.typed(POINT)["p"],
            "day": constant(day, pl.Date(), len(points)),
            "market_id": constant(market_id, pl.String(), len(points)),
            "token_id": constant(token_id, pl.String(), len(points)),
            "period_minutes": constant(period_minutes, pl.Int32(), len(points)),
        }
    )
    columns.note_where(frame["price"].is_null(), "p", "missing")
    repeats = repeats_of(frame.select("at"), points, problems, field="p", what="price of the same instant")
    return Quarantine(POLYMARKET_PRICES, "t", day, origin).sift(frame, points, problems, unwanted=repeats)
