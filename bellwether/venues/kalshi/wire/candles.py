"""Parsing of candlesticks, in every wire format, into rows of raw/kalshi_candles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import polars as pl

from bellwether.tables.raw import KALSHI_CANDLES
from bellwether.venues.kalshi.wire.rules import CONTRACTS, QUOTE, TRADE
from bellwether.venues.wire.columns import RejectReasons, WireColumns, find_repeats, to_records
from bellwether.venues.wire.json_decoding import decode_record
from bellwether.venues.wire.rejects import Origin, ParsedRecords, Quarantine, build_origin_columns, repeat_value
from bellwether.venues.wire.shapes import ObjectShape

CANDLE = ObjectShape(tickers=("ticker",), decimals={"volume": CONTRACTS, "open_interest": CONTRACTS})
#: Nested object of a candle -> its members.
PARTS = {
    "yes_bid": ObjectShape(tickers=(), decimals=dict.fromkeys(("open", "high", "low", "close"), QUOTE)),
    "yes_ask": ObjectShape(tickers=(), decimals=dict.fromkeys(("open", "high", "low", "close"), QUOTE)),
    "price": ObjectShape(tickers=(), decimals=dict.fromkeys(("open", "high", "low", "close", "mean", "previous"), TRADE)),
}


def extract_candles(answer: Mapping[str, Any]) -> list[Any]:
    """Return the candles in a response for one or more markets, each with its ticker.

    A group of candles that is invalid is returned itself, so that it becomes a reject.
    """
    objects: list[Any] = []
    groups = answer.get("markets") if "markets" in answer else [answer]
    for group in [] if groups is None else groups if type(groups) is list else [groups]:
        if type(group) is not dict:
            objects.append(group)
            continue
        named = {"ticker": group.get("market_ticker", group.get("ticker"))}
        if type(decode_record(named)) is not dict:
            objects.append(decode_record(group))
            continue
        candles = group.get("candlesticks") or []
        objects += [candle | named if type(candle) is dict else candle for candle in (candles if type(candles) is list else [group])]
    return objects


def parse_candles(answer: Mapping[str, Any], origin: Origin, *, day: date, source: str, period_minutes: int) -> ParsedRecords:
    """Parse a response into rows of raw/kalshi_candles, one per market and end of a candle. source: live or historical. day: partition of
    the rows.

    Prices are read from `open_dollars` (live), `open` as text (historical) or as integer cents (before March 2026). Bids and asks at 0 and
    1 are null (no quote); trades are null if nothing traded. A second candle of the same market and end is dropped if it is equal, else it
    is a reject.
    """
    objects = extract_candles(answer)
    problems = RejectReasons()
    frame = _candles(objects, problems, day, period_minutes).with_columns(repeat_value(source, pl.String(), len(objects)).alias("source"))
    repeats = find_repeats(
        frame.select("ticker", "end_at"), objects, problems, field="end_period_ts", kind="candle of the same market and end"
    )
    return Quarantine(KALSHI_CANDLES, "ticker", day, origin).sift(frame, objects, problems, unwanted=repeats)


@dataclass(frozen=True, slots=True)
class CandlePage:
    """Response with candles of one or more markets. requested: tickers in the request."""

    answer: Mapping[str, Any]
    origin: Origin
    source: str
    requested: Sequence[str]


def parse_candle_pages(pages: Sequence[CandlePage], *, day: date, period_minutes: int) -> pl.DataFrame | None:
    """Parse several pages in one pass, faster than `parse_candles` for each page; only the requested tickers are kept. None if a candle has
    a problem.

    Returns None if a candle has a problem or is repeated: then parse each page separately.
    """
    candles = [extract_candles(page.answer) for page in pages]
    problems = RejectReasons()
    frame = _candles([candle for objects in candles for candle in objects], problems, day, period_minutes)
    if problems:
        return None
    requested = pl.DataFrame(
        [(number, page.source, ticker) for number, page in enumerate(pages) for ticker in page.requested],
        schema={"number": pl.UInt32(), "source": pl.String(), "ticker": pl.String()},
        orient="row",
    )
    frame = frame.hstack(build_origin_columns([page.origin for page in pages], [len(objects) for objects in candles]))
    if frame.select("number", "ticker", "end_at").is_duplicated().any():
        return None
    return frame.join(requested, on=["number", "ticker"], how="inner", maintain_order="left").select(KALSHI_CANDLES.names)


def _candles(objects: Sequence[Any], problems: RejectReasons, day: date, period_minutes: int) -> pl.DataFrame:
    """Parse the columns of candles; invalid candles are noted in `problems`."""
    columns = WireColumns(to_records(objects, "ticker", problems), problems)
    parts = {part: columns.part(part).typed(shape) for part, shape in PARTS.items()}
    columns.note_crossed(parts["yes_bid"]["close"], parts["yes_ask"]["close"], "yes_bid")
    return pl.DataFrame(
        {
            **columns.typed(CANDLE),
            **{f"{part}_{name}": series for part, members in parts.items() for name, series in members.items()},
            "day": repeat_value(day, pl.Date(), len(objects)),
            "period_minutes": repeat_value(period_minutes, pl.Int32(), len(objects)),
            "end_at": columns.epoch("end_period_ts"),
        }
    )
