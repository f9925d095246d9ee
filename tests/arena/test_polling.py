"""Looks at markets: acceptance row R23, back-off, corrections, and markets that are missing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from bellwether.arena.facts import Result, Settlement
from bellwether.arena.ledger import fold
from bellwether.arena.market import MarketStatus
from bellwether.arena.resolution import CORRECTIONS, DAILY, FIRST, LONGEST, OPEN, Polled, awaited, correctable, due, next_look
from tests.arena.world import AGENT, NOW, agent, bought, sold, won

TEN = bought("10", "5")


def test_r23_only_markets_that_somebody_waits_for_are_looked_at() -> None:
    assert awaited(fold([AGENT], [], [])) == []
    assert awaited(fold([AGENT], [TEN], [])) == ["m"]
    assert awaited(fold([AGENT], [TEN, sold("10", "6", TEN, 2)], [])) == ["m"]
    assert awaited(fold([AGENT], [TEN], [won("Yes")])) == []
    assert awaited(fold([AGENT], [TEN], [Settlement("m", "v1", NOW + timedelta(days=1), Result.CANCELLED, {})])) == []


def test_a_market_is_awaited_until_every_methodology_has_settled_it() -> None:
    second = TEN._replace(agent_id="2026-03-01/b", trade_id="2026-03-01/b/2026-03-01/1", position_id="2026-03-01/b/2026-03-01/1")
    agents = [AGENT, agent(family="b", rules="v2")]
    assert awaited(fold(agents, [TEN, second], [won("Yes")])) == ["m"]
    assert awaited(fold(agents, [TEN, second], [won("Yes"), won("Yes", rules="v2")])) == []


def test_looks_become_rarer_while_nothing_happens() -> None:
    waits = [next_look(Polled(MarketStatus.CLOSED, NOW, same=n)) for n in (1, 2, 3, 50)]
    assert waits == [NOW + FIRST, NOW + 2 * FIRST, NOW + 4 * FIRST, NOW + LONGEST]


def test_an_open_market_is_looked_at_when_it_closes() -> None:
    assert next_look(Polled(MarketStatus.ACTIVE, NOW, closes_at=NOW + timedelta(days=3))) == NOW + OPEN
    assert next_look(Polled(MarketStatus.ACTIVE, NOW, closes_at=NOW + timedelta(hours=1))) == NOW + timedelta(hours=1)
    assert next_look(Polled(MarketStatus.ACTIVE, NOW, closes_at=NOW - timedelta(hours=1))) == NOW + FIRST
    assert next_look(None) is None


def test_a_settled_market_is_looked_at_once_a_utc_day_during_the_window_for_corrections() -> None:
    book = fold([AGENT], [TEN], [won("Yes")])
    settled_at = next(iter(book.settlements.values())).known_at
    assert correctable(book, settled_at + CORRECTIONS) == ["m"]
    assert correctable(book, settled_at + CORRECTIONS + timedelta(seconds=1)) == []
    looked = Polled(MarketStatus.CLOSED, datetime(2026, 3, 3, 15, 20, tzinfo=UTC), same=9)
    assert next_look(looked, settled=True) == datetime(2026, 3, 4, tzinfo=UTC)
    at = settled_at + timedelta(days=3)
    assert due(book, {"m": Polled(MarketStatus.CLOSED, at)}, at) == []
    assert due(book, {"m": Polled(MarketStatus.CLOSED, at - DAILY)}, at) == ["m"]
    assert due(book, {"m": Polled(MarketStatus.CLOSED, at - DAILY)}, at, final=["m"]) == []


def test_a_missing_market_is_polled_less_and_less_often_but_once_a_day() -> None:
    waits = [next_look(Polled(MarketStatus.ACTIVE, NOW, same=n, closes_at=NOW + CORRECTIONS, missing=True)) for n in (1, 2, 3, 50)]
    assert waits == [NOW + FIRST, NOW + 2 * FIRST, NOW + 4 * FIRST, NOW + DAILY]
