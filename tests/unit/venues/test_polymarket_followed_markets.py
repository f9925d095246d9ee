"""Markets without a resolution in the pull of their day are requested one by one, without another pull of the day."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import polars as pl
import pytest

from bellwether.tables.raw import POLYMARKET_MARKETS
from tests.unit.venues.test_polymarket_pull import DAY, Session, everything, rows
from tests.venues.polymarket.world import World, ending, ordinary

PROVENANCE = ("request", "page", "fetched_at", "known_at")
OPEN = {"closed": False, "umaResolutionStatus": None, "umaResolutionStatuses": "[]", "outcomePrices": '["0.4", "0.6"]'}


@pytest.fixture
def run(tmp_path: Path) -> Session:
    world = ordinary()
    world.markets[0] |= OPEN
    world.markets[1] |= {"umaResolutionStatus": "disputed"}
    return Session(world, tmp_path)


def settle(world: World, place: int) -> None:
    world.markets[place] |= {"closed": True, "umaResolutionStatus": "resolved", "outcomePrices": '["1", "0"]'}


def take_requests(run: Session) -> list[str]:
    found = list(run.world.asked)
    run.world.asked.clear()
    return found


async def test_only_the_markets_without_a_verdict_are_asked_about_again(run: Session):
    assert not (await run.day()).summary()["final"]
    take_requests(run)
    settle(run.world, 0)
    second = await run.day()
    urls = take_requests(run)
    ids = [run.world.markets[place]["id"] for place in (0, 1)]
    conditions = sorted(run.world.markets[place]["conditionId"] for place in (0, 1))
    assert [url for url in urls if "keyset" in url and "limit=1&" not in f"{url}&"] == [
        f"/markets/keyset?closed=true&id={ids[0]}&id={ids[1]}&include_tag=true&limit=100"
    ]
    assert sorted(url.rsplit("/", 1)[-1] for url in urls if "keyset" not in url) == conditions
    assert second.requests == 3
    assert not second.summary()["final"], "one is disputed"


async def test_a_followed_day_has_the_rows_of_one_that_was_pulled_at_the_end(run: Session, tmp_path: Path):
    await run.day()
    for place in (1, 0):
        settle(run.world, place)
        followed = await run.day()
    fresh = await Session(run.world, tmp_path / "fresh").day()
    assert followed.summary()["final"]
    ours, theirs = everything(followed), everything(fresh)
    for name in ("markets", "events", "winners", "rejects"):
        key = {"markets": "market_id", "events": "event_id", "winners": "token_id", "rejects": "record_id"}[name]
        assert ours[name].drop(PROVENANCE).sort(key).equals(theirs[name].drop(PROVENANCE).sort(key)), name
    take_requests(run)
    again = await run.day()
    assert (take_requests(run), again.requests) == ([], 0)
    assert all(frame.equals(ours[name]) for name, frame in everything(again).items()), "it is read back from the pages of both pulls"


#: The morning after the day of these tests.
NEXT_DAY = "Sun, 15 Mar 2026 08:30:00 GMT"


def closings() -> World:
    """The ordinary day, markets that closed on it but have another scheduled day, and markets that the day must not contain."""
    world = ordinary()
    endless = ending(21, "2026-03-14T20:00:00Z", of=1)
    del endless["endDate"]
    distant = ending(22, "2027-12-31T12:00:00Z", of=2, closedTime="2026-03-14 09:00:00+00")
    soon = ending(23, "2026-04-01T12:00:00Z", of=2, closedTime="2026-03-14 10:00:00+00")
    earlier = ending(24, "2027-12-31T12:00:00Z", of=2, closedTime="2026-03-13 09:00:00+00")
    world.markets += [endless, distant, soon, earlier]
    world.date = NEXT_DAY
    return world


async def test_markets_without_an_end_or_with_a_distant_one_are_found_by_their_closing(tmp_path: Path):
    run = Session(closings(), tmp_path)
    found = everything(await run.day())
    assert found["markets"].filter(pl.col("market_id").is_in(["21", "22", "23", "24"]))["market_id"].sort().to_list() == ["21", "22"]
    assert found["markets"].filter(market_id="21").select("end_time", "closed_at").rows() == [(datetime(2026, 3, 14, 19, tzinfo=UTC),) * 2]
    assert set(found["markets"]["day"]) == {DAY}
    assert {"21", "22"} <= set(found["prices"]["market_id"])
    assert found["rejects"].is_empty()


async def test_closings_are_not_listed_beyond_the_day_nor_long_after_it(tmp_path: Path):
    run = Session(closings(), tmp_path)
    run.world.markets += [ending(100 + number, "2026-03-01T12:00:00Z") for number in range(50)]
    await run.day()
    assert sum("closedTime" in url for url in run.world.asked) <= 6
    run.world.date = World.date
    run.world.asked.clear()
    await run.day(refresh=True)
    assert not any("closedTime" in url for url in run.world.asked)


async def test_a_market_without_an_end_is_followed_by_the_day_of_its_closing(tmp_path: Path):
    run = Session(closings(), tmp_path)
    run.world.markets[-4] |= {"umaResolutionStatus": "disputed"}
    assert not (await run.day()).summary()["final"]
    run.world.markets[-4] |= {"umaResolutionStatus": "resolved"}
    second = await run.day()
    assert second.summary()["final"]
    assert everything(second)["markets"].filter(market_id="21")["uma_resolution_status"].to_list() == ["resolved"]
    assert everything(await run.day())["markets"].height == everything(second)["markets"].height


async def test_a_market_that_its_closing_day_has_is_not_of_the_day_of_its_distant_end(tmp_path: Path):
    run = Session(closings(), tmp_path)
    await run.day()
    run.world.date = "Sat, 01 Jan 2028 08:30:00 GMT"
    later = everything(await run.day(date(2027, 12, 31)))
    assert later["markets"]["market_id"].to_list() == ["24"], "the closing of the other was never listed"


async def test_a_refresh_after_three_days_keeps_what_was_found_by_its_closing(tmp_path: Path):
    endless = ending(61, "2026-03-14T20:00:00Z", of=1)
    del endless["endDate"]
    world = ordinary()
    world.markets += [endless, ending(62, "2027-12-31T12:00:00Z", of=2, closedTime="2026-03-14 09:00:00+00")]
    world.date = NEXT_DAY
    run = Session(world, tmp_path)
    before = rows(POLYMARKET_MARKETS, (await run.day()).markets())
    world.date = "Fri, 27 Mar 2026 08:30:00 GMT"
    refreshed = await run.day(refresh=True)
    assert {"61", "62"} <= set(before["market_id"])
    ours, theirs = (found.drop(PROVENANCE).sort("market_id") for found in (rows(POLYMARKET_MARKETS, refreshed.markets()), before))
    assert ours.equals(theirs)
    assert refreshed.rejects().is_empty()
    again = await run.day()
    assert (again.requests, rows(POLYMARKET_MARKETS, again.markets()).drop(PROVENANCE).sort("market_id").equals(theirs)) == (0, True)
