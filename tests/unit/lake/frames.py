"""Small seeded frames of real tables."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import polars as pl

from bellwether.tables import table

PRICES = table("clean/prices")
FORECASTS = table("benchmark/forecasts")
SERIES = table("raw/kalshi_series")


def prices(day: str = "2025-09-01", rows: int = 6, *, seed: int = 0) -> pl.DataFrame:
    """Return rows of clean/prices of one day in stored order, three per market."""
    rng = random.Random(f"{day}/{seed}")
    close = datetime.combine(date.fromisoformat(day), datetime.min.time(), UTC)
    return PRICES.frame(
        [
            {
                "day": close.date(),
                "venue": "kalshi",
                "market_id": f"KXTEST-{row // 3:06d}",
                "at": close - timedelta(hours=3 - row % 3),
                "period_minutes": 60,
                "bid": None if rng.random() < 0.1 else Decimal(rng.randrange(1, 50)) / 100,
                "ask": Decimal(rng.randrange(50, 99)) / 100,
                "last": Decimal(rng.randrange(1, 99)) / 100,
                "volume": Decimal(rng.randrange(10_000)),
                "open_interest": Decimal(rng.randrange(10_000)),
                "known_at": close + timedelta(hours=rng.randrange(48)),
            }
            for row in range(rows)
        ]
    )


def forecasts(release: str = "2025q3", forecaster: str = "market-24h", rows: int = 4) -> pl.DataFrame:
    """Return rows of benchmark/forecasts of one release and forecaster in stored order."""
    rng = random.Random(f"{release}/{forecaster}")
    return FORECASTS.frame(
        [
            {
                "release": release,
                "forecaster": forecaster,
                "question_id": f"kalshi:KXTEST-{row:06d}",
                "sample": 0,
                "p_yes": rng.random(),
                "could_know": False,
                "known_at": datetime(2025, 10, 1, tzinfo=UTC),
                "rules": "1",
            }
            for row in range(rows)
        ]
    )


def series(rows: int = 3) -> pl.DataFrame:
    """Return rows of the unpartitioned table raw/kalshi_series in stored order."""
    fetched_at = datetime(2025, 9, 1, 12, tzinfo=UTC)
    return SERIES.frame(
        [
            {
                "series_ticker": f"KX{row:03d}",
                "title": f"Series {row}",
                "categories": ["Climate", "Weather"][: row % 3],
                "tags": [],
                "body": "{}",
                "request": "GET /series",
                "page": 0,
                "fetched_at": fetched_at,
                "known_at": fetched_at,
            }
            for row in range(rows)
        ]
    )


def break_frame(frame: pl.DataFrame, fault: str) -> pl.DataFrame:
    """Return `frame` with one error that a table must refuse."""
    match fault:
        case "extra column":
            return frame.with_columns(pl.lit(1).alias("surprise"))
        case "missing column":
            return frame.drop("known_at")
        case "null":
            return frame.with_columns(pl.when(pl.int_range(pl.len()) == 2).then(None).otherwise(pl.col("known_at")).alias("known_at"))
        case "wrong dtype":
            return frame.with_columns(pl.col("known_at").dt.replace_time_zone(None))
        case "duplicate key":
            return pl.concat([frame, frame.slice(1, 1)])
    raise AssertionError(f"no fault is called {fault}")
