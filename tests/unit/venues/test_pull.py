"""Pulls of series, the archive and days, from a small venue and from the sandbox."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from bellwether.errors import LakeError, VenueError
from bellwether.lake.storage import open_storage
from bellwether.tables.raw import KALSHI_ARCHIVE, KALSHI_CANDLES, KALSHI_EVENTS, KALSHI_MARKETS, KALSHI_PULLS, KALSHI_REJECTS, KALSHI_SERIES
from bellwether.tables.schema import Table
from bellwether.venues.http.page_files import PAGES, load
from bellwether.venues.http.pages import DONE, PageStore
from bellwether.venues.kalshi.pull import ArchivePull, CandlePlan, DayPull, SeriesPull, pull_archive, pull_day, pull_series
from tests.unit.venues.killed_storage import KilledStorage, writes_of_a_pull
from tests.venues.venue import client
from tests.venues.world import DAY, Killed, World, after, archived, closing, ordinary

PLAN = CandlePlan(days=2)


class Session:
    """Successive processes that pull from one venue into one store."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world = world
        self.folder = folder

    @property
    def store(self) -> PageStore:
        return PageStore(open_storage(str(self.folder)))

    async def day(self, day: date = DAY, *, archive: pl.LazyFrame | None = None, plan: CandlePlan = PLAN, **options: Any) -> DayPull:
        async with client(self.world) as venue:
            return await pull_day(venue, self.store, day, archive=archive, plan=plan, **options)

    async def archive(self, **options: Any) -> ArchivePull:
        async with client(self.world) as venue:
            return await pull_archive(venue, self.store, **options)

    async def series(self, **options: Any) -> SeriesPull:
        async with client(self.world) as venue:
            return await pull_series(venue, self.store, **options)


@pytest.fixture
def session(tmp_path: Path) -> Callable[[World], Session]:
    return lambda world: Session(world, tmp_path)


def rows(table: Table, frames: Any) -> pl.DataFrame:
    """Return all frames together, validated against the declaration."""
    frames = list(frames)
    return table.validate(pl.concat(frames) if frames else table.empty())


def everything(pull: DayPull) -> dict[str, pl.DataFrame]:
    return {
        "markets": rows(KALSHI_MARKETS, pull.markets()),
        "events": rows(KALSHI_EVENTS, pull.events()),
        "candles": rows(KALSHI_CANDLES, pull.candles()),
        "rejects": rows(KALSHI_REJECTS, [pull.rejects()]),
    }


def tickers(pull: DayPull) -> list[str]:
    return sorted(rows(KALSHI_MARKETS, pull.markets())["ticker"])


def stored_requests(folder: Path) -> set[str]:
    """Return the requests whose answers the pulls of a day have stored."""
    under_way = {page.request for file in folder.rglob("day/**/*.page") if (page := load(file.read_bytes()))}
    return under_way | {request for file in folder.rglob(f"day/**/{PAGES}") for request in pl.read_parquet(file)["request"]}


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file. Manifests are compared without request statistics, which two processes share differently."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): hashlib.sha256(facts(path)).hexdigest() for path in files}


def facts(path: Path) -> bytes:
    if path.name != DONE:
        return path.read_bytes()
    note = json.loads(path.read_bytes())
    note.pop("effort", None)
    return json.dumps(note).encode()


async def test_a_day_holds_exactly_the_markets_that_closed_on_it(session: Callable[[World], Session]):
    found = everything(await session(ordinary()).day())
    assert sorted(found["markets"]["ticker"]) == ["A-1", "A-2", "B-1", "B-2", "C-1"]
    assert set(found["markets"]["day"]) == {DAY}
    assert sorted(found["events"]["event_ticker"]) == ["EV-A", "EV-B", "EV-C"]
    assert set(found["candles"]["ticker"]) == {"A-1", "A-2", "B-1", "B-2", "C-1"}
    assert found["rejects"].is_empty()


async def test_a_day_without_markets_has_tables_without_rows(session: Callable[[World], Session]):
    found = everything(await session(World()).day())
    assert [frame.height for frame in found.values()] == [0, 0, 0, 0]


