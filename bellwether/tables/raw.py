"""Raw tables: what the venues said, as they said it, with the request and the time of each answer."""

from __future__ import annotations

import polars as pl

from bellwether.tables.schema import CONTRACTS, DOLLARS, PRICE, SIZE, TEXT, TIME, UTC, Column, Table

DAY = Column("day", pl.Date(), "UTC day on which the market closed; the partition", UTC)

FETCHED = (
    Column("request", TEXT, "method, path and query of the call that brought this object; never holds a credential"),
    Column("page", pl.Int32(), "ordinal of the page within its pull, from 0"),
    Column("fetched_at", TIME, "when the venue answered, by the venue's own Date header", UTC),
    Column("known_at", TIME, "as of when this row was known: fetched_at", UTC),
)
BODY = Column("body", TEXT, "the object as it came, as JSON text")


def _price(name: str, meaning: str) -> Column:
    return Column(name, PRICE, meaning, DOLLARS, nullable=True)


def _size(name: str, meaning: str) -> Column:
    return Column(name, SIZE, meaning, CONTRACTS, nullable=True)


def _text(name: str, meaning: str) -> Column:
    return Column(name, TEXT, meaning, nullable=True)


def _time(name: str, meaning: str) -> Column:
    return Column(name, TIME, meaning, UTC, nullable=True)


KALSHI_SERIES = Table(
    name="raw/kalshi_series",
    row="One Kalshi series (the template of recurring events), as of the last pull.",
    columns=(
        Column("series_ticker", TEXT, "ticker of the series"),
        _text("title", "title"),
        _text("frequency", "how often events recur, in the venue's words"),
        _text("category", "primary category"),
        Column("categories", pl.List(pl.String()), "all discovery categories; empty when the venue sent none"),
        Column("tags", pl.List(pl.String()), "tags; empty when the venue sent null"),
        _text("fee_type", "fee formula: quadratic, quadratic_with_maker_fees, …"),
        Column("fee_multiplier", pl.Decimal(10, 6), "factor on the fee formula", "ratio", nullable=True),
        _text("contract_url", "address of the contract"),
        _text("contract_terms_url", "address of the contract's terms"),
        _time("last_updated_at", "last change of the series' metadata"),
        BODY,
        *FETCHED,
    ),
    key=("series_ticker",),
)

KALSHI_EVENTS = Table(
    name="raw/kalshi_events",
    row="One Kalshi event that has at least one market closing on this UTC day.",
    columns=(
        DAY,
        Column("event_ticker", TEXT, "ticker of the event"),
        _text("series_ticker", "ticker of its series"),
        _text("title", "title"),
        _text("sub_title", "second line of the title"),
        _text("category", "category as the event states it (deprecated by the venue, still sent)"),
        Column("mutually_exclusive", pl.Boolean(), "at most one market of the event resolves yes", nullable=True),
        _text("collateral_return_type", "MECNET, DIRECNET or empty"),
        _time("strike_date", "date that the event is about"),
        _text("strike_period", "period that the event is about, in words"),
        _text("fee_type_override", "fee formula that wins over the series'"),
        Column("fee_multiplier_override", pl.Decimal(10, 6), "fee factor that wins over the series'", "ratio", nullable=True),
        _time("last_updated_at", "last change of the event's metadata"),
        Column("body", TEXT, "the object as it came but for its nested markets, as JSON text"),
        *FETCHED,
    ),
    key=("day", "event_ticker"),
    partitioned_by=("day",),
)

_MARKET = (
    DAY,
    Column("ticker", TEXT, "ticker of the market; its identity on the venue"),
    Column("event_ticker", TEXT, "ticker of its event"),
    _text("market_type", "binary or scalar; an open set of words"),
    _text("title", "title (deprecated by the venue, still sent)"),
    _text("subtitle", "second line of the title"),
    _text("yes_sub_title", "what YES stands for"),
    _text("no_sub_title", "what NO stands for"),
    _time("created_at", "created_time of the wire"),
    _time("updated_at", "updated_time of the wire: last non-trading change"),
    _time("open_time", "trading opens"),
    Column("close_time", TIME, "trading closes; rewritten by the venue to the real close after an early close", UTC),
    _time("expected_expiration_time", "when the venue expected the outcome"),
    _time("expiration_time", "deprecated latest expiration"),
    _time("latest_expiration_time", "last possible expiration; 2099 is ordinary"),
    _time("settled_at", "settlement_ts of the wire: when the market was paid out"),
    Column(
        "status",
        TEXT,
        "response word: initialized, active, inactive, closed, determined, disputed, amended, finalized; 2024 synonyms mapped",
    ),
    Column("result", TEXT, "yes, no, scalar, void or another word as sent; empty while undecided"),
    _price("settlement_value", "value of a YES contract at settlement"),
    _text("expiration_value", "free text; never an outcome"),
    _price("last_price", "last trade; null when never traded"),
    _price("previous_price", "last trade 24 h before; null when none"),
    _price("yes_bid", "best YES bid; null when none"),
    _price("yes_ask", "best YES ask; null when none"),
    _price("no_bid", "best NO bid; null when none"),
    _price("no_ask", "best NO ask; null when none"),
    _price("notional_value", "pay-out of a winning contract"),
    _size("volume", "contracts traded"),
    _size("volume_24h", "contracts traded in the last 24 h"),
    _size("open_interest", "contracts outstanding"),
    Column("can_close_early", pl.Boolean(), "the market may close before its scheduled close", nullable=True),
    _text("early_close_condition", "when it closes early"),
    _text("rules_primary", "resolution rules"),
    _text("rules_secondary", "further rules"),
    _text("strike_type", "greater, less, between, functional, custom, structured…; an open set of words"),
    Column("floor_strike", pl.Float64(), "lower strike, in the unit of the question", nullable=True),
    Column("cap_strike", pl.Float64(), "upper strike, in the unit of the question", nullable=True),
    _text("custom_strike", "strike object as JSON text"),
    _text("price_level_structure", "name of the price grid; an open set of words"),
    Column("is_combo", pl.Boolean(), "a multivariate (combo) market"),
    Column("is_provisional", pl.Boolean(), "may be deleted by the venue if it never trades", nullable=True),
    Column("wire_format", TEXT, "current (dollar strings), transitional (both) or legacy (integer cents)"),
    Column("source", TEXT, "live or historical: which endpoint brought it"),
    BODY,
    *FETCHED,
)

