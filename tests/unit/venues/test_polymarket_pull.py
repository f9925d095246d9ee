"""Pulls of days of Polymarket, from a small venue and from the sandbox."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest

from bellwether.lake.storage import open_storage
from bellwether.tables.raw import (
    POLYMARKET_EVENTS,
    POLYMARKET_MARKETS,
    POLYMARKET_PRICES,
    POLYMARKET_REJECTS,
    POLYMARKET_WINNERS,
)
from bellwether.venues.http.pages import PageStore
from bellwether.venues.polymarket.pull import DayPull, PricePlan, pull_day
from bellwether.venues.polymarket.resolution import build_resolutions
from tests.unit.venues.test_pull import rows
from tests.venues.polymarket.clients import clob, gamma
from tests.venues.polymarket.objects import event
from tests.venues.polymarket.world import World, ending, ordinary, token
from tests.venues.venue import answer

DAY = date(2026, 3, 14)
PLAN = PricePlan(days=2)
OURS = ["11", "12", "21", "22", "31"]


class Session:
    """Successive processes that pull from one venue into one store."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world = world
        self.folder = folder

    @property
    def store(self) -> PageStore:
        return PageStore(open_storage(str(self.folder)), venue="polymarket")

    async def day(self, day: date = DAY, *, plan: PricePlan = PLAN, store: PageStore | None = None, **options: Any) -> DayPull:
        async with gamma(self.world) as first, clob(self.world) as second:
            return await pull_day(first, second, store or self.store, day, plan=plan, **options)


@pytest.fixture
def session(tmp_path: Path) -> Callable[[World], Session]:
    return lambda world: Session(world, tmp_path)


def everything(pull: DayPull) -> dict[str, pl.DataFrame]:
    return {
        "markets": rows(POLYMARKET_MARKETS, pull.markets()),
        "events": rows(POLYMARKET_EVENTS, pull.events()),
        "winners": rows(POLYMARKET_WINNERS, pull.winners()),
        "prices": rows(POLYMARKET_PRICES, pull.prices()),
        "rejects": rows(POLYMARKET_REJECTS, [pull.rejects()]),
    }


async def test_a_day_holds_exactly_the_markets_that_were_to_end_on_it(session: Callable[[World], Session]):
    pull = await session(ordinary()).day()
    found = everything(pull)
    assert sorted(found["markets"]["market_id"]) == OURS
    assert sorted(found["events"]["event_id"]) == ["1", "2", "3"]
    assert set(found["winners"]["condition_id"]) == set(found["markets"]["condition_id"])
    assert sorted(found["prices"]["market_id"].unique()) == OURS
    assert found["rejects"].is_empty()
    assert {frame["day"].unique().item() for frame in found.values() if frame.height} == {DAY}
    assert pull.summary() == {"pull": pull.pull.folder, "requests": pull.requests, "markets": 5, "final": True}


async def test_open_and_closed_markets_are_asked_for_by_their_scheduled_end_the_open_ones_first(session: Callable[[World], Session]):
    run = session(ordinary())
    await run.day()
    asked = [url for url in run.world.asked if url.startswith("/markets/keyset") and "after_cursor" not in url and "end_date_min" in url]
    window = "end_date_min=2026-03-13T23%3A59%3A59Z&end_date_max=2026-03-15T00%3A00%3A00Z&include_tag=true&limit=100"
    assert list(dict.fromkeys(asked)) == [f"/markets/keyset?closed={closed}&{window}" for closed in ("false", "true")]


async def test_prices_are_those_of_yes_or_of_the_first_name_before_the_earlier_end(session: Callable[[World], Session]):
    found = everything(await session(ordinary()).day())
    joined = found["prices"].join(found["markets"].select("market_id", "closed_at"), on="market_id")
    assert joined.filter(~pl.col("at").is_between(pl.col("closed_at") - timedelta(days=2), pl.col("closed_at"))).is_empty()
    assert dict(found["prices"].select("market_id", "token_id").unique().iter_rows()) == {name: token(int(name), 0) for name in OURS}
    assert found["prices"]["price"].unique().to_list() == [Decimal("0.25")]


async def test_where_yes_stands_second_its_token_is_priced(session: Callable[[World], Session]):
    world = World(markets=[ending(11, "2026-03-14T12:00:00Z", outcomes='["No", "Yes"]')], events={"1": event(1)})
    found = everything(await session(world).day())
    assert found["prices"]["token_id"].unique().to_list() == [token(11, 1)]


async def test_a_market_that_closes_between_the_two_listings_counts_once_and_as_closed(session: Callable[[World], Session]):
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
async def test_a_day_on_which_more_is_expected_is_pulled_anew_next_time(session: Callable[[World], Session], unsettled: dict[str, Any]):
    world = ordinary()
    settled, world.markets[0] = world.markets[0], ending(11, "2026-03-14T00:00:00Z", **unsettled)
    run = session(world)
    assert (await run.day()).summary()["final"] is False
    world.markets[0] = settled
    second = await run.day()
    assert (second.pull.folder[-4:], second.summary()["final"]) == ("0002", True)
    assert (await run.day()).requests == 0


