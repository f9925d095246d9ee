"""Current venue formats and objects recorded in 2026: Protocol V2, fee schedules, books with a level between two ticks."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest

from bellwether.arena.market import Level, Quote
from bellwether.arena.universe import market_from_row
from bellwether.lake.storage import open_storage
from bellwether.venues.http.pages import PageStore
from bellwether.venues.polymarket.fees import schedule_of
from bellwether.venues.polymarket.pull import DayPull, PricePlan, pull_day
from bellwether.venues.polymarket.resolution import build_resolutions
from tests.unit.arena.world import NOW, REALISTIC, account, bet, bets, binary, execute_decision, usd
from tests.venues.polymarket.clients import clob, gamma
from tests.venues.polymarket.objects import read
from tests.venues.polymarket.world import World
from tests.venues.venue import answer

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def newer(recordings: Path) -> Path:
    """The recordings and cases of November 2026."""
    folder = recordings.parent / "data_2026_11"
    if not folder.exists():
        pytest.skip("no recordings of November 2026")
    return folder


def case(newer: Path, name: str) -> Any:
    return json.loads((newer / "cases/venues" / name).read_text())


@dataclass
class Stated(World):
    """A venue that answers from a list of objects."""

    state: dict[str, Any] = field(default_factory=dict)

    def _clob(self, path: str, query: httpx.QueryParams) -> httpx.Response:
        if path == "/prices-history":
            points = self.state["hist"].get(query["market"], [])
            return answer({"history": [one for one in points if int(query["startTs"]) <= one["t"] <= int(query["endTs"])]})
        found = self.state["clob"].get(path.rsplit("/", 1)[-1])
        return answer(found or {"error": "market not found"}, status=200 if found else 404)


def pulled(newer: Path, name: str, folder: Path) -> DayPull:
    state = case(newer, name)
    world = Stated(markets=state["gamma"], events={one["id"]: one for one in state["gevents"]}, state=state)
    now = datetime.fromisoformat(state["now"])
    world.date = now.strftime("%a, %d %b %Y %H:%M:%S GMT")

    async def work() -> DayPull:
        async with gamma(world) as first, clob(world) as second:
            store = PageStore(open_storage(str(folder)), venue="polymarket")
            return await pull_day(first, second, store, date(2026, 11, 20), plan=PricePlan())

    return asyncio.run(work())


def test_a_v2_object_is_read_by_its_position_ids(newer: Path) -> None:
    body = case(newer, "v2_market.json")
    parsed = read(body)
    assert parsed.rejects.is_empty()
    row = parsed.rows.row(0, named=True)
    assert (row["yes_token"], row["no_token"], row["condition_id"]) == (*body["positionIds"], body["conditionId"])


@pytest.mark.parametrize("name", ["v2_and_reject_first.state.json", "v2_and_reject_second.state.json"])
def test_a_day_with_both_versions_has_outcomes_of_all_and_asks_for_their_own_ids(newer: Path, tmp_path: Path, name: str) -> None:
    pull = pulled(newer, name, tmp_path)
    markets, winners = pl.concat(pull.markets()), pl.concat(pull.winners())
    ids = dict(markets.select("market_id", "yes_token").iter_rows())
    assert {name: token[:2] for name, token in ids.items()} == {"900001": "11", "900002": "33", "900003": "33", "900004": "33"}
    ends = build_resolutions(markets.lazy(), winners.lazy())
    assert set(ends["outcome"]) == {"yes"}
    asked = {page.request.split("market=")[1].split("&")[0] for page in pull.pull.pages("prices")}
    assert asked == set(ids.values())
    unknown = pull.rejects().filter(pl.col("table") == "raw/polymarket_winners")
    assert unknown["record_id"].to_list() == [markets.filter(pl.col("market_id") == "900003")["condition_id"].item()]
    assert pl.concat(pull.prices())["market_id"].unique().sort().to_list()[0] == "900001"


def test_the_fee_cases_cost_what_their_day_says(newer: Path) -> None:
    weather, sports = case(newer, "fee_exponent.json"), case(newer, "fee_sports_fallback.json")
    half = schedule_of(weather, datetime(2026, 3, 31, tzinfo=UTC))
    assert half.fee(Decimal(100), Decimal("0.5"), "buy") == Decimal("0.6250"), "100 × 0.5 × 0.025 × 0.5"
    assert [schedule_of(sports, datetime(2026, month, 1, tzinfo=UTC)).rate for month in (6, 7)] == [Decimal("0.03"), Decimal("0.05")]


def test_the_book_with_a_level_between_two_ticks_fills(newer: Path) -> None:
    said = case(newer, "off_tick_book.json")
    asks = tuple(Level(usd(price), usd(size)) for price, size in said["asks"])
    bids = (Level(usd("0.5"), usd("100")),)
    quotes = {"m": {0: Quote(bids[0].price, ask=asks[0].price, at=NOW, asks=asks, bids=bids)}}
    done = execute_decision(
        bets(bet(str(said["buy_dollars"]))), account(), binary(tick=usd(said["market_tick"])), quotes=quotes, rules=REALISTIC
    )
    assert [(trade.price, trade.skipped_levels) for trade in done.trades] == [(usd("0.95"), 1)]


def objects_of(value: Any) -> list[dict[str, Any]]:
    """Return every Gamma market within a recorded answer."""
    if isinstance(value, dict):
        own = [value] if "conditionId" in value and "outcomes" in value and "endDate" in value else []
        return own + [one for inner in value.values() for one in objects_of(inner)]
    return [one for inner in value for one in objects_of(inner)] if isinstance(value, list) else []


def test_recorded_markets_of_2026_fit_and_have_known_fees(newer: Path) -> None:
    files = sorted((newer / "polymarket/rest_2026").rglob("*.json"))
    bodies = [body for path in files for body in objects_of(json.loads(path.read_text())) if str(body.get("id", "")).isdigit()]
    assert len(bodies) > 50
    for body in bodies:
        parsed = read(body)
        assert parsed.rejects.is_empty(), (body["id"], parsed.rejects.select("field", "reason").rows())
        row = parsed.rows.row(0, named=True)
        fees = market_from_row(row, datetime(2026, 7, 2, tzinfo=UTC)).fees
        stated = body.get("feeSchedule")
        assert fees == schedule_of(body, datetime(2026, 7, 2, tzinfo=UTC))
        assert not stated or float(fees.rate) == stated["rate"]
