"""Recorded order books from 2024 to 2026, parsed and compared with a plain parse, level by level."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from bellwether.venues.kalshi import routes
from bellwether.venues.kalshi.wire import SIDES, parse_books
from bellwether.venues.wire.rejects import Origin

pytestmark = pytest.mark.real

Object = dict[str, Any]
AT = datetime(2026, 11, 1, tzinfo=UTC)
DAY = date(2026, 11, 1)


def found_in(value: Any, *fields: str) -> Iterator[Object]:
    """Return every JSON object below `value` with one of these fields."""
    if isinstance(value, dict):
        if any(name in value for name in fields):
            yield value
        for inner in value.values():
            yield from found_in(inner, *fields)
    elif isinstance(value, list):
        for inner in value:
            yield from found_in(inner, *fields)


def of_files(folder: Path, *fields: str) -> list[Object]:
    found = [item for path in sorted(folder.rglob("*.json")) for item in found_in(json.loads(path.read_bytes()), *fields)]
    if not found:
        pytest.skip(f"no objects with {' or '.join(fields)} under {folder.name}")
    return found


def side_of(book: Object, side: str, cents: bool) -> list[Object]:
    """Parse the levels of a side one by one, the best last."""
    pairs = book.get(side if cents else f"{side}_dollars") or []
    levels = [{"price": Decimal(price) / 100 if cents else Decimal(price), "size": Decimal(size)} for price, size in pairs]
    return sorted(levels, key=lambda level: level["price"])


def check(books: dict[str, Object], name: str, *, cents: bool) -> None:
    """Check `books` by ticker in an envelope of that name against a plain parse."""
    tickers = list(books)
    answer = {"orderbooks": [{"ticker": ticker, name: books[ticker]} for ticker in tickers]}
    parsed = parse_books(answer, Origin(routes.orderbooks(tickers[:100]).request, 0, AT), day=DAY)
    assert parsed.rejects.is_empty(), parsed.rejects.select("record_id", "field", "value", "reason").to_dicts()
    plain = {ticker: {field.removeprefix("_"): value for field, value in book.items()} for ticker, book in books.items()}
    for row in parsed.rows.iter_rows(named=True):
        yes, no = (side_of(plain[row["ticker"]], side, cents) for side in SIDES)
        assert (row["yes_bids"], row["no_bids"]) == (yes, no), row["ticker"]
        assert row["yes_bid"] == (yes[-1]["price"] if yes else None)
        assert row["yes_ask"] == (1 - no[-1]["price"] if no else None)
    assert parsed.rows.height == len(books)


def test_recorded_books_of_today(recordings: Path):
    items = of_files(recordings / "kalshi/rest_2026_08", "orderbook_fp")
    check({item.get("ticker", f"T{number}"): item["orderbook_fp"] for number, item in enumerate(items)}, "orderbook_fp", cents=False)


def test_recorded_books_of_the_transition(recordings: Path):
    items = of_files(recordings / "kalshi/rest_2026_01_transitional", "orderbook")
    books = {f"T{number}": item["orderbook"] for number, item in enumerate(items)}
    check(books, "orderbook", cents=False)
    check({ticker: {side: book.get(side) for side in SIDES} for ticker, book in books.items()}, "orderbook", cents=True)


def test_recorded_books_of_2024(recordings: Path):
    dumped = json.loads((recordings / "kalshi/rest_2024_legacy/orderbook_data.json").read_bytes())
    check({ticker: book for item in dumped for ticker, book in item.items()}, "orderbook", cents=True)
