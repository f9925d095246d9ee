"""Table of the order books that Kalshi's REST API returned; each row is one book."""

from __future__ import annotations

import polars as pl

from bellwether.tables.raw import BODY, FETCHED
from bellwether.tables.schema import DOLLARS, PRICE, SIZE, TEXT, UTC, Column, Table

#: Price levels of one side of a book.
LEVELS = pl.List(pl.Struct({"price": PRICE, "size": SIZE}))

_SIDE = "resting bids for {} as (price in dollars, size in contracts), ascending (best last); empty without bids"

KALSHI_BOOKS = Table(
    name="raw/kalshi_books",
    row="The order book of one Kalshi market in one response: the bids of both sides.",
    columns=(
        Column("day", pl.Date(), "UTC day of the response; partition", UTC),
        Column("ticker", TEXT, "ticker of the market"),
        Column("yes_bids", LEVELS, _SIDE.format("YES")),
        Column("no_bids", LEVELS, _SIDE.format("NO")),
        Column("yes_bid", PRICE, "best YES bid; null if missing", DOLLARS, nullable=True),
        Column("yes_ask", PRICE, "best YES ask (1 minus the best NO bid); null if missing", DOLLARS, nullable=True),
        Column("wire_format", TEXT, "current (orderbook_fp), transitional (dollars next to cents) or legacy (integer cents)"),
        BODY,
        *FETCHED,
    ),
    key=("day", "ticker", "fetched_at"),
    partitioned_by=("day",),
)