def test_a_long_time_is_asked_for_in_spans_of_at_most_fifteen_days():
    close = datetime(2026, 3, 14, 12, tzinfo=UTC)
    calls = PricePlan(days=40).build_calls(pl.DataFrame({"market_id": ["1"], "price_token": ["5"], "close_time": [close]}))
    spans = [(int(dict(call.params)["startTs"]), int(dict(call.params)["endTs"])) for call in calls]
    assert [(end - start) // 86400 for start, end in spans] == [15, 15, 10]
    assert spans[-1][1] == int(close.timestamp())
    assert all(before[1] == after[0] for before, after in pairwise(spans))


async def test_a_price_at_the_seam_of_two_spans_counts_once(session: Callable[[World], Session]):
    world = World(markets=[ending(11, "2026-03-14T12:00:00Z")], events={"1": event(1)})
    found = everything(await session(world).day(plan=PricePlan(days=31)))
    assert found["prices"].height == len(found["prices"].unique("at")) > 60


async def test_what_is_asked_for_in_vain_is_a_reject(session: Callable[[World], Session]):
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


async def test_a_page_that_lists_nothing_while_its_cursor_goes_on_is_told_and_the_day_is_not_final(session: Callable[[World], Session]):
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
    assert pull.summary()["final"] is False


async def test_a_venue_that_knows_no_keyset_is_listed_by_offset(session: Callable[[World], Session]):
    world = ordinary()
    honest = world._gamma

    def by_offset(path: str, query: httpx.QueryParams) -> httpx.Response:
        if path.endswith("/keyset"):
            return answer({"error": "not found"}, status=404)
        named = {**dict(query), "after_cursor": query.get("offset", "0")}
        plain = httpx.QueryParams(
            [(name, value) for name, value in query.multi_items() if name != "offset"] + [("after_cursor", named["after_cursor"])]
        )
        return answer(json.loads(honest(f"{path}/keyset", plain).content)[path.strip("/")])

    world._gamma = by_offset  # type: ignore[method-assign]
    assert sorted(everything(await session(world).day())["markets"]["market_id"]) == OURS


def ending_v2(number: int, end: str, **changes: Any) -> dict[str, Any]:
    """Return a Protocol V2 market that resolved yes, with V2 token ids, a short condition id, and no status of UMA."""
    ids = [token(number, 0), token(number, 1)]
    fields = {"version": "v2", "positionIds": ids, "clobTokenIds": json.dumps(["7" * 76, "8" * 76]), "resolutionStatus": "resolved"}
    uma = {"umaResolutionStatus": ..., "umaResolutionStatuses": ..., "umaEndDate": ...}
    return ending(number, end, **{"conditionId": f"0x01{number:060x}", **fields, **uma, **changes})


async def test_v2_markets_have_prices_winners_and_outcomes_beside_v1_markets(session: Callable[[World], Session]):
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


async def test_a_market_that_is_not_deployed_is_a_row_without_calls(session: Callable[[World], Session]):
    world = World(markets=[ending_v2(51, "2026-03-14T10:00:00Z", conditionId="", positionIds=[], closed=False)], events={"1": event(1)})
    run = session(world)
    found = everything(await run.day())
    assert (found["markets"].height, found["rejects"].height, found["prices"].height) == (1, 0, 0)
    assert not any(url.startswith(("/prices-history", "/markets/0x")) for url in run.world.asked)


async def test_a_traded_market_without_hourly_prices_has_those_of_twelve_hours(session: Callable[[World], Session]):
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


async def test_a_market_shorter_than_twelve_hours_is_not_asked_for_coarser_prices(session: Callable[[World], Session]):
    short = ending(11, "2026-03-14T12:00:00Z", startDate="2026-03-14T10:00:00Z")
    world = World(markets=[short], events={"1": event(1)}, unpriced=frozenset({token(11, 0)}))
    found = everything(await session(world).day())
    assert (found["prices"].height, found["rejects"].height) == (0, 0)
    assert not any("fidelity=720" in url for url in world.asked)


@pytest.mark.parametrize(
    "earlier",
    [
        {"conditionId": "", "positionIds": []},
        {"version": "v1", "conditionId": "0x" + "5" * 64, "clobTokenIds": json.dumps([token(59, 0), token(59, 1)])},
    ],
    ids=["not deployed", "another protocol"],
)
async def test_a_market_whose_trading_ids_come_later_has_its_prices(session: Callable[[World], Session], earlier: dict[str, Any]):
    kept, end = ending(11, "2026-03-14T12:00:00Z"), "2026-03-14T10:00:00Z"
    world = World(markets=[kept, ending_v2(51, end, **earlier, closed=False, resolutionStatus="active")], events={"1": event(1)})
    run = session(world)
    first = await run.day()
    assert first.summary()["final"] is False
    world.markets = [kept, ending_v2(51, end)]
    found = everything(await run.day())
    assert dict(found["prices"].select("market_id", "token_id").unique().iter_rows()) == {"11": token(11, 0), "51": token(51, 0)}
    assert found["rejects"].is_empty()
    assert (await run.day()).summary() | {"requests": 0} == (await run.day()).summary(), "nothing is left to do"
