"""Markets that were open in the pull of their day are requested one by one, without another pull of the day."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pytest

from bellwether.tables.raw import KALSHI_MARKETS
from bellwether.venues.http.pages import DONE
from bellwether.venues.kalshi.pull import CandlePlan, DayPull
from bellwether.venues.wire.rejects import NOT_LISTED
from tests.unit.venues.test_pull import Session, everything, rows
from tests.venues.world import Killed, World, closing, ordinary

PROVENANCE = ("request", "page", "fetched_at", "known_at")
OPEN = {"status": "closed", "result": "", "settlement_value_dollars": None, "settlement_ts": None}


def unsettled() -> World:
    """The ordinary day, with two markets that have no result yet."""
    world = ordinary()
    world.live[2] |= OPEN
    world.live[4] |= OPEN
    return world


def settle(world: World, ticker: str) -> None:
    item = next(item for item in world.live if item["ticker"] == ticker)
    fresh = closing(ticker, item["close_time"])
    item.update({**fresh, "updated_time": "2026-03-21T00:00:00Z"})


@pytest.fixture
def run(tmp_path: Path) -> Session:
    return Session(unsettled(), tmp_path)


def take_requests(run: Session) -> list[str]:
    """Return the requests since the last call."""
    found = [url for url in run.world.asked if not url.startswith("/series")]
    run.world.asked.clear()
    return found


async def test_only_the_open_markets_are_asked_about_again(run: Session):
    assert not (await run.day()).markets_of_day.settled
    take_requests(run)
    settle(run.world, "B-1")
    second = await run.day()
    assert take_requests(run) == ["/markets?tickers=B-1,C-1&limit=1000"]
    assert second.requests == 1
    assert not second.markets_of_day.settled
    found = rows(KALSHI_MARKETS, second.markets())
    assert dict(found.select("ticker", "status").iter_rows()) == {
        "A-1": "finalized",
        "A-2": "finalized",
        "B-1": "finalized",
        "B-2": "finalized",
        "C-1": "closed",
    }


async def test_a_followed_day_has_the_rows_of_one_that_was_pulled_at_the_end(run: Session, tmp_path: Path):
    await run.day()
    for ticker in ("C-1", "B-1"):
        settle(run.world, ticker)
        followed = await run.day()
    fresh = await Session(run.world, tmp_path / "fresh").day()
    assert followed.markets_of_day.settled
    ours, theirs = everything(followed), everything(fresh)
    for name in ours:
        assert (
            ours[name]
            .drop(PROVENANCE)
            .sort(pl.all().exclude(pl.List))
            .equals(theirs[name].drop(PROVENANCE).sort(pl.all().exclude(pl.List)))
        )
    assert followed.pulls()["final"].item()
    take_requests(run)
    again = await run.day()
    assert (take_requests(run), again.requests) == ([], 0)
    assert all(frame.equals(ours[name]) for name, frame in everything(again).items()), "it is read back from the pages of both pulls"


async def test_a_later_answer_counts_although_the_venue_calls_both_equally_new(run: Session):
    await run.day()
    run.world.live[2] |= {"status": "finalized", "result": "yes", "settlement_value_dollars": "1.0000"}
    second = await run.day()
    assert rows(KALSHI_MARKETS, second.markets()).filter(ticker="B-1")["result"].to_list() == ["yes"]
    assert second.rejects().is_empty(), "what was said before is no contradiction"


async def test_a_day_is_followed_from_its_own_pull_however_often(run: Session):
    await run.day()
    for number in range(2, 5):
        pull = await run.day()
        assert pull.pull.folder.endswith(f"000{number}")
        assert pull.pull.base is not None
        assert pull.pull.base.folder.endswith("0001")
    removed = run.store.vacuum(timedelta(days=7), datetime.now(UTC) + timedelta(days=9))
    assert {name.split("/")[4] for name in removed.files} == {"0002", "0003"}
    assert len(rows(KALSHI_MARKETS, (await run.day()).markets())) == 5


async def test_a_killed_follow_is_gone_on_with(run: Session):
    run.world.live += [closing(f"E-{number:03}", "2026-03-14T15:00:00Z", **OPEN) for number in range(150)]
    run.world.page_size = 1000
    await run.day()
    run.world.kill_at = len(run.world.asked) + 2
    with pytest.raises(Killed):
        await run.day()
    run.world.kill_at = None
    take_requests(run)
    again = await run.day()
    assert again.requests == 1, "the first hundred were stored"
    assert again.pull.folder.endswith("0002")


async def test_a_market_that_the_venue_no_longer_lists_makes_the_day_be_pulled_whole(run: Session):
    await run.day()
    gone = next(item for item in run.world.live if item["ticker"] == "B-1")
    run.world.live.remove(gone)
    take_requests(run)
    second = await run.day()
    urls = take_requests(run)
    assert any("min_close_ts" in url for url in urls)
    assert "/markets?tickers=B-1&limit=1000" in urls, "the listing lacks it: it is requested by name"
    assert absent(second) == ["B-1"]
    assert not second.markets_of_day.settled
    third = await run.day()
    assert take_requests(run) == ["/markets?tickers=B-1,C-1&limit=1000"], "the day was pulled as a whole for it once"
    assert absent(third) == ["B-1"]
    run.world.live.append(gone | closing("B-1", gone["close_time"]))
    settle(run.world, "C-1")
    last = await run.day()
    assert (absent(last), last.markets_of_day.settled, last.pulls()["final"].item()) == ([], True, True)
    assert "B-1" in set(rows(KALSHI_MARKETS, last.markets())["ticker"])


async def test_a_market_missing_from_a_single_answer_by_ticker_loses_no_result(run: Session):
    for place in (2, 4):
        run.world.live[place] |= {"status": "finalized"}
    first = await run.day()
    assert set(first.rejects()["record_id"]) == {"B-1", "C-1"}
    for ticker in ("B-1", "C-1"):
        settle(run.world, ticker)
    run.world.unnamed = 3
    second = await run.day()
    assert len(rows(KALSHI_MARKETS, second.markets())) == 5
    assert second.rejects().is_empty()
    assert second.pulls()["final"].item()


async def test_a_market_that_a_new_pull_of_the_day_lacks_is_a_reject_until_it_is_back(run: Session):
    for place in (2, 4):
        settle(run.world, run.world.live[place]["ticker"])
    assert (await run.day()).pulls()["final"].item()
    gone = run.world.live.pop(0)
    refreshed = await run.day(refresh=True)
    assert absent(refreshed) == ["A-1"]
    assert not refreshed.pulls()["final"].item()
    assert absent(await run.day(refresh=True)) == ["A-1"], "it is known from its reject"
    again = everything(await run.day(today=date(2026, 3, 20)))
    assert again["rejects"]["record_id"].to_list() == ["A-1"], "read back from the stored pages"
    run.world.live.append(gone)
    back = await run.day()
    assert absent(back) == []
    assert len(rows(KALSHI_MARKETS, back.markets())) == 5


def absent(pull: DayPull) -> list[str]:
    """Return the markets that were requested by name and not listed."""
    return sorted(pull.rejects().filter(pl.col("reason") == NOT_LISTED)["record_id"])


async def test_a_market_that_moved_to_another_day_is_told(run: Session):
    await run.day()
    run.world.live[2] |= {"close_time": "2026-04-01T00:00:00Z", "updated_time": "2026-03-21T00:00:00Z"}
    second = await run.day()
    assert "B-1" not in set(rows(KALSHI_MARKETS, second.markets())["ticker"])
    (told,) = second.rejects().filter(pl.col("record_id") == "B-1").iter_rows(named=True)
    assert (told["field"], told["value"]) == ("close_time", "2026-04-01 00:00:00+00:00")
    assert "pull that day" in told["reason"]


def forget_complete(run: Session) -> None:
    """Change the manifest of the day's pull to that of an earlier version."""
    (path,) = run.folder.rglob(f"day/**/{DONE}")
    note: dict[str, Any] = orjson.loads(path.read_bytes())
    del note["complete"]
    path.write_bytes(orjson.dumps(note))


@pytest.mark.parametrize("change", ["refresh", "another plan", "not over", "an earlier version's note"])
async def test_a_day_is_pulled_whole_where_more_than_verdicts_is_wanted(run: Session, change: str):
    if change == "not over":
        run.world.date = "Sat, 14 Mar 2026 20:00:00 GMT"
    await run.day()
    run.world.date = World.date
    if change == "an earlier version's note":
        forget_complete(run)
    take_requests(run)
    options: dict[str, Any] = {"refresh": {"refresh": True}, "another plan": {"plan": CandlePlan(days=3)}}.get(change, {})
    await run.day(**options)
    assert any("min_close_ts" in url for url in take_requests(run))
