"""Equity of families (competitors): mean portfolio value of their agents by calendar day, by age of the cohort, and in recent windows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import polars as pl

from bellwether.arena.rankings.inputs import FAMILY, RankingInputs
from bellwether.tables.arena_rankings import EQUITY_BY_AGE, EQUITY_BY_DAY
from bellwether.tables.schema import TIME, day_start

_MILLIONTHS = pl.Decimal(38, 6)


def mean_total() -> pl.Expr:
    """Return an expression for the exact mean of the column total (initial_cash where total is null) in dollars, rounded half to even to a
    millionth.
    """
    totals = pl.coalesce(pl.col("total").cast(_MILLIONTHS), pl.col("initial_cash").round(6).cast(_MILLIONTHS))
    summed, n = (totals * 1_000_000).cast(pl.Int128).sum(), pl.len().cast(pl.Int128)
    whole, twice = summed // n, 2 * (summed % n)
    up = (twice > n) | ((twice == n) & (whole % 2 == 1))
    return (whole + up.cast(pl.Int128)).cast(_MILLIONTHS) / 1_000_000


def compute_equity_tables(inputs: RankingInputs) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Build rows of arena/equity_by_day and arena/equity_by_age.

    Every agent counts from the day of its cohort to the last day with a portfolio row of any agent. Its portfolio is constant between rows.
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
        .with_columns(age=(pl.col("day") - pl.col("cohort")).dt.total_days().cast(pl.Int32))
    )
    return tuple(
        declared.validate(
            days.group_by(*FAMILY, column)
            .agg(n=pl.len().cast(pl.Int64), total=mean_total().cast(declared.schema["total"]))
            .select(declared.names)
            .sort(declared.order)
        )
        for column, declared in (("day", EQUITY_BY_DAY), ("age", EQUITY_BY_AGE))
    )  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class EquityWindow:
    """A recent span of time, divided into intervals. back: length of the span as a Polars offset; None for all time. width: of the intervals,
    which are aligned to 1970-01-01 00:00 UTC.
    """

    back: str | None
    width: timedelta


#: Windows by name. Months are calendar months, cut to their last day.
WINDOWS = {
    "10M": EquityWindow("-10m", timedelta(minutes=10)),
    "1H": EquityWindow("-1h", timedelta(minutes=10)),
    "1D": EquityWindow("-1d", timedelta(minutes=10)),
    "1W": EquityWindow("-7d", timedelta(hours=1)),
    "1M": EquityWindow("-1mo", timedelta(hours=6)),
    "3M": EquityWindow("-3mo", timedelta(days=1)),
    "ALL": EquityWindow(None, timedelta(days=7)),
}


def window_points(at: pl.Series, window: EquityWindow) -> pl.Series:
    """Return the starts of the window's intervals in which at least one instant of `at` lies, sorted. The window ends at the latest instant."""
    newest = at.max()
    if newest is None:
        return at.clear()
    end = pl.lit(newest, TIME)
    begin = pl.lit(datetime.min.replace(tzinfo=UTC), TIME) if window.back is None else end.dt.offset_by(window.back)
    rows = at.to_frame("at").filter(pl.col("at") >= begin)
    return rows.select(floor_time(pl.col("at"), window.width)).to_series().unique().sort()


def floor_time(at: pl.Expr, width: timedelta) -> pl.Expr:
    """Return an expression that rounds instants down to the start of their interval. width: of the intervals."""
    microseconds = round(width / timedelta(microseconds=1))
    return (at.dt.epoch("us") // microseconds * microseconds).cast(TIME)


def compute_window_equity(inputs: RankingInputs, window: EquityWindow) -> pl.DataFrame:
    """Return one row per family and interval of a window: columns of the ranking group, family, at (start of the interval), n (agents) and total
    (mean at the end of the interval, dollars).

    An agent counts from the Sunday of its cohort, with its initial cash before its first change.
    """
    ends = pl.col("at").dt.offset_by(f"{round(window.width.total_seconds())}s").alias("end")
    grid = window_points(inputs.portfolios["at"], window).to_frame("at").with_columns(ends)
    started = day_start(pl.col("cohort")) < pl.col("end")
    changes = inputs.portfolios.select("agent_id", pl.col("at").alias("changed"), "total").sort("changed")
    return (
        grid.join(inputs.entrants, how="cross")
        .filter(started)
        .sort("end")
        .join_asof(changes, left_on="end", right_on="changed", by="agent_id", allow_exact_matches=False, check_sortedness=False)
        .group_by(*FAMILY, "at")
        .agg(n=pl.len().cast(pl.Int64), total=mean_total().cast(pl.Float64))
        .sort(*FAMILY, "at")
    )
