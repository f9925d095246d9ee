"""Equity of families: the mean portfolio of their agents by calendar day, by age of the cohort, and by interval of a recent range."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import polars as pl

from bellwether.arena.rankings.inputs import FAMILY, Inputs
from bellwether.tables.arena_rankings import EQUITY_BY_AGE, EQUITY_BY_DAY
from bellwether.tables.schema import TIME, midnight

_MILLIONTHS = pl.Decimal(38, 6)


def mean_of_totals() -> pl.Expr:
    """Mean of `total`, or `initial_cash` where it is null, in dollars: exact, then rounded half to even to a millionth."""
    totals = pl.coalesce(pl.col("total").cast(_MILLIONTHS), pl.col("initial_cash").round(6).cast(_MILLIONTHS))
    summed, n = (totals * 1_000_000).cast(pl.Int64).sum(), pl.len().cast(pl.Int64)
    whole, twice = summed // n, 2 * (summed % n)
    up = (twice > n) | ((twice == n) & (whole % 2 == 1))
    return (whole + up.cast(pl.Int64)).cast(_MILLIONTHS) / 1_000_000


def equity(inputs: Inputs) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows of arena/equity_by_day and arena/equity_by_age.

    Every agent counts from the day of its cohort to the last day that is known of any; between two rows of its portfolio nothing changed.
    """
    portfolios = inputs.portfolios
    if portfolios.is_empty():
        return EQUITY_BY_DAY.empty(), EQUITY_BY_AGE.empty()
    newest = portfolios["at"].max().date()  # type: ignore[union-attr]
    ends = (
        portfolios.sort("agent_id", "at")
        .group_by("agent_id", day=pl.col("at").dt.date(), maintain_order=True)
        .agg(pl.col("total").last())
        .sort("day")
    )
    days = (
        inputs.entrants.filter(pl.col("cohort") <= newest)
        .with_columns(day=pl.date_ranges("cohort", pl.lit(newest)))
        .explode("day")
        .sort("day")
        .join_asof(ends, on="day", by="agent_id", check_sortedness=False)
        .with_columns(
            age=(pl.col("day") - pl.col("cohort")).dt.total_days().cast(pl.Int32),
        )
    )
    return tuple(
        declared.validate(
            days.group_by(*FAMILY, column)
            .agg(n=pl.len().cast(pl.Int64), total=mean_of_totals().cast(declared.schema["total"]))
            .select(declared.names)
            .sort(declared.order)
        )
        for column, declared in (("day", EQUITY_BY_DAY), ("age", EQUITY_BY_AGE))
    )  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Window:
    """Length of a range as a Polars offset (None: from the beginning), and the width of a point's interval, counted from 1970-01-01 00:00 UTC."""

    back: str | None
    width: timedelta


#: By name; months are those of the calendar, and the last day replaces one that a month lacks.
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
    """Start times of the intervals of a range that contain an event, ascending. at: times of the events, UTC; the newest, not the clock, ends the range."""
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
