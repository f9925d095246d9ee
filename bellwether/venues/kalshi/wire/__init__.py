"""Parsing of Kalshi's JSON, in every format since 2024, into raw tables; invalid objects become rows of raw/kalshi_rejects."""

from bellwether.venues.kalshi.wire.books import parse_books
from bellwether.venues.kalshi.wire.candles import CandlePage, parse_candle_pages, parse_candles
from bellwether.venues.kalshi.wire.events import extract_nested_markets, parse_events, parse_series
from bellwether.venues.kalshi.wire.markets import STATUS_SYNONYMS, STATUSES, parse_markets
from bellwether.venues.wire.json_decoding import MalformedBody, UnusableValue, decode_json
from bellwether.venues.wire.rejects import Origin, ParsedRecords

__all__ = [
    "STATUSES",
    "STATUS_SYNONYMS",
    "CandlePage",
    "MalformedBody",
    "Origin",
    "ParsedRecords",
    "UnusableValue",
    "decode_json",
    "extract_nested_markets",
    "parse_books",
    "parse_candle_pages",
    "parse_candles",
    "parse_events",
    "parse_markets",
    "parse_series",
]
