"""Altering every later fact of a past week leaves its universe, prompts, answers, quotes and trades unchanged, byte for byte."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import polars as pl
import pytest

from bellwether.arena.records import DecisionPlan, load_record
from bellwether.arena.weekly.context import decision_time
from bellwether.tables import arena as tables
from tests.arena.altered_venue import AlteringTransport
from tests.arena.weeks import WEEK, Arena

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
}


class _Tampering(AlteringTransport):
    """Alter all data about the time after `AT`."""

    def change(self, item: dict[str, Any]) -> None:
        if "conditionId" in item:
            self._market(item)
        for point in item.get("history") or ():
            if datetime.fromtimestamp(point["t"], UTC) > AT:
                point["p"] = round(1 - float(point["p"]), 4)
                self.changed["price"] += 1
        for name, one in item.items():
            if isinstance(one, int | float) and not isinstance(one, bool) and name.startswith(("volume", "liquidity")):
                item[name] = one * 3 + 1

    def _market(self, market: dict[str, Any]) -> None:
        self.changed["market"] += 1
        market.update({name: value for name, value in NOW_FIELDS.items() if name in market})
        market["outcomePrices"] = json.dumps(json.loads(market["outcomePrices"])[::-1])
        for name in ("volume", "liquidity"):
            if isinstance(market.get(name), str):
                market[name] = "987654.25"
        closed = market.get("closedTime")
        if closed is not None and (then := datetime.fromisoformat(closed)) > AT:
            market["closedTime"] = (then + timedelta(hours=5)).isoformat(sep=" ")
            self.changed["close"] += 1


class Tampered(Arena):
    """Arena whose venue reports altered data about the time after `AT`."""

    def transport(self, inner: httpx.AsyncBaseTransport | None) -> httpx.AsyncBaseTransport | None:
        assert inner is not None
        return _Tampering(inner, changed)


changed: Counter[str] = Counter()


def prompts(arena: Arena) -> dict[str, bytes]:
    with arena.journal() as journal:
        records = arena.world(journal).records
        names = arena.read(tables.DECISIONS)["decision_id"]
        return {
            name: json.dumps(plan.messages).encode() for name in names if (plan := load_record(records, DecisionPlan, name)) is not None
        }


@pytest.fixture(scope="module")
def both_arenas(tmp_path_factory: pytest.TempPathFactory) -> tuple[Arena, Arena]:
    """The same week, reconstructed from the venue's data and from data with every later fact altered."""
    found = (Arena(tmp_path_factory.mktemp("told")), Tampered(tmp_path_factory.mktemp("tampered")))
    for arena in found:
        arena.decide(WEEK)
    return found


def test_the_later_facts_are_really_others(both_arenas: tuple[Arena, Arena]) -> None:
    assert changed["market"] > 100
    assert changed["close"] > 50
    first, second = (pl.concat([arena.evidence(WEEK + number * timedelta(days=7)) for number in range(3)]) for arena in both_arenas)
    assert first.height > 0
    assert not first.equals(second)


def test_universe_decisions_and_trades_are_the_same_bytes(both_arenas: tuple[Arena, Arena]) -> None:
    one, other = both_arenas
    for table in (tables.UNIVERSE, tables.AGENTS, tables.DECISIONS, tables.REFUSALS, tables.TRADES):
        partition = (WEEK.isoformat(),)
        first, second = (arena.lake.manifests(table)[partition] for arena in both_arenas)
        assert first.sha256 == second.sha256, table.name
    assert one.read(tables.TRADES).height == other.read(tables.TRADES).height > 0


def test_prompts_are_the_same_bytes(both_arenas: tuple[Arena, Arena]) -> None:
    one, other = (prompts(arena) for arena in both_arenas)
    assert one == other
    assert len(one) == 6
    assert sum(map(len, one.values())) > 10_000


def test_nothing_in_the_universe_is_later_than_its_time(both_arenas: tuple[Arena, Arena]) -> None:
    universe = both_arenas[1].read(tables.UNIVERSE)
    assert universe["known_at"].unique().to_list() == [AT]
    assert universe.filter(pl.col("volume").is_not_null() | pl.col("tick").is_not_null()).is_empty()
