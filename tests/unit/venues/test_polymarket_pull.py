"""Pulls of days of Polymarket: windows, prices, Protocol V2, closings without a scheduled end, and odd answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest

from bellwether.errors import VenueError
from bellwether.tables.raw import POLYMARKET_MARKETS, POLYMARKET_PRICES
from bellwether.venues.day import PullPlan
from bellwether.venues.polymarket.pull import build_price_calls
from bellwether.venues.polymarket.resolution import build_resolutions
from tests.unit.venues.polymarket_objects import event
from tests.unit.venues.polymarket_world import World, ending, ordinary, token
from tests.unit.venues.sessions import PROVENANCE, PolymarketSession, is_final, rows
from tests.unit.venues.venue import answer
from tests.unit.venues.world import DAY

OURS = ["11", "12", "21", "22", "31"]


@pytest.fixture
def session(tmp_path: Path) -> Callable[[World], PolymarketSession]:
    return lambda world: PolymarketSession(tmp_path, world)


async def test_open_and_closed_markets_are_asked_for_by_their_scheduled_end_the_open_ones_first(
    session: Callable[[World], PolymarketSession],
):
    run = session(ordinary())
    await run.day()
    asked = [url for url in run.world.asked if url.startswith("/markets/keyset") and "after_cursor" not in url and "end_date_min" in url]
    window = "end_date_min=2026-03-13T23%3A59%3A59Z&end_date_max=2026-03-15T00%3A00%3A00Z&include_tag=true&limit=100"
    assert list(dict.fromkeys(asked)) == [f"/markets/keyset?closed={closed}&{window}" for closed in ("false", "true")]


async def test_where_yes_stands_second_its_token_is_priced(session: Callable[[World], PolymarketSession]):
    world = World(markets=[ending(11, "2026-03-14T12:00:00Z", outcomes='["No", "Yes"]')], events={"1": event(1)})
    found = everything(await session(world).day())
    assert found["prices"]["token_id"].unique().to_list() == [token(11, 1)]


async def test_a_market_that_closes_between_the_two_listings_counts_once_and_as_closed(session: Callable[[World], PolymarketSession]):
    world = ordinary()
    before = world.markets[1] | {"closed": False, "umaResolutionStatus": "proposed", "outcomePrices": '["0.9", "0.1"]'}
    world.markets.append(before)
    found = everything(await session(world).day())
    assert found["markets"].filter(market_id="12").select("closed", "uma_resolution_status").rows() == [(True, "resolved")]


@pytest.mark.parametrize(
    "unsettled",
    [
        {"closed": False, "closedTime": ..., "umaResolutionStatus": ..., "umaResolutionStatuses": "[]", "outcomePrices": '["0.4", "0.6"]'},
        {"umaResolutionStatus": "disputed"},
        {"outcomePrices": '["0", "1"]'},
    ],
    ids=["open", "disputed", "contradicted by the CLOB"],
)
async def test_a_day_on_which_more_is_expected_is_pulled_anew_next_time(
    session: Callable[[World], PolymarketSession], unsettled: dict[str, Any]
):
    world = ordinary()
    settled, world.markets[0] = world.markets[0], ending(11, "2026-03-14T00:00:00Z", **unsettled)
    run = session(world)
    assert not is_final(await run.day())
    world.markets[0] = settled
    second = await run.day()
    assert (second.pull.folder[-4:], is_final(second)) == ("0002", True)
    assert (await run.day()).requests == 0


def test_a_long_time_is_asked_for_in_spans_of_at_most_fifteen_days():
    close = datetime(2026, 3, 14, 12, tzinfo=UTC)
    calls = build_price_calls(PullPlan(days=40), pl.DataFrame({"market_id": ["1"], "price_token": ["5"], "close_time": [close]}))
    spans = [(int(dict(call.params)["startTs"]), int(dict(call.params)["endTs"])) for call in calls]
    assert [(end - start) // 86400 for start, end in spans] == [15, 15, 10]
    assert spans[-1][1] == int(close.timestamp())
    assert all(before[1] == after[0] for before, after in pairwise(spans))


async def test_a_price_at_the_seam_of_two_spans_counts_once(session: Callable[[World], PolymarketSession]):
    world = World(markets=[ending(11, "2026-03-14T12:00:00Z")], events={"1": event(1)})
    found = everything(await session(world).day(plan=PullPlan(days=31)))
    assert found["prices"].height == len(found["prices"].unique("at")) > 60


async def test_what_is_asked_for_in_vain_is_a_reject(session: Callable[[World], PolymarketSession]):
    world = ordinary()
    del world.events["2"]
    world.unknown_to_clob = frozenset({"31"})
    found = everything(await session(world).day())
    told = dict(found["rejects"].select("record_id", "reason").iter_rows())
    assert told == {
        "2": "the venue was asked for this event and returned none",
        f"0x{31:064x}": "the CLOB does not know this market: market not found",
    }
    assert sorted(found["markets"]["market_id"]) == OURS


async def test_a_page_that_lists_nothing_while_its_cursor_goes_on_is_told_and_the_day_is_not_final(
    session: Callable[[World], PolymarketSession],
):
    world = ordinary()
    honest = world._gamma

    def dropping(path: str, query: httpx.QueryParams) -> httpx.Response:
        response = honest(path, query)
        if path == "/markets/keyset" and query.get("after_cursor") == "2":
            return answer({"markets": [], "next_cursor": json.loads(response.content)["next_cursor"]})
        return response

    world._gamma = dropping  # type: ignore[method-assign]
    pull = await session(world).day()
    (reject,) = everything(pull)["rejects"]["reason"]
    assert "the page lists nothing although its cursor goes on" in reject
    assert not is_final(pull)


def ending_v2(number: int, end: str, **changes: Any) -> dict[str, Any]:
    """Return a Protocol V2 market that resolved yes, with V2 token ids, a short condition id, and no status of UMA."""
    ids = [token(number, 0), token(number, 1)]
    fields = {"version": "v2", "positionIds": ids, "clobTokenIds": json.dumps(["7" * 76, "8" * 76]), "resolutionStatus": "resolved"}
    uma = {"umaResolutionStatus": ..., "umaResolutionStatuses": ..., "umaEndDate": ...}
    return ending(number, end, **{"conditionId": f"0x01{number:060x}", **fields, **uma, **changes})


async def test_v2_markets_have_prices_winners_and_outcomes_beside_v1_markets(session: Callable[[World], PolymarketSession]):
    world = ordinary()
    world.markets += [ending_v2(51, "2026-03-14T10:00:00Z"), ending_v2(52, "2026-03-14T11:00:00Z", outcomePrices='["0", "1"]')]
    world.markets.append(ending_v2(53, "2026-03-14T11:30:00Z", positionIds="[]"))
    world.winners["52"] = "No"
    run = session(world)
    pull = await run.day()
    found = everything(pull)
    assert sorted(found["markets"]["market_id"]) == [*OURS, "51", "52"]
    assert found["rejects"].select("record_id", "field").rows() == [("53", "positionIds")]
    prices = dict(found["prices"].select("market_id", "token_id").unique().iter_rows())
    assert (prices["51"], prices["52"], prices["11"]) == (token(51, 0), token(52, 0), token(11, 0))
    assert not any("7" * 76 in url for url in run.world.asked), "the other ids are those of no order book"
    assert {f"0x01{number:060x}00" for number in (51, 52)} < set(found["winners"]["condition_id"])
    ends = build_resolutions(found["markets"].lazy(), found["winners"].lazy())
    decided = {row["market_id"]: (row["outcome"], row["rule"], row["final"]) for row in ends.iter_rows(named=True)}
    assert decided["51"] == ("yes", "winner flag and prices", True)
    assert decided["52"] == ("no", "winner flag and prices", True)
    assert decided["11"] == ("yes", "winner flag and prices", True)


async def test_a_market_that_is_not_deployed_is_a_row_without_calls(session: Callable[[World], PolymarketSession]):
    world = World(markets=[ending_v2(51, "2026-03-14T10:00:00Z", conditionId="", positionIds=[], closed=False)], events={"1": event(1)})
    run = session(world)
    found = everything(await run.day())
    assert (found["markets"].height, found["rejects"].height, found["prices"].height) == (1, 0, 0)
    assert not any(url.startswith(("/prices-history", "/markets/0x")) for url in run.world.asked)


async def test_a_traded_market_without_hourly_prices_has_those_of_twelve_hours(session: Callable[[World], PolymarketSession]):
    world = ordinary()
    world.coarse_only, world.unpriced = frozenset({token(11, 0), token(21, 0)}), frozenset({token(12, 0), token(22, 0)})
    world.markets = [item | {"volume": "0", "volumeNum": 0} if item["id"] == "22" else item for item in world.markets]
    run = session(world)
    pull = await run.day()
    found = everything(pull)
    periods = dict(found["prices"].select("market_id", "period_minutes").unique().iter_rows())
    assert periods == {"11": 720, "21": 720, "31": 60}
    coarse = [url for url in world.asked if "fidelity=720" in url]
    assert [name for name in OURS if any(token(int(name), 0) in url for url in coarse)] == ["11", "12", "21"], "22 was never traded"
    (gap,) = found["rejects"].iter_rows(named=True)
    assert (gap["table"], gap["record_id"]) == ("raw/polymarket_prices", token(12, 0))
    assert gap["reason"] == "traded, but the venue has no prices every 60 or 720 minutes"
    asked = len(world.asked)
    again = everything(await run.day())
    assert len(world.asked) == asked and all(again[name].equals(frame) for name, frame in found.items())


@pytest.mark.parametrize(
    "earlier",
    [
        {"conditionId": "", "positionIds": []},
        {"version": "v1", "conditionId": "0x" + "5" * 64, "clobTokenIds": json.dumps([token(59, 0), token(59, 1)])},
    ],
    ids=["not deployed", "another protocol"],
)
async def test_a_market_whose_trading_ids_come_later_has_its_prices(session: Callable[[World], PolymarketSession], earlier: dict[str, Any]):
    kept, end = ending(11, "2026-03-14T12:00:00Z"), "2026-03-14T10:00:00Z"
    world = World(markets=[kept, ending_v2(51, end, **earlier, closed=False, resolutionStatus="active")], events={"1": event(1)})
    run = session(world)
    first = await run.day()
    assert not is_final(first)
    world.markets = [kept, ending_v2(51, end)]
    found = everything(await run.day())
    assert dict(found["prices"].select("market_id", "token_id").unique().iter_rows()) == {"11": token(11, 0), "51": token(51, 0)}
    assert found["rejects"].is_empty()
    again = await run.day()
    assert is_final(again)
    assert (await run.day()).requests == 0, "nothing is left to do"


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
    run = PolymarketSession(tmp_path, closings())
    found = everything(await run.day())
    assert found["markets"].filter(pl.col("market_id").is_in(["21", "22", "23", "24"]))["market_id"].sort().to_list() == ["21", "22"]
    assert found["markets"].filter(market_id="21").select("end_time", "closed_at").rows() == [(datetime(2026, 3, 14, 19, tzinfo=UTC),) * 2]
    assert set(found["markets"]["day"]) == {DAY}
    assert {"21", "22"} <= set(found["prices"]["market_id"])
    assert found["rejects"].is_empty()


async def test_closings_are_not_listed_beyond_the_day_nor_long_after_it(tmp_path: Path):
    run = PolymarketSession(tmp_path, closings())
    run.world.markets += [ending(100 + number, "2026-03-01T12:00:00Z") for number in range(50)]
    await run.day()
    assert sum("closedTime" in url for url in run.world.asked) <= 6
    run.world.date = World.date
    run.world.asked.clear()
    await run.day(refresh=True)
    assert not any("closedTime" in url for url in run.world.asked)


async def test_a_refresh_after_three_days_keeps_what_was_found_by_its_closing(tmp_path: Path):
    endless = ending(61, "2026-03-14T20:00:00Z", of=1)
    del endless["endDate"]
    world = ordinary()
    world.markets += [endless, ending(62, "2027-12-31T12:00:00Z", of=2, closedTime="2026-03-14 09:00:00+00")]
    world.date = NEXT_DAY
    run = PolymarketSession(tmp_path, world)
    before = rows(POLYMARKET_MARKETS, (await run.day()).markets())
    world.date = "Fri, 27 Mar 2026 08:30:00 GMT"
    refreshed = await run.day(refresh=True)
    assert {"61", "62"} <= set(before["market_id"])
    ours, theirs = (found.drop(PROVENANCE).sort("market_id") for found in (rows(POLYMARKET_MARKETS, refreshed.markets()), before))
    assert ours.equals(theirs)
    assert refreshed.rejects().is_empty()
    again = await run.day()
    assert (again.requests, rows(POLYMARKET_MARKETS, again.markets()).drop(PROVENANCE).sort("market_id").equals(theirs)) == (0, True)


everything = PolymarketSession.everything


async def test_prices_are_those_of_yes_or_of_the_first_name(session: Callable[[World], PolymarketSession]):
    found = everything(await session(ordinary()).day())
    assert dict(found["prices"].select("market_id", "token_id").unique().iter_rows()) == {name: token(int(name), 0) for name in OURS}
    assert found["prices"]["price"].unique().to_list() == [Decimal("0.25")]


async def test_prices_of_another_shape_are_requested_again_and_then_fail_the_day(tmp_path: Path):
    run = PolymarketSession(tmp_path)
    usual = run.world._clob

    def odd(path: str, query: httpx.QueryParams) -> httpx.Response:
        is_odd = path == "/prices-history" and query["market"] == token(12, 0)
        return answer({"error": "?"}) if is_odd else usual(path, query)

    run.world._clob = odd
    with pytest.raises(VenueError, match="HTTP 200 without 'history'"):
        await run.day()
    run.world._clob = usual
    assert set(rows(POLYMARKET_PRICES, (await run.day()).prices())["market_id"]) == set(OURS)
