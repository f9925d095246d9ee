"""The date of a report: when the last fact in it became known."""

from __future__ import annotations

from datetime import datetime

import polars as pl


def latest(rows: pl.DataFrame) -> datetime:
    """The latest `known_at` of some rows, UTC."""
    found = rows["known_at"].max()
    assert isinstance(found, datetime)
    return found


def stamp_of(at: datetime) -> str:
    """A date as file names have it: the same data give the same names."""
    return at.strftime("%Y%m%d_%H%M%S")
