"""A listing of the whole world draws each of its days once."""

from __future__ import annotations

from bellwether.sandbox import GeneratedWorld
from bellwether.sandbox.polymarket.listing import Listing

DAYS = 550


def test_a_day_is_drawn_once_for_all_listings_of_two_years() -> None:
    listing = Listing(GeneratedWorld(3))
    for _ in range(2):
        for day in reversed(range(DAYS)):
            listing.day(day)
            listing.created(day)
    assert listing.day.cache_info().misses == listing.day.cache_info().currsize
