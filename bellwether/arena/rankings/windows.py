"""Equity of families in a range that ends with the newest portfolio: a point per hour, day or week in which a portfolio changed, and how many agents it is the mean of."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import polars as pl

from bellwether.arena.rankings.equity import mean_of_totals
from bellwether.arena.rankings.inputs import FAMILY, Inputs
from bellwether.tables.schema import TIME, midnight


@dataclass(frozen=True, slots=True)
class Window:
    """How far back a range goes, as Polars offsets are written (None: to the beginning), and the width of a point's interval, counted from 1970-01-01 00:00 UTC."""

    back: str | None
    width: timedelta


#: By name; months are those of the calendar, and the last day stands for one that a month has not.
WINDOWS = {
    "10M": Window("-10m", timedelta(minutes=10)),
    "1H": Window("-1h", timedelta(minutes=10)),
    "1D": Window("-1d", timedelta(minutes=10)),
    "1W": Window("-7d", timedelta(hours=1)),
    "1M": Window("-1mo", timedelta(hours=6)),
    "3M": Window("-3mo", timedelta(days=1)),
    "ALL": Window(None, timedelta(days=7)),
}


def points(at: pl.Series, window: Window) -> pl.Series:
    """The starts of the intervals of a range in which something happened, in order. at: instants, UTC; the newest ends the range, whatever the clock says."""
    newest = at.max()
    if newest is None:
        return at.clear()
    end = pl.lit(newest, TIME)
    begin = pl.lit(datetime.min.replace(tzinfo=UTC), TIME) if window.back is None else end.dt.offset_by(window.back)
    rows = at.to_frame("at").filter(pl.col("at") >= begin)
    return rows.select(floored(pl.col("at"), window.width)).to_series().unique().sort()


def floored(at: pl.Expr, width: timedelta) -> pl.Expr:
    """The start of the interval that an instant lies in."""
    microseconds = round(width / timedelta(microseconds=1))
    return (at.dt.epoch("us") // microseconds * microseconds).cast(TIME)


def equity_in(inputs: Inputs, window: Window) -> pl.DataFrame:
    """One row per family and point of a range: its group, family, at (start of the interval), n (agents) and total (mean at the end of the interval, dollars).

    An agent counts from the Sunday of its cohort, with its cash before its first change.
    """
    ends = pl.col("at").dt.offset_by(f"{round(window.width.total_seconds())}s").alias("end")
    grid = points(inputs.portfolios["at"], window).to_frame("at").with_columns(ends)
    started = midnight(pl.col("cohort")) < pl.col("end")
    known = inputs.portfolios.select("agent_id", pl.col("at").alias("changed"), "total").sort("changed")
    return (
        grid.join(inputs.entrants, how="cross")
        .filter(started)
        .sort("end")
        .join_asof(known, left_on="end", right_on="changed", by="agent_id", allow_exact_matches=False, check_sortedness=False)
        .group_by(*FAMILY, "at")
        .agg(n=pl.len().cast(pl.Int64), total=mean_of_totals().cast(pl.Float64))
        .sort(*FAMILY, "at")
    )
