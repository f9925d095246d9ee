"""Settled live weeks: corrections, delisted markets, and the second source of marks."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from bellwether.arena.checks import LAKE_CHECKS
from bellwether.arena.identity import week_of
from bellwether.arena.resolution import CORRECTIONS, FIRST
from bellwether.arena.weekly.evidence import FactRows, build_evidence_rows, list_due_markets
from bellwether.arena.weekly.held_prices import store_tick
from bellwether.arena.weekly.polymarket import Polymarket
from bellwether.checks.rule import Observation
from bellwether.errors import ConfigError, VenueError
from bellwether.tables import arena as tables
from tests.arena.weeks import Arena

START = datetime(2026, 3, 1, 0, 7, tzinfo=UTC)
DAY = timedelta(days=1)
Change = Callable[[dict[str, Any]], dict[str, Any] | None]


class Venue:
    """Evidence of the sandbox with changes for some markets. None removes a market."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.changes: dict[str, Change] = {}
        real = Polymarket.fetch_evidence

        def evidence(data: Polymarket, market_ids: list[str], now: datetime) -> list[dict[str, Any]]:
            looks = (self.changes.get(look["market_id"], lambda look: look)(look) for look in real(data, market_ids, now))
            return [look for look in looks if look is not None]

        monkeypatch.setattr(Polymarket, "fetch_evidence", evidence)


def collect_evidence(arena: Arena, at: datetime, *asked: str) -> pl.DataFrame:
    arena.now = at
    week = week_of(at)
    with arena.journal() as journal:
        world = arena.world(journal)
        found = build_evidence_rows(world, week, FactRows.load(world), requested=asked)
    arena.lake.write(tables.EVIDENCE, (week.isoformat(),), found, run_id="test")
    return found


def settlements(arena: Arena, market: str | None = None) -> pl.DataFrame:
    rows = arena.results().frames["arena/settlements"]
    return rows if market is None else rows.filter(pl.col("market_id") == market)


def check(arena: Arena, name: str) -> Observation:
    (found,) = (one for one in LAKE_CHECKS if one.name == name)
    return found.evaluate(arena.lake, arena.now)


def flipped(look: dict[str, Any]) -> dict[str, Any]:
    """Return evidence of the opposite outcome from every source."""
    prices = list(reversed(look["outcome_prices"]))
    return {**look, "outcome_prices": prices, "winners": [name for name, price in zip(look["outcomes"], prices, strict=True) if price == 1]}


@pytest.fixture
def arena(tmp_path: Path) -> Arena:
    """A live week."""
    made = Arena(tmp_path, now=START, lineup="few")
    made.decide(START.date())
    assert made.read(tables.TRADES).height > 0
    return made


def until_settled(arena: Arena) -> tuple[datetime, str]:
    at = START
    for _ in range(150):
        at += 6 * timedelta(hours=1)
        collect_evidence(arena, at)
        found = settlements(arena).filter(pl.col("result") == "won")
        if found.height:
            return at, found["market_id"][0]
    raise AssertionError("no market settled")


@pytest.mark.slow
def test_a_result_that_changes_after_the_settlement_is_corrected_and_looks_end_with_the_window(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    venue = Venue(monkeypatch)
    at, market = until_settled(arena)
    before = settlements(arena, market)
    venue.changes[market] = flipped
    for number in (1, 2):
        collect_evidence(arena, at + number * DAY)
    after = settlements(arena, market)
    assert after["number"].to_list() == [1, 2]
    assert after["winner"][1] != after["winner"][0] == before["winner"][0]
    ledger = arena.results().frames["arena/ledger"].filter(pl.col("market_id") == market)
    assert ledger["corrects"].is_not_null().any(), "what was paid is taken back"
    seen = arena.read(tables.EVIDENCE).filter(pl.col("market_id") == market)["known_at"].max()
    for number in range(3, 20):
        collect_evidence(arena, at + number * DAY)
    last = arena.read(tables.EVIDENCE).filter(pl.col("market_id") == market)["known_at"].max()
    assert seen < last <= at + 2 * DAY + CORRECTIONS + DAY
    assert collect_evidence(arena, last + 10 * DAY, market).filter(pl.col("market_id") == market).height == 1, (
        "`arena resolve` looks at any time"
    )


@pytest.mark.slow
def test_a_market_that_vanishes_is_a_row_alarms_once_and_is_polled_less_often(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    venue = Venue(monkeypatch)
    market = arena.read(tables.TRADES)["market_id"][0]
    venue.changes[market] = lambda look: None
    at = START + timedelta(hours=1)
    rows = collect_evidence(arena, at).filter(pl.col("market_id") == market)
    assert rows["missing"].to_list() == [True]
    waits, looked = [], at
    while looked < at + DAY and len(waits) < 5:
        arena.now += timedelta(minutes=5)
        with arena.journal() as journal:
            is_due = market in list_due_markets(arena.world(journal))
        if is_due:
            waits.append(arena.now - looked)
            looked = arena.now
            collect_evidence(arena, looked)
    assert waits == [FIRST * 2**number for number in range(5)]
    arena.books()
    missing = check(arena, "held_markets_are_listed")
    assert not missing.passed and missing.subjects == (market,)
    del venue.changes[market]
    collect_evidence(arena, arena.now + 2 * DAY)
    assert check(arena, "held_markets_are_listed").passed


def test_a_venue_whose_clock_is_in_another_week_is_named(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    venue = Venue(monkeypatch)
    for market in arena.read(tables.TRADES)["market_id"]:
        venue.changes[market] = lambda look: {**look, "fetched_at": START - 3 * DAY}
    with pytest.raises(ConfigError, match="the venue's clock shows 2026-02-26 00:07 UTC, this machine's 2026-03-01 01:07"):
        collect_evidence(arena, START + timedelta(hours=1))


def test_a_mark_that_the_listing_contradicts_is_recorded_and_an_outage_of_the_listing_costs_no_mark(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Polymarket.fetch_listed_prices
    monkeypatch.setattr(Polymarket, "fetch_listed_prices", lambda data, keys, now: dict.fromkeys(real(data, keys, now), 999000))
    with arena.journal() as journal:
        store_tick(arena.world(journal))
    rows = arena.read(tables.PRICES).filter(source="live")
    assert rows.height and set(rows["other"]) == {Decimal("0.999000")}
    assert rows["disagrees"].to_list() == [abs(price - Decimal("0.999")) > Decimal("0.05") for price in rows["price"]]

    def away(*_: object) -> Any:
        raise VenueError("reading markets", 3, "Gamma does not answer")

    monkeypatch.setattr(Polymarket, "fetch_listed_prices", away)
    arena.now += timedelta(days=2)
    with arena.journal() as journal:
        store_tick(arena.world(journal))
    later = arena.read(tables.PRICES).filter(pl.col("day") == arena.now.date())
    assert later.height and later["other"].is_null().all()
