"""Altering every later fact of a past week leaves its universe, prompts, answers, quotes and trades unchanged, byte for byte."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import polars as pl

from bellwether.arena.records import DecisionPlan, load_record
from bellwether.arena.weekly.context import decision_time
from bellwether.tables import arena as tables
from tests.unit.arena.venue import Venue
from tests.unit.arena.weeks import LATER, SEVEN, WEEK, Arena

AT = decision_time(WEEK)
#: Fields of a listing that describe the present. Other values must change nothing.
NOW_FIELDS: dict[str, Any] = {
    "lastTradePrice": 0.123,
    "bestBid": 0.11,
    "bestAsk": 0.13,
    "spread": 0.02,
    "oneHourPriceChange": 0.4,
    "oneDayPriceChange": -0.4,
    "orderPriceMinTickSize": 0.001,
    "orderMinSize": 77,
    "umaResolutionStatus": "disputed",
    "umaResolutionStatuses": '["proposed", "disputed", "proposed"]',
    "umaEndDate": "2026-06-29T01:02:03Z",
    "updatedAt": "2026-06-30T01:02:03Z",
    "acceptingOrders": True,
    "volume": "987654.25",
}


@dataclass
class Tampered(Venue):
    """Venue that reports altered data about the time after `AT`. `changed`: counts of changed objects."""

    changed: Counter[str] = field(default_factory=Counter)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        answer = super().__call__(request)
        document = json.loads(answer.content)
        self._walk(document)
        headers = {name: value for name, value in answer.headers.items() if name != "content-length"}
        return httpx.Response(answer.status_code, headers=headers, content=json.dumps(document))

    def _walk(self, value: Any) -> None:
        if isinstance(value, dict):
            self._change(value)
        for child in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            self._walk(child)

    def _change(self, item: dict[str, Any]) -> None:
        if "conditionId" in item:
            self._change_market(item)
        for point in item.get("history") or ():
            if datetime.fromtimestamp(point["t"], UTC) > AT:
                point["p"] = round(1 - float(point["p"]), 4)
                self.changed["price"] += 1
        if "winner" in item:
            item["winner"] = not item["winner"]

    def _change_market(self, market: dict[str, Any]) -> None:
        self.changed["market"] += 1
        market.update(NOW_FIELDS)
        market["outcomePrices"] = json.dumps(json.loads(market["outcomePrices"])[::-1])
        closed = market.get("closedTime")
        if closed is not None and (then := datetime.fromisoformat(closed)) > AT:
            market["closedTime"] = (then + timedelta(hours=5)).isoformat(sep=" ")
            self.changed["close"] += 1


def prompts(arena: Arena) -> dict[str, bytes]:
    with arena.journal() as journal:
        records = arena.world(journal).records
        names = arena.read(tables.DECISIONS)["decision_id"]
        return {
            name: json.dumps(plan.messages).encode() for name in names if (plan := load_record(records, DecisionPlan, name)) is not None
        }


def test_a_past_week_is_the_same_bytes_whatever_happened_later(tmp_path: Path) -> None:
    one, other = Arena(tmp_path / "one"), Arena(tmp_path / "other", now=LATER + timedelta(days=3))
    venue = other.venue = Tampered(lambda: other.now)
    for arena in (one, other):
        arena.decide()
    partition = (WEEK.isoformat(),)
    for table in (tables.UNIVERSE, tables.AGENTS, tables.DECISIONS, tables.REFUSALS, tables.TRADES):
        first, second = (arena.lake.manifests(table)[partition] for arena in (one, other))
        assert first.digest == second.digest, table.name
    assert one.read(tables.TRADES).height > 5
    asked = prompts(one)
    assert asked == prompts(other)
    assert (len(asked), sum(map(len, asked.values())) > 10_000) == (6, True)
    universe = other.read(tables.UNIVERSE)
    assert universe["known_at"].unique().to_list() == [AT]
    assert universe.filter(pl.col("volume").is_not_null() | pl.col("tick").is_not_null()).is_empty()

    assert min(venue.changed[what] for what in ("market", "close")) >= 14
    seen = [pl.concat([arena.evidence(WEEK + number * SEVEN) for number in range(2)])["market_id"].to_list() for arena in (one, other)]
    assert len(seen[0]) > len(seen[1]), "the later facts are really others: a dispute delays the evidence"
    assert venue.changed["price"] == 0, "no price after the decision is requested"
