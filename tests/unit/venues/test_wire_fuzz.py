"""Any value in any field is read exactly, or gives a reject; only the errors of the project are raised."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from itertools import product
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bellwether.errors import BellwetherError, VenueError
from bellwether.recordings.books import FrameReader
from bellwether.recordings.exchange_times import read_exchange_time
from bellwether.tables.raw import (
    KALSHI_CANDLES,
    KALSHI_EVENTS,
    KALSHI_MARKETS,
    KALSHI_REJECTS,
    KALSHI_SERIES,
    POLYMARKET_EVENTS,
    POLYMARKET_MARKETS,
    POLYMARKET_PRICES,
    POLYMARKET_REJECTS,
    POLYMARKET_WINNERS,
)
from bellwether.tables.schema import Table
from bellwether.venues.http.page import VenuePage
from bellwether.venues.kalshi import snapshots as kalshi_snapshots
from bellwether.venues.kalshi import wire as kalshi
from bellwether.venues.kalshi.stream.frame import Frame, TradingStatus, parse_message, read_body, read_envelope
from bellwether.venues.polymarket import snapshots as polymarket_snapshots
from bellwether.venues.polymarket import wire as polymarket
from bellwether.venues.wire.rejects import ParsedRecords
from tests.sizes import NIGHTLY
from tests.unit.venues import polymarket_objects as objects
from tests.unit.venues import wire_objects
from tests.unit.venues.wire_objects import DAY, EVENT, ORIGIN, SERIES, market, row

CANDLES = {"markets": [{"market_ticker": "T", "candlesticks": [wire_objects.candle()]}]}
TIMES = (
    "0000-01-01T00:00:00Z",
    "1969-12-31T23:59:59Z",
    "2201-01-01T00:00:00Z",
    "9999-12-31T23:59:59-23:00",
    "0001-01-01T00:00:00+23:59",
    "-262143-01-01T00:00:00Z",
    "2026-11-20T23:59:60Z",
    "2026-11-20",
)
NUMBERS = (-1, 2**53 + 1, 2**63 - 1, 2**64, 10**30, -0.0, 1e308, 1e-320, float("nan"), float("inf"))
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.sampled_from(TIMES), st.sampled_from(NUMBERS),
    st.sampled_from([str(number) for number in NUMBERS] + ["1e999999999", "-1", "0x", "[", "{}", '["1"', "\ud800", "é", "\x00", "٣"]),
)  # fmt: skip
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3), max_leaves=6
)


def listed(key: str, item: Any, parse: Callable[..., ParsedRecords]) -> tuple[Any, Callable[[Any], ParsedRecords]]:
    """Return an answer that lists one object, under a key or as a bare list, and its parser."""

    def read(answer: Any) -> ParsedRecords:
        return parse(VenuePage(ORIGIN.request, 200, ORIGIN.fetched_at, text_of(answer)).items(key), ORIGIN, day=DAY)

    return ({key: [item]} if key else [item]), read


def single(item: Any, parse: Callable[..., ParsedRecords]) -> tuple[Any, Callable[[Any], ParsedRecords]]:
    """Return an answer that is one object, and its parser."""
    return item, lambda answer: parse([VenuePage(ORIGIN.request, 200, ORIGIN.fetched_at, text_of(answer))], day=DAY)


def text_of(answer: Any) -> bytes:
    return json.dumps(answer).encode()


def read_candles(answer: Any) -> ParsedRecords:
    page = VenuePage("GET /markets/candlesticks?market_tickers=T", 200, ORIGIN.fetched_at, text_of(answer))
    return kalshi.parse_candles([page], day=DAY)


def read_prices(answer: Any) -> ParsedRecords:
    page = VenuePage(f"GET /prices-history?market={objects.YES}", 200, ORIGIN.fetched_at, text_of(answer))
    return polymarket.parse_prices([page], {objects.YES: "7"}, day=DAY, period_minutes=60)


PARSERS: dict[str, tuple[Table, Table, Any, Callable[[Any], ParsedRecords]]] = {
    "Kalshi's markets": (KALSHI_MARKETS, KALSHI_REJECTS, *listed("markets", wire_objects.market(), kalshi.parse_markets)),
    "Kalshi's nested markets": (KALSHI_MARKETS, KALSHI_REJECTS, *listed("events", EVENT, lambda items, *a, **k: kalshi.parse_markets(kalshi.extract_nested_markets(items), *a, **k))),
    "Kalshi's events": (KALSHI_EVENTS, KALSHI_REJECTS, *listed("events", EVENT, kalshi.parse_events)),
    "Kalshi's series": (KALSHI_SERIES, KALSHI_REJECTS, *listed("series", SERIES, lambda items, origin, day: kalshi.parse_series(items, origin))),
    "Kalshi's candles": (KALSHI_CANDLES, KALSHI_REJECTS, CANDLES, read_candles),
    "candles of one market": (KALSHI_CANDLES, KALSHI_REJECTS, {"ticker": "T", "candlesticks": [wire_objects.candle()]}, read_candles),
    "Gamma's markets": (POLYMARKET_MARKETS, POLYMARKET_REJECTS, *listed("markets", objects.market(feeSchedule={"rate": 0.03, "exponent": 1}), polymarket.parse_markets)),
    "Gamma's events": (POLYMARKET_EVENTS, POLYMARKET_REJECTS, *listed("events", objects.event(), polymarket.parse_events)),
    "the CLOB's winners": (POLYMARKET_WINNERS, POLYMARKET_REJECTS, *single(objects.clob_market(), polymarket.parse_winners)),
    "the CLOB's prices": (POLYMARKET_PRICES, POLYMARKET_REJECTS, {"history": [{"t": 1773446400, "p": 0.5}]}, read_prices),
}  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of everything inside a value, except the value itself."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, held in inner:
        yield (*path, key)
        yield from places(held, (*path, key))


def some(paths: Iterator[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return every seventh path, or all in the nightly run."""
    return list(paths)[:: 1 if NIGHTLY else 7]


