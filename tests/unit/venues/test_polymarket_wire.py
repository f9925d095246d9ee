"""Gamma's markets and events, and the CLOB's winners, past prices and order books, parsed into raw tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import product
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bellwether.tables.raw import POLYMARKET_PRICES, POLYMARKET_REJECTS, POLYMARKET_WINNERS
from bellwether.venues.http.page import VenuePage, decode_json
from bellwether.venues.polymarket.wire import parse_events, parse_prices, parse_winners
from bellwether.venues.wire.rejects import ParsedRecords
from tests.unit.venues.polymarket_objects import (
    DAY,
    FETCHED,
    NO,
    ORIGIN,
    YES,
    clob_market,
    clob_pages,
    condition,
    event,
    market,
    read,
    reject,
    reject_fields,
    row,
)


def test_a_market_has_every_field_under_its_own_name():
    found = row(market())
    assert (found["day"], found["market_id"], found["condition_id"]) == (DAY, "531202", condition(531202))
    assert (found["event_id"], found["event_slug"], found["event_title"]) == ("21662", "rain", "Rain in NYC")
    assert found["start_time"] == datetime(2026, 3, 1, 16, 49, 31, 84000, UTC)
    assert found["end_time"] == datetime(2026, 3, 14, 12, tzinfo=UTC)
    assert found["closed_at"] == found["uma_end_at"] == datetime(2026, 3, 14, 15, 0, 16, tzinfo=UTC)
    assert (found["outcomes"], found["outcome_prices"]) == (["Yes", "No"], [Decimal(1), Decimal(0)])
    assert (found["token_ids"], found["yes_token"], found["no_token"]) == ([YES, NO], YES, NO)
    assert (found["uma_resolution_status"], found["uma_statuses"]) == ("resolved", ["proposed", "resolved"])
    assert (found["volume"], found["liquidity"]) == (Decimal("80362.860284"), Decimal(0))
    assert [found[name] for name in ("best_bid", "best_ask", "last_trade_price", "tick_size")] == [
        Decimal(text) for text in ("0.252", "0.284", "0.97", "0.001")
    ]
    assert (found["min_order_size"], found["closed"], found["active"], found["neg_risk"]) == (Decimal(5), True, True, False)
    assert (found["request"], found["page"], found["fetched_at"], found["known_at"]) == (ORIGIN.request, 3, FETCHED, FETCHED)
    assert json.loads(found["body"]) == market()


LISTS = ("outcomes", "outcomePrices", "clobTokenIds", "umaResolutionStatuses")


def test_lists_inside_strings_read_like_real_lists():
    real = market(**{name: json.loads(market()[name]) for name in LISTS})
    assert {**row(real), "body": ""} == {**row(market()), "body": ""}


def test_prices_and_tokens_that_are_bare_numbers_inside_the_string_keep_every_digit():
    found = row(market(outcomePrices="[0.0275, 0.9725]", clobTokenIds=f"[{YES}, {NO}]"))
    assert found["outcome_prices"] == [Decimal("0.0275"), Decimal("0.9725")]
    assert found["token_ids"] == [YES, NO]


def test_tokens_that_are_bare_numbers_in_a_real_list_have_lost_digits_and_are_a_reject():
    (found,) = decode_json(json.dumps([market(clobTokenIds=[int(YES), int(NO)])]).encode())
    assert reject(found)[::2] == ("clobTokenIds", "not a list of texts")


@given(st.decimals(0, 1, allow_nan=False, places=12))
def test_a_price_of_twelve_decimals_is_read_exactly(price: Decimal):
    prices = [format(price, "f"), format(1 - price, "f")]
    assert row(market(outcomePrices=json.dumps(prices)))["outcome_prices"] == [price, 1 - price]


def test_a_market_without_optional_keys_is_a_row_with_nulls():
    kept = ("id", "endDate", "outcomes")
    found = row({name: value for name, value in market().items() if name in kept})
    assert (found["outcome_prices"], found["token_ids"], found["uma_statuses"], found["tags"]) == ([], [], [], [])
    names = ("condition_id", "closed", "volume", "best_bid", "event_id", "fee_rate", "yes_token", "closed_at")
    assert [found[name] for name in names] == [None] * len(names)


def test_the_fee_schedule_is_read():
    schedule = {"rate": 0.07, "exponent": 1, "takerOnly": True, "rebateRate": 0.2}
    found = row(market(feesEnabled=True, feeType="crypto_fees_v2", feeSchedule=schedule, takerBaseFee=1000, makerBaseFee=1000))
    assert (found["fee_rate"], found["fee_exponent"], found["taker_only"]) == (Decimal("0.07"), Decimal(1), True)
    assert (found["rebate_rate"], found["taker_base_fee"], found["maker_base_fee"]) == (Decimal("0.2"), 1000, 1000)


STRUCTURED = "0x01" + "c3" * 30
POSITIONS = ["33" + "0" * 74 + "3", "33" + "0" * 74 + "4"]


def v2(**changes: Any) -> dict[str, Any]:
    """Return a market of Protocol V2, as described by the official client's models."""
    return market(**{"version": "v2", "conditionId": STRUCTURED, "clobTokenIds": "", "positionIds": POSITIONS, **changes})


