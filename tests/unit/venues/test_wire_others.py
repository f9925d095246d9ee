"""Events, series and candles, parsed into their raw tables."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

from bellwether.tables.raw import KALSHI_CANDLES, KALSHI_EVENTS, KALSHI_REJECTS, KALSHI_SERIES
from bellwether.venues.kalshi.wire import (
    CandlePage,
    ParsedRecords,
    extract_nested_markets,
    parse_candle_pages,
    parse_candles,
    parse_events,
    parse_series,
)
from tests.venues.wire_objects import DAY, FETCHED, ORIGIN, candle, market

EVENT: dict[str, Any] = {
    "event_ticker": "KXRAIN-26MAR14",
    "series_ticker": "KXRAIN",
    "title": "Rain on the 14th?",
    "sub_title": "Mar 14",
    "category": "Climate and Weather",
    "mutually_exclusive": True,
    "collateral_return_type": "MECNET",
    "strike_date": "2026-03-14T23:00:00Z",
    "last_updated_ts": "2026-03-10T09:00:00.5Z",
    "fee_type_override": "flat",
    "fee_multiplier_override": 0.07,
    "markets": [market("A"), market("B")],
}
SERIES: dict[str, Any] = {
    "ticker": "KXRAIN",
    "title": "Rain",
    "frequency": "daily",
    "category": "Climate and Weather",
    "categories": ["Climate and Weather", "World"],
    "tags": ["Daily", "Rain"],
    "settlement_sources": None,
    "contract_url": "https://venue.example/rain.pdf",
    "contract_terms_url": "https://venue.example/rain-terms.pdf",
    "fee_type": "quadratic",
    "fee_multiplier": 0.5,
    "additional_prohibitions": None,
    "last_updated_ts": "2026-03-10T09:00:00Z",
}


def candles(*items: Any, ticker: str = "T", source: str = "live") -> ParsedRecords:
    answer = {"markets": [{"market_ticker": ticker, "candlesticks": list(items)}]}
    return parse_candles(answer, ORIGIN, day=DAY, source=source, period_minutes=60)


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


def test_the_markets_of_all_events_are_taken_out_in_order():
    events = [EVENT, {"event_ticker": "EMPTY", "markets": []}, {"event_ticker": "NULL", "markets": None}, {"event_ticker": "NONE"}, None]
    assert [item["ticker"] for item in extract_nested_markets([*events, {"event_ticker": "X", "markets": [market("C")]}])] == [
        "A",
        "B",
        "C",
    ]


def test_markets_that_are_no_list_are_handed_on_to_be_quarantined():
    assert extract_nested_markets([{"event_ticker": "X", "markets": "none"}]) == ["none"]


def test_an_event_without_a_ticker_is_quarantined():
    parsed = parse_events([EVENT, {**EVENT, "event_ticker": None}], ORIGIN, day=DAY)
    assert parsed.rows.height == 1
    found = parsed.rejects.row(0, named=True)
    assert (found["table"], found["field"], found["reason"], found["day"]) == ("raw/kalshi_events", "event_ticker", "missing", DAY)


def test_a_series_has_every_field_under_its_own_name():
    parsed = parse_series([SERIES], ORIGIN)
    KALSHI_SERIES.validate(parsed.rows)
    found = parsed.rows.row(0, named=True)
    assert (found["series_ticker"], found["fee_type"], found["fee_multiplier"]) == ("KXRAIN", "quadratic", Decimal("0.5"))
    assert (found["categories"], found["tags"]) == (["Climate and Weather", "World"], ["Daily", "Rain"])
    assert [found[name] for name in ("frequency", "category", "contract_url", "contract_terms_url")] == [
        SERIES[name] for name in ("frequency", "category", "contract_url", "contract_terms_url")
    ]


def test_null_and_absent_arrays_are_empty():
    bare = {name: value for name, value in SERIES.items() if name != "categories"} | {"tags": None}
    found = parse_series([bare], ORIGIN).rows.row(0, named=True)
    assert (found["categories"], found["tags"]) == ([], [])


@pytest.mark.parametrize(
    ("number", "decimal"), [(1, "1"), (0, "0"), (0.5, "0.5"), (0.1, "0.1"), (0.07, "0.07"), (1e-05, "0.00001"), (2.0, "2")]
)
def test_a_json_number_becomes_the_decimal_that_it_says(number: float, decimal: str):
    assert parse_series([SERIES | {"fee_multiplier": number}], ORIGIN).rows["fee_multiplier"].to_list() == [Decimal(decimal)]


@pytest.mark.parametrize(
    "bad", [{"fee_multiplier": -1}, {"fee_multiplier": 1e-7}, {"fee_multiplier": True}, {"tags": "Rain"}, {"tags": ["a", 1]}]
)
def test_a_series_that_does_not_fit_is_quarantined_under_the_day_of_the_answer(bad: dict[str, Any]):
    parsed = parse_series([SERIES | {"ticker": "GOOD"}, SERIES | bad], ORIGIN)
    assert parsed.rows["series_ticker"].to_list() == ["GOOD"]
    assert parsed.rejects.select("record_id", "field", "day").row(0) == ("KXRAIN", next(iter(bad)), FETCHED.date())


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
    answer = {"ticker": "T", "candlesticks": [historical]}
    found = parse_candles(answer, ORIGIN, day=DAY, source="live", period_minutes=60)
    assert found.rows.equals(candles(candle()).rows)


def test_a_candle_in_cents_reads_like_the_one_in_dollars():
    quotes = {"open": 40, "high": 45, "low": 39, "close": 44}
    cents = candle(yes_bid=quotes, yes_ask=quotes, volume=12, volume_fp=..., open_interest=80, open_interest_fp=...)
    assert candles(cents).rows.equals(candles(candle(volume_fp="12.00")).rows)


@pytest.mark.parametrize(
    "price", [None, {}, {"open_dollars": None, "close_dollars": None}, {"previous_dollars": "0.4000"}, {"open": None, "previous": 40}]
)
def test_a_candle_without_a_trade_has_null_prices(price: Any):
    found = candles(candle(price=price)).rows.row(0, named=True)
    assert [found[f"price_{name}"] for name in ("open", "high", "low", "close", "mean")] == [None] * 5


def test_a_bid_of_zero_and_an_ask_of_one_are_no_quotes():
    bid = {"open_dollars": "0.0000", "high_dollars": "0.0100", "low_dollars": "0.0000", "close_dollars": "0.0100"}
    ask = {"open_dollars": "1.0000", "high_dollars": "1.0000", "low_dollars": "0.9900", "close_dollars": "0.9900"}
    found = candles(candle(yes_bid=bid, yes_ask=ask)).rows.row(0, named=True)
    assert [found[f"yes_bid_{name}"] for name in ("open", "high", "low", "close")] == [None, Decimal("0.01"), None, Decimal("0.01")]
    assert [found[f"yes_ask_{name}"] for name in ("open", "high", "low", "close")] == [None, None, Decimal("0.99"), Decimal("0.99")]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"end_period_ts": None}, "end_period_ts"),
        ({"end_period_ts": "1773522000"}, "end_period_ts"),
        ({"end_period_ts": 1_773_522_000_000}, "end_period_ts"),
        ({"yes_bid": {"open_dollars": "1.2000"}}, "yes_bid.open_dollars"),
        ({"price": {"close": 120}}, "price.close"),
        ({"price": "0.5"}, "price"),
        ({"volume_fp": "-1.00"}, "volume_fp"),
    ],
)
def test_a_candle_that_does_not_fit_is_quarantined(changes: dict[str, Any], field: str):
    parsed = candles(candle(1_773_518_400), candle(**changes))
    assert parsed.rows.height == 1
    KALSHI_REJECTS.validate(parsed.rejects)
    assert parsed.rejects.select("table", "record_id", "field").row(0) == ("raw/kalshi_candles", "T", field)


def test_a_repeated_candle_is_dropped_and_a_contradicting_one_quarantined():
    parsed = candles(candle(), candle(), candle(volume_fp="13.00"))
    assert parsed.rows["volume"].to_list() == [Decimal("12.50")]
    assert parsed.rejects["ordinal"].to_list() == [2]


def test_a_group_of_candles_that_is_none_is_quarantined():
    answer = {"markets": [None, {"market_ticker": "B", "candlesticks": "none"}, {"market_ticker": "A", "candlesticks": [candle(), 7]}]}
    parsed = parse_candles(answer, ORIGIN, day=DAY, source="live", period_minutes=60)
    assert parsed.rows["ticker"].to_list() == ["A"]
    assert parsed.rejects.select("ordinal", "record_id").rows() == [(0, None), (1, "B"), (3, None)]


def test_pages_of_candles_that_fit_are_parsed_at_once_with_the_same_rows():
    cents = {"open": 40, "high": 45, "low": 39, "close": 44}
    pages = [
        CandlePage({"ticker": "A", "candlesticks": [candle(), candle(end_period_ts=1773496800)]}, ORIGIN, "historical", ["A"]),
        CandlePage({"ticker": "B", "candlesticks": []}, replace(ORIGIN, page=1), "historical", ["B"]),
        CandlePage(
            {
                "markets": [
                    {"market_ticker": "C", "candlesticks": [candle(yes_bid=cents)]},
                    {"market_ticker": "D", "candlesticks": [candle()]},
                    {"market_ticker": "A", "candlesticks": [candle()]},
                ]
            },
            replace(ORIGIN, page=2, request="GET /markets/candlesticks?market_tickers=C,D"),
            "live",
            ["C", "D"],
        ),
    ]
    alone = [
        parse_candles(page.answer, page.origin, day=DAY, source=page.source, period_minutes=60).rows.filter(
            pl.col("ticker").is_in(list(page.requested))
        )
        for page in pages
    ]
    together = parse_candle_pages(pages, day=DAY, period_minutes=60)
    assert together is not None
    assert together.schema == alone[0].schema
    assert together.equals(pl.concat(alone))
    assert together["ticker"].to_list() == ["A", "A", "C", "D"]


@pytest.mark.parametrize(
    "candlesticks",
    [[candle(), candle()], [7], [candle(volume_fp="many")], [candle(end_period_ts="x")]],
    ids=["twice", "none", "volume", "end"],
)
def test_a_page_of_candles_that_needs_a_look_by_itself_is_not_parsed_with_others(candlesticks: list[Any]):
    fitting = CandlePage({"ticker": "A", "candlesticks": [candle()]}, ORIGIN, "live", ["A"])
    other = CandlePage({"ticker": "B", "candlesticks": candlesticks}, replace(ORIGIN, page=1), "live", ["B"])
    assert parse_candle_pages([fitting], day=DAY, period_minutes=60) is not None
    assert parse_candle_pages([fitting, other], day=DAY, period_minutes=60) is None


def test_a_candle_that_closes_with_the_bid_above_the_ask_is_quarantined():
    crossed = candle(yes_bid={"close_dollars": "0.6000"}, yes_ask={"close_dollars": "0.5900"})
    assert candles(crossed).rejects.select("field", "reason").rows() == [("yes_bid", "the bid lies above the ask")]


def test_a_series_or_an_event_that_says_otherwise_is_quarantined_and_one_that_says_the_same_dropped():
    series = parse_series([SERIES, SERIES, SERIES | {"category": "World"}], ORIGIN)
    events = parse_events([EVENT, EVENT | {"markets": []}, EVENT | {"title": "Snow?"}], ORIGIN, day=DAY)
    for parsed, what in ((series, "series of the same ticker"), (events, "event of the same ticker")):
        assert parsed.rows.height == 1
        assert parsed.rejects.select("ordinal", "reason").rows() == [(2, f"another {what} says otherwise")]