async def test_a_day_is_asked_for_by_close_time_without_combos_and_without_a_status(session: Callable[[World], Session]):
    run = session(ordinary())
    await run.day()
    asked = next(url for url in run.world.asked if url.startswith("/markets?"))
    assert asked == "/markets?min_close_ts=1773446399&max_close_ts=1773532800&mve_filter=exclude&limit=1000"
    assert not any("status=" in url for url in run.world.asked)


async def test_candles_lie_within_the_days_before_the_close_of_their_own_market(session: Callable[[World], Session]):
    found = everything(await session(ordinary()).day())
    joined = found["candles"].join(found["markets"].select("ticker", "close_time"), on="ticker")
    assert joined.height
    assert joined.filter(~pl.col("end_at").is_between(pl.col("close_time") - timedelta(days=2), pl.col("close_time"))).is_empty()


async def test_a_finished_final_day_is_taken_up_without_any_request(session: Callable[[World], Session]):
    run = session(ordinary())
    first = everything(await run.day())
    run.world.asked.clear()
    again = await run.day()
    assert (run.world.asked, again.requests) == ([], 0)
    assert all(frame.equals(first[name]) for name, frame in everything(again).items())


async def test_refresh_asks_again_and_keeps_the_old_pull(session: Callable[[World], Session]):
    run = session(ordinary())
    first = await run.day()
    before = digests(run.folder)
    second = await run.day(refresh=True)
    assert (first.pull.folder[-4:], second.pull.folder[-4:]) == ("0001", "0002")
    assert second.requests > 0
    assert before.items() <= digests(run.folder).items()


REQUESTS_OF_A_DAY = 9


@dataclass(frozen=True)
class Undisturbed:
    """Results and stored files of an undisturbed pull."""

    frames: dict[str, pl.DataFrame]
    files: dict[str, str]

    def equals(self, run: Session, pull: DayPull) -> bool:
        frames = everything(pull)
        return digests(run.folder) == self.files and all(frames[name].equals(frame) for name, frame in self.frames.items())


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    async def work() -> Undisturbed:
        run = Session(archived_and_ordinary(), tmp_path_factory.mktemp("undisturbed"))
        pull = await run.day(archive=await archive_rows(run))
        assert pull.requests == REQUESTS_OF_A_DAY
        return Undisturbed(everything(pull), digests(run.folder))

    return asyncio.run(work())


@pytest.mark.parametrize("kill_at", range(1, REQUESTS_OF_A_DAY + 1))
async def test_a_pull_killed_at_any_request_and_run_again_equals_an_undisturbed_one(
    kill_at: int, undisturbed: Undisturbed, session: Callable[[World], Session]
):
    run = session(archived_and_ordinary())
    archive = await archive_rows(run)
    run.world.kill_at = len(run.world.asked) + kill_at
    with pytest.raises(Killed):
        await run.day(archive=archive)
    run.world.kill_at = None
    kept = stored_requests(run.folder)
    run.world.asked.clear()
    again = await run.day(archive=archive)
    assert kept.isdisjoint(f"GET {url}" for url in run.world.asked)
    assert again.requests == REQUESTS_OF_A_DAY - len(kept)
    assert undisturbed.equals(run, again)


@pytest.mark.parametrize("kill_at", [*range(1, 16, 4), *range(16, writes_of_a_pull(REQUESTS_OF_A_DAY) + 1)])
@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_pull_killed_at_any_write_and_run_again_equals_an_undisturbed_one(
    kill_at: int, moment: str, undisturbed: Undisturbed, session: Callable[[World], Session]
):
    run = session(archived_and_ordinary())
    archive = await archive_rows(run)
    async with client(run.world) as venue:
        dying = PageStore(KilledStorage(open_storage(str(run.folder)), kill_at, moment, Killed))  # type: ignore[arg-type]
        with pytest.raises(Killed):
            await pull_day(venue, dying, DAY, archive=archive, plan=PLAN)
    assert undisturbed.equals(run, await run.day(archive=archive))


def archived_and_ordinary() -> World:
    """A day with live and archived markets over several pages each, and rejected records."""
    world = ordinary()
    world.archive = [
        closing("E-1", "2026-03-14T10:00:00Z"),
        closing("E-2", "2026-03-14T11:00:00Z"),
        closing("E-3", "2026-03-14T11:00:00Z", last_price_dollars="1.2000"),
    ]
    world.live.append(closing("C-9", "2026-03-14T11:00:00Z", last_price_dollars="1.5000"))
    world.cutoff = "2026-03-15T00:00:00Z"
    return world


