"""Parsing of market objects, in every wire format since 2024, into rows of raw/kalshi_markets or raw/kalshi_archive."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

import polars as pl

from bellwether.tables.raw import KALSHI_MARKETS
from bellwether.tables.schema import Table
from bellwether.venues.kalshi.wire.rules import CONTRACTS, DOLLARS, PRICE_OF_CONTRACT, QUOTE, TRADE
from bellwether.venues.wire.columns import Record, RejectReasons, Typed, WireColumns, to_records
from bellwether.venues.wire.rejects import MISSING, NO_RESULT, UNKNOWN_STATUS, Origin, ParsedRecords, Quarantine, repeat_value
from bellwether.venues.wire.shapes import ObjectShape

#: Status in filters of /markets and in responses of 2024 -> status in current responses.
STATUS_SYNONYMS = {"unopened": "initialized", "open": "active", "paused": "inactive", "settled": "finalized"}
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


def parse_markets(objects: Sequence[Any], origin: Origin, *, day: date, source: str, table: Table = KALSHI_MARKETS) -> ParsedRecords:
    """Parse the markets of one page into rows of `table`, each with the UTC day of its close. source: live or historical. day: of rejects
    without a valid close time.

    `X_dollars` and `X_fp` are preferred to the integer cents and counts `X` of older formats. These are rejects: objects without a ticker,
    an event, a known status or a close time; finalized ones without a result; and any with an invalid value.
    """
    problems = RejectReasons()
    columns = WireColumns(to_records(objects, "ticker", problems), problems)
    typed = columns.typed(MARKET)
    if typed["close_time"].null_count():
        columns.note_where(typed["close_time"].is_null(), "close_time", MISSING)
    for side in ("yes", "no"):
        columns.note_crossed(typed[f"{side}_bid"], typed[f"{side}_ask"], f"{side}_bid_dollars", instead=f"{side}_bid")
    frame = pl.DataFrame(
        {
            **typed,
            **_outcome(columns, typed["result"]),
            "day": typed["close_time"].cast(pl.Date()),
            "is_combo": pl.Series([_is_combo(record) for record in columns.records], dtype=pl.Boolean()),
            "wire_format": pl.Series([_wire_format(record) for record in columns.records], dtype=pl.String()),
            "body": columns.bodies(objects),
            "source": repeat_value(source, pl.String(), len(objects)),
        }
    )
    return Quarantine(table, "ticker", day, origin).sift(frame, objects, problems)


def _outcome(columns: WireColumns, result: pl.Series) -> Typed:
    """Return the columns status, under its current name, and result. An unknown status, or a final one without a result, is noted as a
    problem.
    """
    names = [STATUS_SYNONYMS.get(name, name) if type(name) is str else None for name in columns.values("status")]
    status = pl.Series(names, dtype=pl.String())
    if not STATUSES.issuperset(names):
        columns.note_where(~status.is_in(STATUSES).fill_null(False), "status", UNKNOWN_STATUS)
    if result.null_count():
        result = result.fill_null("")
    undecided = (status == "finalized") & (result == "")
    if undecided.any():
        columns.note_where(undecided, "result", NO_RESULT)
    return {"status": status, "result": result}


def _is_combo(record: Record) -> bool:
    ticker = record.get("ticker")
    return bool(record.get("mve_collection_ticker") or record.get("mve_selected_legs")) or (
        type(ticker) is str and ticker.startswith("KXMVE")
    )


def _wire_format(record: Record) -> str:
    if "yes_bid" not in record and "last_price" not in record:
        return "current"
    return "transitional" if "yes_bid_dollars" in record or "last_price_dollars" in record else "legacy"
