"""Recorded tables (Parquet) as objects of the venue's current wire format, without inventing a value.

What is null in the table is absent from the object, and so is every field that the table does not have. Whole-number
prices are cents, fractional ones dollars. Times without a zone are UTC. Columns that start with an underscore are the
recorder's own: `_series_ticker` serves to find the market's series and is not sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl

from bellwether.sandbox.instants import MINUTE, SECOND, instant, wire_time
from bellwether.sandbox.recorded import Findings, Found, Object, period_of


@lru_cache(maxsize=65536, typed=True)
def _price(value: float | Decimal) -> str:
    """Dollars with four to six decimals: whole numbers are cents."""
    amount = Decimal(value) / 100 if isinstance(value, int) else Decimal(str(value))
    exponent = amount.normalize().as_tuple().exponent
    return f"{amount:.{min(max(-int(exponent), 4), 6)}f}"


@lru_cache(maxsize=65536, typed=True)
def _count(value: float | Decimal) -> str:
    return f"{Decimal(str(value)):.2f}"


def _time(value: Any) -> str:
    if not isinstance(value, datetime):
        return str(value)
    return wire_time(instant(value if value.tzinfo else value.replace(tzinfo=UTC)))


def _same(value: Any) -> Any:
    return value


_Fields = Mapping[str, tuple[str, Callable[[Any], Any]]]


def _fields(**kinds: tuple[Callable[[Any], Any], str, str]) -> _Fields:
    """Column -> (name on the wire, conversion), from kind = (conversion, suffix of the wire's name, columns)."""
    return {column: (f"{column}{suffix}", convert) for convert, suffix, columns in kinds.values() for column in columns.split()}


_TIMES = "created_time updated_time open_time close_time expected_expiration_time expiration_time latest_expiration_time settlement_ts"
MARKET: _Fields = {
    **_fields(
        texts=(
            _same,
            "",
            "ticker event_ticker market_type title subtitle yes_sub_title no_sub_title status result expiration_value rules_primary "
            "rules_secondary strike_type early_close_condition can_close_early floor_strike cap_strike settlement_timer_seconds "
            "price_level_structure mve_collection_ticker is_provisional",
        ),
        times=(_time, "", _TIMES),
        prices=(
            _price,
            "_dollars",
            "yes_bid yes_ask no_bid no_ask last_price previous_price previous_yes_bid previous_yes_ask notional_value settlement_value liquidity",
        ),
        counts=(_count, "_fp", "volume volume_24h open_interest"),
    ),
    "settlement_time": ("settlement_ts", _time),
}
EVENT: _Fields = _fields(
    texts=(_same, "", "event_ticker series_ticker title sub_title category strike_period mutually_exclusive collateral_return_type"),
    times=(_time, "", "strike_date last_updated_ts"),
)
_BARS = {"yes_bid": "yes_bid", "yes_ask": "yes_ask", "price": "price"}
_MEMBERS = {"open": "open", "high": "high", "low": "low", "close": "close", "mean": "mean", "prev": "previous", "previous": "previous"}


def _object(row: Mapping[str, Any], fields: _Fields) -> Object:
    return {name: convert(row[column]) for column, (name, convert) in fields.items() if row.get(column) is not None}


def _candle(row: Mapping[str, Any]) -> Object:
    bars: dict[str, dict[str, str]] = {
        bar: {
            f"{name}_dollars": _price(row[f"{prefix}_{member}"])
            for member, name in _MEMBERS.items()
            if row.get(f"{prefix}_{member}") is not None
        }
        for bar, prefix in _BARS.items()
    }
    counts = {f"{name}_fp": _count(row[name]) for name in ("volume", "open_interest") if row.get(name) is not None}
    return {"end_period_ts": row["end_ts"], **bars, **counts}


def collect_table(path: Path, findings: Findings) -> None:
    """Add what the table holds if its columns are those of markets, events or candles; leave it alone otherwise.

    Raises `polars.exceptions.PolarsError` when the file is not Parquet.
    """
    columns = set(pl.read_parquet_schema(path))
    if {"ticker", "event_ticker", "status"} <= columns:
        for row in _rows(path):
            market = _object(row, MARKET)
            findings.markets.append(Found(market, None))
            if row.get("_series_ticker"):
                findings.series_of[market["ticker"]] = row["_series_ticker"]
    elif {"event_ticker", "series_ticker", "title"} <= columns and "ticker" not in columns:
        findings.events.extend(Found(_object(row, EVENT), None) for row in _rows(path))
    elif {"ticker", "end_ts", "yes_bid_close", "yes_ask_close"} <= columns:
        _collect_candles(path, findings)


def _rows(path: Path) -> list[dict[str, Any]]:
    """The rows, with NaN as null."""
    frame = pl.read_parquet(path, hive_partitioning=False)
    return frame.with_columns(pl.col(pl.Float32, pl.Float64).fill_nan(None)).to_dicts()


def _collect_candles(path: Path, findings: Findings) -> None:
    by_ticker: dict[str, list[Object]] = {}
    for row in _rows(path):
        by_ticker.setdefault(row["ticker"], []).append(_candle(row))
    periods = [period for candles in by_ticker.values() if (period := period_of(sorted(candle["end_period_ts"] for candle in candles)))]
    period = min(periods, default=MINUTE // SECOND)
    for ticker, candles in by_ticker.items():
        findings.add_candles(ticker, period, candles)
