"""Raw tables: verbatim data of the venues, one partition per UTC day, and recordings of their streams.

Objects that do not fit ("rejects") are stored with the reason.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import dagster as dg

from bellwether.concurrency import each
from bellwether.errors import LakeError
from bellwether.lake import Lake
from bellwether.recordings.frames import read_batches, to_gap_rows
from bellwether.recordings.gaps import build_gap_report
from bellwether.settings import settings
from bellwether.tables import Table, table
from bellwether.tables.raw import KALSHI_ARCHIVE
from orchestration.asset_declarations import key
from orchestration.partitions import DAY, DAYS_PER_RUN, INDEPENDENT, partition_keys
from orchestration.steps import PartitionRows, StepOutput, make_each, step_failure, yield_materializations
from resources import LakeIOManager, LakeResource
from resources.io_manager import Unchanged
from resources.recordings import RecordingsResource
from resources.venues import KalshiVenue, PolymarketVenue, VenueResource

if TYPE_CHECKING:
    from bellwether.venues.day import VenueDay

T = TypeVar("T")

KALSHI_DOCS = "https://docs.kalshi.com/api-reference"
#: One run at a time pulls from a venue; in a fleet, one at a time pulls the same day.
KALSHI_POOL, POLYMARKET_POOL = (None, None) if settings().shares_limits else ("kalshi_api", "polymarket_api")
#: Days that a run pulls concurrently.
DAYS_AT_ONCE = 4
RETRY = dg.RetryPolicy(max_retries=2, delay=30, backoff=dg.Backoff.EXPONENTIAL, jitter=dg.Jitter.FULL)
#: Tables of a day by venue; each is a method of the venue's pull.
KALSHI_TABLES = {f"raw/kalshi_{part}": part for part in ("events", "markets")} | {
    "raw/kalshi_candles": "prices",
    "raw/kalshi_rejects": "rejects",
    "raw/kalshi_pulls": "pulls",
}
POLYMARKET_TABLES = {f"raw/polymarket_{part}": part for part in ("events", "markets", "winners", "prices", "rejects", "pulls")}
SERIES_TABLES = ("raw/kalshi_series", "raw/kalshi_series_rejects")
ARCHIVE_TABLES = ("raw/kalshi_archive", "raw/kalshi_archive_rejects")
#: Parts of a pull that do not change while open markets are followed.
NOT_FOLLOWED = frozenset({"events", "prices"})
DAY_TABLES = (*KALSHI_TABLES, *POLYMARKET_TABLES)


class PullConfig(dg.Config):
    """Configuration of a pull."""

    refresh: bool = False
    """Query the venue again although this partition is final."""


@dg.multi_asset(
    name="raw__kalshi_series",
    group_name="raw",
    outs={name.split("/")[1]: dg.AssetOut(key=name.split("/"), kinds={"kalshi"}) for name in SERIES_TABLES},
    pool=KALSHI_POOL,
    retry_policy=RETRY,
)
def kalshi_series(
    context: dg.AssetExecutionContext, config: PullConfig, kalshi: KalshiVenue, lake: LakeResource
) -> Iterator[dg.MaterializeResult]:
    """Pull Kalshi's series (templates of recurring events) and their rejects."""
    from bellwether.venues.kalshi.pull import pull_series

    yield from _pull_listing(context, config, kalshi, lake, SERIES_TABLES, pull_series)


@dg.multi_asset(
    name="raw__kalshi_archive",
    group_name="raw",
    outs={name.split("/")[1]: dg.AssetOut(key=name.split("/"), kinds={"kalshi"}) for name in ARCHIVE_TABLES},
    pool=KALSHI_POOL,
    retry_policy=RETRY,
)
def kalshi_archive(
    context: dg.AssetExecutionContext, config: PullConfig, kalshi: KalshiVenue, lake: LakeResource
) -> Iterator[dg.MaterializeResult]:
    """Pull the markets at Kalshi's historical endpoints, and their rejects."""
    from bellwether.venues.kalshi.pull import pull_archive

    yield from _pull_listing(context, config, kalshi, lake, ARCHIVE_TABLES, pull_archive)


