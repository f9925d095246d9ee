"""The CLOB's order books -> levels, best first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from functools import partial
from typing import Any

import polars as pl

from bellwether.tables.raw import POLYMARKET_BOOK
from bellwether.tables.schema import TIME
from bellwether.venues.polymarket.wire.rules import (
    AMOUNT,
    ID,
    ORDER_SIZE,
    PRICE,
    PRICE_PLACES,
    TRADE,
    USDC_PLACES,
    id_text,
    plain,
    prepared,
    renamed,
)
from bellwether.venues.wire.columns import Columns, Problems, Record, records_of
from bellwether.venues.wire.rejects import Origin, Parsed, Quarantine
from bellwether.venues.wire.shapes import Shape

NAMES = {"token_id": "asset_id", "condition_id": "market"}
BOOK = Shape(
    tickers=("asset_id",),
    texts=("market", "hash"),
    decimals={"tick_size": PRICE, "min_order_size": ORDER_SIZE, "last_trade_price": TRADE},
    flags=("neg_risk",),
)
LEVEL = Shape(tickers=(), decimals={"price": PRICE, "size": AMOUNT})
_MILLISECONDS = r"^[0-9]{1,14}$"


def parse_books(objects: Sequence[Any], origin: Origin, *, day: date) -> Parsed:
    """Levels (columns of raw/polymarket_book) of the order books of one page, several per book; rejects are filed under `day`.

    On the wire both sides list their best price last, bids ascending and asks descending; here level 0 is the best. A book without levels
    has no row. One with a level that does not fit, in another order, or crossed is a reject as a whole: nothing may be read off it.
    `ordinals` of the result are those of the books, once per level.
    """
    problems = Problems()
    price, amount = partial(plain, places=PRICE_PLACES), partial(plain, places=USDC_PLACES)
    records = prepared(
        records_of(objects, "asset_id", problems),
        asset_id=id_text,
        timestamp=id_text,
        tick_size=price,
        min_order_size=amount,
        last_trade_price=price,
    )
    columns = Columns(records, problems)
    books = pl.DataFrame(renamed(columns, BOOK, NAMES)).with_columns(at=_instants(columns)).with_row_index("book")
    columns.note_where(~books["token_id"].str.contains(ID), "asset_id", "not a number in text")
    levels = pl.concat([_side(records, side, columns) for side in ("bid", "ask")])
    _check_crossed(columns, levels)
    frame = levels.filter(~pl.col("book").is_in(list(problems))).join(books, on="book", how="left", maintain_order="left")
    frame = frame.sort("book", "side", "level", descending=[False, True, False])
    rejects = Quarantine(POLYMARKET_BOOK, "asset_id", day, origin)
    whole = rejects.sift(frame, objects, Problems())
    return Parsed(whole.rows, frame["book"].to_list(), rejects.rows(objects, problems, {}))


def _instants(columns: Columns) -> pl.Series:
    """Milliseconds since 1970 as text."""
    texts = pl.Series("at", [value if type(value) is str else None for value in columns.values("timestamp")], dtype=pl.String())
    fits = texts.str.contains(_MILLISECONDS).fill_null(False)
    columns.note_where(~fits, "timestamp", "missing, or no milliseconds since 1970")
    return (texts.zip_with(fits, pl.Series([None], dtype=pl.String())).cast(pl.Int64()) * 1000).cast(TIME)


def _side(records: Sequence[Record], side: str, books: Columns) -> pl.DataFrame:
    """The levels of one side of all books, best first."""
    field, owners, listed = f"{side}s", [], []
    for index, record in enumerate(records):
        levels = record.get(field) or []
        if type(levels) is not list or not all(type(level) is dict for level in levels):
            books.problems.note(index, field, levels, "not a list of levels")
            continue
        owners += [index] * len(levels)
        listed += levels[::-1]
    problems = Problems()
    prepared_levels = prepared(listed, price=partial(plain, places=PRICE_PLACES), size=partial(plain, places=USDC_PLACES))
    frame = pl.DataFrame({"book": pl.Series(owners, dtype=pl.UInt32()), **Columns(prepared_levels, problems, f"{field}.").typed(LEVEL)})
    for place in (frame["price"].is_null() | frame["size"].is_null()).arg_true():
        problems.note(place, field, listed[place], "a level without a price or a size")
    frame = frame.with_columns(side=pl.lit(side), level=pl.int_range(pl.len(), dtype=pl.Int32()).over("book"))
    step = pl.col("price").diff().over("book")
    for place in frame.select((step >= 0) if side == "bid" else (step <= 0)).to_series().arg_true():
        problems.note(place, field, listed[place], "not in order: the best price comes last")
    for place, problem in problems.items():
        books.problems.note(owners[place], problem.field, problem.value, problem.reason)
    return frame


def _check_crossed(books: Columns, levels: pl.DataFrame) -> None:
    best = levels.filter(level=0).pivot("side", index="book", values="price")
    if {"bid", "ask"} <= set(best.columns):
        for index, bid, ask in best.filter(pl.col("bid") >= pl.col("ask")).select("book", "bid", "ask").rows():
            books.problems.note(index, "bids", [str(bid), str(ask)], "the best bid is not below the best ask")
