"""Recordings of Polymarket: all objects are parsed or rejected with a reason, and fees and resolutions equal the recorded ones."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest

from bellwether.arena.universe import market_from_row
from bellwether.lake.storage import open_storage
from bellwether.tables.raw import POLYMARKET_MARKETS, POLYMARKET_WINNERS
from bellwether.venues.day import DayPull, PullPlan, pull_day
from bellwether.venues.http.page import VenuePage
from bellwether.venues.http.pages import PageStore
from bellwether.venues.polymarket.fees import FREE, schedule_of
from bellwether.venues.polymarket.pull import PolymarketDay
from bellwether.venues.polymarket.resolution import EVIDENCE, build_resolutions, resolve_markets
from bellwether.venues.polymarket.snapshots import parse_books
from bellwether.venues.polymarket.wire import parse_markets, parse_winners
from bellwether.venues.wire.rejects import Origin, ParsedRecords
from tests.unit.venues.polymarket_clients import clob, gamma
from tests.unit.venues.polymarket_objects import clob_pages, read
from tests.unit.venues.polymarket_world import World
from tests.unit.venues.venue import answer

pytestmark = pytest.mark.real
DAY = date(2026, 3, 11)
FETCHED = datetime(2026, 7, 25, tzinfo=UTC)
ORIGIN = Origin("GET /recorded", 0, FETCHED)


@pytest.fixture(scope="module")
def folder(recordings: Path) -> Path:
    return recordings / "polymarket"


@pytest.fixture(scope="module")
def listed(folder: Path) -> list[list[Any]]:
    """Objects of every recorded page of Gamma's markets."""
    files = sorted((folder / "gamma_pages_2026_03").glob("*.json.gz"))
    return [json.loads(gzip.decompress(file.read_bytes()))["markets"] for file in files]


@pytest.fixture(scope="module")
def short_markets(folder: Path) -> list[dict[str, Any]]:
    """Gamma's objects of recorded five-minute markets, with the recorder's own interpretation."""
    (file,) = (folder / "resolved").glob("BTC-5m-markets-*.jsonl.gz")
    return [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]


@pytest.fixture(scope="module")
def clob_page(folder: Path) -> ParsedRecords:
    """The recorded page of the CLOB's markets. The file is the output of a program around it."""
    text = gzip.decompress((folder / "clob" / "clob_markets_2023.json.gz").read_bytes()).decode()
    answer, _ = json.JSONDecoder().raw_decode(text, text.index("{"))
    return parse_winners(clob_pages(*answer["data"]), day=DAY)


def test_every_listed_market_is_typed_or_has_no_end(listed: list[list[Any]]) -> None:
    parsed = [parse_markets(objects, ORIGIN, day=DAY) for objects in listed]
    rows, rejects = pl.concat(page.rows for page in parsed), pl.concat(page.rejects for page in parsed)
    POLYMARKET_MARKETS.validate(rows)
    assert rows.height + rejects.height == sum(map(len, listed))
    without_end = {market["id"] for objects in listed for market in objects if not market.get("endDate")}
    assert set(rejects["record_id"]) == without_end
    assert set(rejects["field"]) <= {"endDate"}


def test_prices_and_tokens_of_listed_markets_are_those_of_the_wire(listed: list[list[Any]]) -> None:
    for objects in listed:
        wire = {market["id"]: market for market in objects}
        for row in parse_markets(objects, ORIGIN, day=DAY).rows.iter_rows(named=True):
            market = wire[row["market_id"]]
            assert row["outcome_prices"] == [Decimal(price) for price in json.loads(market["outcomePrices"])]
            assert [row["yes_token"], row["no_token"]] == json.loads(market["clobTokenIds"])
            assert row["best_ask"] == (Decimal(str(market["bestAsk"])) if market["bestAsk"] != 1 else None)
            assert abs(row["volume"] - Decimal(market["volume"])) < Decimal("0.000001") if "volume" in market else row["volume"] is None


def test_every_five_minute_market_is_typed_and_resolved_as_recorded(short_markets: list[dict[str, Any]]) -> None:
    parsed = parse_markets([recorded["raw"] for recorded in short_markets], ORIGIN, day=DAY)
    assert (parsed.rows.height, parsed.rejects.height) == (len(short_markets), 0)
    assert parsed.rows["fee_rate"].null_count() == 0
    assert parsed.rows["token_ids"].to_list() == [recorded["token_ids"] for recorded in short_markets]
    verdicts = build_resolutions(parsed.rows.lazy(), POLYMARKET_WINNERS.empty().lazy())
    winners = dict(verdicts.select("market_id", "winner").iter_rows())
    for recorded in short_markets:
        assert recorded["resolved"]
        assert winners[recorded["raw"]["id"]] == ("Up" if recorded["outcome_prices"] == ["1", "0"] else "Down")
    assert set(verdicts["rule"]) == {"prices after UMA's word"}


def test_of_the_clobs_closed_markets_exactly_those_with_a_flag_are_resolved_by_it(clob_page: ParsedRecords) -> None:
    flags = (
        clob_page.rows.filter("closed")
        .group_by("condition_id", maintain_order=True)
        .agg(
            outcomes="outcome",
            outcome_prices="price",
            winners=pl.col("outcome").filter("winner"),
            is_50_50=pl.col("is_50_50_outcome").any(),
        )
    )
    evidence = pl.concat(
        [pl.DataFrame(schema=EVIDENCE), _named(flags).with_columns(closed=pl.lit(True), market_id="condition_id")], how="diagonal"
    )
    found = resolve_markets(evidence)
    told = Counter(found.select("status", "outcome_reason").iter_rows())
    assert told == {("settled", None): 579, ("settled", "void"): 7, ("closed", "undetermined"): 941 - 579 - 7}
    assert found.filter(pl.col("winner").is_not_null()).select(pl.col("winners").list.first() == pl.col("winner")).to_series().all()


