"""Equity of families (competitors): mean portfolio value of their agents by calendar day and by age of the cohort."""

from __future__ import annotations

import polars as pl

from bellwether.arena.rankings.inputs import FAMILY, RankingInputs
from bellwether.tables.arena_rankings import EQUITY_BY_AGE, EQUITY_BY_DAY

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
