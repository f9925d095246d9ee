"""Recorded bodies of the venue from 2024 to 2026, parsed and compared with a plain parse of each object, field by field."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from bellwether.tables.raw import KALSHI_CANDLES, KALSHI_EVENTS, KALSHI_MARKETS, KALSHI_SERIES
from bellwether.venues.http.retry import parse_error_text
from bellwether.venues.kalshi.wire import (
    STATUS_SYNONYMS,
    Origin,
    decode_json,
    extract_nested_markets,
    parse_candles,
    parse_events,
    parse_markets,
    parse_series,
)
from bellwether.venues.kalshi.wire.candles import PARTS
from bellwether.venues.kalshi.wire.markets import MARKET
from bellwether.venues.wire.shapes import DecimalRule

pytestmark = pytest.mark.real

Object = dict[str, Any]
ORIGIN = Origin("GET /markets", 0, datetime(2026, 11, 1, tzinfo=UTC))
DAY = date(2026, 11, 1)
GENERATIONS = {"current": "rest_2026_08", "transitional": "rest_2026_01_transitional", "legacy": "rest_2024_legacy"}


def objects(value: Any, *fields: str) -> Iterator[Object]:
    """Return every JSON object below `value` with all these fields, with or without the underscore of the 2024 client."""
    if isinstance(value, dict):
        if all(name in value or f"_{name}" in value for name in fields):
            yield value
        for inner in value.values():
            yield from objects(inner, *fields)
    elif isinstance(value, list):
        for inner in value:
            yield from objects(inner, *fields)


def bodies(recordings: Path, generation: str) -> list[Any]:
    return [json.loads(path.read_bytes()) for path in sorted((recordings / "kalshi" / GENERATIONS[generation]).glob("*.json"))]


def markets(recordings: Path, generation: str) -> list[Object]:
    found = [item for body in bodies(recordings, generation) for item in objects(body, "ticker", "event_ticker", "close_time")]
    assert found, f"no markets in {GENERATIONS[generation]}"
    return found


def read(items: list[Object]) -> pl.DataFrame:
    parsed = parse_markets(items, ORIGIN, day=DAY, source="live")
    assert parsed.rejects.is_empty(), parsed.rejects.select("record_id", "field", "value", "reason").to_dicts()
    return KALSHI_MARKETS.validate(parsed.rows, unique=False)


def skip_without(found: object, what: str) -> None:
    if not found:
        pytest.skip(f"no {what} among these recordings")


def plain(item: Object, name: str) -> Any:
    return item.get(name, item.get(f"_{name}"))


def expected_decimal(item: Object, name: str, rule: DecimalRule) -> Decimal | None:
    """Parse the value by a plain rule for one field."""
    text, number = plain(item, name + rule.suffix), plain(item, name)
    if text is None and number is None:
        return None
    value = Decimal(text) if text is not None else Decimal(number) / (100 if rule.suffix == "_dollars" else 1)
    return None if value in rule.absent else value


def expected_time(text: str | None) -> datetime | None:
    if not text or text.startswith("0001-"):
        return None
    whole, fraction = re.fullmatch(r"([^.]*?)(?:\.(\d+))?Z", text).groups()  # type: ignore[union-attr]
    return datetime.fromisoformat(whole).replace(tzinfo=UTC, microsecond=int(f"{fraction or '':0<6}"[:6]))


@pytest.mark.parametrize("generation", GENERATIONS)
def test_every_recorded_market_is_read_field_by_field(recordings: Path, generation: str):
    items = markets(recordings, generation)
    for item, found in zip(items, read(items).iter_rows(named=True), strict=True):
        assert (found["ticker"], found["event_ticker"]) == (plain(item, "ticker"), plain(item, "event_ticker"))
        for name, rule in MARKET.decimals.items():
            assert found[name] == expected_decimal(item, name, rule), (found["ticker"], name)
        for column, name in MARKET.times.items():
            assert found[column] == expected_time(plain(item, name)), (found["ticker"], name)
        for name in set(MARKET.texts) - {"status", "result"}:
            assert found[name] == plain(item, name), (found["ticker"], name)
        assert found["status"] == STATUS_SYNONYMS.get(plain(item, "status"), plain(item, "status"))
        assert found["result"] == (plain(item, "result") or "")
        assert found["wire_format"] == generation
        assert decode_json(found["body"].encode()) == item


def first_by_name(items: list[dict[str, Any]], name: Callable[[dict[str, Any]], Any]) -> list[dict[str, Any]]:
    """Return the first record of each name, because later ones repeat it."""
    found: dict[Any, dict[str, Any]] = {}
    for item in items:
        found.setdefault(name(item), item)
    return list(found.values())


@pytest.mark.parametrize("generation", GENERATIONS)
def test_every_recorded_event_is_read(recordings: Path, generation: str):
    items = [
        item for body in bodies(recordings, generation) for item in objects(body, "event_ticker", "series_ticker", "mutually_exclusive")
    ]
    parsed = parse_events(items, ORIGIN, day=DAY)
    assert parsed.rejects.is_empty()
    rows = KALSHI_EVENTS.validate(parsed.rows, unique=False)
    for item, found in zip(first_by_name(items, lambda item: plain(item, "event_ticker")), rows.iter_rows(named=True), strict=True):
        for name in ("event_ticker", "series_ticker", "title", "sub_title", "category", "mutually_exclusive"):
            assert found[name] == plain(item, name)
        assert found["strike_date"] == expected_time(plain(item, "strike_date"))
    nested = [market for item in items for market in item.get("markets") or []]
    assert extract_nested_markets(items) == nested


def test_every_recorded_series_is_read(recordings: Path):
    found = [
        item
        for generation in GENERATIONS
        for body in bodies(recordings, generation)
        for item in objects(body, "ticker", "fee_type", "frequency")
    ]
    parsed = parse_series(found, ORIGIN)
    assert parsed.rejects.is_empty()
    assert found
    rows = KALSHI_SERIES.validate(parsed.rows, unique=False)
    for item, row in zip(first_by_name(found, lambda item: item["ticker"]), rows.iter_rows(named=True), strict=True):
        assert (row["series_ticker"], row["category"], row["fee_type"]) == (item["ticker"], item["category"], item["fee_type"])
        assert row["fee_multiplier"] == Decimal(repr(item["fee_multiplier"]))
        assert row["tags"] == (item["tags"] or [])


@pytest.mark.parametrize("generation", ["current", "transitional"])
def test_every_recorded_candle_is_read_field_by_field(recordings: Path, generation: str):
    items = [item for body in bodies(recordings, generation) for item in objects(body, "end_period_ts", "yes_bid", "price")]
    for item in items:
        parsed = parse_candles({"ticker": "T", "candlesticks": [item]}, ORIGIN, day=DAY, source="live", period_minutes=60)
        assert parsed.rejects.is_empty()
        found = KALSHI_CANDLES.validate(parsed.rows).row(0, named=True)
        assert found["end_at"] == datetime.fromtimestamp(item["end_period_ts"], UTC)
        for part, shape in PARTS.items():
            for name, rule in shape.decimals.items():
                assert found[f"{part}_{name}"] == expected_decimal(item[part], name, rule), (part, name)


def test_the_recorded_refusal_of_a_response_word_is_understood(recordings: Path):
    refusals = [query["error"] for body in bodies(recordings, "current") for query in objects(body, "status", "error", "series")]
    skip_without(refusals, "refused calls")
    for text in refusals:
        assert parse_error_text(text.split("\n", 1)[1].encode()) == "bad_request: bad request: invalid status filter"