async def archive_rows(run: Session) -> pl.LazyFrame:
    return rows(KALSHI_ARCHIVE, (await run.archive()).markets()).lazy()


async def test_a_page_damaged_by_a_crash_is_fetched_again(session: Callable[[World], Session]):
    run = session(ordinary())
    run.world.kill_at = 4
    with pytest.raises(Killed):
        await run.day()
    run.world.kill_at = None
    page = sorted(run.folder.rglob("markets/*.page"))[-1]
    page.write_bytes(page.read_bytes()[:100])
    assert tickers(await run.day()) == ["A-1", "A-2", "B-1", "B-2", "C-1"]


async def test_a_cursor_that_the_venue_no_longer_knows_starts_the_next_pull(session: Callable[[World], Session]):
    run = session(ordinary())
    run.world.kill_at = 3
    with pytest.raises(Killed):
        await run.day()
    run.world.kill_at = None
    honest = run.world._answer

    def forgetful(path: str, query: Any) -> Any:
        from tests.venues.venue import answer

        stale = path == "/markets" and query.get("cursor") and len(run.world.asked) == 4
        return answer({"error": "invalid cursor"}, status=400) if stale else honest(path, query)

    run.world._answer = forgetful  # type: ignore[method-assign]
    again = await run.day()
    assert again.pull.folder.endswith("0002")
    assert tickers(again) == ["A-1", "A-2", "B-1", "B-2", "C-1"]


async def test_a_refused_call_of_a_fresh_pull_is_an_error(session: Callable[[World], Session]):
    from tests.venues.venue import answer

    run = session(ordinary())
    honest = run.world._answer
    refused = answer({"error": "bad"}, status=400)
    run.world._answer = lambda path, query: refused if query.get("cursor") else honest(path, query)  # type: ignore[method-assign]
    with pytest.raises(VenueError, match="HTTP 400: bad"):
        await run.day()


async def test_live_and_archived_markets_are_united(session: Callable[[World], Session]):
    run = session(archived())
    found = everything(await run.day(archive=await archive_rows(run)))
    assert dict(found["markets"].select("ticker", "source").sort("ticker").iter_rows()) == {
        "A-1": "historical",
        "B/1": "historical",
        "C-1": "live",
    }
    assert sorted(found["events"]["event_ticker"]) == ["EV-A", "EV-B", "EV-C"]
    assert dict(found["candles"].select("ticker", "source").unique().iter_rows()) == {
        "A-1": "historical",
        "B/1": "historical",
        "C-1": "live",
    }


async def test_a_day_after_the_cutoff_needs_no_archive(session: Callable[[World], Session]):
    world = ordinary()
    world.cutoff = "2026-03-14T00:00:00Z"
    assert len(tickers(await session(world).day(archive=None))) == 5


@pytest.mark.parametrize("cutoff", ["2026-03-14T00:00:01Z", "2026-03-14T12:00:00Z", "2026-06-01T00:00:00Z"])
async def test_a_day_that_began_before_the_cutoff_needs_the_archive(session: Callable[[World], Session], cutoff: str):
    world = ordinary()
    world.cutoff = cutoff
    with pytest.raises(LakeError, match=r"pulling 2026-03-14: .* materialize raw/kalshi_archive first"):
        await session(world).day(archive=None)


async def test_an_archive_scanned_before_the_venue_moved_more_is_not_enough(session: Callable[[World], Session]):
    run = session(archived())
    archive = await archive_rows(run)
    run.world.cutoff = "2026-03-19T00:00:00Z"
    with pytest.raises(LakeError, match=r"scanned at the cutoff 2026-03-18 00:00.* materialize raw/kalshi_archive again"):
        await run.day(archive=archive)
    assert tickers(await run.day(archive=await archive_rows(run))) == ["A-1", "B/1", "C-1"]


