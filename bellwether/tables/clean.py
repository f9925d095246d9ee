"""Clean tables: one shape for all venues, typed, de-duplicated, with the outcome or the reason why it is missing."""

from __future__ import annotations

import polars as pl

from bellwether.tables.raw import SCHEDULED_DAY
from bellwether.tables.schema import CONTRACTS, DOLLARS, PRICE, SIZE, TEXT, TIME, UTC, Column, Table

KNOWN_AT = Column("known_at", TIME, "as of when this row was known: the latest of the facts that it is made from", UTC)

MARKETS = Table(
    name="clean/markets",
    row="One market of any venue that was to close on this UTC day, with its outcome or why it has none.",
    columns=(
        Column("day", pl.Date(), "UTC day: Kalshi's of the close, Polymarket's of the scheduled end; the partition", UTC),
        Column("venue", TEXT, "kalshi or polymarket"),
        Column("market_id", TEXT, "the venue's own id of the market; with the venue its identity"),
        Column("event_id", TEXT, "the venue's own id of the event; a cluster key", nullable=True),
        Column(
            "series_id",
            TEXT,
            "the venue's own id of the series, on Polymarket of the event where it has none; a cluster key",
            nullable=True,
        ),
        Column("category", TEXT, "category of the series, else of the event, in Kalshi's words; else unknown"),
        Column(
            "question", TEXT, "the question: the market's title, with what YES stands for where the title does not say it", nullable=True
        ),
        Column("description", TEXT, "resolution rules, primary and secondary, one blank line between", nullable=True),
        Column("market_type", TEXT, "binary (one yes-or-no question), scalar, multi or another word of the venue", nullable=True),
        Column("is_combo", pl.Boolean(), "a multivariate (combo) market; never a question"),
        Column("mutually_exclusive", pl.Boolean(), "at most one market of the event resolves yes", nullable=True),
        Column("open_time", TIME, "trading opened", UTC, nullable=True),
        Column(
            "close_time",
            TIME,
            "trading closed; on Polymarket the scheduled end, or two hours before the real close of a market that was answered earlier",
            UTC,
        ),
        Column("settled_at", TIME, "paid out", UTC, nullable=True),
        Column("status", TEXT, "initialized, active, inactive, closed, determined, disputed, amended or settled"),
        Column("outcome", TEXT, "yes or no; null when there is no binary outcome", nullable=True),
        Column(
            "outcome_reason",
            TEXT,
            "why there is no binary outcome: undetermined, disputed, scalar, void, unknown result, contradictory evidence or several outcomes; "
            "null when there is one",
            nullable=True,
        ),
        Column("settlement_value", PRICE, "value of a YES contract at settlement", DOLLARS, nullable=True),
        Column("last_price", PRICE, "last trade: a final price, for the record; never a forecast", DOLLARS, nullable=True),
        Column("volume", SIZE, "contracts traded; on Polymarket dollars traded", CONTRACTS, nullable=True),
        Column("open_interest", SIZE, "contracts outstanding", CONTRACTS, nullable=True),
        Column("source", TEXT, "live or historical: which endpoint brought it"),
        KNOWN_AT,
    ),
    key=("day", "venue", "market_id"),
    partitioned_by=("day",),
)

PRICES = Table(
    name="clean/prices",
    row="One point-in-time price of a market of this UTC day, at or before its close.",
    columns=(
        Column("day", pl.Date(), "day of the market in clean/markets; the partition", UTC),
        Column("venue", TEXT, "kalshi or polymarket"),
        Column("market_id", TEXT, "the venue's own id of the market"),
        Column("at", TIME, "the instant at which the price stood: on Kalshi the end of its candle", UTC),
        Column(
            "period_minutes",
            pl.Int32(),
            "length of the candle that it is taken from, on Polymarket the usual time between two prices",
            "minutes",
        ),
        Column("bid", PRICE, "best YES bid; null when none", DOLLARS, nullable=True),
        Column("ask", PRICE, "best YES ask; null when none", DOLLARS, nullable=True),
        Column(
            "last",
            PRICE,
            "last trade up to this instant; null when none; on Polymarket a price of which the venue does not say whether it is a trade",
            DOLLARS,
            nullable=True,
        ),
        Column("volume", SIZE, "contracts traded in the candle", CONTRACTS, nullable=True),
        Column("open_interest", SIZE, "contracts outstanding", CONTRACTS, nullable=True),
        KNOWN_AT,
    ),
    key=("day", "venue", "market_id", "at"),
    partitioned_by=("day",),
)

RESOLUTIONS = Table(
    name="clean/resolutions",
    row="The verdict on one Polymarket market, by the evidence of Gamma, UMA and the CLOB, with the rule that decided.",
    columns=(
        SCHEDULED_DAY,
        Column("venue", TEXT, "polymarket"),
        Column("market_id", TEXT, "the venue's own id of the market"),
        Column("condition_id", TEXT, "the condition's id on chain", nullable=True),
        Column("market_type", TEXT, "binary (yes and no), named (two other outcomes) or multi"),
        Column("status", TEXT, "active, closed, determined (proposed), disputed or settled"),
        Column("outcome", TEXT, "yes or no; null when there is none, and for markets with other outcomes", nullable=True),
        Column("winner", TEXT, "name of the outcome that won; null when none did", nullable=True),
        Column(
            "settlement_value",
            PRICE,
            "value of a contract of yes, or of the first of two named outcomes; null while unknown and for more outcomes",
            DOLLARS,
            nullable=True,
        ),
        Column(
            "outcome_reason",
            TEXT,
            "why no outcome won: undetermined, disputed, void, scalar, unknown result or contradictory evidence; null when one did",
            nullable=True,
        ),
        Column("rule", TEXT, "the rule that decided, in words"),
        Column("closed_at", TIME, "trading ended", UTC, nullable=True),
        Column("settled_at", TIME, "the resolution became final; null until then", UTC, nullable=True),
        Column("final", pl.Boolean(), "no other verdict is expected"),
        Column("evidence", TEXT, "what the verdict rests on, as JSON text"),
        KNOWN_AT,
    ),
    key=("day", "venue", "market_id"),
    partitioned_by=("day",),
)

TABLES = (MARKETS, PRICES, RESOLUTIONS)
