"""Summaries of agents over their episodes: builds replay/results and replay/summary from rows of replay/backtests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from bellwether.formatting import NOTHING, money
from bellwether.tables.replay import RESULTS, SEPARATOR, SPREAD, SUMMARY

#: Minimum number of episodes for a leader.
LEAST_EPISODES = 3
TOTAL = "Total"
#: Kind of band of a total over episodes with different kinds.
MIXED = "mixed"

_BY = ("agent", "rules")
_SUMS = ("pnl", "pnl_pessimistic", "pnl_optimistic", "contracts", "orders", "fees")


def results(backtests: pl.DataFrame, *, unsettled: bool = False) -> pl.DataFrame:
    """Build the rows of replay/results: for each agent and rule set a row per episode, sorted by name, and a row with the total.

    The total covers episodes traded individually, or portfolios if there are no others. It contains the sums of P&L, contracts, orders and
    fees, the mean return, the largest drawdown, and the mean of the defined fill ratios. unsettled: include episodes with an unsettled
    position, at its mark.
    """
    names = [name for name in RESULTS.names if name != "ordinal"]
    parts = [RESULTS.empty()]
    for (agent, rules), every in _group(backtests):
        rows, known_at = select_counted(every, unsettled=unsettled), every["known_at"].max()
        own = every.with_columns(pl.lit(1, pl.Int64()).alias("episodes"))
        total = rows.select(
            pl.lit(agent).alias("agent"),
            pl.lit(rules).alias("rules"),
            pl.lit(TOTAL).alias("episode"),
            *(pl.col(name).sum() for name in _SUMS),
            pl.lit(_band_kind(rows, every)).alias("band"),
            pl.col("return", "fill_ratio").mean(),
            pl.col("max_drawdown").max(),
            pl.lit(rows.height).alias("episodes"),
            pl.col("unsettled", "default_fees").any(),
            pl.lit(None, pl.String()).alias("failure"),
            pl.lit(known_at).alias("known_at"),
        )
        lines = pl.concat((own.select(names), total.select(names)), how="vertical_relaxed").with_row_index("ordinal")
        parts.append(lines.select(RESULTS.names).cast(pl.Schema(RESULTS.schema)))
    return pl.concat(parts)


def summarise(backtests: pl.DataFrame, *, unsettled: bool = False) -> pl.DataFrame:
    """Build the rows of replay/summary, one per agent and rule set. Each number covers the episodes in which it is defined. unsettled:
    include episodes with an unsettled position, valued at its mark; otherwise such episodes are only counted.
    """
    return SUMMARY.frame(
        [{"agent": agent, "rules": rules, **_summary(rows, unsettled=unsettled)} for (agent, rules), rows in _group(backtests)]
    )


def select_counted(rows: pl.DataFrame, *, unsettled: bool) -> pl.DataFrame:
    """Return the rows that totals and means include: episodes traded individually (portfolios if there are only those), and unsettled ones
    only if `unsettled` is true.
    """
    rows = _drop_portfolios(rows)
    return rows if unsettled else rows.filter(~pl.col("unsettled"))


def _drop_portfolios(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of episodes traded individually, or all rows if there are only portfolios."""
    individual = rows.filter(~pl.col("episode").str.contains(SEPARATOR, literal=True))
    return individual if individual.height else rows


def _group(backtests: pl.DataFrame) -> Iterator[tuple[tuple[Any, ...], pl.DataFrame]]:
    """Group rows by agent and rule set. Yields the agent and rule set of each group, and its rows sorted by episode."""
    yield from backtests.sort(*_BY, "episode").partition_by(_BY, as_dict=True, maintain_order=True).items()


def _summary(every: pl.DataFrame, *, unsettled: bool) -> dict[str, Any]:
    rows = select_counted(every, unsettled=unsettled)
    return {
        "episodes": rows.height,
        "unsettled": int(_drop_portfolios(every)["unsettled"].sum()),
        "default_fees": int(rows["default_fees"].sum()),
        "failures": rows["failure"].count(),
        **{name: rows[name].sum() for name in _SUMS},
        "band": _band_kind(rows, every),
        **_statistics("pnl", rows["pnl"], *SPREAD),
        **_statistics("return", rows["return"], *SPREAD),
        **_statistics("max_drawdown", rows["max_drawdown"], "mean", "median"),
        "max_drawdown": rows["max_drawdown"].max(),
        **_statistics("sharpe", rows["sharpe_annualised"], *SPREAD),
        "sharpe_episodes": rows["sharpe_annualised"].count(),
        **_statistics("fill_ratio", rows["fill_ratio"], "mean", "median"),
        "fill_ratio_episodes": rows["fill_ratio"].count(),
        "slippage": rows["slippage"].sum() if rows["slippage"].count() else None,
        "maker_share": _maker_share(rows),
        "profitable": int((rows["pnl"] > 0).sum()) / rows.height if rows.height else None,
        "known_at": every["known_at"].max(),
    }


def _band_kind(rows: pl.DataFrame, every: pl.DataFrame) -> str:
    """Return how the bands of P&L of the counted `rows` were made: fills, rerun or none; mixed if they differ. Without counted rows, all
    rows (`every`) are used.
    """
    kinds = (every if rows.is_empty() else rows)["band"].unique().to_list()
    return kinds[0] if len(kinds) == 1 else MIXED


def _statistics(name: str, values: pl.Series, *statistics: str) -> dict[str, float | None]:
    """Return statistics of the episodes that have a value, by column; None if no episode has one."""
    floats = values.cast(pl.Float64())
    return {f"{name}_{statistic}": getattr(floats, statistic)() for statistic in statistics}


def _maker_share(rows: pl.DataFrame) -> float | None:
    """Return the share of all traded contracts that were traded as maker; None without contracts."""
    contracts = rows["contracts"].cast(pl.Float64())
    total = float(contracts.sum())
    return float((rows["maker_share"].fill_null(0) * contracts).sum()) / total if total else None


def sort_by_pnl(rows: pl.DataFrame) -> pl.DataFrame:
    """Sort rows of replay/summary or replay/backtests by P&L, the highest first, agents without an order last."""
    keys = ["agent", *(name for name in ("rules",) if name in rows.columns)]
    return rows.sort(pl.col("orders") == 0, "pnl", *keys, descending=[False, True, *[False] * len(keys)])


def find_winners(rows: pl.DataFrame, metric: str) -> list[dict[str, Any]]:
    """Return the rows with the highest value of a metric among agents that sent an order, several for a tie. rows: as in `sort_by_pnl`."""
    active = rows.filter(pl.col("orders") > 0, pl.col(metric).is_not_null())
    return active.filter(pl.col(metric) == pl.col(metric).max()).sort("agent").to_dicts()


def describe_winners(rows: pl.DataFrame, winners: Sequence[Mapping[str, Any]], metric: str) -> str:
    """Return a sentence on a comparison without a single winner. rows, winners, metric: arguments and result of `find_winners`."""
    if not winners:
        return "No agent traded" if rows.height else NOTHING
    return f"No winner: {len(winners)} agents tie at ${money(winners[0][metric])}"
