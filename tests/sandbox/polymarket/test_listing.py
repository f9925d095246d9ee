"""Names of Polymarket's generated markets, and the number of days that a listing generates."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from bellwether.sandbox import GeneratedWorld
from bellwether.sandbox.polymarket.generated_polymarket import GeneratedPolymarket
from bellwether.sandbox.polymarket.listing import EARLIEST_END, LATEST_END, Listing
from bellwether.sandbox.polymarket.model import ListedEvent
from bellwether.sandbox.polymarket.source import ListingFilter
from bellwether.sandbox.timestamps import DAY, to_instant

NOW = to_instant(datetime(2025, 3, 20, 12, tzinfo=UTC))


@pytest.mark.slow
def test_names_are_unique_and_lead_back() -> None:
    polymarket = GeneratedPolymarket(GeneratedWorld(2))
    rows = list(polymarket.markets(ListingFilter(), NOW + 150 * DAY))
    assert len(rows) > 3000
    for names in ("id", "condition_id"):
        assert len({getattr(row, names) for row in rows}) == len(rows)
    tokens = [token for row in rows for token in row.tokens]
    assert len(set(tokens)) == 2 * len(rows)
    assert {len(token) for token in tokens} <= set(range(72, 79))
    for row in rows[::97]:
        for wanted in (
            ListingFilter(ids=frozenset((row.id,))),
            ListingFilter(condition_ids=frozenset((row.condition_id,))),
            ListingFilter(tokens=frozenset((row.tokens[1],))),
        ):
            assert [found.key for found in polymarket.markets(wanted, NOW + 150 * DAY)] == [row.key]


def test_a_day_is_listed_without_making_the_rest_of_the_world() -> None:
    polymarket = GeneratedPolymarket(GeneratedWorld(4))
    now = NOW + 400 * DAY
    assert list(polymarket.markets(ListingFilter(ends=(now - DAY, now), closed=True), now))
    assert polymarket._listing.day.cache_info().misses <= LATEST_END + EARLIEST_END + 2


def list_days(listing: Listing, days: int) -> None:
    for day in reversed(range(days)):
        listing.day(day)
        listing.created(day)


@pytest.mark.parametrize(("days", "threads"), [(550, 1), (60, 2)])
def test_a_day_is_drawn_once_for_all_listings(days: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draws: Counter[int] = Counter()
    draw_day = Listing._draw_day

    def counted(listing: Listing, home: int) -> tuple[ListedEvent, ...]:
        draws[home] += 1
        # Days are really drawn only if several threads may request the same one.
        return draw_day(listing, home) if threads > 1 else ()

    monkeypatch.setattr(Listing, "_draw_day", counted)
    listing = Listing(GeneratedWorld(3))
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(list_days, [listing] * 2, [days] * 2))
    assert len(draws) > days
    assert set(draws.values()) == {1}
