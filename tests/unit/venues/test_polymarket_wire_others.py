"""Winners, past prices and order books of the CLOB."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

from bellwether.tables.raw import POLYMARKET_BOOK, POLYMARKET_PRICES, POLYMARKET_REJECTS, POLYMARKET_WINNERS
from bellwether.venues.polymarket.wire import PriceHistory, parse_books, parse_histories, parse_prices, parse_winners
from bellwether.venues.wire.rejects import ParsedRecords
from tests.venues.polymarket.objects import DAY, NO, ORIGIN, YES, book, clob_market, condition, reject_fields


def winners(*objects: Any) -> ParsedRecords:
    parsed = parse_winners(list(objects), ORIGIN, day=DAY)
    POLYMARKET_WINNERS.validate(parsed.rows)
    POLYMARKET_REJECTS.validate(parsed.rejects)
    return parsed


def prices(*points: Any) -> ParsedRecords:
    parsed = parse_prices(list(points), ORIGIN, day=DAY, market_id="7", token_id=YES, period_minutes=60)
    POLYMARKET_PRICES.validate(parsed.rows)
    POLYMARKET_REJECTS.validate(parsed.rejects)
    return parsed


def books(*objects: Any) -> ParsedRecords:
    parsed = parse_books(list(objects), ORIGIN, day=DAY)
    POLYMARKET_BOOK.validate(parsed.rows)
    POLYMARKET_REJECTS.validate(parsed.rejects)
    return parsed


def test_every_outcome_of_a_clob_market_is_a_row():
    rows = winners(clob_market(1), clob_market(2, winner="No")).rows
    assert rows.select("condition_id", "position", "outcome", "token_id", "winner").rows() == [
        (condition(1), 0, "Yes", YES, True),
        (condition(1), 1, "No", NO, False),
        (condition(2), 0, "Yes", YES, False),
        (condition(2), 1, "No", NO, True),
    ]


def test_a_market_without_a_winner_says_so():
    rows = winners(clob_market(winner=None, is_50_50_outcome=True)).rows
    assert rows.select("winner", "is_50_50_outcome").unique().rows() == [(False, True)]


@pytest.mark.parametrize(
    ("changes", "field", "reason"),
    [
        ({"condition_id": ""}, "condition_id", "missing"),
        ({"condition_id": "0x1"}, "condition_id", "not 0x and 62 or 64 hexadecimal digits"),
        ({"tokens": []}, "tokens", "not a list of outcomes"),
        ({"tokens": None}, "tokens", "not a list of outcomes"),
        ({"tokens": [{"token_id": YES, "outcome": "Yes", "price": 2, "winner": True}]}, "tokens.price", "outside [0, 1]"),
        ({"tokens": [{"token_id": YES, "outcome": "Yes", "price": 1, "winner": "yes"}]}, "tokens.winner", "not true or false"),
    ],
)
def test_a_clob_market_that_does_not_fit_is_a_reject_as_a_whole(changes: dict[str, Any], field: str, reason: str):
    parsed = winners(clob_market(1), clob_market(2, **changes))
    assert (parsed.rows["condition_id"].unique().to_list(), parsed.ordinals) == ([condition(1)], [0, 0])
    assert [(found[0], found[2]) for found in reject_fields(parsed.rejects)] == [(field, reason)]
    assert parsed.rejects["ordinal"].to_list() == [1]


def test_points_become_prices_at_their_instants():
    rows = prices({"t": 1773446400, "p": 0.0275}, {"t": 1773450000, "p": "0.9999995"}, {"t": 1773453600, "p": 0}).rows
    assert rows["at"][0] == datetime(2026, 3, 14, tzinfo=UTC)
    assert rows["price"].to_list() == [Decimal("0.0275"), Decimal("0.9999995"), Decimal(0)]
    assert rows.select("market_id", "token_id", "period_minutes").unique().rows() == [("7", YES, 60)]


def test_a_point_that_comes_again_counts_once_and_one_that_says_otherwise_is_a_reject():
    parsed = prices({"t": 1773446400, "p": 0.5}, {"t": 1773446400, "p": 0.5}, {"t": 1773446400, "p": 0.6})
    assert parsed.rows["price"].to_list() == [Decimal("0.5")]
    assert reject_fields(parsed.rejects) == [("p", "0.6", "another price of the same instant says otherwise")]


@pytest.mark.parametrize(
    ("point", "field", "reason"),
    [
        ({"t": 1773446400, "p": None}, "p", "missing"),
        ({"t": 1773446400, "p": 1.01}, "p", "outside [0, 1]"),
        ({"t": 1773446400000, "p": 0.5}, "t", "a time outside the years 1970 to 2200"),
        (7, None, "not a JSON object"),
    ],
)
def test_a_point_that_cannot_be_right_is_a_reject(point: Any, field: str | None, reason: str):
    parsed = prices(point, {"t": 1773450000, "p": 0.5})
    assert parsed.rows.height == 1
    assert [(found[0], found[2]) for found in reject_fields(parsed.rejects)] == [(field, reason)]


def test_the_best_price_of_a_book_comes_last_on_the_wire_and_first_in_its_levels():
    rows = books(book()).rows
    assert rows.select("side", "level", "price", "size").rows() == [
        ("bid", 0, Decimal("0.25"), Decimal("7.5")),
        ("bid", 1, Decimal("0.01"), Decimal(100)),
        ("ask", 0, Decimal("0.29"), Decimal("12.000001")),
        ("ask", 1, Decimal("0.99"), Decimal(50)),
    ]
    first = rows.row(0, named=True)
    assert (first["token_id"], first["condition_id"], first["at"]) == (YES, condition(531202), datetime(2026, 3, 14, 0, 0, 0, 123000, UTC))
    assert (first["tick_size"], first["min_order_size"], first["last_trade_price"]) == (Decimal("0.001"), Decimal(5), None)


@pytest.mark.parametrize("empty", [[], None, ...])
def test_a_book_may_lack_a_side(empty: Any):
    assert books(book(bids=empty)).rows["side"].unique().to_list() == ["ask"]
    assert books(book(bids=empty, asks=empty)).rows.is_empty()
    assert books(book(bids=empty, asks=empty)).rejects.is_empty()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"bids": [{"price": "0.25", "size": "1"}, {"price": "0.01", "size": "1"}]}, "not in order: the best price comes last"),
        ({"asks": [{"price": "0.29", "size": "1"}, {"price": "0.99", "size": "1"}]}, "not in order: the best price comes last"),
        ({"bids": [{"price": "0.29", "size": "1"}]}, "the best bid is not below the best ask"),
        ({"bids": [{"price": "0.25"}], "asks": [7]}, "no usable level: 2 without a price on the tick or a size"),
        ({"bids": "none"}, "not a list of levels"),
        ({"timestamp": "now"}, "missing, or no milliseconds since 1970"),
        ({"asset_id": ...}, "missing"),
    ],
)
def test_nothing_is_read_off_a_book_that_does_not_fit(changes: dict[str, Any], reason: str):
    parsed = books(book(asset_id=NO), book(**changes))
    assert parsed.rows["token_id"].unique().to_list() == [NO]
    assert [found[2] for found in reject_fields(parsed.rejects)] == [reason]


@pytest.mark.parametrize(
    "level",
    [
        {"price": "0.25"},
        {"price": "1.25", "size": "1"},
        {"price": "0.2505", "size": "1"},
        {"price": "0.26", "size": "0"},
        {},
        7,
    ],
)
def test_each_level_is_judged_alone_by_the_tick_of_its_book_and_unusable_ones_are_counted(level: Any):
    """At every position of a side, also where the level would cross the book or break the order."""
    good = [{"price": "0.01", "size": "100"}, {"price": "0.25", "size": "7.5"}]
    for place in range(3):
        parsed = books(book(), book(asset_id=NO, bids=[*good[:place], level, *good[place:]]))
        assert parsed.rejects.is_empty()
        found = {token: rows for (token,), rows in parsed.rows.group_by("token_id", maintain_order=True)}
        assert found[YES].select("side", "level", "price", "size").equals(found[NO].select("side", "level", "price", "size"))
        assert (found[YES]["skipped_levels"].unique().to_list(), found[NO]["skipped_levels"].unique().to_list()) == ([0], [1])


@pytest.mark.parametrize("tick", [..., None, "", "0"])
def test_levels_of_a_book_without_a_tick_size_may_have_any_price(tick: Any):
    rows = books(book(tick_size=tick, bids=[{"price": "0.25123", "size": "1"}])).rows
    assert rows["price"].to_list()[0] == Decimal("0.25123")


def test_books_of_one_page_do_not_mix():
    rows = books(book(), book(asset_id=NO, bids=[{"price": "0.70", "size": "1"}], asks=[])).rows
    assert rows.filter(pl.col("level") == 0).select("token_id", "side", "price").rows() == [
        (YES, "bid", Decimal("0.25")),
        (YES, "ask", Decimal("0.29")),
        (NO, "bid", Decimal("0.7")),
    ]


def test_pages_of_prices_that_fit_are_parsed_at_once_with_the_same_rows() -> None:
    histories = [
        PriceHistory([{"t": 1767225600 + 3600 * hour, "p": price} for hour, price in enumerate(prices)], origin, market, token)
        for market, token, origin, prices in (
            ("7", "70", ORIGIN, (0.5, 1, 0.123456789)),
            ("7", "70", replace(ORIGIN, page=1, request="GET /prices-history?market=70&page=1"), (0.5, 0)),
            ("8", "80", replace(ORIGIN, page=2), ()),
            ("9", "90", replace(ORIGIN, page=3), (1e-7, 0.999)),
        )
    ]
    alone = [
        parse_prices(one.points, one.origin, day=DAY, market_id=one.market_id, token_id=one.token_id, period_minutes=60).rows
        for one in histories
    ]
    together = parse_histories(histories, day=DAY, period_minutes=60)
    assert together is not None
    assert together.schema == alone[0].schema
    assert together.equals(pl.concat(alone))


@pytest.mark.parametrize(
    "points",
    [[{"t": 1767225600}], [{"t": "x", "p": 0.5}], [7], [{"t": 1767225600, "p": 0.5}, {"t": 1767225600, "p": 0.5}]],
    ids=["no price", "no time", "no object", "twice"],
)
def test_a_page_of_prices_that_needs_a_look_by_itself_is_not_parsed_with_others(points: list[Any]) -> None:
    fitting = PriceHistory([{"t": 1767225600, "p": 0.5}], ORIGIN, "7", "70")
    assert parse_histories([fitting], day=DAY, period_minutes=60) is not None
    assert parse_histories([fitting, PriceHistory(points, replace(ORIGIN, page=1), "8", "80")], day=DAY, period_minutes=60) is None
