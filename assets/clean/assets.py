"""Clean tables: the same columns for all venues, one partition per UTC close day."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any

import dagster as dg
import polars as pl

from bellwether.lake import Slice
from bellwether.lake.sql import run_sql
from bellwether.tables import table
from bellwether.venues.polymarket.resolution import build_resolutions as resolve
from orchestration.asset_declarations import FOLLOW_INPUTS, key
from orchestration.partitions import CHUNK, DAY, DAYS_PER_RUN, partition_keys
from resources import LakeResource

CLEAN_TABLES = ("clean/resolutions", "clean/markets", "clean/prices")


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive days that are built together. keys: ISO dates."""

    keys: list[str]

    @property
    def parameters(self) -> dict[str, date]:
        """Values of the SQL parameters first_day and last_day."""
        return {"first_day": date.fromisoformat(self.keys[0]), "last_day": date.fromisoformat(self.keys[-1])}

    def select(self, **inputs: Slice) -> dict[str, Slice]:
        """Restrict inputs to the days of this chunk; an input without partitions stays whole."""
        days = [(key,) for key in self.keys]
        return {name: rows.restrict(days) if rows.table.partitioned_by else rows for name, rows in inputs.items()}


def _build_chunks(context: dg.AssetExecutionContext, build: Callable[[Chunk], pl.DataFrame]) -> Any:
    """Build the rows of all days of a run, at most `CHUNK` days in memory at a time. build: returns the rows of a chunk."""
    keys = partition_keys(context)
    if len(keys) <= CHUNK:
        return build(Chunk(keys))

    def rows(start: int) -> tuple[list[str], pl.DataFrame]:
        chunk = Chunk(keys[start : start + CHUNK])
        return chunk.keys, build(chunk)

    return map(rows, range(0, len(keys), CHUNK))  # Dagster takes a generator for the step itself


@dg.asset(
    key=["clean", "resolutions"],
    group_name="clean",
    kinds={"polars"},
    metadata=FOLLOW_INPUTS,
    ins={
        "polymarket_markets": dg.AssetIn(key("raw/polymarket_markets")),
        "polymarket_winners": dg.AssetIn(key("raw/polymarket_winners")),
    },
    partitions_def=DAY,
    backfill_policy=DAYS_PER_RUN,
)
def resolutions(context: dg.AssetExecutionContext, polymarket_markets: Slice, polymarket_winners: Slice) -> Any:
    """Derive the resolutions of Polymarket's markets from their evidence."""

    def build(chunk: Chunk) -> pl.DataFrame:
        inputs = chunk.select(markets=polymarket_markets, winners=polymarket_winners)
        return resolve(inputs["markets"].scan(), inputs["winners"].scan())

    return _build_chunks(context, build)


@dg.asset(
    key=["clean", "markets"],
    group_name="clean",
    metadata=FOLLOW_INPUTS,
    ins={
        "kalshi_markets": dg.AssetIn(key("raw/kalshi_markets")),
        "kalshi_events": dg.AssetIn(key("raw/kalshi_events")),
        "kalshi_series": dg.AssetIn(key("raw/kalshi_series")),
        "polymarket_markets": dg.AssetIn(key("raw/polymarket_markets")),
        "polymarket_events": dg.AssetIn(key("raw/polymarket_events")),
        "resolutions": dg.AssetIn(key("clean/resolutions")),
    },
    deps=[key("raw/kalshi_archive")],
    partitions_def=DAY,
    backfill_policy=DAYS_PER_RUN,
)
def markets(  # noqa: PLR0917 - Dagster passes inputs by name
    context: dg.AssetExecutionContext,
    lake: LakeResource,
    kalshi_markets: Slice,
    kalshi_events: Slice,
    kalshi_series: Slice,
    polymarket_markets: Slice,
    polymarket_events: Slice,
    resolutions: Slice,
) -> Any:
    """Convert the markets of both venues to common columns."""
    archive = lake.lake.slice(table("raw/kalshi_archive"), missing="skip")
    inputs = {
        "kalshi_markets": kalshi_markets,
        "kalshi_archive": archive,
        "kalshi_events": kalshi_events,
        "kalshi_series": kalshi_series,
        "polymarket_markets": polymarket_markets,
        "polymarket_events": polymarket_events,
        "resolutions": resolutions,
    }
    return _build_chunks(context, lambda chunk: run_sql(table("clean/markets"), chunk.select(**inputs), chunk.parameters))


@dg.asset(
    key=["clean", "prices"],
    group_name="clean",
    metadata=FOLLOW_INPUTS,
    ins={
        "kalshi_candles": dg.AssetIn(key("raw/kalshi_candles")),
        "polymarket_prices": dg.AssetIn(key("raw/polymarket_prices")),
        "markets": dg.AssetIn(key("clean/markets")),
    },
    partitions_def=DAY,
    backfill_policy=DAYS_PER_RUN,
)
def prices(context: dg.AssetExecutionContext, kalshi_candles: Slice, polymarket_prices: Slice, markets: Slice) -> Any:
    """Convert the point-in-time prices of both venues to common columns."""
    inputs = {"kalshi_candles": kalshi_candles, "polymarket_prices": polymarket_prices, "markets": markets}
    return _build_chunks(context, lambda chunk: run_sql(table("clean/prices"), chunk.select(**inputs), chunk.parameters))
