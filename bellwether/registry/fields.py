"""Field types that several registries use."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated

from pydantic import BeforeValidator


def _end_of_knowledge(value: object) -> datetime | None:
    """Convert a knowledge cutoff from TOML to an instant in UTC. A date means the end of that day."""
    if value is None:
        return None
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError("must be a date, or an instant with its offset such as 2025-10-01T00:00:00Z")
        return value.astimezone(UTC)
    if isinstance(value, date):
        return datetime.combine(value + timedelta(days=1), time(), UTC)
    raise ValueError("must be a date or an instant, without quotes")


#: Instant (UTC) until which a forecaster may know outcomes. A date includes its day; None means no knowledge of outcomes.
KnowledgeCutoff = Annotated[datetime | None, BeforeValidator(_end_of_knowledge)]


def last_day(cutoff: datetime) -> str:
    """Return the last day (UTC) that a knowledge cutoff includes, as ISO text."""
    return (cutoff.astimezone(UTC) - timedelta(microseconds=1)).date().isoformat()
