"""Price grids: the prices that orders of a market may have, as ranges with a step."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from bellwether.errors import SchemaError
from bellwether.replay.units import DOLLAR, centicents
from bellwether.units import CentiCents

#: Start, end and step of prices allowed for orders.
PriceRange = tuple[CentiCents, CentiCents, CentiCents]
Ranges = tuple[PriceRange, ...]


def parse_ranges(spans: Iterable[Any]) -> Ranges:
    """Parse price ranges and sort them by start. spans: [start, end, step] or objects with these fields, dollars as text.

    Raises `SchemaError` for a price outside 0 to a dollar or finer than $0.0001, for a step of 0, and for ranges without a price between 0
    and a dollar.
    """
    spans, ranges = list(spans), list[PriceRange]()
    for span in spans:
        try:
            values = [span[name] for name in ("start", "end", "step")] if isinstance(span, dict) else span
            start, end, step = (centicents(Decimal(str(value))) for value in values)
        except (TypeError, ValueError, KeyError, ArithmeticError, SchemaError):
            start, end, step = CentiCents(0), CentiCents(0), CentiCents(0)
        if not 0 <= start <= end <= DOLLAR or step <= 0:
            raise SchemaError(f"the price range {span!r:.80} is no start, end and step in dollars, whole hundredths of a cent from 0 to 1")
        ranges.append((start, end, step))
    if not any(0 < price < DOLLAR for start, end, step in ranges for price in (start, start + step) if price <= end):
        raise SchemaError(f"the price ranges {spans!r:.80} have no price between 0 and a dollar")
    return tuple(sorted(ranges))


#: Cents from 0 to a dollar: the default grid.
CENTS = parse_ranges([("0", "1", "0.01")])
#: Usual grids of the venues, coarsest first. If a recording states no grid, the first with all of its prices applies. Half cents follow tenths, because a few
#: prices on half cents fit both, and tenths allow more orders.
USUAL = (
    CENTS,
    parse_ranges([("0", "0.1", "0.001"), ("0.1", "0.9", "0.01"), ("0.9", "1", "0.001")]),
    parse_ranges([("0", "1", "0.001")]),
    parse_ranges([("0", "1", "0.0025")]),
    parse_ranges([("0", "0.01", "0.0001"), ("0.01", "0.99", "0.001"), ("0.99", "1", "0.0001")]),
    parse_ranges([("0", "1", "0.0001")]),
)


def dump_ranges(ranges: Ranges) -> list[list[str]]:
    """Format ranges as [start, end, step] in dollars, which `parse_ranges` reads."""
    return [[f"{Decimal(price).scaleb(-4).normalize():f}" for price in span] for span in ranges]
