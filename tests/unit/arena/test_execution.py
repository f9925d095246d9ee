"""Fillable bets are filled: in weeks of the default sandbox, and for each source of a price."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest

from bellwether.arena.decision import Reason
from bellwether.arena.market import Market
from bellwether.arena.methodology import methodologies
from bellwether.arena.weekly.polymarket import Polymarket
from bellwether.arena.weekly.queries import has_unexecuted_answer, is_week_decided, query_week_status
from bellwether.arena.weekly.summary import render_summary_lines, summarise_run
from bellwether.sandbox.polymarket import GeneratedPolymarket
from bellwether.sandbox.world import GeneratedWorld
from bellwether.settings import Settings
from bellwether.tables import arena as tables
from tests.arena.kalshi import KalshiArena
from tests.arena.weeks import Arena
from tests.arena.world import NOW, V1, account, bet, bets, execute_decision, usd
from tests.venues.polymarket.clients import clob, gamma
from tests.venues.polymarket.objects import market
from tests.venues.venue import answer

WEEK = date(2026, 5, 3)


class Seeded(KalshiArena):
    """Arena with the sandbox's default lineup and a built-in methodology of either venue."""

    seed = 7

    @property
    def config(self) -> Settings:
        return Settings(sandbox_now=self.now, home=self.home, sandbox_seed=self.seed)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("methodology", "seed", "now"),
    [
        *((name, 7, datetime(2026, 5, 3, 0, 20, tzinfo=UTC)) for name in ("v1", "v1-realistic", "v1-kalshi", "v1-kalshi-realistic")),
        ("v1", 11, datetime(2026, 7, 1, tzinfo=UTC)),
    ],
    ids=["mid", "realistic", "Kalshi, mid", "Kalshi, realistic", "reconstructed"],
)
def test_a_week_of_the_sandbox_trades(tmp_path: Path, methodology: str, seed: int, now: datetime) -> None:
    """At least 90 % of the legs trade at a midpoint or with a counterparty, and models of known skill keep their order."""
    arena = Seeded(tmp_path, now=now, lineup="sandbox", methodology=methodology)
    arena.seed = seed
    arena.decide(WEEK)
    universe, bets_of = arena.read(tables.UNIVERSE), pl.col("action") == "BET"
    legs = [
        (one["market_id"], one["side"].casefold())
        for text in arena.read(tables.DECISIONS).filter(bets_of)["decision"]
        for one in json.loads(text)["bets"]
    ]
    sides = {market_id: {name.casefold() for name in names} for market_id, names in universe.select("market_id", "outcomes").iter_rows()}
    valid = [(market_id, side) for market_id, side in legs if side in sides.get(market_id, ())]
    trades = arena.read(tables.TRADES)
    assert len(valid) >= 20
    assert trades.height / len(valid) >= 0.9, arena.read(tables.REFUSALS)
    if methodology.endswith("realistic"):
        assert trades["unmatched"].to_list() == [0] * trades.height
    assert trades["mid"].null_count() == 0
    assert universe.filter(pl.col("closes_at") <= pl.col("known_at")).is_empty()
    assert universe.filter(pl.col("prices").list.drop_nulls().list.len() == 0).is_empty()
    assert arena.results().violations == []
    gains = _expected_gains(trades, seed, kalshi="kalshi" in methodology)
    assert gains["calibrated"] > gains["contrarian"]


def _expected_gains(trades: pl.DataFrame, seed: int, *, kalshi: bool) -> dict[str, float]:
    """Return the expected gain per dollar by family, from the world's true probabilities at the start of the week."""
    world = GeneratedWorld(seed)
    truths = world if kalshi else GeneratedPolymarket(world)
    at = datetime(2026, 5, 3, 0, 5, tzinfo=UTC)
    gains: dict[str, list[float]] = {}
    for row in trades.filter(pl.col("binary")).iter_rows(named=True):
        yes = truths.truth(row["market_id"], at)
        if not kalshi and truths.market(row["market_id"]).outcomes[0] != "Yes":
            yes = 1 - yes
        gains.setdefault(row["agent_id"].rpartition("/")[2], []).append(
            (yes if row["side"] == "YES" else 1 - yes) / float(row["price"]) - 1
        )
    return {family: sum(values) / len(values) for family, values in gains.items()}


BOOKS: dict[str, dict[str, list[dict[str, str]]]] = {
    "both": {"bids": [{"price": "0.40", "size": "100"}], "asks": [{"price": "0.44", "size": "100"}]},
    "bid": {"bids": [{"price": "0.39", "size": "100"}], "asks": []},
    "empty": {"bids": [], "asks": []},
}
LISTED = {"bestBid": 0.39, "bestAsk": 0.41, "lastTradePrice": 0.41, "outcomePrices": '["0.4", "0.6"]'}


def _venue(request: httpx.Request) -> httpx.Response:
    """Gamma's listing, which quotes both sides of every market, and three books; the fourth market has none."""
    if request.url.path == "/books":
        terms = {
            "market": "0x" + "1" * 64,
            "timestamp": "1772323200000",
            "hash": "h",
            "tick_size": "0.01",
            "min_order_size": "5",
            "neg_risk": False,
        }
        asked = [one["token_id"] for one in json.loads(request.content)]
        books = dict(enumerate(BOOKS.values(), start=1))
        return answer([{"asset_id": token, **terms, **books[int(token)]} for token in asked if int(token) in books])
    closed = request.url.params.get("closed") == "true"
    return answer({"markets": [] if closed else [_row(number) for number in range(1, 5)]})


