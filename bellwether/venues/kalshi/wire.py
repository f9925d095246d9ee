"""Parsing of Kalshi's JSON into raw tables; invalid objects become rows of raw/kalshi_rejects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import polars as pl

from bellwether.tables.raw import KALSHI_CANDLES, KALSHI_EVENTS, KALSHI_MARKETS, KALSHI_SERIES
from bellwether.tables.schema import PRICE, SIZE, Table
from bellwether.venues.http.page import VenuePage
from bellwether.venues.kalshi.routes import CANDLE_MINUTES, parse_requested_tickers
from bellwether.venues.wire.columns import (
    DecimalRule,
    ObjectShape,
    Record,
    RejectReasons,
    WireColumns,
    find_repeats,
    format_number,
    to_records,
)
from bellwether.venues.wire.rejects import (
    MISSING,
    NO_RESULT,
    UNKNOWN_STATUS,
    Origin,
    ParsedRecords,
    Quarantine,
    build_records,
    keep_rows,
    repeat_value,
)

DOLLARS = DecimalRule("_dollars", r"^-?[0-9]{1,4}(\.[0-9]{1,6})?$", PRICE, "not a decimal of at most 4 digits and 6 decimals", 9999)
PRICE_OF_CONTRACT = replace(DOLLARS, highest=1)
#: A quote at 0 or 1 is a missing quote; a trade at 0 means that nothing traded.
QUOTE = replace(PRICE_OF_CONTRACT, absent=(0, 1))
TRADE = replace(PRICE_OF_CONTRACT, absent=(0,))
CONTRACTS = DecimalRule("_fp", r"^-?[0-9]{1,16}(\.[0-9]{1,2})?$", SIZE, "not a decimal of at most 16 digits and 2 decimals", 10**16)
RATIO = replace(DOLLARS, suffix="", text=format_number)


STATUSES: frozenset[str] = frozenset({"initialized", "inactive", "active", "closed", "determined", "disputed", "amended", "finalized"})

MARKET = ObjectShape(
    tickers=("ticker", "event_ticker"),
    times={
        "created_at": "created_time",
        "updated_at": "updated_time",
        "open_time": "open_time",
        "close_time": "close_time",
        "expected_expiration_time": "expected_expiration_time",
        "expiration_time": "expiration_time",
        "latest_expiration_time": "latest_expiration_time",
        "settled_at": "settlement_ts",
    },
    decimals={
        "settlement_value": PRICE_OF_CONTRACT,
        "last_price": TRADE,
        "previous_price": TRADE,
        "yes_bid": QUOTE,
        "yes_ask": QUOTE,
        "no_bid": QUOTE,
        "no_ask": QUOTE,
        "notional_value": DOLLARS,
        "volume": CONTRACTS,
        "volume_24h": CONTRACTS,
        "open_interest": CONTRACTS,
    },
    texts=(
        "market_type",
        "title",
        "subtitle",
        "yes_sub_title",
        "no_sub_title",
        "status",
        "result",
        "expiration_value",
        "early_close_condition",
        "rules_primary",
        "rules_secondary",
        "strike_type",
        "price_level_structure",
    ),
    flags=("can_close_early", "is_provisional"),
    numbers=("floor_strike", "cap_strike"),
    objects=("custom_strike",),
)


def parse_markets(objects: Sequence[Any], origin: Origin, *, day: date, table: Table = KALSHI_MARKETS) -> ParsedRecords:
    """Parse the markets of one page into rows of `table`, each with the UTC day of its close. day: of rejects without a valid close time.

    These are rejects: objects without a ticker, an event, a known status or a close time; finalized ones without a result; and any with an
    invalid value.
    """
    problems = RejectReasons()
    columns = WireColumns(to_records(objects, problems), problems)
    typed = columns.typed(MARKET)
    columns.note_where(typed["close_time"].is_null(), "close_time", MISSING)
    for side in ("yes", "no"):
        columns.note_crossed(typed[f"{side}_bid"], typed[f"{side}_ask"], f"{side}_bid_dollars")
    columns.note_where(~typed["status"].is_in(STATUSES).fill_null(False), "status", UNKNOWN_STATUS)
    columns.note_where((typed["status"] == "finalized") & (typed["result"].fill_null("") == ""), "result", NO_RESULT)
    frame = pl.DataFrame(
        {
            **typed,
            "result": typed["result"].fill_null(""),
            "day": typed["close_time"].cast(pl.Date()),
            "is_combo": pl.Series([_is_combo(record) for record in columns.records], dtype=pl.Boolean()),
            "body": columns.bodies(objects),
            "source": repeat_value(read_source(origin.request), pl.String(), len(objects)),
        }
    )
    return Quarantine(table, "ticker", day, origin).sift(frame, objects, problems)


def read_source(request: str) -> str:
    """Return `historical` for a request to the archive's routes, else `live`."""
    return "historical" if request.startswith("GET /historical/") else "live"


