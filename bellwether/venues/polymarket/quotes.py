"""Parsing of the CLOB's midpoints into exact decimals."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from bellwether.errors import VenueError
from bellwether.venues.http.page import VenuePage
from bellwether.venues.polymarket.routes import parse_requested_tokens
from bellwether.venues.wire.shapes import format_number

_PRICE = re.compile(r"[01](\.[0-9]{1,18})?")
#: Fields of a single midpoint, in several versions of the interface.
_NAMES = ("mid", "mid_price")


def parse_midpoints(pages: Iterable[VenuePage]) -> dict[str, Decimal]:
    """Parse the midpoints in dollars, by token, from the pages of `ClobClient.midpoints`.

    A token without a book or quotes is left out. The midpoint of a book with one side is not a tradable price: use the book. Raises `VenueError` for a value that is not a price from 0 to 1.
    """
    return {token: price for page in pages if page.status < 300 for token, price in _parse_page(page)}


def _parse_page(page: VenuePage) -> Iterable[tuple[str, Decimal]]:
    tokens = parse_requested_tokens(page)
    if page.sent:
        values = [(token, page.answer.get(token)) for token in tokens]
    else:
        values = [(tokens[0], next((page.answer[name] for name in _NAMES if name in page.answer), None))]
    prices = [(token, _price(page, token, value)) for token, value in values]
    return [(token, price) for token, price in prices if price is not None]


def _price(page: VenuePage, field: str, value: Any) -> Decimal | None:
    if value in (None, ""):
        return None
    text = format_number(value) if type(value) in (int, float) else value
    price = Decimal(text) if isinstance(text, str) and _PRICE.fullmatch(text) else None
    if price is None or price > 1:
        cause = f"{field} is {value!r:.80}, no decimal from 0 to 1"
        raise VenueError(page.request, 1, cause, "Look at the stored page", kind="malformed")
    return price
