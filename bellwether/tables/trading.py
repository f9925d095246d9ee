"""Raw tables of trading: order books and trades as Kalshi's REST interface shows them."""

from __future__ import annotations

import polars as pl

from bellwether.tables.raw import BODY, FETCHED
from bellwether.tables.schema import CONTRACTS, DOLLARS, PRICE, SIZE, TEXT, TIME, UTC, Column, Table

#: The price levels of one side of a book.
LEVELS = pl.List(pl.Struct({"price": PRICE, "size": SIZE}))

_SIDE = "resting bids for {} as (price in dollars, size in contracts), ascending: the best is last; empty when there is none"

KALSHI_BOOKS = Table(
    name="raw/kalshi_books",
    row="The order book of one Kalshi market at the moment of one answer: the bids of both sides.",
    columns=(
        Column("day", pl.Date(), "UTC day of the answer; the partition", UTC),
        Column("ticker", TEXT, "ticker of the market"),
        Column("yes_bids", LEVELS, _SIDE.format("YES")),
        Column("no_bids", LEVELS, _SIDE.format("NO")),
        Column("yes_bid", PRICE, "best YES bid; null when none", DOLLARS, nullable=True),
        Column("yes_ask", PRICE, "best YES ask, 1 less the best NO bid; null when none", DOLLARS, nullable=True),
        Column("wire_format", TEXT, "current (orderbook_fp), transitional (dollars beside cents) or legacy (integer cents)"),
        BODY,
        *FETCHED,
    ),
    key=("day", "ticker", "fetched_at"),
    partitioned_by=("day",),
)

KALSHI_TRADES = Table(
    name="raw/kalshi_trades",
    row="One trade on Kalshi, as listed on this UTC day.",
    columns=(
        Column("day", pl.Date(), "UTC day of the trade; the partition", UTC),
        Column("ticker", TEXT, "ticker of the market"),
        Column("trade_id", TEXT, "the venue's id of the trade"),
        Column("traded_at", TIME, "when it was made", UTC),
        Column("yes_price", PRICE, "price of a YES contract, whoever took", DOLLARS),
        Column("no_price", PRICE, "price of a NO contract: 1 less yes_price", DOLLARS),
        Column("size", SIZE, "contracts", CONTRACTS),
        Column("taker_side", TEXT, "outcome that the taker is positioned for, yes or no; null when the venue does not say", nullable=True),
        Column("is_block_trade", pl.Boolean(), "arranged off the book; null in formats before it was sent", nullable=True),
        Column("source", TEXT, "live or historical: which endpoint brought it"),
        BODY,
        *FETCHED,
    ),
    key=("day", "trade_id"),
    partitioned_by=("day",),
    sort=("day", "ticker", "traded_at", "trade_id"),
)
