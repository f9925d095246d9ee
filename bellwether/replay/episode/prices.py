"""Price grids: the prices that orders of a market may have, as ranges with a step."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from bellwether.errors import SchemaError
from bellwether.replay.units import DOLLAR, centicents
from bellwether.units import CentiCents

if TYPE_CHECKING:
    import numpy as np

#: Start, end and step of prices allowed for orders, in $0.0001.
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
            raise SchemaError(f"the price range {span!r:.80} is no start, end and step in dollars, whole hundredths of a cent") from None
        ranges.append((start, end, step))
    return check_ranges(tuple(sorted(ranges)))


def check_ranges(ranges: Ranges) -> Ranges:
    """Return valid price ranges. Raises `SchemaError` for others, as `parse_ranges` does."""
    for span in ranges:
        is_range = isinstance(span, tuple) and len(span) == 3 and all(type(price) is int for price in span)
        if not is_range or not 0 <= span[0] <= span[1] <= DOLLAR or span[2] <= 0:
            raise SchemaError(
                f"the price range {span!r:.80} is no start, end and step in whole units of $0.0001, from 0 to {DOLLAR}, such as {CENTS[0]}"
            )
    if not any(0 < price < DOLLAR for start, end, step in ranges for price in (start, start + step) if price <= end):
        raise SchemaError(f"the price ranges {ranges!r:.80} have no price between 0 and a dollar")
    return ranges


#: Cents from 0 to a dollar: the default grid.
CENTS: Ranges = ((CentiCents(0), CentiCents(DOLLAR), CentiCents(100)),)
#: Usual grids of the venues, coarsest first. If a recording states no grid, the first with all of its prices applies. Half cents follow
#: tenths, because a few prices on half cents fit both, and tenths allow more orders.
USUAL = (
    CENTS,
    parse_ranges([("0", "0.1", "0.001"), ("0.1", "0.9", "0.01"), ("0.9", "1", "0.001")]),
    parse_ranges([("0", "1", "0.001")]),
    parse_ranges([("0", "1", "0.0025")]),
    parse_ranges([("0", "0.01", "0.0001"), ("0.01", "0.99", "0.001"), ("0.99", "1", "0.0001")]),
    parse_ranges([("0", "1", "0.0001")]),
)


def grid_prices(ranges: Ranges) -> np.ndarray:
    """Return the prices in these ranges that are above 0 and below a dollar, int64, ascending."""
    import numpy as np  # a list of episodes needs no arrays

    on_grid = np.zeros(DOLLAR + 1, np.bool_)
    for start, end, step in ranges:
        on_grid[start : end + 1 : step] = True
    return np.flatnonzero(on_grid[:DOLLAR])[int(on_grid[0]) :]