async def test_an_archive_that_belongs_to_no_scan_is_not_enough(session: Callable[[World], Session], tmp_path: Path):
    run = session(archived())
    archive = await archive_rows(run)
    with pytest.raises(LakeError, match="belongs to no stored scan"):
        await Session(run.world, tmp_path / "elsewhere").day(archive=archive)


async def test_the_archive_is_scanned_once_per_cutoff(session: Callable[[World], Session]):
    run = session(archived())
    first = await run.archive()
    run.world.asked.clear()
    again = await run.archive()
    assert (run.world.asked, again.requests) == (["/historical/cutoff"], 0)
    assert rows(KALSHI_ARCHIVE, again.markets()).equals(rows(KALSHI_ARCHIVE, first.markets()))
    assert (await run.archive(refresh=True)).pull.folder.endswith("0002")
    run.world.cutoff = "2026-03-19T00:00:00Z"
    assert (await run.archive()).requests > 0


async def test_rejects_of_the_archive_are_filed_under_the_day_of_their_close(session: Callable[[World], Session]):
    world = archived()
    world.archive += [closing("A-7", "2026-03-14T10:00:00Z", event_ticker=None), closing("Z-7", "2026-02-01T10:00:00Z", volume_fp="x")]
    run = session(world)
    scan = await run.archive()
    assert dict(scan.rejects().select("record_id", "day").iter_rows()) == {"A-7": DAY, "Z-7": date(2026, 2, 1)}
    found = everything(await run.day(archive=await archive_rows(run)))
    assert found["rejects"].select("record_id", "table", "day").rows() == [("A-7", "raw/kalshi_archive", DAY)]


async def test_a_nested_market_that_the_listing_lacks_is_added(session: Callable[[World], Session]):
    world = ordinary()
    world.nested = {"EV-A": [closing("A-3", "2026-03-14T20:00:00Z"), closing("A-4", "2026-03-16T20:00:00Z")]}
    found = everything(await session(world).day())
    added = found["markets"].filter(ticker="A-3").row(0, named=True)
    assert (added["source"], added["request"].split("?")[0]) == ("live", "GET /events")
    assert "A-4" not in found["markets"]["ticker"].to_list()
    assert "A-3" in found["candles"]["ticker"].to_list()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"result": "no"}, "result"),
        ({"settlement_value_dollars": "0.5000"}, "settlement_value"),
        ({"close_time": "2026-03-14T13:00:00Z"}, "close_time"),
    ],
)
@pytest.mark.parametrize("newer", ["listing", "nested"])
async def test_of_two_records_that_disagree_the_newer_counts_and_the_other_is_quarantined(
    session: Callable[[World], Session], change: dict[str, Any], field: str, newer: str
):
    world = ordinary()
    times = {"listing": "2026-03-16T00:00:00Z", "nested": "2026-03-17T00:00:00Z" if newer == "nested" else "2026-03-15T00:00:00Z"}
    world.live[2] |= {"updated_time": times["listing"]}
    world.nested = {"EV-B": [{**world.live[2], **change, "updated_time": times["nested"]}]}
    found = everything(await session(world).day())
    kept = found["markets"].filter(ticker="B-1")
    assert kept["request"][0].startswith("GET /events" if newer == "nested" else "GET /markets")
    rejected = found["rejects"].row(0, named=True)
    assert (found["rejects"].height, rejected["record_id"], rejected["field"]) == (1, "B-1", field)
    assert "another record of this market, at least as new, says" in rejected["reason"]
    assert ("/events" in rejected["request"]) == (newer == "listing")


@pytest.mark.parametrize("with_result", ["listing", "nested"])
async def test_of_two_equally_new_records_the_one_with_a_result_counts(session: Callable[[World], Session], with_result: str):
    world = ordinary()
    decided = dict(world.live[2])
    undecided = {**decided, "status": "closed", "result": "", "settlement_value_dollars": None, "settlement_ts": None}
    world.live[2], nested = (decided, undecided) if with_result == "listing" else (undecided, decided)
    world.nested = {"EV-B": [nested]}
    pull = await session(world).day()
    found = everything(pull)
    assert found["markets"].filter(ticker="B-1").select("status", "result").rows() == [("finalized", "yes")]
    assert found["rejects"].select("record_id", "value").unique().rows() == [("B-1", "")]
    assert found["rejects"]["reason"].str.ends_with("says yes").all()
    assert pull.pulls()["final"].item()


