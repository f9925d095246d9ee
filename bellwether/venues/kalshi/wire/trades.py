"""Trades of every wire format -> rows of raw/kalshi_trades."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

import polars as pl

from bellwether.tables.schema import PRICE
from bellwether.tables.trading import KALSHI_TRADES
from bellwether.venues.kalshi.wire.rules import CONTRACTS, PRICE_OF_CONTRACT
from bellwether.venues.wire.columns import Columns, Problems, Typed, records_of, repeats_of
from bellwether.venues.wire.rejects import Origin, Parsed, Quarantine, constant
from bellwether.venues.wire.shapes import Shape

TRADED = Shape(
    tickers=("trade_id", "ticker"),
    times={"traded_at": "created_time"},
    decimals={"yes_price": PRICE_OF_CONTRACT, "no_price": PRICE_OF_CONTRACT, "count": CONTRACTS},
    texts=("taker_side", "taker_outcome_side", "taker_book_side"),
    flags=("is_block_trade",),
)
#: Side of the book of the taker's order -> outcome of its position.
_OUTCOMES = {"bid": "yes", "ask": "no"}


def parse_trades(objects: Sequence[Any], origin: Origin, *, day: date, source: str) -> Parsed:
    """Rows of raw/kalshi_trades for the trades of one page, each once.

    `source` is live or historical. Rejects are filed under the day of the trade, or under `day` where it cannot be read.
    Reads `taker_outcome_side`, or `taker_book_side` or the older `taker_side` where it is absent. A trade without an id, a market, a time, a
    price or a size is a reject, as is one whose two prices do not add up to a dollar or whose sides contradict each other.
    """
    problems = Problems()
    columns = Columns(records_of(objects, "trade_id", problems), problems)
    typed = columns.typed(TRADED)
    at = typed["traded_at"]
    columns.note_where(at.is_null(), "created_time", "missing")
    frame = pl.DataFrame(
        {
            "trade_id": typed["trade_id"],
            "ticker": typed["ticker"],
            "traded_at": at,
            "day": at.cast(pl.Date()),
            **_prices(columns, typed),
            "size": _size(columns, typed["count"]),
            "taker_side": _taker_side(columns, typed),
            "is_block_trade": typed["is_block_trade"],
            "source": constant(source, pl.String(), len(objects)),
            "body": columns.bodies(objects),
        }
    )
    repeats = repeats_of(frame.select("trade_id"), objects, problems, field="trade_id", what="trade of the same id")
    return Quarantine(KALSHI_TRADES, "trade_id", day, origin).sift(frame, objects, problems, unwanted=repeats)


def _prices(columns: Columns, typed: Typed) -> Typed:
    """Both prices, one from the other where only one was sent."""
    yes, no = typed["yes_price"], typed["no_price"]
    columns.note_where((yes + no != 1).fill_null(False), "yes_price_dollars", "does not add up to 1 with no_price", instead="yes_price")
    price = pl.select(pl.coalesce(yes, (1 - no).cast(PRICE)).alias("yes_price")).to_series()
    columns.note_where(
        ~price.is_between(0, 1, closed="none").fill_null(False), "yes_price_dollars", "no price between 0 and 1", instead="yes_price"
    )
    return {"yes_price": price, "no_price": (1 - price).cast(PRICE)}


def _size(columns: Columns, count: pl.Series) -> pl.Series:
    columns.note_where(count.is_null() | (count == 0), "count_fp", "missing, or nothing traded", instead="count")
    return count


def _taker_side(columns: Columns, typed: Typed) -> pl.Series:
    """The taker's outcome, by each of the names it has had."""
    book = typed["taker_book_side"].fill_null("")
    told = pl.DataFrame(
        {
            "taker_outcome_side": typed["taker_outcome_side"],
            "taker_book_side": book.replace(_OUTCOMES),
            "taker_side": typed["taker_side"],
        }
    ).with_columns(pl.all().replace("", None))
    for name in told.columns:
        columns.note_where(~told[name].is_in(["yes", "no"]).fill_null(True), name, "not a side")
    side = told.select(pl.coalesce(pl.all())).to_series()
    for name in told.columns:
        columns.note_where((told[name] != side).fill_null(False), name, "contradicts another side of the same trade")
    return side
