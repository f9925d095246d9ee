"""However often, and by however many threads at once, the whole world is listed: each of its days is drawn once."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from bellwether.sandbox import GeneratedWorld
from bellwether.sandbox.polymarket.listing import Listing
from bellwether.sandbox.polymarket.model import ListedEvent


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
        # Days take their time only where threads may ask for the same one at once.
        return draw_day(listing, home) if threads > 1 else ()

    monkeypatch.setattr(Listing, "_draw_day", counted)
    listing = Listing(GeneratedWorld(3))
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(list_days, [listing] * 2, [days] * 2))
    assert len(draws) > days
    assert set(draws.values()) == {1}
