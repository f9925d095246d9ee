"""Parsing of the CLOB's past prices and markets into raw tables; invalid objects become rows of raw/polymarket_rejects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from typing import Any

import polars as pl

from bellwether.tables.raw import POLYMARKET_PRICES, POLYMARKET_WINNERS
from bellwether.venues.http.page import VenuePage
from bellwether.venues.polymarket.routes import parse_requested_tokens
from bellwether.venues.polymarket.wire import (
    CONDITION_ID,
    PRICE,
    PRICE_PLACES,
    prepare_records,
    to_plain_decimal,
)
from bellwether.venues.wire.columns import ObjectShape, RejectReasons, WireColumns, find_repeats, to_records
from bellwether.venues.wire.rejects import ParsedRecords, Quarantine, build_records, keep_rows, repeat_value

POINT = ObjectShape(tickers=(), decimals={"p": PRICE})


def parse_prices(pages: Sequence[VenuePage], market_of: Mapping[str, str], *, day: date, period_minutes: int) -> ParsedRecords:
    """Parse pages of past prices, each of one token as points {t, p} (Unix seconds and price), into rows of raw/polymarket_prices, with one price per
    page and time. market_of: id of the market of each requested token.

    A second point with the same t is dropped if it is equal, else it is a reject; a point without a price is a reject.
    """
    # Of copies of the pages, so that their parsed JSON, which takes several times their bytes, is not kept.
    histories = [replace(page).items("history") for page in pages]
    tokens = [token for page in pages for token in parse_requested_tokens(page)]
    problems, counts = RejectReasons(), list(map(len, histories))
    points = [point for history in histories for point in history]
    numbers = [number for number, count in enumerate(counts) for _ in range(count)]
    frame = _points(points, problems, day, period_minutes).with_columns(
        number=pl.Series(numbers, dtype=pl.UInt32()),
        market_id=pl.Series([market_of[tokens[number]] for number in numbers], dtype=pl.String()),
        token_id=pl.Series([tokens[number] for number in numbers], dtype=pl.String()),
    )
    repeats = find_repeats(frame.select("number", "at"), points, problems, field="p", kind="price of the same instant")
    quarantines = [Quarantine(POLYMARKET_PRICES, "t", day, page.origin) for page in pages]
    return build_records(POLYMARKET_PRICES, quarantines, counts, keep_rows(frame, problems.keys() | repeats), points, problems=problems)


def _points(points: Sequence[Any], problems: RejectReasons, day: date, period_minutes: int) -> pl.DataFrame:
    """Parse the times and prices of points; invalid points are noted in `problems`."""
    columns = WireColumns(prepare_records(to_records(points, problems), p=partial(to_plain_decimal, places=PRICE_PLACES)), problems)
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


CLOB_MARKET = ObjectShape(tickers=("condition_id",), flags=("is_50_50_outcome", "closed", "accepting_orders"))
TOKEN = ObjectShape(tickers=(), texts=("token_id", "outcome"), decimals={"price": PRICE}, flags=("winner",))


def parse_winners(pages: Sequence[VenuePage], *, day: date) -> ParsedRecords:
    """Parse pages of the CLOB, each of one market, into rows of raw/polymarket_winners in partition `day`, one per outcome. pages: at least
    one.

    A market with an invalid outcome, or without outcomes, is a reject.
    """
    problems, objects = RejectReasons(), [page.json for page in pages]
    columns = WireColumns(to_records(objects, problems), problems)
    markets = pl.DataFrame(columns.typed(CLOB_MARKET))
    columns.note_where(~markets["condition_id"].str.contains(CONDITION_ID), "condition_id", "not 0x and 62 or 64 hexadecimal digits")
    lists = columns.values("tokens")
    fits = [type(tokens) is list and bool(tokens) and all(type(token) is dict for token in tokens) for tokens in lists]
    columns.note_where(~pl.Series(fits, dtype=pl.Boolean()), "tokens", "not a list of outcomes")
    owners = [index for index, tokens in enumerate(lists) if fits[index] for _ in tokens]
    positions = [position for index, tokens in enumerate(lists) if fits[index] for position in range(len(tokens))]
    tokens = _parse_tokens([token for index, tokens in enumerate(lists) if fits[index] for token in tokens], owners, columns)
    frame = (
        markets[owners]
        .hstack(tokens)
        .with_columns(
            day=repeat_value(day, pl.Date(), len(owners)),
            position=pl.Series(positions, dtype=pl.Int32()),
            number=pl.Series(owners, dtype=pl.UInt32()),
        )
    )
    valid = keep_rows(frame, {place for place, owner in enumerate(owners) if owner in problems})
    quarantines = [Quarantine(POLYMARKET_WINNERS, "condition_id", day, page.origin) for page in pages]
    return build_records(POLYMARKET_WINNERS, quarantines, [1] * len(pages), valid, objects, problems=problems)


def _parse_tokens(tokens: Sequence[Any], owners: Sequence[int], markets: WireColumns) -> pl.DataFrame:
    """Parse the outcomes (`tokens`) of all markets. owners: for each outcome, the position of its market, for which its problems are
    noted.
    """
    problems = RejectReasons()
    records = prepare_records(tokens, price=partial(to_plain_decimal, places=PRICE_PLACES))
    frame = pl.DataFrame(WireColumns(records, problems, "tokens.").typed(TOKEN))
    for place, problem in problems.items():
        markets.problems.note(owners[place], problem.field, problem.value, problem.reason)
    return frame
