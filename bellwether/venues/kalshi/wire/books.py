"""Parsing of order books, in every wire format, into rows of raw/kalshi_books."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import polars as pl

from bellwether.tables.order_books import KALSHI_BOOKS, LEVELS
from bellwether.tables.schema import PRICE
from bellwether.venues.kalshi.routes import parse_requested_tickers
from bellwether.venues.kalshi.wire.rules import CONTRACTS, PRICE_OF_CONTRACT
from bellwether.venues.wire.columns import Record, RejectReasons, WireColumns, find_repeats, to_records
from bellwether.venues.wire.json_decoding import decode_record
from bellwether.venues.wire.rejects import Origin, ParsedRecords, Quarantine, repeat_value
from bellwether.venues.wire.shapes import DecimalRule, ObjectShape

SIDES = ("yes", "no")
_BOOK = ObjectShape(tickers=("ticker",))


def extract_books(answer: Mapping[str, Any], origin: Origin) -> list[Any]:
    """Return the books in a response, each with its ticker. A response with a single book has no ticker, so the request's is used."""
    if "orderbooks" in answer:
        books = answer["orderbooks"]
        return books if isinstance(books, list) else [] if books is None else [books]
    tickers = parse_requested_tickers(origin.request)
    return [decode_record({**answer, "ticker": next(iter(tickers)) if len(tickers) == 1 else None})]


def parse_books(answer: Mapping[str, Any], origin: Origin, *, day: date) -> ParsedRecords:
    """Parse a response with one or more order books into rows of raw/kalshi_books in partition `day`.

    Reads `orderbook_fp`, and the older `orderbook` with dollars or integer cents; the newest format is preferred. A side that is null or
    absent is empty, levels without contracts are left out, and levels are sorted by price. These are rejects: an object without a book, and
    a book with a level that is not a price between 0 and 1 with a size, or with two levels at one price.
    """
    objects = extract_books(answer, origin)
    problems = RejectReasons()
    records = to_records(objects, "ticker", problems)
    columns = WireColumns(records, problems)
    books = [_wire_book(index, record, problems) for index, record in enumerate(records)]
    sides = {side: _side(side, [book.sides[side] for book in books], problems) for side in SIDES}
    best = {side: levels.list.last().struct.field("price") for side, levels in sides.items()}
    columns.note_crossed(best["yes"], 1 - best["no"], "orderbook_fp", instead="orderbook")
    frame = pl.DataFrame(
        {
            **columns.typed(_BOOK),
            "yes_bids": sides["yes"],
            "no_bids": sides["no"],
            "yes_bid": best["yes"],
            "yes_ask": (1 - best["no"]).cast(PRICE),
            "wire_format": pl.Series([book.wire_format for book in books], dtype=pl.String()),
            "day": repeat_value(day, pl.Date(), len(objects)),
            "body": columns.bodies(objects),
        }
    )
    repeats = find_repeats(frame.select("ticker"), objects, problems, field="ticker", kind="book of the same market")
    return Quarantine(KALSHI_BOOKS, "ticker", day, origin).sift(frame, objects, problems, unwanted=repeats)


@dataclass(frozen=True, slots=True)
class _Side:
    """Side of a book as sent: its field, its price levels, and whether prices are in cents."""

    name: str = ""
    levels: Sequence[Any] = ()
    cents: bool = False


@dataclass(frozen=True, slots=True)
class _WireBook:
    """Order book as sent: its wire format and its two sides."""

    wire_format: str = "current"
    sides: dict[str, _Side] = field(default_factory=lambda: dict.fromkeys(SIDES, _Side()))


