"""Pulls of series, the archive and days of Kalshi: kills, contradicting records, the archive, open markets and rejects."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest

from bellwether.errors import LakeError
from bellwether.lake.storage import Storage, open_storage
from bellwether.tables.raw import KALSHI_ARCHIVE, KALSHI_MARKETS, KALSHI_SERIES
from bellwether.venues.day import DayPull, PullPlan, pull_day
from bellwether.venues.http.pages import PageStore
from bellwether.venues.kalshi.pull import KalshiDay, build_candle_calls, select_markets
from bellwether.venues.kalshi.routes import parse_requested_tickers
from bellwether.venues.wire.rejects import NOT_LISTED
from tests.sizes import NIGHTLY
from tests.unit.venues.sessions import PLAN, KalshiSession, is_final, rows, stored_pages
from tests.unit.venues.venue import answer, client
from tests.unit.venues.world import DAY, Killed, World, after, archived, closing, ordinary

#: Methods of a storage that change it.
WRITES = ("put", "delete")


class KilledStorage:
    """Storage that raises `killed` before or after its n-th write."""

    def __init__(self, storage: Storage, kill_at: int, moment: str, killed: type[BaseException]) -> None:
        self._storage = storage
        self._left = kill_at
        self._moment = moment
        self._killed = killed

    def __getattr__(self, name: str) -> Any:
        return self._dying(getattr(self._storage, name)) if name in WRITES else getattr(self._storage, name)

    def _dying(self, write: Any) -> Any:
        def write_or_die(*arguments: Any) -> Any:
            self._left -= 1
            if self._left <= 0 and self._moment == "before":
                raise self._killed
            result = write(*arguments)
            if self._left <= 0:
                raise self._killed
            return result

        return write_or_die


#: Writes of a small pull: its pages, and the note that ends it.
WRITES_OF_A_PULL = 2


@pytest.fixture
def session(tmp_path: Path) -> Callable[[World], KalshiSession]:
    return lambda world: KalshiSession(tmp_path, world)


def tickers(pull: DayPull) -> list[str]:
    return sorted(rows(KALSHI_MARKETS, pull.markets())["ticker"])


def stored_requests(folder: Path) -> set[str]:
    """Return the requests whose answers the pulls of a day have stored."""
    return {request for file in folder.rglob("day/**/*.parquet") for request in pl.read_parquet(file)["request"]}


REQUESTS_OF_A_DAY = 9


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


async def archive_rows(run: KalshiSession) -> pl.LazyFrame:
    return rows(KALSHI_ARCHIVE, (await run.archive()).markets()).lazy()


async def test_a_cursor_that_the_venue_no_longer_knows_starts_the_next_pull(session: Callable[[World], KalshiSession]):
    run = session(ordinary())
    run.world.kill_at = 3
    with pytest.raises(Killed):
        await run.day()
    run.world.kill_at = None
    honest = run.world._answer

    def forgetful(path: str, query: Any) -> Any:

        stale = path == "/markets" and query.get("cursor") and len(run.world.asked) == 4
        return answer({"error": "invalid cursor"}, status=400) if stale else honest(path, query)

    run.world._answer = forgetful  # type: ignore[method-assign]
    again = await run.day()
    assert again.pull.folder.endswith("0002")
    assert tickers(again) == ["A-1", "A-2", "B-1", "B-2", "C-1"]


async def test_live_and_archived_markets_are_united(session: Callable[[World], KalshiSession]):
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


async def test_an_archive_scanned_before_the_venue_moved_more_is_not_enough(session: Callable[[World], KalshiSession]):
    run = session(archived())
    archive = await archive_rows(run)
    run.world.cutoff = "2026-03-19T00:00:00Z"
    with pytest.raises(LakeError, match=r"scanned at the cutoff 2026-03-18 00:00.* run `bellwether pull 2026-03-14 --archive --refresh`"):
        await run.day(archive=archive)
    assert tickers(await run.day(archive=await archive_rows(run))) == ["A-1", "B/1", "C-1"]


async def test_rejects_of_the_archive_are_filed_under_the_day_of_their_close(session: Callable[[World], KalshiSession]):
    world = archived()
    world.archive += [closing("A-7", "2026-03-14T10:00:00Z", event_ticker=None), closing("Z-7", "2026-02-01T10:00:00Z", volume_fp="x")]
    run = session(world)
    scan = await run.archive()
    assert dict(scan.rejects().select("record_id", "day").iter_rows()) == {"A-7": DAY, "Z-7": date(2026, 2, 1)}
    found = everything(await run.day(archive=await archive_rows(run)))
    assert found["rejects"].select("record_id", "table", "day").rows() == [("A-7", "raw/kalshi_archive", DAY)]


@pytest.mark.parametrize("first", [True, False])
async def test_of_two_records_that_disagree_the_newer_counts(session: Callable[[World], KalshiSession], first: bool):
    world = ordinary()
    older = world.live[2] | {"updated_time": "2026-03-16T00:00:00Z"}
    newer = world.live[2] | {"updated_time": "2026-03-17T00:00:00Z", "result": "no"}
    world.live[2:3] = [newer, older] if first else [older, newer]
    found = everything(await session(world).day())
    assert found["markets"].filter(ticker="B-1")["result"].to_list() == ["no"]
    assert found["rejects"].is_empty()


@pytest.mark.parametrize("first", [True, False])
async def test_of_two_equally_new_records_the_one_with_a_result_counts(session: Callable[[World], KalshiSession], first: bool):
    world = ordinary()
    decided = dict(world.live[2])
    undecided = {**decided, "status": "closed", "result": "", "settlement_value_dollars": None, "settlement_ts": None}
    world.live[2:3] = [decided, undecided] if first else [undecided, decided]
    pull = await session(world).day()
    assert everything(pull)["markets"].filter(ticker="B-1").select("status", "result").rows() == [("finalized", "yes")]
    assert pull.pulls()["final"].item()


async def test_a_record_that_says_the_same_again_is_dropped_silently(session: Callable[[World], KalshiSession]):
    world = ordinary()
    world.live.insert(4, dict(world.live[1]))
    world.live.insert(5, {**world.live[1], "updated_time": "2026-03-18T00:00:00Z", "volume_fp": "77.00"})
    found = everything(await session(world).day())
    assert found["markets"].filter(ticker="A-2")["volume"].to_list() == [Decimal(77)]
    assert found["rejects"].is_empty()


async def test_of_a_live_and_an_archived_record_the_newer_counts(session: Callable[[World], KalshiSession]):
    world = archived()
    world.live.append({**world.archive[0], "result": "no", "updated_time": "2026-03-19T00:00:00Z"})
    run = session(world)
    found = everything(await run.day(archive=await archive_rows(run)))
    assert found["markets"].filter(ticker="A-1")["result"].to_list() == ["no"]


async def test_archived_candles_that_the_venue_does_not_have_are_a_reject(session: Callable[[World], KalshiSession]):
    world = archived()
    world.candles_missing = frozenset({"B/1"})
    run = session(world)
    found = everything(await run.day(archive=await archive_rows(run)))
    assert set(found["candles"]["ticker"]) == {"A-1", "C-1"}
    rejected = found["rejects"].row(0, named=True)
    assert (rejected["table"], rejected["record_id"]) == ("raw/kalshi_candles", "B/1")
    assert "not_found" in rejected["reason"]


async def test_combos_get_neither_candles_nor_an_event(session: Callable[[World], KalshiSession]):
    world = ordinary()
    world.live.append(market_of_combo := closing("KXMVE-1", "2026-03-14T10:00:00Z", event_ticker="KXMVE-S1"))
    run = session(world)
    found = everything(await run.day())
    assert found["markets"].filter(ticker=market_of_combo["ticker"])["is_combo"].to_list() == [True]
    assert not any("KXMVE" in url for url in run.world.asked)


def test_the_markets_with_candles_are_a_stable_sample():
    markets = pl.DataFrame({"ticker": [f"T{number}" for number in range(100)]}).with_columns(
        close_time=pl.lit(after(DAY)), is_combo=pl.lit(False), archived=pl.lit(False)
    )
    plan = PullPlan(markets=10)
    chosen = set(select_markets(plan, markets)["ticker"])
    assert len(chosen) == 10
    assert set(select_markets(plan, markets.reverse())["ticker"]) == chosen
    assert set(select_markets(PullPlan(markets=20), markets)["ticker"]) > chosen


async def test_a_later_answer_counts_although_the_venue_calls_both_equally_new(run: KalshiSession):
    await run.day()
    run.world.live[2] |= {"status": "finalized", "result": "yes", "settlement_value_dollars": "1.0000"}
    second = await run.day()
    assert rows(KALSHI_MARKETS, second.markets()).filter(ticker="B-1")["result"].to_list() == ["yes"]
    assert second.rejects().is_empty(), "what was said before is no contradiction"


async def test_a_day_is_followed_from_its_own_pull_however_often(run: KalshiSession):
    await run.day()
    for number in range(2, 5):
        pull = await run.day()
        assert pull.pull.folder.endswith(f"000{number}")
        assert pull.pull.base is not None
        assert pull.pull.base.folder.endswith("0001")
    removed = run.store.vacuum(timedelta(days=7), datetime.now(UTC) + timedelta(days=9))
    assert {name.split("/")[4] for name in removed.files} == {"0002", "0003"}
    assert len(rows(KALSHI_MARKETS, (await run.day()).markets())) == 5


async def test_a_market_that_the_venue_no_longer_lists_makes_the_day_be_pulled_whole(run: KalshiSession):
    await run.day()
    gone = next(item for item in run.world.live if item["ticker"] == "B-1")
    run.world.live.remove(gone)
    run.take_requests()
    second = await run.day()
    urls = run.take_requests()
    assert any("min_close_ts" in url for url in urls)
    assert "/markets?tickers=B-1&limit=1000" in urls, "the listing lacks it: it is requested by name"
    assert absent(second) == ["B-1"]
    assert not is_final(second)
    third = await run.day()
    assert run.take_requests() == ["/markets?tickers=B-1,C-1&limit=1000"], "the day was pulled as a whole for it once"
    assert absent(third) == ["B-1"]
    run.world.live.append(gone | closing("B-1", gone["close_time"]))
    run.settle("C-1")
    last = await run.day()
    assert (absent(last), is_final(last)) == ([], True)
    assert "B-1" in set(rows(KALSHI_MARKETS, last.markets())["ticker"])


async def test_a_market_missing_from_a_single_answer_by_ticker_loses_no_result(run: KalshiSession):
    for place in (2, 4):
        run.world.live[place] |= {"status": "finalized"}
    first = await run.day()
    assert set(first.rejects()["record_id"]) == {"B-1", "C-1"}
    for ticker in ("B-1", "C-1"):
        run.settle(ticker)
    run.world.unnamed = 3
    second = await run.day()
    assert len(rows(KALSHI_MARKETS, second.markets())) == 5
    assert second.rejects().is_empty()
    assert second.pulls()["final"].item()


async def test_a_market_that_a_new_pull_of_the_day_lacks_is_a_reject_until_it_is_back(run: KalshiSession):
    for ticker in run.two:
        run.settle(ticker)
    assert (await run.day()).pulls()["final"].item()
    gone = run.world.live.pop(0)
    refreshed = await run.day(refresh=True)
    assert absent(refreshed) == ["A-1"]
    assert not refreshed.pulls()["final"].item()
    assert absent(await run.day(refresh=True)) == ["A-1"], "it is known from its reject"
    assert absent(await run.day()) == ["A-1"]
    run.world.live.append(gone)
    back = await run.day()
    assert absent(back) == []
    assert len(rows(KALSHI_MARKETS, back.markets())) == 5


def absent(pull: DayPull) -> list[str]:
    """Return the markets that were requested by name and not listed."""
    return sorted(pull.rejects().filter(pl.col("reason") == NOT_LISTED)["record_id"])


async def test_refresh_takes_no_page_of_an_unfinished_pull(tmp_path: Path):
    run = KalshiSession(tmp_path, ordinary())
    run.world.kill_at = 6
    with pytest.raises(Killed):
        await run.day()
    run.world.kill_at = None
    run.world.live[0]["title"] = "Corrected"
    pull = await run.day(refresh=True)
    assert rows(KALSHI_MARKETS, pull.markets()).filter(ticker="A-1")["title"].to_list() == ["Corrected"]


async def test_a_number_that_no_parser_reads_costs_no_market_and_no_second_request(tmp_path: Path):
    class Odd(World):
        def __call__(self, request: httpx.Request) -> httpx.Response:
            response = super().__call__(request)
            body = response.content.replace(b'"ticker":"B-1"', b'"zz":' + b"9" * 6000 + b',"ticker":"B-1"')
            return httpx.Response(response.status_code, content=body, headers={"Date": self.date})

    run = KalshiSession(tmp_path, Odd(**{name: getattr(ordinary(), name) for name in ("live", "archive")}))
    run.at(1)
    pull = await run.day()
    assert tickers(pull) == ["A-1", "A-2", "B-1", "B-2", "C-1"]
    assert pull.rejects().is_empty()
    assert len(run.world.asked) == len(set(run.world.asked))


everything = KalshiSession.everything


@pytest.fixture
def run(tmp_path: Path) -> KalshiSession:
    """The ordinary day, with two markets that have no result yet."""
    session = KalshiSession(tmp_path)
    session.open_two()
    return session


async def pull_undisturbed(folder: Path) -> tuple[dict[str, pl.DataFrame], list[Any]]:
    """Return the frames and the stored pages of an undisturbed pull."""
    run = KalshiSession(folder, archived_and_ordinary())
    pull = await run.day(archive=await archive_rows(run))
    assert pull.requests == REQUESTS_OF_A_DAY
    return everything(pull), stored_pages(run.folder)


async def test_a_pull_killed_at_any_request_and_run_again_equals_an_undisturbed_one(tmp_path: Path) -> None:
    frames, pages = await pull_undisturbed(tmp_path / "undisturbed")
    for kill_at in range(1, REQUESTS_OF_A_DAY + 1, 1 if NIGHTLY else 3):
        run = KalshiSession(tmp_path / str(kill_at), archived_and_ordinary())
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
        assert stored_pages(run.folder) == pages, kill_at
        assert all(frames[name].equals(frame) for name, frame in everything(again).items()), kill_at


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_pull_killed_at_any_write_and_run_again_equals_an_undisturbed_one(moment: str, tmp_path: Path) -> None:
    frames, pages = await pull_undisturbed(tmp_path / "undisturbed")
    for kill_at in range(1, WRITES_OF_A_PULL + 1):
        run = KalshiSession(tmp_path / str(kill_at), archived_and_ordinary())
        archive = await archive_rows(run)
        dying = PageStore(KilledStorage(open_storage(str(run.folder)), kill_at, moment, Killed))  # type: ignore[arg-type]
        with pytest.raises(Killed):
            await run.day(archive=archive, store=dying)
        again = await run.day(archive=archive)
        assert stored_pages(run.folder) == pages, kill_at
        assert all(frames[name].equals(frame) for name, frame in everything(again).items()), kill_at


async def test_a_day_is_asked_for_by_close_time_without_combos_and_without_a_status(session: Callable[[World], KalshiSession]):
    run = session(World())
    found = everything(await run.day())
    assert [frame.height for frame in found.values()] == [0, 0, 0, 0]
    asked = next(url for url in run.world.asked if url.startswith("/markets?"))
    assert asked == "/markets?min_close_ts=1773446399&max_close_ts=1773532800&mve_filter=exclude&limit=1000"


async def test_a_day_that_began_before_the_cutoff_needs_the_archive(tmp_path: Path):
    world = ordinary()
    for number, cutoff in enumerate(("2026-03-14T00:00:01Z", "2026-03-14T12:00:00Z", "2026-06-01T00:00:00Z")):
        world.cutoff = cutoff
        with pytest.raises(LakeError, match=r"pulling 2026-03-14: .* run `bellwether pull 2026-03-14 --archive`$"):
            await KalshiSession(tmp_path / str(number), world).day(archive=None)
    world.cutoff = "2026-03-14T00:00:00Z"
    assert len(tickers(await KalshiSession(tmp_path / "after", world).day(archive=None))) == 5
    run = KalshiSession(tmp_path / "archived", archived())
    archive = await archive_rows(run)
    with pytest.raises(LakeError, match="belongs to no stored scan"):
        await KalshiSession(tmp_path / "elsewhere", run.world).day(archive=archive)


async def test_series_are_pulled_once_and_the_archive_once_per_cutoff(session: Callable[[World], KalshiSession]):
    run = session(archived())
    assert rows(KALSHI_SERIES, (await run.series()).series())["series_ticker"].to_list() == ["S0", "S1", "S2"]
    run.world.asked.clear()
    assert ((await run.series()).requests, run.world.asked) == (0, [])
    assert (await run.series(refresh=True)).requests == 1
    first = await run.archive()
    run.world.asked.clear()
    again = await run.archive()
    assert (run.world.asked, again.requests) == (["/historical/cutoff"], 0)
    assert rows(KALSHI_ARCHIVE, again.markets()).equals(rows(KALSHI_ARCHIVE, first.markets()))
    assert (await run.archive(refresh=True)).pull.folder.endswith("0002")
    run.world.cutoff = "2026-03-19T00:00:00Z"
    assert (await run.archive()).requests > 0


def test_batches_of_candles_respect_the_venues_limits():
    closes = [after(DAY, 0) + timedelta(minutes=7 * number) for number in range(250)]
    markets = pl.DataFrame({"ticker": [f"T{number:03d}" for number in range(250)], "close_time": closes}).with_columns(
        is_combo=pl.lit(False), archived=pl.lit(False)
    )
    for days in (1, 8, 60):
        calls = build_candle_calls(PullPlan(days=days), markets)
        asked = [parse_requested_tickers(call.request) for call in calls]
        assert sorted(ticker for batch in asked for ticker in batch) == markets["ticker"].to_list()
        for call, batch in zip(calls, asked, strict=True):
            params = dict(call.params)
            start, end = int(params["start_ts"]), int(params["end_ts"])
            assert len(batch) <= 100
            assert len(batch) * ((end - start) // 3600 + 1) <= 10_000
            for ticker in batch:
                close = closes[int(ticker[1:])]
                assert start <= (close - timedelta(days=days)).timestamp() < close.timestamp() <= end


async def test_a_followed_market_that_moved_to_another_day_is_told(run: KalshiSession):
    await run.day()
    run.world.live[2] |= {"close_time": "2026-04-01T00:00:00Z", "updated_time": "2026-03-21T00:00:00Z"}
    second = await run.day()
    assert "B-1" not in tickers(second)
    (told,) = second.rejects().filter(pl.col("record_id") == "B-1").iter_rows(named=True)
    assert (told["field"], told["value"]) == ("close_time", "2026-04-01 00:00:00+00:00")


@pytest.mark.parametrize("change", ["refresh", "another plan", "not over"])
async def test_a_day_is_pulled_whole_where_more_than_verdicts_is_wanted(run: KalshiSession, change: str):
    if change == "not over":
        run.world.date = "Sat, 14 Mar 2026 20:00:00 GMT"
    await run.day()
    run.world.date = World.date
    run.take_requests()
    options: dict[str, Any] = {"refresh": {"refresh": True}, "another plan": {"plan": PullPlan(days=3)}}.get(change, {})
    await run.day(**options)
    assert any("min_close_ts" in url for url in run.take_requests())


CURABLE: list[dict[str, Any]] = [{"status": "resolving"}, {"event_ticker": ...}, {"close_time": ...}]
PERMANENT: list[dict[str, Any]] = [
    {"result": {}},
    {"close_time": 5},
    {"close_time": "0000-01-01T00:00:00Z"},
    {"result": "yes", "last_price_dollars": "7"},
]


async def test_rejects_that_time_may_cure_keep_the_day_open_and_others_do_not(tmp_path: Path):
    for number, changes in enumerate((*CURABLE, *PERMANENT)):
        run = KalshiSession(tmp_path / str(number))
        run.add_reject(**changes)
        run.at(1)
        first = await run.day()
        assert is_final(first) == (changes in PERMANENT), changes
        assert first.rejects()["record_id"].to_list() == ["E-1"]
        run.take_requests()
        await run.day()
        assert run.take_requests() == ([] if changes in PERMANENT else ["/markets?tickers=E-1&limit=1000"]), changes
    del run.world.live[-1]["ticker"]
    run.at(1)
    assert not is_final(await run.day(refresh=True))
    run.take_requests()
    run.at(2)
    await run.day()
    assert any("min_close_ts" in url for url in run.take_requests()), "a reject without a ticker is requested with the whole day"


async def test_a_reject_that_turns_permanent_ends_the_looks_while_open_markets_are_followed(run: KalshiSession):
    run.add_reject()
    run.world.page_size = 10
    run.at(8)
    await run.day()
    run.take_requests()
    run.at(9)
    await run.day()
    assert run.take_requests() == ["/markets?tickers=B-1,C-1,E-1&limit=1000"]
    for ticker in run.two:
        run.settle(ticker)
    run.world.live[-1]["result"] = 5
    run.at(10)
    last = await run.day()
    assert is_final(last)
    assert last.rejects().select("record_id", "reason").rows() == [("E-1", "not text")]
    run.take_requests()
    run.at(40)
    await run.day()
    assert run.take_requests() == []


async def test_a_curable_reject_is_requested_again_until_day_45(tmp_path: Path):
    session = KalshiSession(tmp_path)
    session.add_reject()
    session.world.page_size = 100
    finals = []
    for age in (1, 2, 3, 44, 45, 46):
        session.at(age)
        session.take_requests()
        pull = await session.day()
        finals.append((is_final(pull), bool(session.take_requests())))
    assert finals == [(False, True)] * 4 + [(True, True), (True, False)]
    assert pull.rejects().height == 1


async def test_a_pull_counts_its_failures_by_kind(session: Callable[[World], KalshiSession]):
    world = ordinary()
    run = session(world)
    async with client(world) as venue:
        honest, busy = world._answer, iter([429, 429, 503])
        world._answer = lambda path, query: answer({}, status=status) if (status := next(busy, 0)) else honest(path, query)  # type: ignore[method-assign]
        pull = await pull_day(KalshiDay(venue, DAY, PLAN, None), run.store)
    row = pull.pulls().row(0, named=True)
    assert (row["failures_rate_limit"], row["failures_server"], row["attempts"] - row["requests"]) == (2, 1, 3)
    assert row["limited_seconds"] >= 0
