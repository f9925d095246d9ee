"""Kalshi's objects, parsed into raw tables: markets, events, series and candles, whole or damaged."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import orjson
import polars as pl
import pytest

from bellwether.tables.raw import KALSHI_CANDLES, KALSHI_EVENTS, KALSHI_REJECTS, KALSHI_SERIES
from bellwether.venues.http.page import MalformedBody, VenuePage, decode_json
from bellwether.venues.kalshi.wire import STATUSES, extract_nested_markets, parse_candles, parse_events, parse_series
from bellwether.venues.wire.rejects import ParsedRecords
from tests.unit.venues.wire_objects import DAY, EVENT, FETCHED, ORIGIN, SERIES, candle, market, read, reject, row


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
    assert found["source"] == "live"
    assert (found["request"], found["page"], found["fetched_at"], found["known_at"]) == (ORIGIN.request, 3, FETCHED, FETCHED)


REJECTED = {
    "a price of 1.2": ({"yes_ask_dollars": "1.2000"}, "yes_ask_dollars", "1.2000", "outside [0, 1]"),
    "integer cents": ({"yes_bid_dollars": ..., "yes_bid": 12}, "yes_bid", "12", "decimal"),
    "seven decimals": ({"last_price_dollars": "0.1234567"}, "last_price_dollars", "0.1234567", "decimals"),
    "an exponent": ({"last_price_dollars": "1e-3"}, "last_price_dollars", "1e-3", "decimal"),
    "a float price": ({"no_bid_dollars": 0.25}, "no_bid_dollars", "0.25", "decimal"),
    "an integer in a dollar field": ({"no_bid_dollars": 1}, "no_bid_dollars", "1", "decimal"),
    "a negative size": ({"volume_fp": "-1.00"}, "volume_fp", "-1.00", "outside [0"),
    "three decimals of a contract": ({"volume_fp": "1.005"}, "volume_fp", "1.005", "2 decimals"),
    "a count beyond 18 digits": ({"volume_fp": ..., "volume": "1" * 17}, "volume", "1" * 17, "16 digits"),
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


def candle_page(answer: dict[str, Any], request: str = "GET /markets/candlesticks?market_tickers=T", ordinal: int = 3) -> VenuePage:
    return VenuePage(request, 200, FETCHED, orjson.dumps(answer), ordinal)


def candles(*items: Any) -> ParsedRecords:
    answer = {"markets": [{"market_ticker": "T", "candlesticks": list(items)}]}
    return parse_candles([candle_page(answer)], day=DAY)


def test_an_event_has_every_field_under_its_own_name():
    parsed = parse_events([EVENT], ORIGIN, day=DAY)
    KALSHI_EVENTS.validate(parsed.rows)
    found = parsed.rows.row(0, named=True)
    assert {
        name: found[name] for name in ("event_ticker", "series_ticker", "title", "sub_title", "category", "collateral_return_type")
    } == {name: EVENT[name] for name in ("event_ticker", "series_ticker", "title", "sub_title", "category", "collateral_return_type")}
    assert (found["day"], found["mutually_exclusive"]) == (DAY, True)
    assert found["strike_date"] == datetime(2026, 3, 14, 23, tzinfo=UTC)
    assert found["last_updated_at"] == datetime(2026, 3, 10, 9, 0, 0, 500000, UTC)
    assert (found["fee_type_override"], found["fee_multiplier_override"]) == ("flat", Decimal("0.07"))
    assert '"markets"' not in found["body"]


def test_a_series_has_every_field_under_its_own_name():
    parsed = parse_series([SERIES], ORIGIN)
    KALSHI_SERIES.validate(parsed.rows)
    found = parsed.rows.row(0, named=True)
    assert (found["series_ticker"], found["fee_type"], found["fee_multiplier"]) == ("KXRAIN", "quadratic", Decimal("0.5"))
    assert (found["categories"], found["tags"]) == (["Climate and Weather", "World"], ["Daily", "Rain"])
    assert [found[name] for name in ("frequency", "category", "contract_url", "contract_terms_url")] == [
        SERIES[name] for name in ("frequency", "category", "contract_url", "contract_terms_url")
    ]


def test_a_candle_has_every_field_under_its_own_name():
    parsed = candles(candle(1_773_522_000))
    KALSHI_CANDLES.validate(parsed.rows)
    found = parsed.rows.row(0, named=True)
    assert (found["ticker"], found["day"], found["period_minutes"], found["source"]) == ("T", DAY, 60, "live")
    assert found["end_at"] == datetime(2026, 3, 14, 21, tzinfo=UTC)
    ohlc = [Decimal(x) for x in ("0.40", "0.45", "0.39", "0.44")]
    for side in ("yes_bid", "yes_ask", "price"):
        assert [found[f"{side}_{name}"] for name in ("open", "high", "low", "close")] == ohlc
    assert (found["price_mean"], found["price_previous"]) == (Decimal("0.4212"), Decimal("0.40"))
    assert (found["volume"], found["open_interest"]) == (Decimal("12.50"), Decimal("80"))


def test_a_historical_candle_without_suffixes_reads_like_the_live_one():
    plain = {name.removesuffix("_dollars"): value for name, value in candle()["price"].items()}
    quotes = {name: plain[name] for name in ("open", "high", "low", "close")}
    historical = candle(
        yes_bid=quotes, yes_ask=quotes, price=plain, volume="12.50", open_interest="80.00", volume_fp=..., open_interest_fp=...
    )
    page = candle_page({"ticker": "T", "candlesticks": [historical]}, "GET /historical/markets/T/candlesticks")
    found, live = parse_candles([page], day=DAY).rows, candles(candle()).rows
    assert found.drop("source", "request").equals(live.drop("source", "request"))
    assert (found["source"].item(), live["source"].item()) == ("historical", "live")


def test_a_bid_of_zero_and_an_ask_of_one_are_no_quotes():
    bid = {"open_dollars": "0.0000", "high_dollars": "0.0100", "low_dollars": "0.0000", "close_dollars": "0.0100"}
    ask = {"open_dollars": "1.0000", "high_dollars": "1.0000", "low_dollars": "0.9900", "close_dollars": "0.9900"}
    found = candles(candle(yes_bid=bid, yes_ask=ask)).rows.row(0, named=True)
    assert [found[f"yes_bid_{name}"] for name in ("open", "high", "low", "close")] == [None, Decimal("0.01"), None, Decimal("0.01")]
    assert [found[f"yes_ask_{name}"] for name in ("open", "high", "low", "close")] == [None, None, Decimal("0.99"), Decimal("0.99")]


def test_a_repeated_candle_is_dropped_and_a_contradicting_one_quarantined():
    parsed = candles(candle(), candle(), candle(volume_fp="13.00"))
    assert parsed.rows["volume"].to_list() == [Decimal("12.50")]
    assert parsed.rejects["ordinal"].to_list() == [2]


def test_pages_of_candles_that_fit_are_parsed_at_once_with_the_same_rows():
    plain = {"open": "0.40", "high": "0.45", "low": "0.39", "close": "0.44"}
    groups = {"C": [candle(yes_bid=plain)], "D": [candle()], "A": [candle()]}
    pages = [
        candle_page(
            {"ticker": "A", "candlesticks": [candle(), candle(end_period_ts=1773496800)]}, "GET /historical/markets/A/candlesticks"
        ),
        candle_page({"ticker": "B", "candlesticks": []}, "GET /historical/markets/B/candlesticks", 4),
        candle_page(
            {"markets": [{"market_ticker": ticker, "candlesticks": items} for ticker, items in groups.items()]},
            "GET /markets/candlesticks?market_tickers=C,D",
            5,
        ),
    ]
    together = parse_candles(pages, day=DAY)
    assert together.rejects.is_empty()
    assert together.rows.equals(pl.concat(parse_candles([page], day=DAY).rows for page in pages))
    assert together.rows["ticker"].to_list() == ["A", "A", "C", "D"]


def test_a_series_or_an_event_that_says_otherwise_is_quarantined_and_one_that_says_the_same_dropped():
    series = parse_series([SERIES, SERIES, SERIES | {"category": "World"}], ORIGIN)
    events = parse_events([EVENT, EVENT | {"markets": []}, EVENT | {"title": "Snow?"}], ORIGIN, day=DAY)
    for parsed, what in ((series, "series of the same ticker"), (events, "event of the same ticker")):
        assert parsed.rows.height == 1
        assert parsed.rejects.select("ordinal", "reason").rows() == [(2, f"another {what} says otherwise")]


def page(*markets: bytes) -> bytes:
    return b'{"markets":[' + b",".join(markets) + b'],"cursor":"c"}'


GOOD = orjson.dumps(market("GOOD"))


def test_a_nan_in_an_event_costs_the_event_but_not_its_markets():
    nested = b'{"event_ticker":"E","fee_multiplier_override":NaN,"markets":[' + GOOD + b"]}"
    events = decode_json(b'{"events":[' + nested + b',{"event_ticker":"F"}],"cursor":""}')["events"]
    parsed = parse_events(events, ORIGIN, day=DAY)
    assert parsed.rows["event_ticker"].to_list() == ["F"]
    assert parsed.rejects["record_id"].to_list() == ["E"]
    assert read(*extract_nested_markets(events)).rows["ticker"].to_list() == ["GOOD"]


def test_a_sentinel_is_no_quote():
    sentinels = {"bid": ("0.0000", "0"), "ask": ("1.0000", "1.000000"), "price": ("0.0000",)}
    for column in ("yes_bid", "yes_ask", "no_bid", "no_ask", "last_price", "previous_price"):
        for sentinel in sentinels[column.split("_")[1]]:
            assert row(market(**{f"{column}_dollars": sentinel}))[column] is None, (column, sentinel)


def test_states_and_results_have_the_venues_words():
    for status, result in product(sorted(STATUSES - {"finalized"}), ("", None, ...)):
        found = row(market(status=status, result=result))
        assert (found["status"], found["result"]) == (status, "")
    scalar = row(market(result="scalar", settlement_value_dollars="0.2400"))
    assert (scalar["result"], scalar["settlement_value"]) == ("scalar", Decimal("0.24"))


def test_times_have_any_number_of_digits_and_any_zone():
    for text, instant in {
        "2026-03-14T23:00:00Z": datetime(2026, 3, 14, 23, tzinfo=UTC),
        "2026-03-14T23:00:00.1Z": datetime(2026, 3, 14, 23, 0, 0, 100000, UTC),
        "2026-03-14T23:00:00.123456789Z": datetime(2026, 3, 14, 23, 0, 0, 123456, UTC),
        "2026-03-14T23:00:00.9999999Z": datetime(2026, 3, 14, 23, 0, 0, 999999, UTC),
        "2026-03-14T18:00:00-05:00": datetime(2026, 3, 14, 23, tzinfo=UTC),
        "2026-03-15T04:30:00.25+05:30": datetime(2026, 3, 14, 23, 0, 0, 250000, UTC),
        "2026-03-14 23:00:00+00:00": datetime(2026, 3, 14, 23, tzinfo=UTC),
    }.items():
        assert row(market(close_time=text))["close_time"] == instant
    unset = row(market(created_time="0001-01-01T00:00:00Z", open_time=""))
    assert (unset["created_at"], unset["open_time"]) == (None, None)


def test_combos_are_recognised():
    legs = [{"market_ticker": "A", "side": "yes"}]
    for changes in ({"mve_collection_ticker": "KXMVESPORTS-26"}, {"mve_selected_legs": legs}, {"ticker": "KXMVENFL-S1-A"}):
        assert row(market(**changes))["is_combo"] is True


def test_text_is_data(tmp_path: Path):
    texts = ["x" * 100_000, "</question><script>", "quote ' and \" and `", "line\nfeed\ttab\x07\x1b[31m", "nul \x00 inside", "ünï¢ødé 🤖"]
    found = read(*(market(f"T{number}", title=text, custom_strike={"team": text}) for number, text in enumerate(texts))).rows
    assert found["title"].to_list() == texts
    assert [decode_json(body.encode())["title"] for body in found["body"]] == texts
    assert [decode_json(strike.encode()) for strike in found["custom_strike"]] == [{"team": text} for text in texts]
    found.write_parquet(tmp_path / "markets.parquet")
    sql = "SELECT title FROM read_parquet(?, hive_partitioning=false)"
    assert duckdb.connect().execute(sql, [str(tmp_path / "markets.parquet")]).fetchall() == [(text,) for text in texts]


def test_what_does_not_fit_is_quarantined_and_stops_nothing_else():
    for changes, field, value, reason in REJECTED.values():
        found = reject(market(**changes))
        assert (found["field"], found["value"]) == (field, value), changes
        assert reason in found["reason"]
        assert found["record_id"] == market(**changes).get("ticker")
        assert decode_json(found["body"].encode()) == market(**changes)
        assert (found["venue"], found["table"], found["ordinal"], found["day"]) == ("kalshi", "raw/kalshi_markets", 1, DAY)
    for item in (None, "a string", 7, ["list"]):
        assert reject(item)["reason"] == "not a JSON object"
    assert reject(market(close_time="2026-04-01T00:00:00Z", last_price_dollars="7"))["day"] == date(2026, 4, 1), "the day of its own close"


def test_a_bid_above_the_ask_is_a_reject_and_one_at_the_ask_a_row():
    for side in ("yes", "no"):
        found = reject(market("BAD", **{f"{side}_bid_dollars": "0.6000", f"{side}_ask_dollars": "0.5900"}))
        assert (found["field"], found["value"], found["reason"]) == (f"{side}_bid_dollars", "0.6000", "the bid lies above the ask")
    assert row(market(yes_bid_dollars="0.6000", yes_ask_dollars="0.6000"))["yes_bid"] == Decimal("0.6")
    crossed = candle(yes_bid={"close_dollars": "0.6000"}, yes_ask={"close_dollars": "0.5900"})
    assert candles(crossed).rejects.select("field", "reason").rows() == [("yes_bid", "the bid lies above the ask")]


def test_a_json_number_becomes_the_decimal_that_it_states():
    for number, decimal in ((1, "1"), (0, "0"), (0.5, "0.5"), (0.1, "0.1"), (0.07, "0.07"), (1e-05, "0.00001"), (2.0, "2")):
        assert parse_series([SERIES | {"fee_multiplier": number}], ORIGIN).rows["fee_multiplier"].to_list() == [Decimal(decimal)]


def test_a_candle_without_a_trade():
    for price in (None, {}, {"open_dollars": None}, {"previous_dollars": "0.4000"}, {"open": None, "previous": "0.40"}):
        found = candles(candle(price=price)).rows.row(0, named=True)
        assert [found[f"price_{name}"] for name in ("open", "high", "low", "close", "mean")] == [None] * 5


def test_candles_that_do_not_fit_are_quarantined_and_not_parsed_with_other_pages():
    unfit: dict[str, dict[str, Any]] = {
        "end_period_ts": {"end_period_ts": 1_773_522_000_000},
        "yes_bid.open_dollars": {"yes_bid": {"open_dollars": "1.2000"}},
        "price.close": {"price": {"close": 120}},
        "price": {"price": "0.5"},
        "volume_fp": {"volume_fp": "-1.00"},
    }
    for field, changes in unfit.items():
        parsed = candles(candle(1_773_518_400), candle(**changes))
        assert parsed.rows.height == 1
        KALSHI_REJECTS.validate(parsed.rejects)
        assert parsed.rejects.select("table", "record_id", "field").row(0) == ("raw/kalshi_candles", "T", field)
    fitting = candle_page({"ticker": "A", "candlesticks": [candle()]}, "GET /historical/markets/A/candlesticks")
    for candlesticks in ([candle(), candle()], [7], [candle(), candle(volume_fp="many")], [candle(end_period_ts="x")]):
        other = candle_page({"ticker": "B", "candlesticks": candlesticks}, "GET /historical/markets/B/candlesticks", 4)
        together = parse_candles([fitting, other, fitting], day=DAY)
        alone = [parse_candles([page], day=DAY) for page in (fitting, other, fitting)]
        assert together.rows.equals(pl.concat(parsed.rows for parsed in alone))
        assert together.rejects.equals(pl.concat(parsed.rejects for parsed in alone))


def test_a_body_that_is_no_json_object_is_malformed():
    deep = b'{"x":' + b"[" * 200_000 + b"]" * 200_000 + b"}"
    for body, reason in (
        (page(GOOD)[:-20], "cut off"),
        (b"", "empty body"),
        (b"<!DOCTYPE html><html>down for maintenance</html>", "web page"),
        (b"[1, 2]", "a JSON list"),
        (b'"too many requests"', "a JSON str"),
        (b"\xff\xfe", "not JSON"),
        (b'{"a":' * 3000, "not JSON"),
        (page(GOOD, deep)[:-5], "cut off"),
        (b"[" * 200_000, "cut off"),
    ):
        with pytest.raises(MalformedBody, match=reason):
            _ = VenuePage("GET /markets", 200, ORIGIN.fetched_at, body).answer


def test_an_odd_value_leaves_the_rest_of_its_page_as_it_is():
    for value, stored in (
        (b"NaN", "NaN"),
        (b"-Infinity", "-Infinity"),
        (b"1e400", "1e400"),
        (b'{"y":[0,NaN]}', {"y": [0, "NaN"]}),
        (b"123456789012345678901234567890", 1.2345678901234568e29),
        (b"-" + b"9" * 6000, "-" + "9" * 6000),
        (b'"\\ud800"', "&#55296;"),
        (b'["\xff", "\xfe"]', ["&#56575;", "&#56574;"]),
        (b'"a\x01\tb"', "a\x01\tb"),
    ):
        markets = decode_json(page(GOOD, b'{"ticker":"ODD","n":0.1,"x":' + value + b"}", b'{"x":NaN}'))["markets"]
        assert markets == [market("GOOD"), {"ticker": "ODD", "n": 0.1, "x": stored}, {"x": "NaN"}]