def changed(answer: Any, path: tuple[Any, ...], value: Any) -> Any:
    """Return the answer with another value at a path."""
    new = copy.deepcopy(answer)
    held = new
    for key in path[:-1]:
        held = held[key]
    held[path[-1]] = value
    return new


@pytest.mark.parametrize("name", PARSERS)
@given(st.data())
def test_whatever_stands_in_a_field_is_a_row_a_reject_or_a_clear_error(name: str, data: st.DataObject):
    table, rejects, answer, parse = PARSERS[name]
    path = data.draw(st.sampled_from(list(places(answer))))
    check(table, rejects, changed(answer, path, data.draw(ANYTHING)), parse)


@pytest.mark.parametrize("name", PARSERS)
def test_a_value_of_the_wrong_type_is_a_row_a_reject_or_a_clear_error_in_every_place(name: str):
    table, rejects, answer, parse = PARSERS[name]
    for path, value in product(some(places(answer)), (None, True, -1.5, "x", "\ud800", ["\ud800"], {"x": 1})):
        check(table, rejects, changed(answer, path, value), parse)


def check(table: Table, rejects: Table, answer: Any, parse: Callable[[Any], ParsedRecords]) -> None:
    try:
        parsed = parse(answer)
    except VenueError:
        return
    table.validate(parsed.rows)
    rejects.validate(parsed.rejects)
    for column in (column for column, dtype in parsed.rows.schema.items() if dtype == pl.Datetime("us", "UTC")):
        within = parsed.rows[column].dt.year().drop_nulls().is_between(1970, 2200)
        assert within.all(), column


MESSAGES: dict[str, dict[str, Any]] = {
    "orderbook_snapshot": {
        "market_ticker": "T",
        "yes_dollars_fp": [["0.07", "5.00"]],
        "no_dollars_fp": [["0.40", "7.00"]],
        "ts_ms": 1773446400000,
    },
    "orderbook_delta": {"market_ticker": "T", "price_dollars": "0.07", "delta_fp": "-1.00", "side": "yes", "ts": "2026-03-14T00:00:00Z"},
    "trade": {
        "trade_id": "1",
        "market_ticker": "T",
        "yes_price_dollars": "0.36",
        "count_fp": "13.00",
        "taker_side": "no",
        "ts_ms": 1773446400000,
    },
    "market_lifecycle_v2": {"market_ticker": "T", "event_type": "deactivated", "close_ts": 1773446400},
}


@pytest.mark.parametrize("kind", MESSAGES)
@given(st.data())
def test_whatever_stands_in_a_message_of_a_stream_is_read_or_refused(kind: str, data: st.DataObject):
    whole = {"type": kind, "sid": 1, "seq": 2, "sending_ts_ms": 1773446400000, "msg": MESSAGES[kind]}
    path = data.draw(st.sampled_from(list(places(whole))))
    check_message(changed(whole, path, data.draw(ANYTHING)))


