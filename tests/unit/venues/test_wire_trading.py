"""Order books: every format since 2024, exact, with invalid parts set aside."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bellwether.tables.order_books import KALSHI_BOOKS
from bellwether.venues.kalshi import routes
from bellwether.venues.kalshi.wire import Origin, ParsedRecords, parse_books

DAY = date(2026, 3, 14)
AT = datetime(2026, 3, 14, 8, 30, tzinfo=UTC)
LISTED = Origin(routes.trades().request, 2, AT)


def read_books(answer: dict[str, Any], *tickers: str) -> ParsedRecords:
    request = routes.orderbooks(tickers).request if tickers else "GET /markets/T/orderbook"
    parsed = parse_books(answer, Origin(request, 0, AT), day=DAY)
    KALSHI_BOOKS.validate(parsed.rows)
    return parsed


def book(answer: dict[str, Any]) -> dict[str, Any]:
    parsed = read_books(answer)
    assert parsed.rejects.is_empty(), parsed.rejects.to_dicts()
    return parsed.rows.row(0, named=True)


def levels(*pairs: tuple[str, str]) -> list[dict[str, Decimal]]:
    return [{"price": Decimal(price), "size": Decimal(size)} for price, size in pairs]


CURRENT = {"orderbook_fp": {"yes_dollars": [["0.0450", "552.25"], ["0.5800", "10.00"]], "no_dollars": [["0.3990", "7.00"]]}}
FORMATS = {
    "current": ("current", {"orderbook_fp": {"yes_dollars": [["0.0700", "5.00"], ["0.5800", "552.00"]], "no_dollars": None}}),
    "current beside cents": (
        "current",
        {"orderbook": {"yes": [[1, 1]]}, "orderbook_fp": {"yes_dollars": [["0.07", "5"], ["0.58", "552"]]}},
    ),
    "best first": ("current", {"orderbook_fp": {"yes_dollars": [["0.5800", "552.00"], ["0.0700", "5.00"]], "no_dollars": []}}),
    "a level without contracts": (
        "current",
        {"orderbook_fp": {"yes_dollars": [["0.0100", "0.00"], ["0.0700", "5.00"], ["0.5800", "552.00"]], "no_dollars": []}},
    ),
    "transitional": (
        "transitional",
        {"orderbook": {"yes": [[7, 5], [58, 552]], "no": None, "yes_dollars": [["0.07", 5], ["0.58", 552]], "no_dollars": None}},
    ),
    "transitional without dollars": (
        "transitional",
        {"orderbook": {"yes": [[7, 5], [58, 552]], "no": None, "yes_dollars": None, "no_dollars": None}},
    ),
    "legacy": ("legacy", {"orderbook": {"yes": [[7, 5], [58, 552]], "no": None}}),
    "the 2024 client": ("legacy", {"orderbook": {"_yes": [[7, 5], [58, 552]], "_no": [], "discriminator": None}}),
}


@pytest.mark.parametrize(("wire_format", "answer"), FORMATS.values(), ids=list(FORMATS))
def test_a_book_reads_alike_in_every_format(wire_format: str, answer: dict[str, Any]):
    row = book(answer)
    assert (row["ticker"], row["yes_bids"], row["no_bids"]) == ("T", levels(("0.07", "5"), ("0.58", "552")), [])
    assert (row["yes_bid"], row["yes_ask"], row["wire_format"]) == (Decimal("0.58"), None, wire_format)


def test_prices_and_sizes_are_exact_and_the_ask_is_the_other_sides_bid():
    row = book(CURRENT)
    assert row["yes_bids"] == levels(("0.045", "552.25"), ("0.58", "10"))
    assert (row["yes_bid"], row["yes_ask"]) == (Decimal("0.58"), Decimal("0.601"))


@pytest.mark.parametrize("held", [{}, {"yes_dollars": None, "no_dollars": None}, {"yes_dollars": [], "no_dollars": []}])
def test_sides_that_are_null_absent_or_empty_are_an_empty_book(held: dict[str, Any]):
    row = book({"orderbook_fp": held})
    assert (row["yes_bids"], row["no_bids"], row["yes_bid"], row["yes_ask"]) == ([], [], None, None)


def one_level(level: Any) -> dict[str, Any]:
    return {"ticker": "B", "orderbook_fp": {"yes_dollars": [["0.0100", "1.00"], level], "no_dollars": []}}


UNFIT_BOOKS = {
    "no book": ({"ticker": "B"}, "orderbook_fp", "no order book"),
    "a list for a book": ({"ticker": "B", "orderbook_fp": []}, "orderbook_fp", "not a JSON object"),
    "an object for a side": ({"ticker": "B", "orderbook_fp": {"no_dollars": {}}}, "orderbook_fp.no_dollars", "not a list"),
    "no ticker": ({"orderbook_fp": {}}, "ticker", "missing"),
    "no object": ("B", None, "not a JSON object"),
    "a price of 1": (one_level(["1.0000", "1.00"]), "orderbook_fp.yes_dollars", "not a price"),
    "a negative size": (one_level(["0.5000", "-1.00"]), "orderbook_fp.yes_dollars", "not a price"),
    "too many decimals": (one_level(["0.5000001", "1.00"]), "orderbook_fp.yes_dollars", "not a price"),
    "three numbers": (one_level(["0.5000", "1.00", "2"]), "orderbook_fp.yes_dollars", "not a price"),
    "a level twice": (one_level(["0.010", "2.00"]), "orderbook_fp.yes_dollars", "two levels at one price"),
}


@pytest.mark.parametrize(("item", "field", "reason"), UNFIT_BOOKS.values(), ids=list(UNFIT_BOOKS))
def test_a_book_that_does_not_fit_is_set_aside_and_its_neighbours_are_kept(item: Any, field: str | None, reason: str):
    parsed = read_books({"orderbooks": [{"ticker": "A", **CURRENT}, item, {"ticker": "C", **CURRENT}]}, "A", "B", "C")
    assert parsed.rows["ticker"].to_list() == ["A", "C"]
    assert parsed.rows["yes_bids"].list.len().to_list() == [2, 2]
    found = parsed.rejects.row(0, named=True)
    assert (found["field"], found["ordinal"], found["table"]) == (field, 1, "raw/kalshi_books")
    assert reason in found["reason"]


def test_a_book_listed_twice_is_kept_once_and_a_contradiction_is_set_aside():
    again = {"ticker": "A", **CURRENT}
    parsed = read_books({"orderbooks": [again, again, {"ticker": "A", "orderbook_fp": {}}]}, "A")
    assert parsed.rows.height == 1
    assert parsed.rejects["reason"].to_list() == ["another book of the same market says otherwise"]


CENTS = st.integers(1, 60)


@settings(max_examples=60, deadline=None)
@given(sides=st.tuples(*[st.dictionaries(CENTS, st.integers(1, 10**6), max_size=20)] * 2))
def test_cents_and_dollars_read_alike_and_nothing_is_lost(sides: tuple[dict[int, int], dict[int, int]]):
    assume(max(sides[0], default=0) + max(sides[1], default=0) <= 100)
    cents = {name: [list(level) for level in side.items()] for name, side in zip(("yes", "no"), sides, strict=True)}
    dollars = {f"{name}_dollars": [[f"{price / 100:.4f}", f"{size}.00"] for price, size in side] for name, side in cents.items()}
    old, new = book({"orderbook": cents}), book({"orderbook_fp": dollars})
    for name, side in zip(("yes_bids", "no_bids"), sides, strict=True):
        expected = [{"price": Decimal(price) / 100, "size": Decimal(size)} for price, size in sorted(side.items())]
        assert old[name] == new[name] == expected