def _pull_listing(  # noqa: PLR0917
    context: dg.AssetExecutionContext,
    config: PullConfig,
    kalshi: KalshiVenue,
    lake: LakeResource,
    tables: tuple[str, str],
    pull: Callable[..., Awaitable[Any]],
) -> Iterator[dg.MaterializeResult]:
    """Pull a complete listing of Kalshi, and yield its rows and its rejects (objects that do not fit). pull: called with a client and the store of
    pages.
    """
    if not kalshi.asked:
        yield from _empty_outputs(tables)
        return
    from bellwether.venues.http.pages import PageStore

    pages, listing = PageStore(lake.lake.storage), tables[0].removeprefix("raw/kalshi_")
    options: dict[str, Any] = {"refresh": config.refresh, "progress": context.log.info}
    pulled = kalshi.run(lambda client: kalshi.run_exclusively(listing, partial(pull, client, pages, **options)))
    rows, rejects = pulled.series() if listing == "series" else pulled.markets(), pulled.rejects()
    metadata: dict[str, Any] = {"venue": dg.MetadataValue.url(KALSHI_DOCS), "pull": pulled.pull.folder, "requests": pulled.requests}
    metadata["rejects"] = rejects.height
    for name, frame in zip(tables, (rows, rejects), strict=True):
        yield dg.MaterializeResult(key(name), metadata, value=frame)


@dg.multi_asset(
    name="kalshi_day",
    group_name="raw",
    outs={name.split("/")[1]: dg.AssetOut(key=name.split("/"), kinds={"kalshi"}) for name in KALSHI_TABLES},
    deps=[dg.AssetDep(key("raw/kalshi_archive"))],
    partitions_def=DAY,
    backfill_policy=DAYS_PER_RUN,
    pool=KALSHI_POOL,
    retry_policy=RETRY,
)
def kalshi_day(
    context: dg.AssetExecutionContext,
    config: PullConfig,
    kalshi: KalshiVenue,
    io_manager: dg.ResourceParam[LakeIOManager],
) -> Iterator[StepOutput]:
    """Pull Kalshi's markets that closed on a UTC day, their events and candles, and rejects."""
    if not kalshi.asked:
        yield from _empty_outputs(KALSHI_TABLES, partition_keys(context))
        return
    from bellwether.venues.day import PullPlan
    from bellwether.venues.kalshi.pull import KalshiDay

    lake = io_manager.lake.lake
    archive = lake.slice(KALSHI_ARCHIVE).scan() if lake.manifest(KALSHI_ARCHIVE, ()) else None
    plan = PullPlan(days=kalshi.candle_days, markets=kalshi.candle_markets)
    yield from _pull_days(context, config, io_manager, kalshi, KALSHI_TABLES, open_day=partial(KalshiDay, plan=plan, archive=archive))


@dg.multi_asset(
    name="polymarket_day",
    group_name="raw",
    outs={name.split("/")[1]: dg.AssetOut(key=name.split("/"), kinds={"polymarket"}) for name in POLYMARKET_TABLES},
    partitions_def=DAY,
    backfill_policy=DAYS_PER_RUN,
    pool=POLYMARKET_POOL,
    retry_policy=RETRY,
)
def polymarket_day(
    context: dg.AssetExecutionContext,
    config: PullConfig,
    polymarket: PolymarketVenue,
    io_manager: dg.ResourceParam[LakeIOManager],
) -> Iterator[StepOutput]:
    """Pull Polymarket's markets with a scheduled end on a UTC day, their events and prices, and rejects."""
    if not polymarket.asked:
        yield from _empty_outputs(POLYMARKET_TABLES, partition_keys(context))
        return
    from bellwether.venues.day import PullPlan
    from bellwether.venues.polymarket.pull import PolymarketDay

    plan = PullPlan(days=polymarket.candle_days, markets=polymarket.candle_markets)
    yield from _pull_days(context, config, io_manager, polymarket, POLYMARKET_TABLES, open_day=partial(PolymarketDay, plan=plan))


def _pull_days(
    context: dg.AssetExecutionContext,
    config: PullConfig,
    io_manager: LakeIOManager,
    venue: VenueResource,
    tables: Mapping[str, str],
    *,
    open_day: "Callable[..., VenueDay]",
) -> Iterator[StepOutput]:
    """Pull the days of a run, and yield an output per table of the venue. open_day: called with the venue's clients and a day."""
    from bellwether.venues.day import pull_day
    from bellwether.venues.http.pages import PageStore

    pages = PageStore(io_manager.lake.lake.storage, venue.venue)
    options: dict[str, Any] = {"refresh": config.refresh, "progress": context.log.info}
    days = [date.fromisoformat(partition) for partition in partition_keys(context)]

    def pull_alone(*clients: Any) -> Callable[[date], Awaitable[Any]]:
        return lambda day: venue.run_exclusively(day.isoformat(), partial(pull_day, open_day(*clients, day), pages, **options))

    pulls, failures = venue.run(lambda *clients: _pull_each(pull_alone(*clients), days))
    _require_newer(io_manager.lake.lake, table(f"raw/{venue.venue}_pulls"), pulls)
    yield from _day_outputs(context, io_manager, tables, pulls, failures)