def _wire_book(index: int, record: Record, problems: RejectReasons) -> _WireBook:
    """Return the book in a record, from its newest format if it has several. A record without a book is noted in `problems` as object
    `index`.
    """
    for name in ("orderbook_fp", "orderbook"):
        book = record.get(name)
        if book is None:
            continue
        if type(book) is not dict:
            problems.note(index, name, book, "not a JSON object")
            return _WireBook()
        plain = {key.removeprefix("_"): value for key, value in book.items()}
        sides = {side: _wire_side(index, name, side, plain, problems) for side in SIDES}
        dollars = any(f"{side}_dollars" in plain for side in SIDES)
        return _WireBook("current" if name == "orderbook_fp" else "transitional" if dollars else "legacy", sides)
    if index not in problems:
        problems.note(index, "orderbook_fp", None, "no order book")
    return _WireBook()


def _wire_side(index: int, book: str, side: str, plain: Record, problems: RejectReasons) -> _Side:
    """Return one side of the book of a record, from whichever field contains it. plain: the book. A value that is not a list is noted as a
    problem.
    """
    dollars = plain.get(f"{side}_dollars")
    name, levels = (side, plain.get(side)) if dollars is None else (f"{side}_dollars", dollars)
    if levels is not None and type(levels) is not list:
        problems.note(index, f"{book}.{name}", levels, "not a list")
        levels = None
    return _Side(f"{book}.{name}", levels or (), cents=dollars is None)


def _side(side: str, books: Sequence[_Side], problems: RejectReasons) -> pl.Series:
    """Parse one side (`yes` or `no`) of all books into lists of levels, sorted by price. An invalid level is noted as a problem of its
    book.
    """
    sent = [(index, level) for index, book in enumerate(books) for level in book.levels]
    levels = _typed_levels(books, sent)
    fits = levels.select((pl.col("price").is_between(0, 1, closed="none") & (pl.col("size") >= 0)).fill_null(False)).to_series()
    for place in (~fits).arg_true():
        index, level = sent[place]
        problems.note(index, books[index].name, level, "not a price between 0 and 1 with a size")
    valid = levels.filter(fits & (levels["size"] > 0)).sort("book", "price")
    for index in valid.filter(valid.select("book", "price").is_duplicated())["book"].unique(maintain_order=True):
        problems.note(index, books[index].name, None, "two levels at one price")
    grouped = valid.group_by("book", maintain_order=True).agg(pl.struct("price", "size").alias(side))
    every = pl.DataFrame({"book": pl.Series(range(len(books)), dtype=pl.UInt32())})
    joined = every.join(grouped, on="book", how="left", maintain_order="left")
    return joined[side].cast(LEVELS).fill_null(pl.Series([[]], dtype=LEVELS))


def _typed_levels(books: Sequence[_Side], sent: Sequence[tuple[int, Any]]) -> pl.DataFrame:
    """Parse levels into columns: number of the book, price and size; invalid values are null. sent: (number of the book, level as sent)."""
    pairs = [level if type(level) is list and len(level) == 2 else (None, None) for _, level in sent]
    prices = [_text(price, PRICE_OF_CONTRACT, integers=books[index].cents) for (index, _), (price, _) in zip(sent, pairs, strict=True)]
    sizes = [_text(size, CONTRACTS, integers=True) for _, size in pairs]
    columns = {"price": _decimals(prices, PRICE_OF_CONTRACT), "size": _decimals(sizes, CONTRACTS)}
    return pl.DataFrame({"book": pl.Series([index for index, _ in sent], dtype=pl.UInt32()), **columns})


def _text(value: Any, rule: DecimalRule, *, integers: bool) -> str | None:
    """Return a price or size as decimal text; None if it is neither text nor, with `integers`, an integer."""
    if type(value) is int and integers:
        return rule.text(value)
    return value if type(value) is str else None


def _decimals(texts: Sequence[str | None], rule: DecimalRule) -> pl.Series:
    """Convert texts to exact decimals; null if a text does not fit the rule."""
    series = pl.Series(texts, dtype=pl.String())
    fits = series.str.contains(rule.pattern).fill_null(False)
    return series.zip_with(fits, pl.Series([None], dtype=pl.String())).cast(rule.dtype)
