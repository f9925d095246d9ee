"""Parsing of Gamma's event objects into rows of raw/polymarket_events."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from functools import partial
from typing import Any

import polars as pl

from bellwether.tables.raw import POLYMARKET_EVENTS
from bellwether.venues.polymarket.wire.markets import ID
from bellwether.venues.polymarket.wire.rules import (
    AMOUNT,
    USDC_PLACES,
    extract_texts,
    format_id,
    format_time,
    prepare_records,
    rename_columns,
    take_first,
    to_plain_decimal,
)
from bellwether.venues.wire.columns import Record, RejectReasons, WireColumns, find_repeats, to_records
from bellwether.venues.wire.rejects import Origin, ParsedRecords, Quarantine, repeat_value
from bellwether.venues.wire.shapes import ObjectShape

NAMES = {"event_id": "id", "neg_risk": "negRisk"}
EVENT = ObjectShape(
    tickers=("id",),
    texts=("slug", "ticker", "title", "description", "category", "series_id", "series_slug", "series_title"),
    text_lists=("tags", "tag_labels"),
    times={
        "created_at": "createdAt",
        "updated_at": "updatedAt",
        "start_time": "startDate",
        "end_time": "endDate",
        "closed_at": "closedTime",
    },
    decimals={"volume": AMOUNT, "liquidity": AMOUNT},
    flags=("negRisk", "closed", "active", "archived"),
)


def _record(record: Record) -> Record:
    series = take_first(record.get("series"))
    series = series if type(series) is dict else {}
    return {
        **record,
        "tags": extract_texts(record.get("tags"), "slug"),
        "tag_labels": extract_texts(record.get("tags"), "label"),
        "series_id": format_id(series.get("id")),
        "series_slug": record.get("seriesSlug") or series.get("slug"),
        "series_title": series.get("title"),
    }


def parse_events(objects: Sequence[Any], origin: Origin, *, day: date) -> ParsedRecords:
    """Parse Gamma's events of one page into rows of raw/polymarket_events in partition `day`; nested markets are left out."""
    problems = RejectReasons()
    amount = partial(to_plain_decimal, places=USDC_PLACES)
    records = [_record(record) if record else record for record in to_records(objects, "id", problems)]
    times = dict.fromkeys(EVENT.times.values(), format_time)
    columns = WireColumns(prepare_records(records, id=format_id, volume=amount, liquidity=amount, **times), problems)
    typed = rename_columns(columns, EVENT, NAMES)
    columns.note_where(~typed["event_id"].str.contains(ID), "id", "not a number in text")
    bodies = [{name: value for name, value in item.items() if name != "markets"} if type(item) is dict else item for item in objects]
    frame = pl.DataFrame({**typed, "day": repeat_value(day, pl.Date(), len(objects)), "body": columns.bodies(bodies)})
    repeats = find_repeats(frame.select("event_id"), bodies, problems, field="id", kind="event of the same id")
    return Quarantine(POLYMARKET_EVENTS, "id", day, origin).sift(frame, bodies, problems, unwanted=repeats)