async def _pull_each(pull: Callable[[date], Awaitable[T]], days: Sequence[date]) -> tuple[Mapping[str, T], Mapping[str, Exception]]:
    """Pull several days concurrently. Returns pulls and failures, both by day. The failure of a single day is raised."""
    pulls, failures = await each({day.isoformat(): partial(pull, day) for day in days}, most=DAYS_AT_ONCE)
    if failures and len(days) == 1:
        raise next(iter(failures.values()))
    names = [day.isoformat() for day in days]
    return {day: pulls[day] for day in names if day in pulls}, {day: failures[day] for day in names if day in failures}


def _require_newer(lake: Lake, declared: Table, pulls: Mapping[str, Any]) -> None:
    """Raise `dg.Failure` without retries if the lake already has a later pull of one of these days. pulls: by day."""
    try:
        for day, pull in pulls.items():
            lake.require_newer(declared, (day,), pull.pulls()["known_at"].item())
    except LakeError as error:
        raise dg.Failure(str(error), allow_retries=False) from error


def _empty_outputs(tables: Iterable[str], days: Sequence[str] | None = None) -> Iterator[dg.MaterializeResult]:
    """Yield empty outputs for a venue that the settings leave out. days: partitions of the run; None for tables without partitions."""
    for name in tables:
        empty = table(name).empty()
        yield dg.MaterializeResult(key(name), {"pulled": False}, value=empty if days is None else dict.fromkeys(days, empty))


def select_rows(lake: Lake, name: str, part: str, pull: Any) -> Any:
    """Return the rows of one table from a pull. Returns `Unchanged` if the pull only updated open markets, and the table does not depend on them."""
    if part in NOT_FOLLOWED and pull.pull.base is not None and (pull.day.isoformat(),) in lake.intact_manifests(table(name)):
        return Unchanged()
    return getattr(pull, part)()


def _day_outputs(
    context: dg.AssetExecutionContext,
    io_manager: LakeIOManager,
    tables: Mapping[str, str],
    pulls: Mapping[str, Any],
    failures: Mapping[str, Exception],
) -> Iterator[StepOutput]:
    """Yield one output per table of a venue. If some days failed, store the others first, and then raise the failure of the step."""
    lake = io_manager.lake.lake
    if failures:
        for day, pull in pulls.items():
            rows = {name: select_rows(lake, name, part, pull) for name, part in tables.items()}
            io_manager.store(context, day, {name: own for name, own in rows.items() if not isinstance(own, Unchanged)})
        yield from yield_materializations(tables, {day: {} for day in pulls})
        raise step_failure(failures)
    requests = {"requests": sum(pull.requests for pull in pulls.values())}
    for name, part in tables.items():
        rows = {day: select_rows(lake, name, part, pull) for day, pull in pulls.items()}
        yield dg.MaterializeResult(key(name), requests, value=rows)


RECORDING = dg.DynamicPartitionsDefinition(name="recording")
RECORDING_TABLES = ("raw/recordings", "raw/recording_gaps")


@dg.multi_asset(
    name="recording",
    group_name="raw",
    outs={name.split("/")[1]: dg.AssetOut(key=name.split("/"), kinds={"kalshi"}) for name in RECORDING_TABLES},
    partitions_def=RECORDING,
    backfill_policy=INDEPENDENT,
)
def recording(
    context: dg.AssetExecutionContext, recordings: RecordingsResource, io_manager: dg.ResourceParam[LakeIOManager]
) -> Iterator[StepOutput]:
    """Store the frames of a finished recording in order of arrival, and its gap report."""

    def make(name: str) -> PartitionRows:
        ended = recordings.load_ended(name)
        report = build_gap_report(ended)
        numbers: dict[str, Any] = {
            "frames": report.frames,
            "connections": report.connections,
            "lost": report.lost,
            "holes expected": report.partial,
            "book outages": len(report.outages),
            "duplicates": report.duplicates,
            "inversions": report.inversions,
        }
        metadata = {"raw/recordings": {"status": str(ended.status), **numbers}, "raw/recording_gaps": numbers}
        return {"raw/recordings": read_batches(ended), "raw/recording_gaps": to_gap_rows(report)}, metadata

    yield from make_each(context, io_manager, RECORDING_TABLES, make)
