"""Clean tables: one shape for all venues, built by SQL over the lake, one partition per UTC close day."""

from datetime import date

import dagster as dg
import polars as pl

from bellwether.lake import Slice
from bellwether.lake.sql import run_sql
from bellwether.tables import table
from orchestration.declare import FOLLOW, Follow, key, of
from orchestration.partitions import DAY, DAYS_PER_RUN, keys_of
from resources import LakeResource

CLEAN_TABLES = ("clean/resolutions", "clean/markets", "clean/prices")


def _days(context: dg.AssetExecutionContext) -> dict[str, date]:
    keys = keys_of(context)
    return {"first_day": date.fromisoformat(keys[0]), "last_day": date.fromisoformat(keys[-1])}


@dg.asset(
    **of("clean/resolutions", "polars", follows=FOLLOW),
    ins={
        "polymarket_markets": dg.AssetIn(key("raw/polymarket_markets")),
        "polymarket_winners": dg.AssetIn(key("raw/polymarket_winners")),
    },
    partitions_def=DAY,
    backfill_policy=DAYS_PER_RUN,
)
def resolutions(context: dg.AssetExecutionContext, polymarket_markets: Slice, polymarket_winners: Slice) -> pl.DataFrame:
    """What the evidence about a market of Polymarket amounts to: its state, its outcome or why it has none."""
    from bellwether.venues.polymarket.resolution import resolutions as resolve

    return resolve(polymarket_markets.scan(), polymarket_winners.scan())


@dg.asset(
    **of("clean/markets", follows=Follow(ignored=("raw/kalshi_series", "raw/kalshi_archive"))),
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
) -> pl.DataFrame:
    """One market of any venue that was to close on this UTC day, with its outcome or why it has none."""
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
    return run_sql(table("clean/markets"), inputs, _days(context))


@dg.asset(
    **of("clean/prices", follows=FOLLOW),
    ins={
        "kalshi_candles": dg.AssetIn(key("raw/kalshi_candles")),
        "polymarket_prices": dg.AssetIn(key("raw/polymarket_prices")),
        "markets": dg.AssetIn(key("clean/markets")),
    },
    partitions_def=DAY,
    backfill_policy=DAYS_PER_RUN,
)
def prices(context: dg.AssetExecutionContext, kalshi_candles: Slice, polymarket_prices: Slice, markets: Slice) -> pl.DataFrame:
    """One point-in-time price of a market of this UTC day, at or before its close."""
    inputs = {"kalshi_candles": kalshi_candles, "polymarket_prices": polymarket_prices, "markets": markets}
    return run_sql(table("clean/prices"), inputs, _days(context))
