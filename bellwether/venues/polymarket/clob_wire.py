"""Parsing of the CLOB's past prices, markets and order books into raw tables; invalid objects become rows of raw/polymarket_rejects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from typing import Any

import polars as pl

from bellwether.tables.raw import POLYMARKET_BOOK, POLYMARKET_PRICES, POLYMARKET_WINNERS
from bellwether.venues.http.page import VenuePage
from bellwether.venues.polymarket.routes import parse_requested_tokens
from bellwether.venues.polymarket.wire import (
    AMOUNT,
    CONDITION_ID,
    ID,
    ORDER_SIZE,
    PRICE,
    PRICE_PLACES,
    TRADE,
    USDC_PLACES,
    format_id,
    prepare_records,
    rename_columns,
    to_plain_decimal,
)
from bellwether.venues.wire.columns import ObjectShape, Record, RejectReasons, WireColumns, find_repeats, to_records
from bellwether.venues.wire.rejects import Origin, ParsedRecords, Quarantine, repeat_value, sift_pages

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
    return sift_pages(POLYMARKET_PRICES, quarantines, counts, frame, points, problems, unwanted=repeats)


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


CLOB_MARKET = ObjectShape(tickers=("condition_id",), flags=("is_50_50_outcome", "closed", "accepting_orders"))
TOKEN = ObjectShape(tickers=(), texts=("token_id", "outcome"), decimals={"price": PRICE}, flags=("winner",))


def parse_winners(objects: Sequence[Any], origin: Origin, *, day: date) -> ParsedRecords:
    """Parse the CLOB's markets of one page into rows of raw/polymarket_winners in partition `day`, one per outcome.

    `ordinals` of the result are those of the markets, once per row. A market with an invalid outcome, or without outcomes, is a reject.
    """
    problems = RejectReasons()
    columns = WireColumns(to_records(objects, "condition_id", problems), problems)
    markets = pl.DataFrame(columns.typed(CLOB_MARKET))
    columns.note_where(~markets["condition_id"].str.contains(CONDITION_ID), "condition_id", "not 0x and 62 or 64 hexadecimal digits")
    lists = columns.values("tokens")
    fits = [type(tokens) is list and bool(tokens) and all(type(token) is dict for token in tokens) for tokens in lists]
    columns.note_where(~pl.Series(fits, dtype=pl.Boolean()), "tokens", "not a list of outcomes")
    owners = [index for index, tokens in enumerate(lists) if fits[index] for _ in tokens]
    positions = [position for index, tokens in enumerate(lists) if fits[index] for position in range(len(tokens))]
    tokens = _parse_tokens([token for index, tokens in enumerate(lists) if fits[index] for token in tokens], owners, columns)
    valid = [place for place, owner in enumerate(owners) if owner not in problems]
    frame = (
        markets[owners]
        .hstack(tokens)
        .with_columns(day=repeat_value(day, pl.Date(), len(owners)), position=pl.Series(positions, dtype=pl.Int32()))
    )
    rejects = Quarantine(POLYMARKET_WINNERS, "condition_id", day, origin)
    whole = rejects.sift(frame[valid], objects, RejectReasons())
    return ParsedRecords(whole.rows, [owners[place] for place in valid], rejects.rows(objects, problems, {}))


def _parse_tokens(tokens: Sequence[Any], owners: Sequence[int], markets: WireColumns) -> pl.DataFrame:
    """Parse the outcomes (`tokens`) of all markets. owners: for each outcome, the position of its market, for which its problems are
    noted.
    """
    problems = RejectReasons()
    records = prepare_records(tokens, token_id=format_id, price=partial(to_plain_decimal, places=PRICE_PLACES))
    frame = pl.DataFrame(WireColumns(records, problems, "tokens.").typed(TOKEN))
    for place, problem in problems.items():
        markets.problems.note(owners[place], problem.field, problem.value, problem.reason)
    return frame


_BOOK_COLUMNS = {"token_id": "asset_id", "condition_id": "market"}
BOOK = ObjectShape(
    tickers=("asset_id",),
    texts=("market", "hash"),
    decimals={"tick_size": PRICE, "min_order_size": ORDER_SIZE, "last_trade_price": TRADE},
    flags=("neg_risk",),
)
LEVEL = ObjectShape(tickers=(), decimals={"price": PRICE, "size": AMOUNT})


def parse_books(objects: Sequence[Any], origin: Origin, *, day: date) -> ParsedRecords:
    """Parse the order books of one page into rows of raw/polymarket_book, one per level; level 0 is the best.

    In the response both sides list their best price last. A book without levels has no row. Invalid levels are left out and counted in
    `skipped_levels`; a book is a reject if it has no valid level, is in another order, or is crossed. `ordinals` of the result are those of
    the books, once per level. day: day of the rejects.
    """
    problems = RejectReasons()
    price, amount = partial(to_plain_decimal, places=PRICE_PLACES), partial(to_plain_decimal, places=USDC_PLACES)
    records = prepare_records(
        to_records(objects, "asset_id", problems),
        asset_id=format_id,
        timestamp=format_id,
        tick_size=price,
        min_order_size=amount,
        last_trade_price=price,
    )
    columns = WireColumns(records, problems)
    books = (
        pl.DataFrame(rename_columns(columns, BOOK, _BOOK_COLUMNS)).with_columns(at=columns.epoch_millis("timestamp")).with_row_index("book")
    )
    columns.note_where(~books["token_id"].str.contains(ID), "asset_id", "not a number in text")
    levels = _usable(pl.concat([_side(records, side, columns) for side in ("bid", "ask")]), books, problems)
    _check_order(columns, levels)
    _check_crossed(columns, levels)
    frame = levels.filter(~pl.col("book").is_in(list(problems))).join(books, on="book", how="left", maintain_order="left")
    frame = frame.sort("book", "side", "level", descending=[False, True, False])
    rejects = Quarantine(POLYMARKET_BOOK, "asset_id", day, origin)
    whole = rejects.sift(frame, objects, RejectReasons())
    return ParsedRecords(whole.rows, frame["book"].to_list(), rejects.rows(objects, problems, {}))


def _side(records: Sequence[Record], side: str, books: WireColumns) -> pl.DataFrame:
    """Parse the levels of one side of all books, best first; the price of an invalid level is null."""
    field, owners, listed = f"{side}s", [], []
    for index, record in enumerate(records):
        levels = record.get(field) or []
        if type(levels) is not list:
            books.problems.note(index, field, levels, "not a list of levels")
            continue
        owners += [index] * len(levels)
        listed += [level if type(level) is dict else {} for level in levels[::-1]]
    numbers = prepare_records(
        listed, price=partial(to_plain_decimal, places=PRICE_PLACES), size=partial(to_plain_decimal, places=USDC_PLACES)
    )
    unusable = RejectReasons()
    typed = WireColumns(numbers, unusable, f"{field}.").typed(LEVEL)
    frame = pl.DataFrame({"book": pl.Series(owners, dtype=pl.UInt32()), **typed})
    fits = ~pl.Series([place in unusable for place in range(len(owners))], dtype=pl.Boolean())
    return frame.with_columns(pl.when(fits & pl.col("size").is_not_null()).then("price"), side=pl.lit(side))


def _usable(levels: pl.DataFrame, books: pl.DataFrame, problems: RejectReasons) -> pl.DataFrame:
    """Return the valid levels of all books, numbered from the best, each with the number of invalid levels of its book.

    A level is valid if it has a positive size and a price between 0 and 1 that is a multiple of the book's tick size.
    """
    ticks = dict(books.select("book", "tick_size").iter_rows())
    fits = [
        price is not None and 0 < price < 1 and size > 0 and not (ticks[book] and price % ticks[book])
        for book, price, size in levels.select("book", "price", "size").iter_rows()
    ]
    judged = levels.with_columns(fits=pl.Series(fits, dtype=pl.Boolean()))
    judged = judged.with_columns(skipped_levels=(~pl.col("fits")).sum().over("book").cast(pl.Int32))
    for book, count in judged.filter(pl.col("fits").sum().over("book") == 0).select("book", "skipped_levels").unique().iter_rows():
        problems.note(book, "bids", None, f"no usable level: {count} without a price on the tick or a size")
    return judged.filter("fits").drop("fits").with_columns(level=pl.int_range(pl.len(), dtype=pl.Int32()).over("book", "side"))


def _check_order(books: WireColumns, levels: pl.DataFrame) -> None:
    step = pl.col("price").diff().over("book", "side")
    wrong = levels.filter(pl.when(pl.col("side") == "bid").then(step >= 0).otherwise(step <= 0))
    for index, side, price in wrong.select("book", "side", "price").iter_rows():
        books.problems.note(index, f"{side}s", str(price), "not in order: the best price comes last")


def _check_crossed(books: WireColumns, levels: pl.DataFrame) -> None:
    best = levels.filter(level=0).pivot("side", index="book", values="price")
    if {"bid", "ask"} <= set(best.columns):
        for index, bid, ask in best.filter(pl.col("bid") >= pl.col("ask")).select("book", "bid", "ask").rows():
            books.problems.note(index, "bids", [str(bid), str(ask)], "the best bid is not below the best ask")
