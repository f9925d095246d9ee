"""Conversion of recorded Parquet tables to objects in Kalshi's current format.

Nulls and missing columns are missing fields. Integer prices are cents, fractional ones dollars. Times without a zone are UTC, unless other times of the table have one. Columns that
begin with an underscore are the recorder's own: `_series_ticker` identifies the market's series and is not part of the object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl

from bellwether.errors import SchemaError
from bellwether.sandbox.recorded_objects import Object, RecordedObject, RecordedObjects, infer_period, is_event, is_market
from bellwether.sandbox.timestamps import format_time, to_instant


@lru_cache(maxsize=65536, typed=True)
def _price(value: float | Decimal) -> str:
    """Format a price as dollars with four to six decimals; an integer is in cents."""
    amount = Decimal(value) / 100 if isinstance(value, int) else Decimal(str(value))
    exponent = amount.normalize().as_tuple().exponent
    return f"{amount:.{min(max(-int(exponent), 4), 6)}f}"


@lru_cache(maxsize=65536, typed=True)
def _count(value: float | Decimal) -> str:
    return f"{Decimal(str(value)):.2f}"


def _time(value: Any) -> str:
    if not isinstance(value, datetime):
        return str(value)
    return format_time(to_instant(value if value.tzinfo else value.replace(tzinfo=UTC)))


def _keep_value(value: Any) -> Any:
    return value


_Fields = Mapping[str, tuple[str, Callable[[Any], Any]]]


def _fields(**kinds: tuple[Callable[[Any], Any], str, str]) -> _Fields:
    """Map columns of a table to (field, conversion). kinds: for each conversion, the suffix of the fields, and the columns in one text."""
    return {column: (f"{column}{suffix}", convert) for convert, suffix, columns in kinds.values() for column in columns.split()}


_TIMES = "created_time updated_time open_time close_time expected_expiration_time expiration_time latest_expiration_time settlement_ts"
MARKET: _Fields = {
    **_fields(
        texts=(
            _keep_value,
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
    texts=(_keep_value, "", "event_ticker series_ticker title sub_title category strike_period mutually_exclusive collateral_return_type"),
    times=(_time, "", "strike_date last_updated_ts"),
)
_BARS = ("yes_bid", "yes_ask", "price")
_MEMBERS = {"open": "open", "high": "high", "low": "low", "close": "close", "mean": "mean", "prev": "previous", "previous": "previous"}


def _object(row: Mapping[str, Any], fields: _Fields) -> Object:
    return {name: convert(row[column]) for column, (name, convert) in fields.items() if row.get(column) is not None}


def collect_table(path: Path, findings: RecordedObjects) -> None:
    """Add the markets, events or candles of a table to `findings`; ignore tables with other columns.

    Rows without a ticker, an event or a status are left out. Raises `polars.exceptions.PolarsError` if the file is not Parquet, and
    `SchemaError` if only some of its times have a zone.
    """
    schema = pl.read_parquet_schema(path)
    _require_equal_zones(path, schema)
    columns = set(schema)
    if {"ticker", "event_ticker", "status"} <= columns:
        for row in _rows(path):
            market = _object(row, MARKET)
            if not is_market(market):
                continue
            findings.markets.append(RecordedObject(market, None))
            if row.get("_series_ticker"):
                findings.series_of[market["ticker"]] = row["_series_ticker"]
    elif {"event_ticker", "series_ticker", "title"} <= columns and "ticker" not in columns:
        findings.events.extend(RecordedObject(event, None) for row in _rows(path) if is_event(event := _object(row, EVENT)))
    elif {"ticker", "end_ts", "yes_bid_close", "yes_ask_close"} <= columns:
        _collect_candles(path, findings)


def _require_equal_zones(path: Path, schema: Mapping[str, pl.DataType]) -> None:
    """Raise `SchemaError` if only some of the columns with times have a zone."""
    zones = {name: dtype.time_zone for name, dtype in schema.items() if isinstance(dtype, pl.Datetime)}
    local, zoned = [name for name in zones if zones[name] is None], [name for name in zones if zones[name] is not None]
    if local and zoned:
        value = pl.read_parquet(path, columns=local[:1])[local[0]].drop_nulls().head(1).to_list()
        raise SchemaError(
            f"reading {path}: {local[0]} has no time zone ({value[0] if value else 'empty'}), unlike {zoned[0]}; give all times one"
        )


def _frame(path: Path) -> pl.DataFrame:
    """Read a table, with NaN as null."""
    frame = pl.read_parquet(path, hive_partitioning=False)
    return frame.with_columns(pl.col(pl.Float32, pl.Float64).fill_nan(None))


def _rows(path: Path) -> list[dict[str, Any]]:
    return _frame(path).to_dicts()


def _objects(columns: dict[str, list[Any]], height: int) -> list[Object]:
    """Return one object per row, without its null fields."""
    if not columns:
        return [{} for _ in range(height)]
    rows = zip(*columns.values(), strict=True)
    return [{name: value for name, value in zip(columns, row, strict=True) if value is not None} for row in rows]


def _convert_columns(frame: pl.DataFrame, names: Mapping[str, str], convert: Callable[[Any], str]) -> dict[str, list[Any]]:
    """Convert those columns that the table has. names: column to field. Return the converted values by field."""
    return {
        name: [None if value is None else convert(value) for value in frame[column].to_list()]
        for column, name in names.items()
        if column in frame.columns
    }


def _candles(frame: pl.DataFrame) -> list[Object]:
    bars = {
        bar: _objects(
            _convert_columns(frame, {f"{bar}_{member}": f"{name}_dollars" for member, name in _MEMBERS.items()}, _price), frame.height
        )
        for bar in _BARS
    }
    counts = _convert_columns(frame, {name: f"{name}_fp" for name in ("volume", "open_interest")}, _count)
    return _objects({"end_period_ts": frame["end_ts"].to_list(), **bars, **counts}, frame.height)


def _collect_candles(path: Path, findings: RecordedObjects) -> None:
    frame = _frame(path)
    by_ticker: dict[str, list[Object]] = {}
    for ticker, candle in zip(frame["ticker"].to_list(), _candles(frame), strict=True):
        by_ticker.setdefault(ticker, []).append(candle)
    periods = [period for candles in by_ticker.values() if (period := infer_period(sorted(candle["end_period_ts"] for candle in candles)))]
    period = min(periods, default=60)
    for ticker, candles in by_ticker.items():
        findings.add_candles(ticker, period, candles)
