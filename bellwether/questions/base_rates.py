"""Share of yes among earlier markets, counted when a release is built, so that loading more history changes no forecast."""

from __future__ import annotations

import polars as pl

from bellwether.tables.benchmark import BASE_RATES


def add_base_rates(facts: pl.DataFrame, markets: pl.LazyFrame) -> pl.DataFrame:
    """Add to `facts` how many binary markets settled before each question opened, and how many of them with yes: columns `_n`, `_yes` and
    `_known_at` for each group of markets.

    facts: rows of clean/markets with `venue`, `category` and `open_time`. markets: all of clean/markets; those without a settlement time are not
    counted. Counts are int64: null without an opening time, 0 if nothing had settled.
    """
    settled = _settled_markets(markets)
    for prefix, group in BASE_RATES.items():
        openings = facts.select("day", "venue", "market_id", "category", "open_time").sort("open_time")
        counted = openings.join_asof(
            _running_counts(settled, list(group), prefix),
            left_on="open_time",
            right_on="settled_at",
            by=list(group),
            strategy="backward",
            allow_exact_matches=False,
            check_sortedness=False,
        ).select(
            "day",
            "venue",
            "market_id",
            *(
                pl.when(pl.col("open_time").is_not_null()).then(pl.col(name).fill_null(0)).alias(name)
                for name in (f"{prefix}_n", f"{prefix}_yes")
            ),
            f"{prefix}_known_at",
        )
        facts = facts.join(counted, on=["day", "venue", "market_id"], how="left")
    return facts


def _settled_markets(markets: pl.LazyFrame) -> pl.DataFrame:
    """Return the settled binary markets, one row each: the one that became known last."""
    return (
        markets.filter(
            pl.col("settled_at").is_not_null() & pl.col("outcome").is_not_null() & ~pl.col("is_combo") & (pl.col("market_type") == "binary")
        )
        .select("day", "venue", "market_id", "category", "settled_at", "outcome", "known_at")
        .collect()
        .sort("known_at", "day", descending=True)
        .unique(subset=["venue", "market_id"], keep="first", maintain_order=True)
    )


def _running_counts(settled: pl.DataFrame, group: list[str], prefix: str) -> pl.DataFrame:
    """Count for each group and settlement time the markets that had settled by then, and those that settled with yes. prefix: of the
    columns.
    """
    at_once = settled.group_by(*group, "settled_at").agg(
        pl.len().cast(pl.Int64).alias(f"{prefix}_n"),
        (pl.col("outcome") == "yes").sum().cast(pl.Int64).alias(f"{prefix}_yes"),
        pl.col("known_at").max().alias(f"{prefix}_known_at"),
    )
    running = [pl.col(f"{prefix}_n").cum_sum(), pl.col(f"{prefix}_yes").cum_sum(), pl.col(f"{prefix}_known_at").cum_max()]
    return at_once.sort("settled_at").with_columns(expression.over(group) for expression in running)