async def test_a_newer_record_without_a_result_is_named_as_such_and_keeps_the_day_open(session: Callable[[World], Session]):
    world = ordinary()
    world.nested = {"EV-B": [dict(world.live[2])]}
    world.live[2] |= {"status": "closed", "result": "", "settlement_value_dollars": None, "updated_time": "2026-03-21T00:00:00Z"}
    pull = await session(world).day()
    assert pull.rejects()["reason"].str.ends_with('says ""').all()
    assert not pull.pulls()["final"].item()


async def test_a_record_that_says_the_same_again_is_dropped_silently(session: Callable[[World], Session]):
    world = ordinary()
    world.live.insert(4, dict(world.live[1]))
    world.live.insert(5, {**world.live[1], "updated_time": "2026-03-18T00:00:00Z", "volume_fp": "77.00"})
    found = everything(await session(world).day())
    assert found["markets"].filter(ticker="A-2")["volume"].to_list() == [Decimal(77)]
    assert found["rejects"].is_empty()


async def test_a_newer_record_that_closed_on_another_day_takes_its_market_away(session: Callable[[World], Session]):
    world = ordinary()
    world.nested = {"EV-C": [{**world.live[4], "close_time": "2026-03-13T15:00:00Z", "updated_time": "2026-03-19T00:00:00Z"}]}
    found = everything(await session(world).day())
    assert "C-1" not in found["markets"]["ticker"].to_list()
    assert found["rejects"].select("record_id", "field").rows() == [("C-1", "close_time")]


async def test_disagreement_between_live_and_archive_is_quarantined(session: Callable[[World], Session]):
    world = archived()
    world.live.append({**world.archive[0], "result": "no", "updated_time": "2026-03-19T00:00:00Z"})
    run = session(world)
    found = everything(await run.day(archive=await archive_rows(run)))
    assert found["markets"].filter(ticker="A-1")["result"].to_list() == ["no"]
    assert found["rejects"].select("record_id", "table", "field", "value").rows() == [("A-1", "raw/kalshi_archive", "result", "yes")]


async def test_records_of_the_archive_that_disagree_count_once(session: Callable[[World], Session]):
    world = archived()
    world.archive.append({**world.archive[0], "result": "no", "updated_time": "2026-03-19T00:00:00Z"})
    run = session(world)
    scan = await run.archive()
    assert rows(KALSHI_ARCHIVE, scan.markets()).filter(ticker="A-1")["result"].to_list() == ["no"]
    assert scan.rejects().select("record_id", "field", "day").rows() == [("A-1", "result", DAY)]


async def test_a_record_that_does_not_fit_stops_nothing_else(session: Callable[[World], Session]):
    world = ordinary()
    world.live += [closing("C-7", "2026-03-14T10:00:00Z", yes_ask_dollars="1.2000"), closing("C-8", "whenever")]
    found = everything(await session(world).day())
    assert found["markets"].height == 5
    assert sorted(found["rejects"].select("record_id", "field").rows()) == [("C-7", "yes_ask_dollars"), ("C-8", "close_time")]
    assert set(found["rejects"]["day"]) == {DAY}


async def test_an_event_that_the_venue_does_not_return_is_a_reject_and_its_markets_stay(session: Callable[[World], Session]):
    world = ordinary()
    world.events = {"EV-C"}
    found = everything(await session(world).day())
    assert found["markets"].height == 5
    assert found["events"]["event_ticker"].to_list() == ["EV-C"]
    assert found["rejects"].select("table", "record_id").rows() == [("raw/kalshi_events", "EV-A"), ("raw/kalshi_events", "EV-B")]


async def test_archived_candles_that_the_venue_does_not_have_are_a_reject(session: Callable[[World], Session]):
    world = archived()
    world.candles_missing = frozenset({"B/1"})
    run = session(world)
    found = everything(await run.day(archive=await archive_rows(run)))
    assert set(found["candles"]["ticker"]) == {"A-1", "C-1"}
    rejected = found["rejects"].row(0, named=True)
    assert (rejected["table"], rejected["record_id"]) == ("raw/kalshi_candles", "B/1")
    assert "not_found" in rejected["reason"]


