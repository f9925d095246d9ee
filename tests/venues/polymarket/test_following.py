"""Markets that lacked a verdict when their day was pulled are followed one by one; the day is not pulled again."""

from __future__ import annotations

from pathlib import Path

import pytest

from bellwether.tables.raw import POLYMARKET_MARKETS
from tests.venues.polymarket.test_pull import Session, everything, rows
from tests.venues.polymarket.world import World, ordinary
from tests.venues.world import Killed

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


def asked(run: Session) -> list[str]:
    found = list(run.world.asked)
    run.world.asked.clear()
    return found


async def test_only_the_markets_without_a_verdict_are_asked_about_again(run: Session):
    assert not (await run.day()).summary()["final"]
    asked(run)
    settle(run.world, 0)
    second = await run.day()
    urls = asked(run)
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
    asked(run)
    again = await run.day()
    assert (asked(run), again.requests) == ([], 0)
    assert all(frame.equals(ours[name]) for name, frame in everything(again).items()), "it is read back from the pages of both pulls"


async def test_what_stays_open_is_asked_for_among_the_open_ones(run: Session):
    await run.day()
    second = await run.day()
    found = rows(POLYMARKET_MARKETS, second.markets())
    assert found.height == 5
    assert found.filter(~found["closed"])["market_id"].to_list() == [run.world.markets[0]["id"]]


async def test_a_killed_follow_is_gone_on_with(run: Session):
    await run.day()
    settle(run.world, 0)
    before = len(run.world.asked)
    run.world.kill_at = before + 3
    with pytest.raises(Killed):
        await run.day()
    run.world.kill_at = None
    again = await run.day()
    assert 0 < again.requests < 3
    assert again.pull.folder.endswith("0002")
