"""Parsing of the CLOB's past prices into rows of raw/polymarket_prices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any

import polars as pl

from bellwether.tables.raw import POLYMARKET_PRICES
from bellwether.venues.polymarket.wire.rules import PRICE, PRICE_PLACES, prepare_records, to_plain_decimal
from bellwether.venues.wire.columns import RejectReasons, WireColumns, find_repeats, to_records
from bellwether.venues.wire.rejects import Origin, ParsedRecords, Quarantine, build_origin_columns, repeat_value
from bellwether.venues.wire.shapes import ObjectShape

POINT = ObjectShape(tickers=(), decimals={"p": PRICE})


def parse_prices(points: Sequence[Any], origin: Origin, *, day: date, market_id: str, token_id: str, period_minutes: int) -> ParsedRecords:
    """Parse the points {t, p} of one token into rows of raw/polymarket_prices, with one price per time.

    A second point with the same t is dropped if it is equal, else it is a reject; a point without a price is a reject.
    """
    problems = RejectReasons()
    frame = _points(points, problems, day, period_minutes).hstack(
        [
            repeat_value(market_id, pl.String(), len(points)).alias("market_id"),
            repeat_value(token_id, pl.String(), len(points)).alias("token_id"),
        ]
    )
    repeats = find_repeats(frame.select("at"), points, problems, field="p", kind="price of the same instant")
    return Quarantine(POLYMARKET_PRICES, "t", day, origin).sift(frame, points, problems, unwanted=repeats)


@dataclass(frozen=True, slots=True)
class PriceHistory:
    """Past prices of one token on one page, as points {t, p} (Unix seconds and price)."""

    points: Sequence[Any]
    origin: Origin
    market_id: str
    token_id: str


def parse_histories(histories: Sequence[PriceHistory], *, day: date, period_minutes: int) -> pl.DataFrame | None:
    """Parse several histories in one pass, into the same rows as `parse_prices`; None if a point has a problem.

    Returns None if a point has a problem or is repeated: then parse each page separately.
    """
    problems = RejectReasons()
    frame = _points([point for history in histories for point in history.points], problems, day, period_minutes)
    if problems:
        return None
    counts = [len(history.points) for history in histories]
    frame = frame.hstack(build_origin_columns([history.origin for history in histories], counts)).with_columns(
        pl.Series(name, [getattr(history, name) for history in histories for _ in history.points], dtype=pl.String())
        for name in ("market_id", "token_id")
    )
    return None if frame.select("number", "at").is_duplicated().any() else frame.select(POLYMARKET_PRICES.names)


def _points(points: Sequence[Any], problems: RejectReasons, day: date, period_minutes: int) -> pl.DataFrame:
    """Parse the times and prices of points; invalid points are noted in `problems`."""
    columns = WireColumns(prepare_records(to_records(points, "t", problems), p=partial(to_plain_decimal, places=PRICE_PLACES)), problems)
    frame = pl.DataFrame(
        {
            "at": columns.epoch("t"),
            "price": columns.typed(POINT)["p"],
            "day": repeat_value(day, pl.Date(), len(points)),
            "period_minutes": repeat_value(period_minutes, pl.Int32(), len(points)),
        }
    )
    columns.note_where(frame["price"].is_null(), "p", "missing")
    return frame