async def test_combos_get_neither_candles_nor_an_event(session: Callable[[World], Session]):
    world = ordinary()
    world.live.append(market_of_combo := closing("KXMVE-1", "2026-03-14T10:00:00Z", event_ticker="KXMVE-S1"))
    run = session(world)
    found = everything(await run.day())
    assert found["markets"].filter(ticker=market_of_combo["ticker"])["is_combo"].to_list() == [True]
    assert not any("KXMVE" in url for url in run.world.asked)


async def test_series_are_pulled_once(session: Callable[[World], Session]):
    run = session(World())
    found = rows(KALSHI_SERIES, (await run.series()).series())
    assert found["series_ticker"].to_list() == ["S0", "S1", "S2"]
    run.world.asked.clear()
    assert (await run.series()).requests == 0
    assert run.world.asked == []
    assert (await run.series(refresh=True)).requests == 1
    assert (await run.series()).rejects().is_empty()


def test_the_markets_with_candles_are_a_stable_sample():
    markets = pl.DataFrame({"ticker": [f"T{number}" for number in range(100)]}).with_columns(
        close_time=pl.lit(after(DAY)), is_combo=pl.lit(False), archived=pl.lit(False)
    )
    plan = CandlePlan(markets=10)
    chosen = set(plan.select_markets(markets)["ticker"])
    assert len(chosen) == 10
    assert set(plan.select_markets(markets.reverse())["ticker"]) == chosen
    assert set(CandlePlan(markets=20).select_markets(markets)["ticker"]) > chosen


@pytest.mark.parametrize("days", [1, 8, 60])
def test_batches_of_candles_respect_the_venues_limits(days: int):
    from bellwether.venues.kalshi.routes import parse_requested_tickers

    closes = [after(DAY, 0) + timedelta(minutes=7 * number) for number in range(250)]
    markets = pl.DataFrame({"ticker": [f"T{number:03d}" for number in range(250)], "close_time": closes}).with_columns(
        is_combo=pl.lit(False), archived=pl.lit(False)
    )
    calls = CandlePlan(days=days).build_calls(markets)
    asked = [parse_requested_tickers(call.request) for call in calls]
    assert sorted(ticker for batch in asked for ticker in batch) == markets["ticker"].to_list()
    for call, batch in zip(calls, asked, strict=True):
        params = dict(call.params)
        span = int(params["end_ts"]) - int(params["start_ts"])
        assert len(batch) <= 100
        assert len(batch) * (span // 3600 + 1) <= 10_000
        for ticker in batch:
            close = closes[int(ticker[1:])]
            assert int(params["start_ts"]) <= (close - timedelta(days=days)).timestamp()
            assert close.timestamp() <= int(params["end_ts"])


async def test_a_pull_tells_what_it_took_and_tells_the_same_when_it_is_taken_up(session: Callable[[World], Session]):
    run = session(ordinary())
    first = (await run.day()).pulls()
    row = first.row(0, named=True)
    assert KALSHI_PULLS.validate(first).height == 1
    assert (row["day"], row["final"], row["requests"], row["attempts"]) == (DAY, True, len(run.world.asked), len(run.world.asked))
    assert (row["failures_rate_limit"], row["failures_server"], row["limited_seconds"]) == (0, 0, 0.0)
    assert row["started_at"] == row["finished_at"] == row["known_at"]
    assert (await run.day()).pulls().equals(first)


async def test_a_pull_counts_its_failures_by_kind_and_not_those_of_pulls_before_it(session: Callable[[World], Session]):
    from tests.venues.venue import answer

    world = ordinary()
    run = session(world)
    async with client(world) as venue:
        venue.stats.failures["server"] = 5
        honest, busy = world._answer, iter([429, 429, 503])
        world._answer = lambda path, query: answer({}, status=status) if (status := next(busy, 0)) else honest(path, query)  # type: ignore[method-assign]
        pull = await pull_day(venue, run.store, DAY, archive=None, plan=PLAN)
    row = pull.pulls().row(0, named=True)
    assert (row["failures_rate_limit"], row["failures_server"], row["attempts"] - row["requests"]) == (2, 1, 3)
    assert row["limited_seconds"] >= 0