def test_the_version_chooses_the_ids_where_both_are_there():
    assert row(v2(clobTokenIds=json.dumps([YES, NO])))["token_ids"] == POSITIONS
    for version in ("v1", "V1", 1, None, "", ...):
        assert row(market(version=version, positionIds=POSITIONS))["token_ids"] == [YES, NO], (
            "position ids of a V1 market are those of combos"
        )


def test_an_event_is_read_with_its_tags_and_series_and_without_its_markets():
    found = parse_events([event()], ORIGIN, day=date(2026, 1, 1)).rows.row(0, named=True)
    assert (found["event_id"], found["title"], found["day"]) == ("21662", "Rain in NYC", date(2026, 1, 1))
    assert (found["tags"], found["tag_labels"]) == (["weather"], ["Weather"])
    assert (found["series_id"], found["series_slug"], found["volume"]) == ("9", "rain-daily", Decimal("80362.860284"))
    assert "markets" not in json.loads(found["body"])


def winners(*objects: Any) -> ParsedRecords:
    parsed = parse_winners(clob_pages(*objects), day=DAY)
    POLYMARKET_WINNERS.validate(parsed.rows)
    POLYMARKET_REJECTS.validate(parsed.rejects)
    return parsed


def price_page(token: str, points: Sequence[Any], ordinal: int = 3) -> VenuePage:
    return VenuePage(f"GET /prices-history?market={token}&part={ordinal}", 200, FETCHED, json.dumps({"history": points}).encode(), ordinal)


def prices(*points: Any) -> ParsedRecords:
    parsed = parse_prices([price_page(YES, points)], {YES: "7"}, day=DAY, period_minutes=60)
    POLYMARKET_PRICES.validate(parsed.rows)
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
    assert parsed.rows.select("condition_id", "page").unique().rows() == [(condition(1), 0)]
    assert [(found[0], found[2]) for found in reject_fields(parsed.rejects)] == [(field, reason)]
    assert parsed.rejects.select("page", "ordinal").rows() == [(1, 0)]


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


def test_pages_of_prices_that_fit_are_parsed_at_once_with_the_same_rows() -> None:
    market_of = {"70": "7", "80": "8", "90": "9"}
    drawn = (("70", (0.5, 1, 0.123456789)), ("70", (0.5, 0)), ("80", ()), ("90", (1e-7, 0.999)))
    pages = [
        price_page(token, [{"t": 1767225600 + 3600 * hour, "p": price} for hour, price in enumerate(prices)], ordinal)
        for ordinal, (token, prices) in enumerate(drawn)
    ]
    together = parse_prices(pages, market_of, day=DAY, period_minutes=60)
    assert together.rejects.is_empty()
    assert together.rows.equals(pl.concat(parse_prices([page], market_of, day=DAY, period_minutes=60).rows for page in pages))


def test_a_price_keeps_its_digits_and_is_never_rounded_up_to_1():
    for text, price in {
        "0.9999989871426158": "0.9999989871426158",
        "0.99999999999999999999999999999999": "0.99999999999999999999",
        "0": "0",
    }.items():
        assert row(market(outcomePrices=json.dumps([text, "0.5"])))["outcome_prices"][0] == Decimal(price)
    for text in ("1e-7", "1e999999999"):
        assert reject(market(volume=text))[0] == "volume"
        assert reject(market(outcomePrices=json.dumps([text, "0"])))[0] == "outcomePrices"
    found = row(market(bestBid=0, bestAsk=1, lastTradePrice=0))
    assert [found[name] for name in ("best_bid", "best_ask", "last_trade_price")] == [None] * 3, "no quote and no trade"
    assert reject(market(bestBid=0.6, bestAsk=0.59)) == ("bestBid", "0.6", "the bid lies above the ask")


@pytest.mark.parametrize(
    ("outcomes", "kind", "yes", "no"),
    [
        (["Yes", "No"], "binary", YES, NO),
        (["No", "Yes"], "binary", NO, YES),
        (["YES", " no"], "binary", YES, NO),
        (["Up", "Down"], "named", None, None),
        (["Yes", "Maybe"], "named", None, None),
        (["Yes", "B", "No"], "multi", None, None),
    ],
)
def test_yes_is_found_by_its_name_and_never_by_its_position(outcomes: list[str], kind: str, yes: str | None, no: str | None):
    tokens = json.dumps([YES, NO, "1" * 76][: len(outcomes)])
    prices = json.dumps(["0.5", "0.5", "0"][: len(outcomes)])
    found = row(market(outcomes=json.dumps(outcomes), clobTokenIds=tokens, outcomePrices=prices))
    assert (found["market_type"], found["yes_token"], found["no_token"]) == (kind, yes, no)


def test_both_forms_of_times_are_read():
    for text in ("2026-07-24 00:00:16+00", "2026-07-24T00:00:16Z", "2026-07-24 00:00:16+00:00", "2026-07-24T02:00:16+02"):
        assert row(market(closedTime=text))["closed_at"] == datetime(2026, 7, 24, 0, 0, 16, tzinfo=UTC)


