"""Parsing of event and series objects into rows of raw/kalshi_events and raw/kalshi_series, and of markets nested in events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import polars as pl

from bellwether.tables.raw import KALSHI_EVENTS, KALSHI_SERIES
from bellwether.venues.kalshi.wire.rules import RATIO
from bellwether.venues.wire.columns import RejectReasons, WireColumns, find_repeats, to_records
from bellwether.venues.wire.json_decoding import UnusableValue
from bellwether.venues.wire.rejects import Origin, ParsedRecords, Quarantine, repeat_value
from bellwether.venues.wire.shapes import ObjectShape

EVENT = ObjectShape(
    tickers=("event_ticker",),
    texts=("series_ticker", "title", "sub_title", "category", "collateral_return_type", "strike_period", "fee_type_override"),
    times={"strike_date": "strike_date", "last_updated_at": "last_updated_ts"},
    decimals={"fee_multiplier_override": RATIO},
    flags=("mutually_exclusive",),
)


def parse_events(objects: Sequence[Any], origin: Origin, *, day: date) -> ParsedRecords:
    """Parse the events of one page into rows of raw/kalshi_events in partition `day`; nested markets are left out."""
    problems = RejectReasons()
    records = to_records(objects, "event_ticker", problems)
    columns = WireColumns(records, problems)
    bodies = [{name: value for name, value in item.items() if name != "markets"} if type(item) is dict else item for item in objects]
    frame = pl.DataFrame({**columns.typed(EVENT), "day": repeat_value(day, pl.Date(), len(objects)), "body": columns.bodies(bodies)})
    repeats = find_repeats(frame.select("event_ticker"), bodies, problems, field="event_ticker", kind="event of the same ticker")
    return Quarantine(KALSHI_EVENTS, "event_ticker", day, origin).sift(frame, bodies, problems, unwanted=repeats)


def extract_nested_markets(objects: Sequence[Any]) -> list[Any]:
    """Return the market objects nested in the events of one page, in order."""
    events = [item.record if type(item) is UnusableValue else item for item in objects]
    lists = [event["markets"] for event in events if type(event) is dict and event.get("markets") is not None]
    return [market for markets in lists for market in (markets if type(markets) is list else [markets])]


SERIES = ObjectShape(
    tickers=("ticker",),
    texts=("title", "frequency", "category", "fee_type", "contract_url", "contract_terms_url"),
    text_lists=("categories", "tags"),
    times={"last_updated_at": "last_updated_ts"},
    decimals={"fee_multiplier": RATIO},
)


def parse_series(objects: Sequence[Any], origin: Origin, *, earlier: Mapping[str, Any] | None = None) -> ParsedRecords:
    """Parse the series of one page into rows of raw/kalshi_series. earlier: objects of previous pages by ticker; a second object of a
    series is dropped if it is equal, else it is a reject.

    The day of a reject is that of the response.
    """
    problems = RejectReasons()
    columns = WireColumns(to_records(objects, "ticker", problems), problems)
    typed = columns.typed(SERIES)
    frame = pl.DataFrame({**typed, "series_ticker": typed["ticker"], "body": columns.bodies(objects)})
    repeats = find_repeats(
        frame.select("ticker"), objects, problems, field="ticker", kind="series of the same ticker", earlier=earlier or {}
    )
    return Quarantine(KALSHI_SERIES, "ticker", origin.fetched_at.date(), origin).sift(frame, objects, problems, unwanted=repeats)