@pytest.mark.parametrize("kind", MESSAGES)
def test_a_value_of_the_wrong_type_in_a_message_is_read_or_refused_in_every_place(kind: str):
    whole = {"type": kind, "sid": 1, "seq": 2, "sending_ts_ms": 1773446400000, "msg": MESSAGES[kind]}
    for path, value in product(some(places(whole)), (None, True, 5, -1.5, 2**62, "x", [], [1], [[]], {"x": 1}, *TIMES)):
        check_message(changed(whole, path, value))


def check_message(whole: Any) -> None:
    frame = Frame(1, 1, 0, text_of(whole))
    found = parse_message(frame.data)
    read_envelope(found)
    body = read_body(found)
    at = read_exchange_time(body)
    assert at is None or 0 <= at < 7_289_654_400 * 10**9
    TradingStatus(["T"], {"T": ORIGIN.fetched_at}).process(found)
    reader = FrameReader("a recording")
    for read in (reader.read_levels, reader.read_change, reader.read_trade):
        with suppress(BellwetherError):
            read(frame, body)


MICROS = st.integers(1, 999_999)
WHOLE = st.integers(0, 10**16 - 1)
CENTS = st.integers(0, 99)
INSTANTS = st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))
ZONES = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(MICROS, st.integers(0, 6))
def test_a_price_string_is_read_exactly(micros: int, trimmed: int):
    text = f"0.{micros:06d}"
    text = text[: len(text) - trimmed] if set(text[len(text) - trimmed :]) <= {"0"} else text
    if text.endswith("."):
        text = text[:-1]
    found = row(market(settlement_value_dollars=text))["settlement_value"]
    assert found == Decimal(text)


@given(WHOLE, CENTS)
def test_a_count_string_is_read_exactly(whole: int, cents: int):
    assert row(market(volume_fp=f"{whole}.{cents:02d}"))["volume"] == Decimal(whole) + Decimal(cents) / 100


@given(INSTANTS, st.integers(0, 9), ZONES)
def test_a_time_is_read_exactly_to_the_microsecond(instant: datetime, digits: int, zone: timezone):
    fraction = f"{instant.microsecond:06d}999"[:digits]
    clock = f"{instant.astimezone(zone):%H:%M:%S}" + (f".{fraction}" if fraction else "")
    local = instant.astimezone(zone)
    offset = "Z" if zone == UTC else f"{local:%z}"[:3] + ":" + f"{local:%z}"[3:5]
    kept = int(fraction[:6].ljust(6, "0")) if fraction else 0
    found = row(market(close_time=f"{local:%Y-%m-%d}T{clock}{offset}"))["close_time"]
    assert found == instant.replace(microsecond=kept)


BOOKS: tuple[tuple[Any, Callable[[VenuePage], Any]], ...] = (
    ({"orderbooks": [{"ticker": "T", "orderbook_fp": {"yes_dollars": [["0.07", "5.00"]], "no_dollars": [["0.4", "7.00"]]}}]}, kalshi_snapshots.parse_books),
    ([objects.book()], polymarket_snapshots.parse_books),
)  # fmt: skip


@pytest.mark.parametrize(("answer", "parse"), BOOKS)
@given(st.data())
def test_whatever_stands_in_a_book_is_read_or_left_out(answer: Any, parse: Callable[[VenuePage], Any], data: st.DataObject):
    path = data.draw(st.sampled_from(list(places(answer))))
    with suppress(VenueError):
        parse(VenuePage("POST /books", 200, ORIGIN.fetched_at, text_of(changed(answer, path, data.draw(ANYTHING)))))


def test_a_time_that_no_calendar_of_ours_reaches_is_a_reject_with_the_reason():
    field = {
        "Kalshi's markets": "created_time",
        "Kalshi's events": "strike_date",
        "Kalshi's series": "last_updated_ts",
        "Gamma's markets": "startDate",
        "Gamma's events": "startDate",
    }
    for name, time in product(field, ("0000-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "2201-01-01T00:00:00Z", "9999-12-31T23:59:59-23:00")):
        _, _, answer, parse = PARSERS[name]
        (key,) = answer
        parsed = parse(changed(answer, (key, 0, field[name]), time))
        assert parsed.rows.is_empty()
        assert parsed.rejects.select("value", "reason").rows() == [(time, "a time outside the years 1970 to 2200")]