def test_what_cannot_be_right_is_a_reject():
    changes: dict[str, tuple[tuple[Any, str], ...]] = {
        "endDate": ((..., "missing: without an end a market belongs to no day"), ("soon", "not a time (RFC 3339 with a zone)")),
        "id": ((..., "missing"), ("x7", "not a number in text")),
        "conditionId": (("0x12", "not 0x and 62 or 64 hexadecimal digits"),),
        "outcomePrices": (
            ('["1"]', "not as many as there are outcomes"),
            ('["1", "1.5"]', "a price in it lies outside [0, 1]"),
            ('["1", "x"]', "a price in it is not a decimal of at most 4 digits and 20 decimals"),
            ("1, 0", "not a list"),
        ),
        "outcomes": (('["Yes", null]', "not a list of texts"),),
        "clobTokenIds": ((f'["{YES}"]', "not as many as there are outcomes"),),
        "volume": (("many", "not a decimal of at most 18 digits and 6 decimals"),),
        "closed": (("true", "not true or false"),),
        "feeSchedule": ((7, "not a JSON object"),),
        "events": (([{"id": "e"}], "the event's id is not a number in text"),),
    }
    for field, values in changes.items():
        for value, reason in values:
            found = reject(market(**{field: value}))
            assert (found[0], found[2]) == (field, reason)


def test_a_v2_market_trades_by_its_position_ids_in_either_form():
    forms = (POSITIONS, json.dumps(POSITIONS), "[" + ", ".join(POSITIONS) + "]")
    for version, ids in product(("v2", "V2", " v2 ", "2", 2, 2.0), forms):
        found = row(v2(version=version, positionIds=ids))
        assert (found["token_ids"], found["yes_token"], found["no_token"]) == (POSITIONS, *POSITIONS)
        assert found["condition_id"] == STRUCTURED
    for form in (STRUCTURED, STRUCTURED + "00", STRUCTURED.upper().replace("0X", "0x")):
        assert row(v2(conditionId=form))["condition_id"] == form, "62 or 64 digits"
    assert row(v2(clobTokenIds="not a list"))["token_ids"] == POSITIONS, "ids by which it does not trade need not fit"
    assert row(market(version="v1", positionIds={"yes": 7}))["token_ids"] == [YES, NO]


def test_a_market_that_is_not_deployed_or_has_no_order_book_has_no_ids():
    for version, empty in product(("v1", "v2", None), ("", None, "0x", ...)):
        found = row(v2(version=version, conditionId=empty, positionIds=[], clobTokenIds=..., closed=False))
        assert (found["condition_id"], found["token_ids"], found["yes_token"]) == (None, [], None)
    assert row(market(clobTokenIds=..., endDate="2021-03-14T12:00:00Z", closedTime=...))["token_ids"] == []
    assert row(v2(positionIds=None, enableOrderBook=False))["token_ids"] == []


def test_a_market_whose_trading_ids_cannot_be_determined_is_a_reject():
    unknown, missing = (
        "not v1 or v2: without it the trading ids cannot be determined",
        "missing: a deployed market with an order book has trading ids",
    )
    cases: list[tuple[dict[str, Any], str, str]] = [
        ({"version": "v3"}, "version", unknown),
        ({"version": ...}, "version", unknown),
        ({"positionIds": ...}, "positionIds", missing),
        ({"version": "v1"}, "clobTokenIds", missing),
        ({"version": ..., "positionIds": ...}, "clobTokenIds", missing),
        ({"positionIds": POSITIONS[:1]}, "positionIds", "not as many as there are outcomes"),
        ({"positionIds": ["0x33", "0x34"]}, "positionIds", "a trading id in it is not a number in text"),
        ({"positionIds": [3.3e75, 3.4e75]}, "positionIds", "not a list of texts"),
        ({"conditionId": STRUCTURED[:-1]}, "conditionId", "not 0x and 62 or 64 hexadecimal digits"),
    ]
    for changes, field, reason in cases:
        found = reject(v2(**changes))
        assert (found[0], found[2]) == (field, reason)


def test_histories_parsed_together_have_the_rows_and_rejects_of_each_alone() -> None:
    fitting, market_of = price_page("70", [{"t": 1767225600, "p": 0.5}]), {"70": "7", "80": "8"}
    twice = [{"t": 1767225600, "p": 0.5}] * 2
    for points in ([*twice, {"t": 1767225600}], [{"t": "x", "p": 0.5}], [7], twice):
        pages = [fitting, price_page("80", points, 1), fitting]
        together = parse_prices(pages, market_of, day=DAY, period_minutes=60)
        alone = [parse_prices([page], market_of, day=DAY, period_minutes=60) for page in pages]
        assert together.rows.equals(pl.concat(parsed.rows for parsed in alone))
        assert together.rejects.equals(pl.concat(parsed.rejects for parsed in alone))


def test_one_bad_market_leaves_the_others_of_its_page():
    parsed = read(market(1), market(2, endDate=...), market(3))
    assert parsed.rows["market_id"].to_list() == ["1", "3"]
    assert parsed.rejects.select("record_id", "ordinal", "day").rows() == [("2", 1, DAY)]