def _is_combo(record: Record) -> bool:
    ticker = record.get("ticker")
    return bool(record.get("mve_collection_ticker") or record.get("mve_selected_legs")) or (
        type(ticker) is str and ticker.startswith("KXMVE")
    )


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
    records = to_records(objects, problems)
    columns = WireColumns(records, problems)
    bodies = [{name: value for name, value in item.items() if name != "markets"} if type(item) is dict else item for item in objects]
    frame = pl.DataFrame({**columns.typed(EVENT), "day": repeat_value(day, pl.Date(), len(objects)), "body": columns.bodies(bodies)})
    repeats = find_repeats(frame.select("event_ticker"), bodies, problems, field="event_ticker", kind="event of the same ticker")
    return Quarantine(KALSHI_EVENTS, "event_ticker", day, origin).sift(frame, bodies, problems, unwanted=repeats)


def extract_nested_markets(objects: Sequence[Any]) -> list[Any]:
    """Return the market objects nested in the events of one page, in order."""
    lists = [event["markets"] for event in objects if type(event) is dict and event.get("markets") is not None]
    return [market for markets in lists for market in (markets if type(markets) is list else [markets])]


SERIES = ObjectShape(
    tickers=("ticker",),
    texts=("title", "frequency", "category", "fee_type", "contract_url", "contract_terms_url"),
    text_lists=("categories", "tags"),
    times={"last_updated_at": "last_updated_ts"},
    decimals={"fee_multiplier": RATIO},
)


def parse_series(objects: Sequence[Any], origin: Origin) -> ParsedRecords:
    """Parse the series of one page into rows of raw/kalshi_series. A second object of a series is dropped if it is equal, else it is a
    reject, whose day is that of the response.
    """
    problems = RejectReasons()
    columns = WireColumns(to_records(objects, problems), problems)
    typed = columns.typed(SERIES)
    frame = pl.DataFrame({**typed, "series_ticker": typed["ticker"], "body": columns.bodies(objects)})
    repeats = find_repeats(frame.select("ticker"), objects, problems, field="ticker", kind="series of the same ticker")
    return Quarantine(KALSHI_SERIES, "ticker", origin.fetched_at.date(), origin).sift(frame, objects, problems, unwanted=repeats)


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
        candles = group.get("candlesticks") or []
        objects += [candle | named if type(candle) is dict else candle for candle in (candles if type(candles) is list else [group])]
    return objects


def parse_candles(pages: Sequence[VenuePage], *, day: date) -> ParsedRecords:
    """Parse responses into rows of raw/kalshi_candles, one per market and end of a candle. day: partition of the rows.

    Prices are read from `open_dollars` (live) or `open` (historical), counts from `volume_fp` or `volume`. Bids and asks at 0 and
    1 are null (no quote); trades are null if nothing traded. A second candle of the same page, market and end is dropped if it is equal,
    else it is a reject. Candles of markets that the page's request does not name are dropped.
    """
    # Of copies of the pages, so that their parsed JSON, which takes several times their bytes, is not kept.
    candles = [extract_candles(replace(page).answer) for page in pages]
    counts, objects = list(map(len, candles)), [candle for group in candles for candle in group]
    numbers = [number for number, count in enumerate(counts) for _ in range(count)]
    sources = [read_source(page.request) for page in pages]
    problems = RejectReasons()
    frame = _candles(objects, problems, day).with_columns(
        number=pl.Series(numbers, dtype=pl.UInt32()), source=pl.Series([sources[number] for number in numbers], dtype=pl.String())
    )
    keys = frame.select("number", "ticker", "end_at")
    repeats = find_repeats(keys, objects, problems, field="end_period_ts", kind="candle of the same market and end")
    requested = [parse_requested_tickers(page.request) for page in pages]
    others = {index for index, (number, ticker) in enumerate(zip(numbers, frame["ticker"], strict=True)) if ticker not in requested[number]}
    quarantines = [Quarantine(KALSHI_CANDLES, "ticker", day, page.origin) for page in pages]
    kept = keep_rows(frame, problems.keys() | repeats | others)
    return build_records(KALSHI_CANDLES, quarantines, counts, kept, objects, problems=problems)


def _candles(objects: Sequence[Any], problems: RejectReasons, day: date) -> pl.DataFrame:
    """Parse the columns of candles; invalid candles are noted in `problems`."""
    columns = WireColumns(to_records(objects, problems), problems)
    parts = {part: columns.part(part).typed(shape) for part, shape in PARTS.items()}
    columns.note_crossed(parts["yes_bid"]["close"], parts["yes_ask"]["close"], "yes_bid")
    return pl.DataFrame(
        {
            **columns.typed(CANDLE),
            **{f"{part}_{name}": series for part, members in parts.items() for name, series in members.items()},
            "day": repeat_value(day, pl.Date(), len(objects)),
            "period_minutes": repeat_value(CANDLE_MINUTES, pl.Int32(), len(objects)),
            "end_at": columns.epoch("end_period_ts"),
        }
    )
