"""Summaries of agents over their episodes, from rows of replay/backtests: lines of a results table, and a row per agent with intervals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from bellwether.calibration.mean_inference import ClusterSums, mean_tests
from bellwether.tables.replay import RESULTS, SEPARATOR, SUMMARY

#: Minimum number of episodes for an interval.
LEAST_EPISODES = 3
TOTAL = "Total"
#: Kind of band of a total over episodes with different kinds.
MIXED = "mixed"

_BY = ("agent", "rules")
_SUMS = ("pnl", "pnl_pessimistic", "pnl_optimistic", "contracts", "orders", "fees")


@dataclass(frozen=True, slots=True)
class Estimate:
    """Mean over `n` episodes with its 95 % interval; None where undefined, with the reason."""

    value: float | None
    n: int
    lower: float | None = None
    upper: float | None = None
    df: float | None = None
    reason: str | None = None


def mean_over(values: np.ndarray) -> Estimate:
    """Compute the mean of float64 values without NaN, and its interval (`bellwether.calibration.mean_inference`).

    The interval requires at least `LEAST_EPISODES` values.
    """
    defined = values[~np.isnan(values)]
    n = len(defined)
    if n == 0:
        return Estimate(None, 0, reason="undefined in every episode")
    value = float(defined.mean())
    if n < LEAST_EPISODES:
        return Estimate(value, n, reason=f"{n} episode{'' if n == 1 else 's'}; an interval needs {LEAST_EPISODES}")
    tests = mean_tests([ClusterSums(defined[:, None], np.ones((n, 1)))])
    if tests.reason[0] is not None:
        return Estimate(value, n, reason="it is the same in every episode")
    return Estimate(value, n, float(tests.lower[0]), float(tests.upper[0]), float(tests.df[0]))


def results(backtests: pl.DataFrame, *, unsettled: bool = False) -> pl.DataFrame:
    """Build the rows of replay/results: per agent and rule set one row per episode by name, then the total.

    The total covers episodes traded individually, or portfolios if there are no others. It has the sums of P&L, contracts, orders and fees,
    the mean return, the largest drawdown, and the mean of the defined fill ratios. unsettled: include episodes with an unsettled position,
    at its mark.
    """
    kept = [name for name in RESULTS.names if name != "ordinal"]
    parts = [RESULTS.empty()]
    for (agent, rules), every in _groups(backtests):
        rows, known_at = counted(every, unsettled=unsettled), every["known_at"].max()
        own = every.with_columns(pl.lit(1, pl.Int64()).alias("episodes"))
        total = rows.select(
            pl.lit(agent).alias("agent"),
            pl.lit(rules).alias("rules"),
            pl.lit(TOTAL).alias("episode"),
            *(pl.col(name).sum() for name in _SUMS),
            pl.lit(_band(rows, every)).alias("band"),
            pl.col("return", "fill_ratio").mean(),
            pl.col("max_drawdown").max(),
            pl.lit(rows.height).alias("episodes"),
            pl.col("unsettled", "default_fees").any(),
            pl.lit(None, pl.String()).alias("failure"),
            pl.lit(known_at).alias("known_at"),
        )
        lines = pl.concat((own.select(kept), total.select(kept).cast(own.select(kept).schema)))
        parts.append(lines.with_row_index("ordinal").cast({"ordinal": pl.Int64()}).select(RESULTS.names))
    return pl.concat(parts)


def summarise(backtests: pl.DataFrame, *, unsettled: bool = False) -> pl.DataFrame:
    """Build the rows of replay/summary, by agent and rule set. Each number covers the episodes in which it is defined.

    unsettled: include episodes with an unsettled position, at its mark; otherwise such episodes are only counted.
    """
    return SUMMARY.frame(
        [{"agent": agent, "rules": rules, **_summary(rows, unsettled=unsettled)} for (agent, rules), rows in _groups(backtests)]
    )


def counted(rows: pl.DataFrame, *, unsettled: bool) -> pl.DataFrame:
    """Return the rows of the episodes that totals and means include."""
    rows = _alone(rows)
    return rows if unsettled else rows.filter(~pl.col("unsettled"))


def _alone(rows: pl.DataFrame) -> pl.DataFrame:
    """Remove portfolios, whose episodes may also be traded individually; keep them if there are no others."""
    alone = rows.filter(~pl.col("episode").str.contains(SEPARATOR, literal=True))
    return alone if alone.height else rows


def _groups(backtests: pl.DataFrame) -> Iterator[tuple[tuple[Any, ...], pl.DataFrame]]:
    parts = backtests.sort(*_BY, "episode").partition_by(_BY, as_dict=True, maintain_order=True)
    yield from parts.items()


def _summary(every: pl.DataFrame, *, unsettled: bool) -> dict[str, Any]:
    rows = counted(every, unsettled=unsettled)
    pnl, earned, drawdown, sharpe, filled = (
        mean_over(_floats(rows, name)) for name in ("pnl", "return", "max_drawdown", "sharpe_annualised", "fill_ratio")
    )
    return {
        "episodes": rows.height,
        "unsettled": int(_alone(every)["unsettled"].sum()),
        "default_fees": int(rows["default_fees"].sum()),
        "failures": rows["failure"].count(),
        **{name: rows[name].sum() for name in _SUMS},
        "band": _band(rows, every),
        **_ends("pnl_mean", pnl),
        "pnl_mean_df": pnl.df,
        "pnl_median": _middle(rows, "pnl"),
        **_ends("return_mean", earned),
        "return_median": _middle(rows, "return"),
        **_ends("max_drawdown_mean", drawdown),
        "max_drawdown_median": _middle(rows, "max_drawdown"),
        "max_drawdown": rows["max_drawdown"].max(),
        **_ends("sharpe_mean", sharpe),
        "sharpe_median": _middle(rows, "sharpe_annualised"),
        "sharpe_episodes": sharpe.n,
        **_ends("fill_ratio_mean", filled),
        "fill_ratio_median": _middle(rows, "fill_ratio"),
        "fill_ratio_episodes": filled.n,
        "slippage": rows["slippage"].sum() if rows["slippage"].count() else None,
        "maker_share": _maker_share(rows),
        "profitable": int((rows["pnl"] > 0).sum()) / rows.height if rows.height else None,
        "known_at": every["known_at"].max(),
    }


def _band(rows: pl.DataFrame, every: pl.DataFrame) -> str:
    """Return the kind of band of the counted rows, of all rows if none counts; mixed if they differ."""
    kinds = (every if rows.is_empty() else rows)["band"].unique().to_list()
    return kinds[0] if len(kinds) == 1 else MIXED


def _floats(rows: pl.DataFrame, name: str) -> np.ndarray:
    return rows[name].cast(pl.Float64).fill_null(np.nan).to_numpy()


def _middle(rows: pl.DataFrame, name: str) -> float | None:
    """Return the median over the episodes with a value."""
    values = rows[name].cast(pl.Float64).drop_nulls()
    return float(np.median(values.to_numpy())) if len(values) else None


def _ends(name: str, found: Estimate) -> dict[str, float | str | None]:
    return {name: found.value, f"{name}_lower": found.lower, f"{name}_upper": found.upper, f"{name}_reason": found.reason}


def _maker_share(rows: pl.DataFrame) -> float | None:
    """Return the maker share of all contracts of the episodes."""
    contracts = _floats(rows, "contracts")
    made = float((np.nan_to_num(_floats(rows, "maker_share")) * contracts).sum())
    return made / float(contracts.sum()) if contracts.sum() else None
