"""Rejects that a later answer may replace keep a day open, with growing intervals. Unparsable pages block nothing."""

from __future__ import annotations

from datetime import date, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest

from bellwether.errors import VenueError
from bellwether.tables.raw import KALSHI_ARCHIVE, KALSHI_CANDLES, KALSHI_EVENTS, KALSHI_MARKETS, KALSHI_SERIES
from bellwether.venues.kalshi.pull import archive, day_markets
from bellwether.venues.kalshi.pull.day import DayPull
from bellwether.venues.wire.rejects import UNPROCESSABLE
from tests.unit.venues.test_pull import Session, rows, tickers
from tests.venues.venue import answer
from tests.venues.world import DAY, Killed, World, after, archived, closing, ordinary

CURED = {"result": "yes", "settlement_value_dollars": "1.0000"}


def at(run: Session, age: int) -> date:
    """Set the venue's clock to this many days after the day, and return its date."""
    now = after(DAY, age) + timedelta(hours=3)
    run.world.date = format_datetime(now, usegmt=True)
    return now.date()


def with_reject(**changes: Any) -> World:
    """The ordinary day, and a rejected market that is alone in its event."""
    world = ordinary()
    world.live.append(closing("E-1", "2026-03-14T09:00:00Z", **({"result": ""} | changes)))
    return world


@pytest.fixture
def run(tmp_path: Path) -> Session:
    return Session(with_reject(), tmp_path)


def take_requests(run: Session) -> list[str]:
    """Return the requests since the last call."""
    found = list(run.world.asked)
    run.world.asked.clear()
    return found


def is_final(pull: DayPull) -> bool:
    return bool(pull.pulls()["final"].item())


@pytest.mark.parametrize(
    "changes",
    [
        {"result": ""},
        {"status": "resolving"},
        {"event_ticker": ...},
        {"close_time": ...},
    ],
    ids=repr,
)
async def test_what_has_not_come_yet_keeps_the_day_open_and_is_asked_for_again(changes: dict[str, Any], tmp_path: Path):
    run = Session(with_reject(**changes), tmp_path)
    at(run, 1)
    first = await run.day()
    assert (is_final(first), "E-1" in tickers(first)) == (False, False)
    take_requests(run)
    assert not is_final(await run.day())
    assert take_requests(run) == ["/markets?tickers=E-1&limit=1000"]


@pytest.mark.parametrize(
    "changes", [{"result": {}}, {"close_time": 5}, {"close_time": "0000-01-01T00:00:00Z"}, {"result": "yes", "last_price_dollars": "7"}]
)
async def test_what_can_never_be_right_does_not_keep_the_day_open(changes: dict[str, Any], tmp_path: Path):
    run = Session(with_reject(**changes), tmp_path)
    at(run, 1)
    first = await run.day()
    assert is_final(first)
    assert first.rejects()["record_id"].to_list() == ["E-1"]
    take_requests(run)
    await run.day()
    assert take_requests(run) == []


async def test_a_cured_reject_brings_its_market_event_and_candles(run: Session):
    at(run, 1)
    await run.day()
    run.world.live[-1].update(CURED)
    at(run, 2)
    second = await run.day()
    assert "E-1" in tickers(second)
    assert "EV-E" in set(rows(KALSHI_EVENTS, second.events())["event_ticker"])
    assert "E-1" in set(rows(KALSHI_CANDLES, second.candles())["ticker"])
    assert second.rejects().is_empty()
    assert is_final(second)
    take_requests(run)
    assert is_final(await run.day())
    assert take_requests(run) == []


async def test_a_reject_that_turns_permanent_ends_the_looks(run: Session):
    at(run, 1)
    await run.day()
    run.world.live[-1]["result"] = 5
    second = await run.day()
    assert is_final(second)
    assert second.rejects().select("record_id", "reason").rows() == [("E-1", "not text")]


async def test_the_rests_double_and_end_with_day_45(run: Session):
    looks = []
    for age in (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 44, 45, 46, 59):
        today = at(run, age)
        take_requests(run)
        pull = await run.day(today=today)
        if take_requests(run):
            looks.append(age)
    assert looks == [1, 2, 4, 8, 16, 32, 45]
    assert is_final(pull)
    assert pull.rejects()["reason"].to_list() == ["a settled market without a result"]


async def test_a_reject_without_a_ticker_has_the_whole_day_asked_for_again(tmp_path: Path):
    run = Session(with_reject(), tmp_path)
    del run.world.live[-1]["ticker"]
    at(run, 1)
    assert not is_final(await run.day())
    take_requests(run)
    await run.day(today=at(run, 2))
    assert any("min_close_ts" in url for url in take_requests(run))


async def test_an_open_market_is_followed_daily_whatever_the_rejects(run: Session):
    run.world.live[2] |= {"status": "closed", "result": "", "settlement_ts": None, "settlement_value_dollars": None}
    at(run, 8)
    await run.day()
    take_requests(run)
    await run.day(today=at(run, 9))
    assert take_requests(run) == ["/markets?tickers=B-1,E-1&limit=1000"]


