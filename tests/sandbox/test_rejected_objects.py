"""Rejected objects of the sandbox: few, the same for all clients."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime

import orjson
import pytest

from bellwether.models.registry import models
from bellwether.sandbox import GeneratedWorld
from bellwether.sandbox.polymarket.generated_polymarket import GeneratedPolymarket
from bellwether.sandbox.polymarket.source import ListingFilter
from bellwether.sandbox.timestamps import to_instant
from bellwether.sandbox.world.model import FIRST_DAY
from bellwether.sandbox.world.wire import build_market, find_final
from bellwether.venues.kalshi.wire.markets import parse_markets
from bellwether.venues.polymarket.wire.markets import parse_markets as parse_polymarket
from bellwether.venues.wire.rejects import Origin

NOW = datetime(2026, 7, 1, tzinfo=UTC)
#: The days of the demo.
DEMO = range((date(2026, 4, 2) - FIRST_DAY).days, (NOW.date() - FIRST_DAY).days)
ORIGIN = Origin("/markets", 1, NOW)


@pytest.fixture(scope="module")
def world() -> GeneratedWorld:
    return GeneratedWorld(7)


def kalshi(world: GeneratedWorld) -> Iterator[tuple[str, bytes, bool]]:
    """Ticker and object of every market of the demo's days, and whether it is accepted."""
    for home in DEMO:
        for market in (market for event in world.day(home).events if not event.is_combo for market in event.markets):
            yield market.ticker, build_market(market, find_final(market)), market.terms["notional_value_dollars"] == "1.0000"


def test_a_few_markets_of_kalshi_are_rejects_with_their_reason(world: GeneratedWorld) -> None:
    found = list(kalshi(world))
    parsed = parse_markets([orjson.loads(body) for _, body, _ in found], ORIGIN, day=NOW.date(), source="live")
    unfit = {ticker for ticker, _, fits in found if not fits}
    assert 2 <= len(unfit) <= len(found) / 100
    assert set(parsed.rejects["record_id"]) == unfit
    assert set(parsed.rejects["field"]) == {"notional_value_dollars"}
    assert parsed.rows.height == len(found) - len(unfit)


def test_a_few_short_markets_of_polymarket_are_rejects_with_their_reason(world: GeneratedWorld) -> None:
    venue = GeneratedPolymarket(world)
    markets = [market for home in DEMO for event in venue.day(home) for market in event.markets]
    unfit = {market.id for market in markets if market.lacks_token}
    assert 2 <= len(unfit) <= len(markets) / 100
    rows = venue.markets(ListingFilter(ids=frozenset(market.id for market in markets)), to_instant(NOW))
    parsed = parse_polymarket([orjson.loads(row.body()) for row in rows], ORIGIN, day=NOW.date())
    rejected = dict(parsed.rejects.select("record_id", "field").iter_rows())
    assert {name for name, field in rejected.items() if field == "clobTokenIds"} == unfit
    assert set(rejected.values()) == {"clobTokenIds", "endDate"}, "a few never say when they end"


def test_two_models_could_have_known_some_of_the_demo() -> None:
    first, last = (FIRST_DAY.toordinal() + home for home in (DEMO.start, DEMO.stop - 1))
    within = {
        name
        for name, one in models().items()
        if name.startswith("sandbox-") and one.knowledge_cutoff and first <= one.knowledge_cutoff.toordinal() <= last
    }
    assert within == {"sandbox-noisy", "sandbox-overconfident"}