def _row(number: int) -> dict[str, Any]:
    tokens = json.dumps([str(number), str(100 + number)])
    return market(number, closed=False, active=True, acceptingOrders=True, umaResolutionStatus=..., clobTokenIds=tokens, **LISTED)


def test_only_a_book_with_two_sides_is_a_price() -> None:
    async def ask(work: Any) -> Any:
        async with gamma(_venue) as one, clob(_venue) as other:
            return await work(one, other)

    markets = {str(place): Market(str(place), "q", ("Yes", "No"), token_ids=(str(place), str(100 + place))) for place in range(1, 5)}
    statuses, quotes = Polymarket(lambda work: asyncio.run(ask(work))).fetch_quotes(markets, NOW)
    assert {str(status) for status in statuses.values()} == {"active"}
    legs = bets(*(bet("22", market_id=name) for name in markets))
    done = execute_decision(legs, account(), *markets.values(), quotes=quotes, rules=V1)
    assert [(trade.market_id, trade.price, trade.quote_source, trade.unmatched) for trade in done.trades] == [("1", usd("0.42"), "clob", 0)]
    assert [(one.leg, one.reason) for one in done.refusals] == [(leg, Reason.NO_MIDPOINT) for leg in (2, 3, 4)]


def test_a_week_without_prices_is_retried_then_refused_and_the_summary_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = datetime(2026, 6, 28, 0, 10, tzinfo=UTC)
    arena, week = Arena(tmp_path, now=start, lineup="rules"), start.date()
    with monkeypatch.context() as patch:
        patch.setattr(Polymarket, "fetch_quotes", lambda self, markets, now: ({}, {}))
        for hours in (0, 1):
            arena.now = start + timedelta(hours=hours)
            states = Counter(str(one.state) for _, one in arena.decide(week).decisions)
            assert states == {"read": 3, "finished": 1}
        with arena.journal() as journal:
            world = arena.world(journal)
            assert not is_week_decided(world, week, arena.now)
            found = summarise_run(world, [week], arena.now)
        betting = sorted(f"{week}/{family}/{week}" for family in ("favourite", "proportional", "random"))
        assert found["refused"] == {"no midpoint": found["legs"]}
        assert found["without_trade"] == sorted(one["decision_id"] for one in found["open"]) == betting
        assert (found["next"]["decisions"], found["next"]["deadline"]) == (3, datetime(2026, 6, 30, tzinfo=UTC))
        lines = "\n".join(render_summary_lines(found))
        assert f"of {found['legs']} legs: no midpoint {found['legs']}" in lines
        assert "read: every leg was refused: no midpoint" in lines
        assert "3 open decisions of 2026-06-28; deadline 2026-06-30 00:00 UTC; no weekly budget" in lines
        assert query_week_status(arena.lake, methodologies(arena.registry))["refused"].to_list() == [found["legs"]]
    arena.now = datetime(2026, 6, 30, 0, 5, tzinfo=UTC)
    with arena.journal() as journal:
        assert has_unexecuted_answer(arena.world(journal), week), "the schedule runs once more after the deadline"
    arena.decide(week)
    rows = arena.read(tables.DECISIONS).filter(action="BET")
    assert rows["state"].unique().to_list() == ["refused"]
    assert arena.read(tables.TRADES).is_empty()
    board = arena.results().frames["arena/leaderboard"].sort("family")
    assert board.select("family", "finished", "unfinished", "refused").rows() == [
        (family, 1, 0, rows.filter(agent_id=f"{week}/{family}")["legs"].sum()) for family in ("favourite", "hold", "proportional", "random")
    ]
    with arena.journal() as journal:
        world = arena.world(journal)
        assert is_week_decided(world, week, arena.now)
        assert not has_unexecuted_answer(world, week)
        after = summarise_run(world, [week], arena.now)
    assert (after["open"], after["next"]["week"]) == ([], date(2026, 7, 5))
    assert after["without_trade"] == betting


def test_the_summary_names_failed_and_invalid_decisions(tmp_path: Path) -> None:
    arena = Arena(tmp_path, now=datetime(2026, 6, 28, 0, 10, tzinfo=UTC), lineup="tiny")
    week = arena.now.date()
    arena.decide(week)
    rows = arena.read(tables.DECISIONS)
    failing = pl.col("agent_id").str.ends_with("/hold")
    changed = rows.with_columns(
        state=pl.when(failing).then(pl.lit("failed")).otherwise("state"),
        reason=pl.when(failing).then(pl.lit("refusal: no")).otherwise("reason"),
        action=pl.when(failing).then(None).otherwise("action"),
    )
    arena.lake.write(tables.DECISIONS, (week.isoformat(),), changed, run_id="test")
    with arena.journal() as journal:
        found = summarise_run(arena.world(journal), [week], arena.now)
    invalid = dict(rows.filter(action="INVALID").select("decision_id", "problem").iter_rows())
    assert found["failed"] == [{"decision_id": f"{week}/hold/{week}", "state": "failed", "reason": "refusal: no"}]
    assert found["invalid"] == invalid
    lines = list(render_summary_lines(found))
    assert f"Failed     {week}/hold/{week}: failed: refusal: no" in lines
    assert any(line.startswith("Invalid    ") for line in lines) is bool(invalid)
    assert not any(line.startswith("Done ") for line in lines)
    tokens = {one["family"]: one["input_tokens"] for one in found["cost"]}
    assert tokens.keys() == {"calibrated", "malformed"}
    assert min(tokens.values()) > 0
