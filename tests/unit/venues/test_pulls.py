"""What pulls of a day of both venues have in common, from a small venue each: contents, reuse, open markets and rejects that are requested again."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest

from tests.unit.venues.sessions import PROVENANCE, SESSIONS, KalshiSession, PolymarketSession, Session, is_final
from tests.unit.venues.world import DAY

Venue = KalshiSession | PolymarketSession


@pytest.fixture(params=SESSIONS)
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Session:
    return SESSIONS[request.param](tmp_path)


def ids(session: Session, frames: dict[str, pl.DataFrame], name: str) -> list[str]:
    return sorted(frames[name][session.names[name]].unique())


async def test_a_day_holds_exactly_its_markets_with_their_events_and_prices(session: Venue) -> None:
    pull = await session.day()
    found = session.everything(pull)
    priced = "candles" if "candles" in found else "prices"
    assert found["markets"][session.names["markets"]].sort().to_list() == list(session.markets)
    assert ids(session, found, "events") == list(session.events)
    assert ids(session, found, priced) == list(session.markets)
    assert found["rejects"].is_empty()
    assert {frame["day"].unique().item() for frame in found.values() if frame.height} == {DAY}
    ends = found["markets"].select(session.names["markets"], end="close_time" if priced == "candles" else "closed_at")
    at = "end_at" if priced == "candles" else "at"
    joined = found[priced].join(ends, on=session.names["markets"])
    assert joined.filter(~pl.col(at).is_between(pl.col("end") - timedelta(days=2), pl.col("end"))).is_empty()
    assert is_final(pull)


async def test_a_finished_final_day_is_taken_up_without_any_request_and_refreshed_beside_it(session: Venue) -> None:
    first = await session.day()
    before = session.everything(first)
    session.take_requests()
    again = await session.day()
    assert (session.take_requests(), again.requests) == ([], 0)
    assert all(frame.equals(before[name]) for name, frame in session.everything(again).items())
    assert again.pulls().equals(first.pulls())
    stored = {path: path.read_bytes() for path in session.folder.rglob("*") if path.is_file()}
    second = await session.day(refresh=True)
    assert (first.pull.folder[-4:], second.pull.folder[-4:]) == ("0001", "0002")
    assert second.requests > 0
    assert {path: path.read_bytes() for path in stored} == stored


@pytest.mark.parametrize(("now", "over"), [("Sun, 15 Mar 2026 00:00:00 GMT", True), ("Sat, 14 Mar 2026 23:59:59 GMT", False)])
async def test_a_day_is_over_from_its_last_instant_on(session: Venue, now: str, over: bool) -> None:
    session.world.date = now
    assert is_final(await session.day()) is over


async def test_an_event_that_the_venue_does_not_return_is_a_reject_and_its_markets_stay(session: Venue) -> None:
    lost = session.lose_event()
    found = session.everything(await session.day())
    assert found["rejects"].select("table", "record_id").rows() == [(f"raw/{session.venue}_events", lost)]
    assert ids(session, found, "markets") == list(session.markets)
    assert ids(session, found, "events") == [event for event in session.events if event != lost]


async def test_only_open_markets_are_requested_again_until_the_day_equals_one_pulled_at_the_end(session: Venue, tmp_path: Path) -> None:
    session.open_two()
    assert not is_final(await session.day())
    session.take_requests()
    session.settle(session.two[0])
    second = await session.day()
    urls = session.take_requests()
    if session.venue == "kalshi":
        assert urls == ["/markets?tickers=B-1,C-1&limit=1000"]
    else:
        assert [url for url in urls if "keyset" in url] == ["/markets/keyset?closed=true&id=11&id=12&include_tag=true&limit=100"]
        assert [url.rsplit("/", 1)[-1] for url in urls if "keyset" not in url] == [f"0x{number:064x}" for number in (11, 12)]
    assert (second.requests, is_final(second)) == (len(urls), False), "the other one is still open"
    session.settle(session.two[1])
    followed = await session.day()
    fresh = await type(session)(tmp_path / "fresh", session.world).day()
    assert is_final(followed)
    ours, theirs = session.everything(followed), session.everything(fresh)
    for name in ours:
        key = [*(["token_id"] if name == "winners" else []), *({"candles": ["end_at"], "prices": ["at"]}.get(name, []))]
        order = [session.names.get(name, "record_id"), *key]
        assert ours[name].drop(PROVENANCE).sort(order).equals(theirs[name].drop(PROVENANCE).sort(order)), name
    session.take_requests()
    again = await session.day()
    assert (session.take_requests(), again.requests) == ([], 0)
    assert all(frame.equals(ours[name]) for name, frame in session.everything(again).items()), "it is read back from the pages of all pulls"


async def test_a_cured_reject_brings_its_market_event_and_prices(session: Venue) -> None:
    market, event = session.add_reject()
    session.world.page_size = 100
    session.at(1)
    first = await session.day()
    assert not is_final(first)
    assert market not in ids(session, session.everything(first), "markets")
    session.take_requests()
    assert not is_final(await session.day())
    asked = session.take_requests()
    assert asked == ["/markets?tickers=E-1&limit=1000"] or {url.split("include_tag")[0] for url in asked} == {
        "/markets/keyset?closed=true&id=51&"
    }
    session.cure()
    session.at(2)
    cured = await session.day()
    found = session.everything(cured)
    assert market in ids(session, found, "markets")
    assert event in ids(session, found, "events")
    assert market in ids(session, found, "candles" if "candles" in found else "prices")
    assert found["rejects"].is_empty()
    assert is_final(cured)
    session.take_requests()
    assert is_final(await session.day())
    assert session.take_requests() == []
