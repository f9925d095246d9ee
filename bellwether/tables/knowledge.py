"""Contamination by knowledge: the questions of a release against a forecaster's knowledge cutoff."""

from __future__ import annotations

from datetime import datetime

import polars as pl

from bellwether.tables.schema import TIME

_DAY = 86_400_000_000

#: When the last doubt about the answer ended, and when the first word of it may have been out.
RESOLVED = pl.max_horizontal("close_time", "settled_at")
FIRST_KNOWN = pl.min_horizontal("close_time", "settled_at")


def could_know(cutoff: datetime | None) -> pl.Expr:
    """Boolean over rows of benchmark/questions: the market closed, or was paid out, at or before `cutoff`. Nobody knows without a cutoff.

    A market often closes because its answer is known, days before it is paid out; so both must lie strictly after the cutoff.
    """
    return pl.lit(False) if cutoff is None else FIRST_KNOWN.le(pl.lit(cutoff, TIME))


def days_from_cutoff(cutoff: datetime | None) -> pl.Expr:
    """Float64 over rows of benchmark/questions: days from `cutoff` to the resolution, negative before it; null without a cutoff."""
    if cutoff is None:
        return pl.lit(None, pl.Float64)
    return (RESOLVED - pl.lit(cutoff, TIME)).dt.total_microseconds().cast(pl.Float64) / _DAY


def knowledge_columns(cutoff: datetime | None) -> dict[str, pl.Expr]:
    """The columns knowledge_cutoff, days_from_cutoff and could_know of benchmark/forecasts, as expressions over its questions."""
    return {
        "knowledge_cutoff": pl.lit(cutoff, TIME),
        "days_from_cutoff": days_from_cutoff(cutoff),
        "could_know": could_know(cutoff),
    }
