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

from bellwether.arena.market import Market, Quote
from bellwether.arena.methodology import methodologies
from bellwether.arena.weekly.polymarket import Polymarket
from bellwether.arena.weekly.queries import has_unexecuted_answer, is_week_decided, query_week_status
from bellwether.arena.weekly.summary import render_summary_lines, summarise_run
from bellwether.settings import Settings
from bellwether.tables import arena as tables
from tests.arena.weeks import Arena
from tests.arena.world import NOW, V1, V2, account, bet, bets, execute_decision, usd
from tests.venues.polymarket.clients import clob, gamma
from tests.venues.polymarket.objects import market
from tests.venues.venue import answer

WEEK = date(2026, 5, 3)


class Seeded(Arena):
    """Arena with the sandbox's default lineup and methodology."""

    seed = 7

    @property
    def config(self) -> Settings:
        return Settings(sandbox_now=self.now, home=self.home, sandbox_seed=self.seed)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "now"),
    [(7, datetime(2026, 5, 3, 0, 20, tzinfo=UTC)), (11, datetime(2026, 7, 1, tzinfo=UTC))],
    ids=["live", "reconstructed"],
)
def test_a_week_of_the_sandbox_trades(tmp_path: Path, seed: int, now: datetime) -> None:
    arena = Seeded(tmp_path, now=now, lineup="sandbox")
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
    assert len(valid) >= 20
    assert arena.read(tables.TRADES).height / len(valid) >= 0.9, arena.read(tables.REFUSALS)
    assert set(arena.read(tables.REFUSALS)["reason"]) <= {"market unknown", "no such side"}
    assert universe.filter(pl.col("closes_at") <= pl.col("known_at")).is_empty()
    assert universe.filter(pl.col("prices").list.drop_nulls().list.len() == 0).is_empty()
    assert arena.results().violations == []


BOOKS: dict[str, dict[str, list[dict[str, str]]]] = {
    "both": {"bids": [{"price": "0.40", "size": "100"}], "asks": [{"price": "0.44", "size": "100"}]},
    "bid": {"bids": [{"price": "0.39", "size": "100"}], "asks": []},
    "stale": {"bids": [{"price": "0.60", "size": "100"}], "asks": []},
    "phantom": {"bids": [{"price": "0.39", "size": "100"}], "asks": []},
}
#: Fields of each listing. For a one-sided book the venue lists the midpoint to 0 or 1.
LISTED: dict[str, dict[str, Any]] = {
    "both": {"bestBid": 0.4, "bestAsk": 0.44, "outcomePrices": '["0.42", "0.58"]'},
    "bid": {"bestBid": 0.39, "bestAsk": 1, "lastTradePrice": 0.41, "outcomePrices": '["0.695", "0.305"]'},
    "stale": {"bestBid": 0.39, "bestAsk": 1, "lastTradePrice": 0.41, "outcomePrices": '["0.695", "0.305"]'},
    "phantom": {"bestBid": 0.39, "bestAsk": 1, "lastTradePrice": 0, "outcomePrices": '["0.695", "0.305"]'},
    "unread": {"bestBid": 0.3, "bestAsk": 0.34, "outcomePrices": '["0.32", "0.68"]'},
    "silent": {"bestBid": 0.3, "bestAsk": 0.34, "outcomePrices": '["0.32", "0.68"]'},
}
#: Price of YES and its source in v1, and whether v2 trades as well.
FILLED = {
    "both": ("0.42", "clob", True),
    "bid": ("0.41", "listing", False),
    "stale": ("0.6", "listing", False),
    "phantom": (None, None, False),
    "unread": ("0.33", "midpoint", True),
    "silent": ("0.32", "listing", False),
}


def _venue(request: httpx.Request) -> httpx.Response:
    """Gamma's listing, all books but two, and the midpoint of one of these two."""
    names = list(LISTED)
    if request.url.path == "/books":
        tokens = [one["token_id"] for one in json.loads(request.content)]
        found = [(token, BOOKS[names[int(token) - 1]]) for token in tokens if names[int(token) - 1] in BOOKS]
        terms = {
            "market": "0x" + "1" * 64,
            "timestamp": "1772323200000",
            "hash": "h",
            "tick_size": "0.01",
            "min_order_size": "5",
            "neg_risk": False,
        }
        return answer([{"asset_id": token, **terms, **sides} for token, sides in found])
    if request.url.path == "/midpoints":
        asked = {names[int(one["token_id"]) - 1] for one in json.loads(request.content)}
        assert asked == {"unread", "silent"}, "a book with one side has no midpoint"
        return answer({str(1 + names.index("unread")): "0.33"})
    closed = request.url.params.get("closed") == "true"
    rows = [] if closed else [_row(number, LISTED[name]) for number, name in enumerate(names, start=1)]
    return answer({"markets": rows})


def _row(number: int, fields: dict[str, Any]) -> dict[str, Any]:
    tokens = json.dumps([str(number), str(100 + number)])
    return market(number, closed=False, active=True, acceptingOrders=True, umaResolutionStatus=..., clobTokenIds=tokens, **fields)


def test_each_source_of_a_price() -> None:
    async def ask(work: Any) -> Any:
        async with gamma(_venue) as one, clob(_venue) as other:
            return await work(one, other)

    markets = {
        str(place): Market(str(place), "q", ("Yes", "No"), token_ids=(str(place), str(100 + place))) for place in range(1, len(LISTED) + 1)
    }
    statuses, quotes = Polymarket(lambda work: asyncio.run(ask(work))).fetch_quotes(markets, NOW)
    assert {str(status) for status in statuses.values()} == {"active"}
    for number, (name, (price, source, in_v2)) in enumerate(FILLED.items(), start=1):
        mine: dict[int, Quote] = dict(quotes[str(number)])
        legs, known = bets(bet("50", market_id=str(number))), {str(number): mine}
        done = execute_decision(legs, account(), markets[str(number)], quotes=known, rules=V1)
        assert [(trade.price, trade.quote_source) for trade in done.trades] == ([] if price is None else [(usd(price), source)]), name
        assert bool(execute_decision(legs, account(), markets[str(number)], quotes=known, rules=V2).trades) is in_v2, name


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
        assert found["refused"] == {"no price": found["legs"]}
        assert found["without_trade"] == sorted(one["decision_id"] for one in found["open"]) == betting
        assert (found["next"]["decisions"], found["next"]["deadline"]) == (3, datetime(2026, 6, 30, tzinfo=UTC))
        lines = "\n".join(render_summary_lines(found))
        assert f"of {found['legs']} legs: no price {found['legs']}" in lines
        assert "read: every leg was refused: no price" in lines
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