KALSHI_MARKETS = Table(
    name="raw/kalshi_markets",
    row="One Kalshi market whose close time lies on this UTC day, typed, beside the object as it came.",
    columns=_MARKET,
    key=("day", "ticker"),
    partitioned_by=("day",),
)

KALSHI_ARCHIVE = Table(
    name="raw/kalshi_archive",
    row="One Kalshi market that the venue has moved to its historical endpoints, as of the last scan of the archive.",
    columns=_MARKET,
    key=("ticker",),
    sort=("day", "ticker"),
)

KALSHI_CANDLES = Table(
    name="raw/kalshi_candles",
    row="One candle of a Kalshi market that closed on this UTC day.",
    columns=(
        DAY,
        Column("ticker", TEXT, "ticker of the market"),
        Column("period_minutes", pl.Int32(), "length of the candle: 1, 60 or 1440", "minutes"),
        Column("end_at", TIME, "end of the candle's period", UTC),
        _price("yes_bid_open", "best YES bid at the start; null when none"),
        _price("yes_bid_high", "highest YES bid; null when none"),
        _price("yes_bid_low", "lowest YES bid; null when none"),
        _price("yes_bid_close", "best YES bid at the end; null when none"),
        _price("yes_ask_open", "best YES ask at the start; null when none"),
        _price("yes_ask_high", "highest YES ask; null when none"),
        _price("yes_ask_low", "lowest YES ask; null when none"),
        _price("yes_ask_close", "best YES ask at the end; null when none"),
        _price("price_open", "first trade; null without a trade"),
        _price("price_high", "highest trade; null without a trade"),
        _price("price_low", "lowest trade; null without a trade"),
        _price("price_close", "last trade; null without a trade"),
        _price("price_mean", "mean trade; null without a trade"),
        _price("price_previous", "last trade before the candle; null when none"),
        _size("volume", "contracts traded in the period"),
        _size("open_interest", "contracts outstanding at the end"),
        Column("source", TEXT, "live or historical: which endpoint brought it"),
        *FETCHED,
    ),
    key=("day", "ticker", "period_minutes", "end_at"),
    partitioned_by=("day",),
)


def _rejects(venue: str) -> Table:
    return Table(
        name=f"raw/{venue}_rejects",
        row="One object of a venue's answer that does not fit, with the reason and the object itself.",
        columns=(
            DAY,
            Column("venue", TEXT, "kalshi or polymarket"),
            Column("table", TEXT, "the raw table that the object was meant for"),
            _text("record_id", "ticker of the object, where it has one"),
            _text("field", "field of the wire that does not fit; null when the object as a whole does not"),
            _text("value", "the offending value as text, cut to 200 characters"),
            Column("reason", TEXT, "what is wrong with it"),
            BODY,
            Column("ordinal", pl.Int32(), "position of the object within its page, from 0"),
            *FETCHED,
        ),
        key=("day", "venue", "table", "request", "page", "ordinal", "reason"),
        partitioned_by=("day",),
    )


KALSHI_REJECTS = _rejects("kalshi")
POLYMARKET_REJECTS = _rejects("polymarket")

#: Where the objects of each venue that do not fit are filed.
REJECTS = {"kalshi": KALSHI_REJECTS, "polymarket": POLYMARKET_REJECTS}

TABLES = (KALSHI_SERIES, KALSHI_EVENTS, KALSHI_MARKETS, KALSHI_ARCHIVE, KALSHI_CANDLES, KALSHI_REJECTS)