def test_every_recorded_book_is_read_best_first(folder: Path) -> None:
    for file in (folder / "clob").glob("books_*.jsonl.gz"):
        for line in gzip.decompress(file.read_bytes()).splitlines():
            wire = {book["asset_id"]: book for book in json.loads(line)["books"]}
            found = parse_books(VenuePage("POST /books", 200, ORIGIN.fetched_at, json.dumps(list(wire.values())).encode()))
            assert found.keys() == {token for token, book in wire.items() if book["bids"] or book["asks"]}
            for token, book in found.items():
                for side, levels in (("bids", book.bids), ("asks", book.asks)):
                    assert levels == tuple((Decimal(level["price"]), Decimal(level["size"])) for level in reversed(wire[token][side]))


def test_recorded_resolutions_agree_but_for_markets_that_had_not_ended(folder: Path) -> None:
    """For two markets, the recording reports the last price as settlement, although UMA had not resolved them and they end months later."""
    recorded = json.loads(gzip.decompress((folder / "resolved" / "uma_resolutions_1000.json.gz").read_bytes()))
    assert len({row["polymarket_condition_id"] for row in recorded}) == len(recorded)
    found = resolve_markets(pl.DataFrame([_evidence(row) for row in recorded], schema=EVIDENCE, orient="row"))
    expected = {0.0: ("no", None), 1.0: ("yes", None), 0.5: (None, "void")}
    differing = [
        (row["settled_price"], row["uma_resolution_status"], verdict["status"], verdict["outcome_reason"])
        for row, verdict in zip(recorded, found.iter_rows(named=True), strict=True)
        if (verdict["status"], verdict["outcome"], verdict["outcome_reason"])
        != ("settled", *expected.get(row["settled_price"], (None, "scalar")))
    ]
    assert sorted(differing) == [(0.0245, "", "active", "undetermined"), (0.085, "", "active", "undetermined")]
    assert Counter(found["outcome"]) == {"no": 650, "yes": 350, None: 7}
    assert found.filter(pl.col("status") == "settled").height == 1005


def _evidence(row: dict[str, Any]) -> dict[str, Any]:
    """Return the evidence for a market in the recording. A market with a close after its "resolution" was not closed."""
    closed, resolved = (datetime.fromtimestamp(row[name], UTC) for name in ("closed_at_unix", "resolved_at_unix"))
    price = Decimal(str(row["settled_price"]))
    return {
        "market_id": row["polymarket_condition_id"],
        "market_type": "binary",
        "outcomes": ["Yes", "No"],
        "closed": closed <= resolved,
        "uma_resolution_status": row["uma_resolution_status"],
        "uma_statuses": row["uma_status_history"],
        "outcome_prices": [price, 1 - price],
        "closed_at": closed,
        "fetched_at": resolved,
    }


def _named(flags: pl.DataFrame) -> pl.DataFrame:
    words = pl.col("outcomes").list.eval(pl.element().str.to_lowercase()).list.sort()
    binary = words == pl.lit(["no", "yes"], dtype=pl.List(pl.String))
    return flags.with_columns(market_type=pl.when(binary).then(pl.lit("binary")).otherwise(pl.lit("named")))


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
            return await pull_day(PolymarketDay(first, second, date(2026, 11, 20), PullPlan()), store)

    return asyncio.run(work())


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


def five_minute_markets(recordings: Path) -> list[dict[str, Any]]:
    files = sorted((recordings / "polymarket/resolved").glob("*-5m-markets-*.jsonl.gz"))
    if not files:
        pytest.skip("no recorded five-minute markets")
    return [json.loads(line)["raw"] for path in files for line in gzip.decompress(path.read_bytes()).splitlines() if line.strip()]


def test_every_recorded_short_market_states_its_own_terms(recordings: Path):
    for market in five_minute_markets(recordings):
        schedule = schedule_of(market, datetime.fromisoformat(market["endDate"]))
        stated = market["feeSchedule"]
        assert (schedule.source, schedule.exponent, schedule.taker_only) == ("market", stated["exponent"], stated["takerOnly"])
        assert (float(schedule.rate), float(schedule.rebate_rate)) == (stated["rate"], stated["rebateRate"])
        assert schedule.fee(Decimal(100), Decimal("0.5"), "buy") == 25 * schedule.rate


def test_the_fallback_of_recorded_short_markets_is_what_they_state(recordings: Path):
    for market in five_minute_markets(recordings):
        at = datetime.fromisoformat(market["endDate"])
        unstated = {name: value for name, value in market.items() if name != "feeSchedule"}
        fallback = schedule_of(unstated, at)
        assert fallback.source == "category"
        assert fallback.rate == schedule_of(market, at).rate


def test_recorded_markets_without_fees_are_free(recordings: Path):
    pages = sorted((recordings / "polymarket/gamma_pages_2026_03").glob("*.json.gz"))
    markets = [market for path in pages for market in json.loads(gzip.decompress(path.read_bytes()))["markets"]]
    without = [market for market in markets if market.get("feesEnabled") is False]
    if not without:
        pytest.skip("no recorded markets without fees")
    at = datetime.fromisoformat("2026-03-11T00:00:00Z")
    assert {schedule_of(market, at) for market in without} == {FREE}
