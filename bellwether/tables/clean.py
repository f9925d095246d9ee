"""Clean tables: markets, resolutions and prices of all venues in the same columns, without duplicates. A missing outcome has a reason."""

from __future__ import annotations

import polars as pl

from bellwether.tables.raw import SCHEDULED_DAY
from bellwether.tables.schema import CONTRACTS, DAILY, DOLLARS, LARGE_SIZE, PRICE, SIZE, TEXT, TIME, UTC, Column, Table

KNOWN_AT = Column("known_at", TIME, "when the row became known: the latest of its sources", UTC)

MARKETS = Table(
    name="clean/markets",
    row="One market of any venue with this (scheduled) closing day, with its outcome or the reason for its absence.",
    columns=(
        Column("day", pl.Date(), "UTC day of the close on Kalshi, of the scheduled end on Polymarket; partition", UTC),
        Column("venue", TEXT, "kalshi or polymarket"),
        Column("market_id", TEXT, "market id at the venue"),
        Column("event_id", TEXT, "event id at the venue, a cluster key", nullable=True),
        Column(
            "series_id",
            TEXT,
            "series id at the venue (on Polymarket the event id without a series), a cluster key",
            nullable=True,
        ),
        Column("category", TEXT, "category of the series, else of the event, in Kalshi's terms; otherwise unknown"),
        Column("question", TEXT, "title of the market, with the meaning of YES if the title does not state it", nullable=True),
        Column("description", TEXT, "primary and secondary resolution rules, separated by a blank line", nullable=True),
        Column("market_type", TEXT, "binary (one yes/no question), scalar, multi or another type of the venue", nullable=True),
        Column("is_combo", pl.Boolean(), "whether it is a multivariate (combo) market, which is never a question"),
        Column("mutually_exclusive", pl.Boolean(), "whether at most one market of the event resolves YES", nullable=True),
        Column("open_time", TIME, "trading opened", UTC, nullable=True),
        Column(
            "close_time",
            TIME,
            "close of trading; on Polymarket the scheduled end, or two hours before the actual close if the market was resolved earlier",
            UTC,
        ),
        Column("settled_at", TIME, "paid out", UTC, nullable=True),
        Column("status", TEXT, "initialized, active, inactive, closed, determined, disputed, amended or settled"),
        Column("outcome", TEXT, "yes or no; null without a binary outcome", nullable=True),
        Column(
            "outcome_reason",
            TEXT,
            "why there is no binary outcome: undetermined, disputed, scalar, void, unknown result, contradictory evidence or several outcomes; null with one",
            nullable=True,
        ),
        Column("settlement_value", PRICE, "value of a YES contract at settlement", DOLLARS, nullable=True),
        Column("last_price", PRICE, "last trade, a final price and never a forecast", DOLLARS, nullable=True),
        Column("volume", LARGE_SIZE, "traded contracts; on Polymarket dollars", CONTRACTS, nullable=True),
        Column("open_interest", SIZE, "outstanding contracts", CONTRACTS, nullable=True),
        Column("source", TEXT, "endpoint of the data: live or historical"),
        KNOWN_AT,
    ),
    key=("day", "venue", "market_id"),
    partitioned_by=("day",),
    ignored=("raw/kalshi_series", "raw/kalshi_archive"),
    max_age=DAILY,
)

PRICES = Table(
    name="clean/prices",
    row="One point-in-time price of a market with this day, at or before its close.",
    columns=(
        Column("day", pl.Date(), "day of the market in clean/markets; partition", UTC),
        Column("venue", TEXT, "kalshi or polymarket"),
        Column("market_id", TEXT, "market id at the venue"),
        Column("at", TIME, "time of the price; on Kalshi the end of its candle", UTC),
        Column(
            "period_minutes",
            pl.Int32(),
            "length of the candle; on Polymarket the usual time between two prices",
            "minutes",
        ),
        Column("bid", PRICE, "best YES bid; null if missing", DOLLARS, nullable=True),
        Column("ask", PRICE, "best YES ask; null if missing", DOLLARS, nullable=True),
        Column(
            "last",
            PRICE,
            "last trade until then; null if missing; on Polymarket a price that may not be a trade",
            DOLLARS,
            nullable=True,
        ),
        Column("volume", SIZE, "contracts traded in the candle", CONTRACTS, nullable=True),
        Column("open_interest", SIZE, "outstanding contracts", CONTRACTS, nullable=True),
        KNOWN_AT,
    ),
    key=("day", "venue", "market_id", "at"),
    partitioned_by=("day",),
)

RESOLUTIONS = Table(
    name="clean/resolutions",
    row="The resolution of one Polymarket market from the evidence of Gamma, UMA and the CLOB, with the rule that decided.",
    columns=(
        SCHEDULED_DAY,
        Column("venue", TEXT, "polymarket"),
        Column("market_id", TEXT, "market id at the venue"),
        Column("condition_id", TEXT, "on-chain id of the condition", nullable=True),
        Column("market_type", TEXT, "binary (yes and no), named (two other outcomes) or multi"),
        Column("status", TEXT, "active, closed, determined (proposed), disputed or settled"),
        Column("outcome", TEXT, "yes or no; null if unresolved, and for markets with other outcomes", nullable=True),
        Column("winner", TEXT, "winning outcome; null without one", nullable=True),
        Column(
            "settlement_value",
            PRICE,
            "value of a contract of YES, or of the first of two named outcomes; null if unknown or with more outcomes",
            DOLLARS,
            nullable=True,
        ),
        Column(
            "outcome_reason",
            TEXT,
            "why no outcome won: undetermined, disputed, void, scalar, unknown result or contradictory evidence; null if one did",
            nullable=True,
        ),
        Column("rule", TEXT, "rule that decided"),
        Column("closed_at", TIME, "trading ended", UTC, nullable=True),
        Column("settled_at", TIME, "when the resolution became final; null before", UTC, nullable=True),
        Column("final", pl.Boolean(), "whether no other resolution is expected"),
        Column("evidence", TEXT, "evidence of the resolution, as JSON text"),
        KNOWN_AT,
    ),
    key=("day", "venue", "market_id"),
    partitioned_by=("day",),
)

TABLES = (MARKETS, PRICES, RESOLUTIONS)
