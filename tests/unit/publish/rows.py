"""Questions of a release, as in the warehouse."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl

from tests.unit.report import frames

CLOSES = datetime(2026, 3, 1, 12, tzinfo=UTC)


def questions(count: int = 6, **fields: Any) -> pl.DataFrame:
    """Return questions of which a third resolved yes. Every second has a price a day before its close."""
    stated = {"release": "made-up", "known_at": datetime(2026, 6, 1, tzinfo=UTC), "rules": "abcdef012345", **fields}
    unpriced = {"price_24h": None, "price_24h_at": None}
    return frames.questions(
        [
            frames.question(
                number,
                ("yes", "no", "no")[number % 3],
                **({} if number % 2 else unpriced),
                close_time=CLOSES + timedelta(days=number),
                **stated,
            )
            for number in range(count)
        ]
    )
