"""Raw tables: what Kalshi said, as it said it, one partition per UTC close day."""

from collections.abc import Iterator
from datetime import date
from typing import Any

import dagster as dg

from assets.declare import DOCS, key, of, out
from bellwether.tables.raw import KALSHI_ARCHIVE
from bellwether.venues.http.pages import PageStore
from bellwether.venues.kalshi.client import KalshiClient
from bellwether.venues.kalshi.pull import CandlePlan, DayPull, pull_archive, pull_day, pull_series
from orchestration.partitions import DAY, DAYS_PER_RUN
from resources import LakeResource
from resources.venues import KalshiVenue

POOL = "kalshi_api"
RETRY = dg.RetryPolicy(max_retries=2, delay=30, backoff=dg.Backoff.EXPONENTIAL, jitter=dg.Jitter.FULL)
DAY_TABLES = ("raw/kalshi_events", "raw/kalshi_markets", "raw/kalshi_candles", "raw/kalshi_rejects")


def _plain(summary: dict[str, object]) -> dict[str, Any]:
    """What a pull says of itself, as metadata: numbers as numbers, so that the UI plots them, everything else as text."""
    return {name: value if isinstance(value, int) else str(value) for name, value in summary.items()}


class PullConfig(dg.Config):
    """How a pull treats pages that are already stored."""

    refresh: bool = False
    """Ask the venue again although everything of this partition is stored and final."""


@dg.asset(**of("raw/kalshi_series", "kalshi"), pool=POOL, retry_policy=RETRY)
def kalshi_series(context: dg.AssetExecutionContext, config: PullConfig, kalshi: KalshiVenue, lake: LakeResource) -> dg.Output:
    """One Kalshi series (the template of recurring events), as of the last pull."""
    pages = PageStore(lake.lake.storage)
    pull = kalshi.run(lambda client: pull_series(client, pages, refresh=config.refresh, progress=context.log.info))
    return dg.Output(pull.series(), metadata={"venue": dg.MetadataValue.url(DOCS), **_plain(pull.summary())})


@dg.asset(**of("raw/kalshi_archive", "kalshi"), pool=POOL, retry_policy=RETRY)
def kalshi_archive(context: dg.AssetExecutionContext, config: PullConfig, kalshi: KalshiVenue, lake: LakeResource) -> dg.Output:
    """One Kalshi market that the venue has moved to its historical endpoints, as of the last scan of the archive."""
    pages = PageStore(lake.lake.storage)
    pull = kalshi.run(lambda client: pull_archive(client, pages, refresh=config.refresh, progress=context.log.info))
    return dg.Output(pull.markets(), metadata={"venue": dg.MetadataValue.url(DOCS), **_plain(pull.summary())})


@dg.multi_asset(
    name="kalshi_day",
    outs={name.split("/")[1]: out(name, "kalshi") for name in DAY_TABLES},
    deps=[dg.AssetDep(key("raw/kalshi_archive"))],
    partitions_def=DAY,
    backfill_policy=DAYS_PER_RUN,
    pool=POOL,
    retry_policy=RETRY,
)
def kalshi_day(context: dg.AssetExecutionContext, config: PullConfig, kalshi: KalshiVenue, lake: LakeResource) -> Iterator[dg.Output]:
    """Everything Kalshi says about the markets that closed on a UTC day: markets, their events and candles, and what did not fit."""
    days = [date.fromisoformat(partition) for partition in context.partition_keys]
    plan = CandlePlan(days=kalshi.candle_days, markets=kalshi.candle_markets)
    pages = PageStore(lake.lake.storage)
    archive = lake.lake.slice(KALSHI_ARCHIVE).scan() if lake.lake.manifest(KALSHI_ARCHIVE, ()) else None

    async def pull_all(client: KalshiClient) -> list[DayPull]:
        return [
            await pull_day(client, pages, day, archive=archive, plan=plan, refresh=config.refresh, progress=context.log.info)
            for day in days
        ]

    pulls = {pull.day.isoformat(): pull for pull in kalshi.run(pull_all)}
    requests: dict[str, Any] = {"requests": sum(pull.requests for pull in pulls.values()), "venue": dg.MetadataValue.url(DOCS)}
    yield dg.Output({day: pull.events() for day, pull in pulls.items()}, "kalshi_events", metadata=requests)
    yield dg.Output({day: pull.markets() for day, pull in pulls.items()}, "kalshi_markets", metadata=requests)
    yield dg.Output({day: pull.candles() for day, pull in pulls.items()}, "kalshi_candles", metadata=requests)
    yield dg.Output({day: pull.rejects() for day, pull in pulls.items()}, "kalshi_rejects")