def fail_for(monkeypatch: pytest.MonkeyPatch, marker: str) -> None:
    """Make the parser fail for every page that contains a text."""
    parse = day_markets.parse_markets

    def parse_or_fail(objects: list[Any], *args: Any, **options: Any) -> Any:
        if marker in str(objects):
            raise OverflowError(f"too large: {marker}")
        return parse(objects, *args, **options)

    monkeypatch.setattr(day_markets, "parse_markets", parse_or_fail)


async def test_a_page_that_cannot_be_processed_is_asked_for_again_and_then_set_aside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    run = Session(ordinary(), tmp_path)
    fail_for(monkeypatch, "'B-1'")
    at(run, 1)
    pull = await run.day()
    assert tickers(pull) == ["A-1", "A-2", "C-1"]
    whole = pull.rejects().filter(pl.col("reason") == UNPROCESSABLE)
    assert whole.height >= 1
    assert whole["value"].unique().to_list() == ["OverflowError: too large: 'B-1'"]
    listing = [url for url in take_requests(run) if "min_close_ts" in url]
    assert len(listing) == len(set(listing)) + 1, "the one page that failed was asked for twice"
    assert not is_final(pull)


async def test_a_stored_page_that_cannot_be_processed_is_replaced_by_what_the_venue_says_now(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    run = Session(ordinary(), tmp_path)
    run.world.live[2]["title"] = "BROKEN"
    run.world.kill_at = 6
    with pytest.raises(Killed):
        await run.day()
    run.world.kill_at = None
    run.world.live[2]["title"] = "Mended"
    fail_for(monkeypatch, "BROKEN")
    pull = await run.day()
    assert tickers(pull) == ["A-1", "A-2", "B-1", "B-2", "C-1"]
    assert pull.rejects().is_empty()
    assert rows(KALSHI_MARKETS, pull.markets()).filter(ticker="B-1")["title"].to_list() == ["Mended"]


async def test_refresh_takes_no_page_of_an_unfinished_pull(tmp_path: Path):
    run = Session(ordinary(), tmp_path)
    run.world.kill_at = 6
    with pytest.raises(Killed):
        await run.day()
    run.world.kill_at = None
    run.world.live[0]["title"] = "Corrected"
    pull = await run.day(refresh=True)
    assert rows(KALSHI_MARKETS, pull.markets()).filter(ticker="A-1")["title"].to_list() == ["Corrected"]


async def test_a_cutoff_that_is_no_time_blocks_only_until_the_venue_mends_it(tmp_path: Path):
    run = Session(ordinary(), tmp_path)
    run.world.cutoff, cutoff = "0000-01-01T00:00:00Z", run.world.cutoff
    with pytest.raises(VenueError, match="market_settled_ts"):
        await run.day()
    run.world.cutoff = cutoff
    assert len(tickers(await run.day())) == 5


async def test_a_series_of_another_page_that_says_otherwise_is_a_reject(tmp_path: Path):
    class Twice(World):
        def _answer(self, path: str, query: httpx.QueryParams) -> httpx.Response:
            titles = ("A", "A", "B") if "cursor" in query else ("A",)
            return answer({"series": [{"ticker": "S", "title": title} for title in titles], "cursor": "" if "cursor" in query else "1"})

    pull = await Session(Twice(), tmp_path).series()
    assert rows(KALSHI_SERIES, pull.series())["title"].to_list() == ["A"]
    assert pull.rejects().select("page", "ordinal", "reason").rows() == [(1, 2, "another series of the same ticker says otherwise")]


async def test_a_page_of_the_archive_that_cannot_be_processed_is_set_aside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    parse = archive.parse_markets

    def parse_or_fail(objects: list[Any], *args: Any, **options: Any) -> Any:
        if "A-1" in str(objects):
            raise OverflowError("too large")
        return parse(objects, *args, **options)

    monkeypatch.setattr(archive, "parse_markets", parse_or_fail)
    run = Session(archived(), tmp_path)
    pull = await run.archive()
    assert rows(KALSHI_ARCHIVE, pull.markets())["ticker"].to_list() == ["Z-1"]
    assert pull.rejects()["reason"].to_list() == [UNPROCESSABLE]
    assert sum("/historical/markets" in url and "cursor" not in url for url in run.world.asked) == 2


@pytest.mark.parametrize("value", [b"9" * 6000, b"[" * 200_000 + b"]" * 200_000], ids=["6,000 digits", "200,000 levels"])
async def test_a_value_that_no_parser_reads_costs_its_market_alone_and_no_second_request(value: bytes, tmp_path: Path):
    class Odd(World):
        def __call__(self, request: httpx.Request) -> httpx.Response:
            response = super().__call__(request)
            body = response.content.replace(b'"ticker":"B-1"', b'"zz":' + value + b',"ticker":"B-1"')
            return httpx.Response(response.status_code, content=body, headers={"Date": self.date})

    run = Session(Odd(**{name: getattr(ordinary(), name) for name in ("live", "archive", "nested")}), tmp_path)
    at(run, 1)
    pull = await run.day()
    assert tickers(pull) == ["A-1", "A-2", "B-2", "C-1"]
    assert set(pull.rejects().select("table", "record_id").rows()) == {("raw/kalshi_markets", "B-1")}
    assert len(run.world.asked) == len(set(run.world.asked))
    assert is_final(pull), "the value can never be right"
