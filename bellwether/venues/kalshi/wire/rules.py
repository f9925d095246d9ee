"""Formats of decimals in Kalshi's JSON: dollar strings in the current format, integer cents in older ones."""

from __future__ import annotations

from dataclasses import replace

from bellwether.tables.schema import PRICE, SIZE
from bellwether.venues.wire.shapes import DecimalRule, format_number


def format_cents(cents: int) -> str:
    """Format integer cents as a dollar string: 7 -> "0.07"."""
    sign = "-" if cents < 0 else ""
    return f"{sign}{abs(cents) // 100}.{abs(cents) % 100:02d}"


DOLLARS = DecimalRule(
    "_dollars", format_cents, r"^-?[0-9]{1,4}(\.[0-9]{1,6})?$", PRICE, "not a decimal of at most 4 digits and 6 decimals", 9999
)
PRICE_OF_CONTRACT = replace(DOLLARS, highest=1)
#: A quote at 0 or 1 is a missing quote; a trade at 0 means that nothing traded.
QUOTE = replace(PRICE_OF_CONTRACT, absent=(0, 1))
TRADE = replace(PRICE_OF_CONTRACT, absent=(0,))
CONTRACTS = DecimalRule("_fp", str, r"^-?[0-9]{1,16}(\.[0-9]{1,2})?$", SIZE, "not a decimal of at most 16 digits and 2 decimals", 10**16)
RATIO = replace(DOLLARS, suffix="", text=format_number, numbers=(int, float))
