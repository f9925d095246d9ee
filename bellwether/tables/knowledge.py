"""Contamination: which questions have an outcome that a forecaster could know, given its knowledge cutoff."""

from __future__ import annotations

from datetime import datetime

import polars as pl

from bellwether.tables.schema import TIME

_DAY = 86_400_000_000

#: Latest time of resolution, and earliest time at which the outcome may have been public.
RESOLVED = pl.max_horizontal("close_time", "settled_at")
FIRST_KNOWN = pl.min_horizontal("close_time", "settled_at")


def could_know(cutoff: datetime | None) -> pl.Expr:
    """Return an expression that is True for questions whose market closed or settled at or before `cutoff`. Without a cutoff it is False.

    A market often closes because its outcome is known, days before it is paid. Both times must therefore be strictly after the cutoff.
    """
    return pl.lit(False) if cutoff is None else FIRST_KNOWN.le(pl.lit(cutoff, TIME))


def days_from_cutoff(cutoff: datetime | None) -> pl.Expr:
    """Return an expression for the days from `cutoff` to a question's resolution, negative for an earlier resolution. Without a cutoff it is null."""
    if cutoff is None:
        return pl.lit(None, pl.Float64)
    return (RESOLVED - pl.lit(cutoff, TIME)).dt.total_microseconds().cast(pl.Float64) / _DAY


def knowledge_columns(cutoff: datetime | None) -> dict[str, pl.Expr]:
    """Return three columns of benchmark/forecasts by name (knowledge_cutoff, days_from_cutoff, could_know), as expressions over benchmark/questions."""
    return {
        "knowledge_cutoff": pl.lit(cutoff, TIME),
        "days_from_cutoff": days_from_cutoff(cutoff),
        "could_know": could_know(cutoff),
    }
