"""Parsing of Polymarket's JSON into raw tables; invalid objects become rows of raw/polymarket_rejects."""

from bellwether.venues.polymarket.wire.books import parse_books
from bellwether.venues.polymarket.wire.events import parse_events
from bellwether.venues.polymarket.wire.markets import parse_markets
from bellwether.venues.polymarket.wire.prices import PriceHistory, parse_histories, parse_prices
from bellwether.venues.polymarket.wire.winners import parse_winners

__all__ = ["PriceHistory", "parse_books", "parse_events", "parse_histories", "parse_markets", "parse_prices", "parse_winners"]
