"""Market objects of all formats, parsed into raw/kalshi_markets."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import polars as pl
import pytest

from bellwether.tables.raw import KALSHI_ARCHIVE, KALSHI_MARKETS, KALSHI_REJECTS
from bellwether.venues.kalshi.wire import STATUSES, decode_json, parse_markets
from tests.venues.wire_objects import DAY, FETCHED, ORIGIN, market, read, reject, row

CENTS = {
    "last_price": 97,
    "previous_price": 55,
    "yes_bid": 96,
    "yes_ask": 98,
    "no_bid": 2,
    "no_ask": 4,
    "notional_value": 100,
    "settlement_value": 100,
}
COUNTS = {"volume": 1234, "volume_24h": 0, "open_interest": 17}


def transitional() -> dict[str, Any]:
    """Return the market with cents in addition to dollars, and integer counts only."""
    return market(**CENTS, **COUNTS, volume_fp=..., volume_24h_fp=..., open_interest_fp=...)


def legacy() -> dict[str, Any]:
    """Return the market with cents and integer counts only."""
    return {name: value for name, value in transitional().items() if not name.endswith("_dollars")}


def typed(item: Any) -> dict[str, Any]:
    """Return its row without columns that differ between formats by design."""
    return {name: value for name, value in row(item).items() if name not in ("body", "wire_format")}


def test_a_current_market_has_every_field_under_its_own_name():
    found = row(market())
    assert found["ticker"] == "KXRAIN-26MAR14-A"
    assert found["event_ticker"] == "KXRAIN-26MAR14"
    assert found["day"] == date(2026, 3, 14)
    assert found["created_at"] == datetime(2026, 3, 10, 9, 0, 0, 123456, UTC)
    assert found["updated_at"] == datetime(2026, 3, 15, 1, 0, 0, 500000, UTC)
    assert found["settled_at"] == datetime(2026, 3, 15, 1, tzinfo=UTC)
    assert (found["status"], found["result"], found["settlement_value"]) == ("finalized", "yes", Decimal("1"))
    assert (found["last_price"], found["previous_price"]) == (Decimal("0.97"), Decimal("0.55"))
    assert [found[name] for name in ("yes_bid", "yes_ask", "no_bid", "no_ask")] == [Decimal(x) for x in ("0.96", "0.98", "0.02", "0.04")]
    assert [found[name] for name in ("volume", "volume_24h", "open_interest")] == [Decimal(x) for x in ("1234.56", "0", "17.25")]
    assert (found["floor_strike"], found["cap_strike"]) == (0.01, None)
    assert (found["can_close_early"], found["is_provisional"], found["is_combo"]) == (False, None, False)
    assert (found["wire_format"], found["source"]) == ("current", "live")
    assert (found["request"], found["page"], found["fetched_at"], found["known_at"]) == (ORIGIN.request, 3, FETCHED, FETCHED)


def test_frames_are_exactly_the_declared_tables():
    KALSHI_MARKETS.validate(read(market(), transitional() | {"ticker": "B"}).rows)
    archived = parse_markets([legacy()], ORIGIN, day=DAY, source="historical", table=KALSHI_ARCHIVE)
    KALSHI_ARCHIVE.validate(archived.rows)
    KALSHI_REJECTS.validate(read(None, market(close_time=...)).rejects)
    KALSHI_MARKETS.validate(read().rows)
    KALSHI_REJECTS.validate(read().rejects)


def test_a_transitional_market_reads_like_the_current_one():
    whole = market(volume_fp="1234.00", open_interest_fp="17.00")
    assert typed(transitional()) == typed(whole)
    assert row(transitional())["wire_format"] == "transitional"


def test_a_legacy_market_reads_like_the_current_one():
    assert typed(legacy()) == typed(market(volume_fp="1234.00", open_interest_fp="17.00"))
    assert row(legacy())["wire_format"] == "legacy"


def test_keys_of_the_2024_client_start_with_an_underscore():
    underscored = {f"_{name}": value for name, value in legacy().items()} | {"discriminator": None}
    assert typed(underscored) == typed(legacy())


def test_dollars_win_over_cents_and_are_never_added_to_them():
    found = row(market(last_price=42, last_price_dollars="0.9712"))
    assert found["last_price"] == Decimal("0.9712")


def test_null_dollars_fall_back_to_cents():
    assert row(market(last_price_dollars=None, last_price=42))["last_price"] == Decimal("0.42")


def test_an_empty_price_is_no_price():
    assert row(market(last_price_dollars=""))["last_price"] is None


@pytest.mark.parametrize(
    ("field", "sentinel", "column"),
    [
        ("yes_bid_dollars", "0.0000", "yes_bid"),
        ("yes_ask_dollars", "1.0000", "yes_ask"),
        ("no_bid_dollars", "0.0000", "no_bid"),
        ("no_ask_dollars", "1.0000", "no_ask"),
        ("last_price_dollars", "0.0000", "last_price"),
        ("previous_price_dollars", "0.0000", "previous_price"),
        ("yes_bid_dollars", "0", "yes_bid"),
        ("yes_ask_dollars", "1.000000", "yes_ask"),
    ],
)
def test_a_sentinel_is_no_quote(field: str, sentinel: str, column: str):
    assert row(market(**{field: sentinel}))[column] is None


def test_a_scalar_result_keeps_its_value():
    found = row(market(result="scalar", settlement_value_dollars="0.2400"))
    assert (found["result"], found["settlement_value"]) == ("scalar", Decimal("0.24"))


@pytest.mark.parametrize("status", sorted(STATUSES - {"finalized"}))
@pytest.mark.parametrize("result", ["", None, ...])
def test_an_undecided_market_has_an_empty_result(status: str, result: Any):
    found = row(market(status=status, result=result))
    assert (found["status"], found["result"]) == (status, "")


@pytest.mark.parametrize(
    ("word", "status"), [("unopened", "initialized"), ("open", "active"), ("paused", "inactive"), ("settled", "finalized")]
)
def test_filter_words_of_2024_stand_for_the_response_words(word: str, status: str):
    assert row(market(status=word))["status"] == status


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-03-14T23:00:00Z", datetime(2026, 3, 14, 23, tzinfo=UTC)),
        ("2026-03-14T23:00:00.1Z", datetime(2026, 3, 14, 23, 0, 0, 100000, UTC)),
        ("2026-03-14T22:54:42.55868Z", datetime(2026, 3, 14, 22, 54, 42, 558680, UTC)),
        ("2026-03-14T23:00:00.123456789Z", datetime(2026, 3, 14, 23, 0, 0, 123456, UTC)),
        ("2026-03-14T23:00:00.9999999Z", datetime(2026, 3, 14, 23, 0, 0, 999999, UTC)),
        ("2026-03-14T18:00:00-05:00", datetime(2026, 3, 14, 23, tzinfo=UTC)),
        ("2026-03-15T04:30:00.25+05:30", datetime(2026, 3, 14, 23, 0, 0, 250000, UTC)),
        ("2026-03-14 23:00:00+00:00", datetime(2026, 3, 14, 23, tzinfo=UTC)),
    ],
)
def test_times_have_any_number_of_digits_and_any_zone(text: str, instant: datetime):
    assert row(market(close_time=text))["close_time"] == instant


def test_a_time_that_was_never_set_is_null():
    found = row(market(created_time="0001-01-01T00:00:00Z", open_time=""))
    assert (found["created_at"], found["open_time"]) == (None, None)


@pytest.mark.parametrize(
    "changes",
    [
        {"mve_collection_ticker": "KXMVESPORTS-26"},
        {"mve_selected_legs": [{"market_ticker": "A", "side": "yes"}]},
        {"ticker": "KXMVENFL-S1-A"},
    ],
    ids=["collection", "legs", "ticker"],
)
def test_combos_are_recognised(changes: dict[str, Any]):
    assert row(market(**changes))["is_combo"] is True


def test_a_custom_strike_is_json_text():
    assert row(market(custom_strike={"team": 'a"b'}))["custom_strike"] == '{"team":"a\\"b"}'


HOSTILE = [
    "x" * 100_000,
    "</question><script>alert(1)</script>",
    "quote ' and \" and `",
    "line\nfeed\ttab\x07\x1b[31m",
    "nul \x00 inside",
    "ünï¢ødé 🤖",
]


@pytest.mark.parametrize("text", HOSTILE, ids=["100 kB", "markup", "quotes", "control", "nul", "unicode"])
def test_text_is_data(text: str, tmp_path: Any):
    found = read(market(title=text, rules_primary=text)).rows
    assert found["title"][0] == text
    found.write_parquet(tmp_path / "markets.parquet")
    sql = "SELECT title, rules_primary FROM read_parquet(?, hive_partitioning=false)"
    assert duckdb.connect().execute(sql, [str(tmp_path / "markets.parquet")]).fetchall() == [(text, text)]


def test_the_body_is_the_object_as_json():
    item = market(title="a\x00b", extra={"deep": [1, 2.5, None]})
    assert decode_json(row(item)["body"].encode()) == item


REJECTED = {
    "a price of 1.2": ({"yes_ask_dollars": "1.2000"}, "yes_ask_dollars", "1.2000", "outside [0, 1]"),
    "120 cents": ({"yes_bid_dollars": ..., "yes_bid": 120}, "yes_bid", "120", "outside [0, 1]"),
    "seven decimals": ({"last_price_dollars": "0.1234567"}, "last_price_dollars", "0.1234567", "decimals"),
    "an exponent": ({"last_price_dollars": "1e-3"}, "last_price_dollars", "1e-3", "decimal"),
    "a float price": ({"no_bid_dollars": 0.25}, "no_bid_dollars", "0.25", "decimal"),
    "an integer in a dollar field": ({"no_bid_dollars": 1}, "no_bid_dollars", "1", "decimal"),
    "a negative size": ({"volume_fp": "-1.00"}, "volume_fp", "-1.00", "outside [0"),
    "three decimals of a contract": ({"volume_fp": "1.005"}, "volume_fp", "1.005", "2 decimals"),
    "a count beyond 18 digits": ({"volume_fp": ..., "volume": 10**17}, "volume", "100000000000000000", "16 digits"),
    "no close time": ({"close_time": ...}, "close_time", None, "missing"),
    "a close time that is none": ({"close_time": "tomorrow"}, "close_time", "tomorrow", "not a time"),
    "a close time without a zone": ({"close_time": "2026-03-14T23:00:00"}, "close_time", "2026-03-14T23:00:00", "not a time"),
    "a close time in year 1": ({"close_time": "0001-01-01T00:00:00Z"}, "close_time", "0001-01-01T00:00:00Z", "missing"),
    "the 30th of February": ({"open_time": "2026-02-30T00:00:00Z"}, "open_time", "2026-02-30T00:00:00Z", "not a time"),
    "a time as a number": ({"open_time": 1773522000}, "open_time", "1773522000", "not text"),
    "no event": ({"event_ticker": ...}, "event_ticker", None, "missing"),
    "no ticker": ({"ticker": ...}, "ticker", None, "missing"),
    "a list of tickers": ({"ticker": "A,B"}, "ticker", "A,B", "not a ticker"),
    "an empty result on a settled market": ({"result": ""}, "result", "", "settled market without a result"),
    "a result that is a number": ({"result": 1}, "result", "1", "not text"),
    "no status": ({"status": ...}, "status", None, "not a status"),
    "an unknown status": ({"status": "abolished"}, "status", "abolished", "not a status"),
    "a flag that is a word": ({"can_close_early": "yes"}, "can_close_early", "yes", "not true or false"),
    "a strike that is a word": ({"floor_strike": "high"}, "floor_strike", "high", "not a number"),
    "a title that is an object": ({"title": {"en": "Rain?"}}, "title", '{"en":"Rain?"}', "not text"),
}


@pytest.mark.parametrize(("changes", "field", "value", "reason"), REJECTED.values(), ids=list(REJECTED))
def test_what_does_not_fit_is_quarantined_and_stops_nothing_else(changes: dict[str, Any], field: str, value: str | None, reason: str):
    found = reject(market(**changes))
    assert (found["field"], found["value"]) == (field, value)
    assert reason in found["reason"]
    assert found["record_id"] == market(**changes).get("ticker")
    assert decode_json(found["body"].encode()) == market(**changes)
    assert (found["venue"], found["table"], found["ordinal"], found["day"]) == ("kalshi", "raw/kalshi_markets", 1, DAY)


@pytest.mark.parametrize("item", [None, "a string", 7, ["list"]])
def test_something_that_is_no_object_is_quarantined(item: Any):
    assert reject(item)["reason"] == "not a JSON object"


def test_a_reject_is_filed_under_the_day_of_its_own_close():
    assert reject(market(close_time="2026-04-01T00:00:00Z", last_price_dollars="7"))["day"] == date(2026, 4, 1)


def test_an_object_nested_too_deeply_is_quarantined():
    deep: Any = {}
    for _ in range(400):
        deep = {"a": deep}
    assert reject(market(custom_strike=deep))["reason"] == "nested too deeply"


def test_rows_do_not_depend_on_their_neighbours():
    mixed = [market("A"), legacy() | {"ticker": "B"}, market("C", subtitle=..., strike_type=...), transitional() | {"ticker": "D"}]
    together = read(*mixed).rows
    alone = pl.concat([read(item).rows for item in mixed])
    assert together.equals(alone)


@pytest.mark.parametrize("side", ["yes", "no"])
def test_a_bid_above_the_ask_is_a_reject(side: str):
    found = reject(market("BAD", **{f"{side}_bid_dollars": "0.6000", f"{side}_ask_dollars": "0.5900"}))
    assert (found["field"], found["value"], found["reason"]) == (f"{side}_bid_dollars", "0.6000", "the bid lies above the ask")


def test_a_bid_at_the_ask_is_a_row():
    assert row(market(yes_bid_dollars="0.6000", yes_ask_dollars="0.6000"))["yes_bid"] == Decimal("0.6")
