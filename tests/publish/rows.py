"""Questions of a release, as the warehouse has them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import polars as pl

from bellwether.tables.benchmark import QUESTIONS

CLOSES = datetime(2026, 3, 1, 12, tzinfo=UTC)


def question(number: int, **fields: Any) -> dict[str, Any]:
    """One row of benchmark/questions."""
    closes = CLOSES + timedelta(days=number)
    return {
        "release": "made-up",
        "id": f"kalshi:KX{number}",
        "question": f"Will event {number} happen?",
        "description": "Resolves to Yes if it happens.",
        "category": ("Weather", "Politics")[number % 2],
        "close_time": closes,
        "ground_truth": ("yes", "no", "no")[number % 3],
        "market_probability": 0.99,
        "series_ticker": f"KX{number // 2}",
        "source": "kalshi",
        "market_id": f"KX{number}",
        "event_id": f"KXE{number}",
        "cluster": f"kalshi:KX{number // 2}",
        "open_time": closes - timedelta(days=30),
        "settled_at": closes + timedelta(hours=2),
        "price_24h": Decimal("0.425000") if number % 2 else None,
        "price_24h_at": closes - timedelta(hours=25) if number % 2 else None,
        "ordinal": number,
        "version": 1,
        "cutoff": datetime(2025, 10, 1, tzinfo=UTC),
        "known_at": datetime(2026, 6, 1, tzinfo=UTC),
        "rules": "abcdef012345",
        **fields,
    }


def questions(count: int = 6, **fields: Any) -> pl.DataFrame:
    """So many of them."""
    return QUESTIONS.frame([question(number, **fields) for number in range(count)])
