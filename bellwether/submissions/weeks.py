"""Markets and arena weeks for which forecasts can be submitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from bellwether.arena.methodology import Methodology
from bellwether.arena.submissions import find_submission_weeks, find_weeks, forecastable_markets, select_fitting
from bellwether.lake import Lake
from bellwether.tables import table
from bellwether.tables.schema import TIME

_TIME = "%Y-%m-%d %H:%M UTC"


@dataclass(frozen=True, slots=True, eq=False)
class ArenaWeeks:
    """Arena weeks for which forecasts can be submitted. Checks forecasts that name a week.

    markets, known: from `forecastable_markets` and `find_submission_weeks` of `arena.submissions`. rules: methodologies by name.
    """

    markets: pl.DataFrame
    known: pl.DataFrame
    rules: Mapping[str, Methodology]

    def find_misfits(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return (row, misfit) for the rows that name a week. misfit: why the row does not fit this week; null if it fits.

        rows: row, wanted (week in the file), found_on (venue), market (venue:id) and stated_at; all but row may be null.
        """
        named = rows.filter(pl.col("wanted").is_not_null()).with_columns(week=pl.col("wanted").str.strip_chars().str.to_date(strict=False))
        own = self.markets.select("week", "market", "binary", is_listed=True)
        placed = (
            named.with_columns(counts=find_weeks(named, self.known, self.rules))
            .join(self.known, on="week", how="left", maintain_order="left")
            .join(own, on=["week", "market"], how="left", maintain_order="left")
        )
        return placed.select("row", misfit=_misfit_reason())

    def count_fitting(self, accepted: pl.DataFrame) -> int:
        """Return the number of accepted forecasts that count for one of the weeks."""
        return select_fitting(accepted, self.markets, self.known, self.rules).height


def _misfit_reason() -> pl.Expr:
    """Return an expression for the first reason why a row does not fit the week that it names."""
    week = pl.col("week").cast(pl.String)
    stated = pl.col("stated_at").dt.strftime(_TIME)
    reasons = (
        (
            pl.col("week").is_null() | (pl.col("week").dt.weekday() != 7),
            pl.format("{} is not a week; write its Sunday, such as 2026-03-01", pl.col("wanted").str.head(60)),
        ),
        (
            pl.col("before").is_null(),
            pl.format("the arena has no universe of the week {}; `bellwether query arena_weeks` lists its weeks", week),
        ),
        (
            ~pl.col("venues").list.contains(pl.col("found_on")),
            pl.format("{} is a market of {}; the week {} is on {}", "market", "found_on", week, pl.col("venues").list.join(" and ")),
        ),
        (pl.col("is_listed").is_null(), pl.format("{} is not in the universe of the week {}", "market", week)),
        (~pl.col("binary"), pl.format("{} has named outcomes; the arena only scores yes/no markets", "market")),
        (
            pl.col("stated_at") >= pl.col("before"),
            pl.format(
                "the time {} is too late; forecasts for the week {} must precede {}", stated, week, pl.col("before").dt.strftime(_TIME)
            ),
        ),
        (
            pl.col("counts") != pl.col("week"),
            pl.format("the time {} belongs to the week {}, not to {}", stated, "counts", week),
        ),
    )
    return pl.coalesce(pl.when(condition).then(reason) for condition, reason in reasons)


_SCHEMA = {"venue": pl.String, "market_id": pl.String, "open_time": TIME, "close_time": TIME}


def load_markets(lake: Lake) -> pl.DataFrame:
    """Load venue, market_id, open_time and close_time of all markets in clean/markets and arena/universe. Times may be null."""
    closed = lake.slice(table("clean/markets"), missing="skip").query(lambda rows: rows.select(*_SCHEMA))
    offered = lake.slice(table("arena/universe"), missing="skip").query(
        lambda rows: rows.select("venue", "market_id", open_time=pl.lit(None, TIME), close_time="closes_at")
    )
    return pl.concat([closed, offered])


def load_weeks(lake: Lake, rules: Mapping[str, Methodology]) -> ArenaWeeks:
    """Load the weeks of the arena and the markets of their universes. rules: methodologies by name."""
    markets = forecastable_markets(lake.slice(table("arena/universe"), missing="skip").read())
    return ArenaWeeks(markets, find_submission_weeks(markets, rules), rules)


def load_arena_families(lake: Lake) -> list[str]:
    """Load the names of all families (competitors over the years) in the arena, sorted."""
    return lake.slice(table("arena/agents"), missing="skip").read()["family"].unique().sort().to_list()
