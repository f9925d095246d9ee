"""Raw tables: data of the venues as received, with the request and the time of each page (one response)."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from bellwether.tables.schema import CONTRACTS, DAILY, DOLLARS, EXACT_PRICE, PRICE, SIZE, TEXT, TIME, USDC, UTC, WEEKLY, Column, Table

DAY = Column("day", pl.Date(), "UTC day of the market's close; partition", UTC)

FETCHED = (
    Column("request", TEXT, "method, path and query of the request, without credentials"),
    Column("page", pl.Int32(), "index of the page within its pull, from 0"),
    Column("fetched_at", TIME, "time of the response, from the venue's Date header", UTC),
    Column("known_at", TIME, "when the row became known (fetched_at)", UTC),
)
BODY = Column("body", TEXT, "verbatim object as JSON text")


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
    row="One Kalshi series (template of recurring events), as of the last pull.",
    columns=(
        Column("series_ticker", TEXT, "ticker of the series"),
        _text("title", "title"),
        _text("frequency", "frequency of events, in the venue's terms"),
        _text("category", "primary category"),
        Column("categories", pl.List(pl.String()), "all discovery categories; empty if not sent"),
        Column("tags", pl.List(pl.String()), "tags; empty if null"),
        _text("fee_type", "fee formula: quadratic, quadratic_with_maker_fees, …"),
        Column("fee_multiplier", pl.Decimal(10, 6), "factor on the fee formula", "ratio", nullable=True),
        _text("contract_url", "URL of the contract"),
        _text("contract_terms_url", "URL of the contract terms"),
        _time("last_updated_at", "last change of the metadata"),
        BODY,
        *FETCHED,
    ),
    key=("series_ticker",),
    max_age=WEEKLY,
)

KALSHI_EVENTS = Table(
    name="raw/kalshi_events",
    row="One Kalshi event with at least one market closing on this UTC day.",
    columns=(
        DAY,
        Column("event_ticker", TEXT, "ticker of the event"),
        _text("series_ticker", "ticker of its series"),
        _text("title", "title"),
        _text("sub_title", "subtitle"),
        _text("category", "category of the event (deprecated by the venue, still sent)"),
        Column("mutually_exclusive", pl.Boolean(), "whether at most one market of the event resolves YES", nullable=True),
        _text("collateral_return_type", "MECNET, DIRECNET or empty"),
        _time("strike_date", "date of the event"),
        _text("strike_period", "period of the event, as text"),
        _text("fee_type_override", "fee formula that overrides the series"),
        Column("fee_multiplier_override", pl.Decimal(10, 6), "fee multiplier that overrides the series", "ratio", nullable=True),
        _time("last_updated_at", "last change of the metadata"),
        Column("body", TEXT, "verbatim object without its nested markets, as JSON text"),
        *FETCHED,
    ),
    key=("day", "event_ticker"),
    partitioned_by=("day",),
)

_MARKET = (
    DAY,
    Column("ticker", TEXT, "ticker of the market, its id at the venue"),
    Column("event_ticker", TEXT, "ticker of its event"),
    _text("market_type", "binary or scalar; other values are possible"),
    _text("title", "title (deprecated by the venue, still sent)"),
    _text("subtitle", "subtitle"),
    _text("yes_sub_title", "meaning of YES"),
    _text("no_sub_title", "meaning of NO"),
    _time("created_at", "created_time of the response"),
    _time("updated_at", "updated_time of the response, the last change other than trading"),
    _time("open_time", "trading opens"),
    Column("close_time", TIME, "close of trading, rewritten by the venue after an early close", UTC),
    _time("expected_expiration_time", "expected time of the outcome"),
    _time("expiration_time", "latest expiration (deprecated field)"),
    _time("latest_expiration_time", "last possible expiration; often in 2099"),
    _time("settled_at", "settlement_ts of the response, when the market was paid"),
    Column(
        "status",
        TEXT,
        "status of the response: initialized, active, inactive, closed, determined, disputed, amended or finalized; synonyms of 2024 are mapped",
    ),
    Column("result", TEXT, "result as sent: yes, no, scalar, void or another value; empty if undecided"),
    _price("settlement_value", "value of a YES contract at settlement"),
    _text("expiration_value", "free text, never an outcome"),
    _price("last_price", "last trade; null without one"),
    _price("previous_price", "last trade 24 h before; null without one"),
    _price("yes_bid", "best YES bid; null if missing"),
    _price("yes_ask", "best YES ask; null if missing"),
    _price("no_bid", "best NO bid; null if missing"),
    _price("no_ask", "best NO ask; null if missing"),
    _price("notional_value", "payout of a winning contract"),
    _size("volume", "traded contracts"),
    _size("volume_24h", "contracts traded in the last 24 h"),
    _size("open_interest", "outstanding contracts"),
    Column("can_close_early", pl.Boolean(), "whether the market may close before its scheduled close", nullable=True),
    _text("early_close_condition", "condition of an early close"),
    _text("rules_primary", "resolution rules"),
    _text("rules_secondary", "further rules"),
    _text("strike_type", "greater, less, between, functional, custom, structured, ...; other values are possible"),
    Column("floor_strike", pl.Float64(), "lower strike, in the unit of the question", nullable=True),
    Column("cap_strike", pl.Float64(), "upper strike, in the unit of the question", nullable=True),
    _text("custom_strike", "strike object as JSON text"),
    _text("price_level_structure", "name of the price grid; other values are possible"),
    Column("is_combo", pl.Boolean(), "whether it is a multivariate (combo) market"),
    Column("is_provisional", pl.Boolean(), "whether the venue may delete it if it never trades", nullable=True),
    Column("source", TEXT, "endpoint of the data: live or historical"),
    BODY,
    *FETCHED,
)

KALSHI_MARKETS = Table(
    name="raw/kalshi_markets",
    row="One Kalshi market that closed on this UTC day, typed, with the verbatim object.",
    columns=_MARKET,
    key=("day", "ticker"),
    partitioned_by=("day",),
)

KALSHI_ARCHIVE = Table(
    name="raw/kalshi_archive",
    row="One Kalshi market that the venue moved to its historical endpoints, as of the last scan.",
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
        _price("yes_bid_open", "best YES bid at the start; null if missing"),
        _price("yes_bid_high", "highest YES bid; null if missing"),
        _price("yes_bid_low", "lowest YES bid; null if missing"),
        _price("yes_bid_close", "best YES bid at the end; null if missing"),
        _price("yes_ask_open", "best YES ask at the start; null if missing"),
        _price("yes_ask_high", "highest YES ask; null if missing"),
        _price("yes_ask_low", "lowest YES ask; null if missing"),
        _price("yes_ask_close", "best YES ask at the end; null if missing"),
        _price("price_open", "first trade; null without a trade"),
        _price("price_high", "highest trade; null without a trade"),
        _price("price_low", "lowest trade; null without a trade"),
        _price("price_close", "last trade; null without a trade"),
        _price("price_mean", "mean trade; null without a trade"),
        _price("price_previous", "last trade before the candle; null without one"),
        _size("volume", "contracts traded in the period"),
        _size("open_interest", "outstanding contracts at the end"),
        Column("source", TEXT, "endpoint of the data: live or historical"),
        *FETCHED,
    ),
    key=("day", "ticker", "period_minutes", "end_at"),
    partitioned_by=("day",),
)


SCHEDULED_DAY = Column(
    "day",
    pl.Date(),
    "UTC day of the market's endDate; partition. endDate is the scheduled end, the only one that Gamma can be queried by; it does not move "
    "with the resolution",
    UTC,
)


def _exact_price(name: str, meaning: str) -> Column:
    return Column(name, EXACT_PRICE, meaning, DOLLARS, nullable=True)


def _usdc(name: str, meaning: str) -> Column:
    return Column(name, USDC, f"{meaning}; cut to 6 decimals", "dollars", nullable=True)


def _flag(name: str, meaning: str) -> Column:
    return Column(name, pl.Boolean(), meaning, nullable=True)


def _ratio(name: str, meaning: str) -> Column:
    return Column(name, pl.Decimal(10, 6), meaning, "ratio", nullable=True)


def _basis_points(name: str, meaning: str) -> Column:
    return Column(name, pl.Int64(), meaning, "basis points", nullable=True)


POLYMARKET_MARKETS = Table(
    name="raw/polymarket_markets",
    row="One Polymarket market with this scheduled end (UTC day), typed, with Gamma's verbatim object.",
    columns=(
        SCHEDULED_DAY,
        Column("market_id", TEXT, "Gamma's market id"),
        _text("condition_id", "on-chain id of the condition, the CLOB's market id"),
        _text("question_id", "id of the question"),
        _text("event_id", "Gamma's event id"),
        _text("event_slug", "URL name of the event"),
        _text("event_title", "title of the event"),
        _text("series_slug", "URL name of the event's series"),
        _text("slug", "URL name of the market"),
        _text("question", "the question"),
        _text("description", "resolution rules"),
        _text("resolution_source", "source of the outcome"),
        Column("outcomes", pl.List(pl.String()), "names of the outcomes, in the venue's order; empty if not sent"),
        Column(
            "outcome_prices",
            pl.List(EXACT_PRICE),
            "price of each outcome, in the order of outcomes, cut to 20 decimals; empty if not sent",
            DOLLARS,
        ),
        Column(
            "token_ids",
            pl.List(pl.String()),
            "traded id of each outcome (token of Protocol V1, position of V2), in the order of outcomes; empty before deployment",
        ),
        _text("yes_token", "token of the outcome yes, case-insensitive; null without one"),
        _text("no_token", "token of the outcome no, case-insensitive; null without one"),
        Column(
            "market_type",
            TEXT,
            "binary: exactly yes and no; named: exactly two other outcomes; multi: any other number of outcomes",
        ),
        _text("group_item_title", "short title of the market within its event"),
        _flag("neg_risk", "whether at most one market of the event resolves YES"),
        _text("category", "category of the market; only old markets have one"),
        Column("tags", pl.List(pl.String()), "tag slugs of the market or its event, if the response has them"),
        _time("created_at", "createdAt of the response"),
        _time("updated_at", "updatedAt of the response"),
        _time("start_time", "startDate of the response, the start of trading"),
        Column("end_time", TIME, "endDate of the response, the scheduled end", UTC),
        _time("closed_at", "closedTime of the response, the actual end of trading"),
        _time("uma_end_at", "umaEndDate of the response, when the resolution became final"),
        _text("uma_resolution_status", "requested, proposed, disputed, resolved or settled; other values are possible"),
        Column("uma_statuses", pl.List(pl.String()), "umaResolutionStatuses of the response, all statuses so far; empty if not sent"),
        _text("resolution_status", "resolutionStatus of newer objects: inactive, active or resolved"),
        Column("lower_bound", USDC, "lower bound of an early scalar market", "unit of the question", nullable=True),
        Column("upper_bound", USDC, "upper bound of an early scalar market", "unit of the question", nullable=True),
        _flag("closed", "whether trading has ended; not the same as resolved"),
        _flag("active", "listed"),
        _flag("archived", "whether the venue archived it"),
        _flag("accepting_orders", "whether the book accepts orders"),
        _usdc("volume", "dollars traded"),
        _usdc("liquidity", "dollars resting in the book"),
        _exact_price("best_bid", "best bid for the first outcome; null if missing"),
        _exact_price("best_ask", "best ask for the first outcome; null if missing"),
        _exact_price("last_trade_price", "last trade of the first outcome; null without one"),
        _exact_price("tick_size", "price step"),
        Column("min_order_size", SIZE, "minimum order size", "shares", nullable=True),
        _flag("fees_enabled", "whether trades pay fees"),
        _text("fee_type", "name of the fee formula; other values are possible"),
        _ratio("fee_rate", "feeSchedule.rate of the response"),
        _ratio("fee_exponent", "feeSchedule.exponent of the response"),
        _flag("taker_only", "whether only takers pay fees"),
        _ratio("rebate_rate", "share of the fees rebated to makers"),
        _basis_points("taker_base_fee", "takerBaseFee of the response"),
        _basis_points("maker_base_fee", "makerBaseFee of the response"),
        BODY,
        *FETCHED,
    ),
    key=("day", "market_id"),
    partitioned_by=("day",),
)

POLYMARKET_EVENTS = Table(
    name="raw/polymarket_events",
    row="One Polymarket event with at least one market with this scheduled end (UTC day).",
    columns=(
        SCHEDULED_DAY,
        Column("event_id", TEXT, "Gamma's event id"),
        _text("slug", "URL name of the event"),
        _text("ticker", "ticker of the event"),
        _text("title", "title"),
        _text("description", "description"),
        _text("category", "category of the event; only old events have one"),
        Column("tags", pl.List(pl.String()), "tag slugs; empty without tags"),
        Column("tag_labels", pl.List(pl.String()), "tag labels, in the order of tags"),
        _text("series_id", "Gamma's series id"),
        _text("series_slug", "URL name of the series"),
        _text("series_title", "title of the series"),
        _flag("neg_risk", "whether at most one market of the event resolves YES"),
        _time("created_at", "createdAt of the response"),
        _time("updated_at", "updatedAt of the response"),
        _time("start_time", "startDate of the response"),
        _time("end_time", "endDate of the response, the scheduled end"),
        _time("closed_at", "closedTime of the response"),
        _flag("closed", "whether all its markets are closed"),
        _flag("active", "listed"),
        _flag("archived", "whether the venue archived it"),
        _usdc("volume", "dollars traded"),
        _usdc("liquidity", "dollars resting in the books"),
        Column("body", TEXT, "verbatim object without its nested markets, as JSON text"),
        *FETCHED,
    ),
    key=("day", "event_id"),
    partitioned_by=("day",),
)

POLYMARKET_WINNERS = Table(
    name="raw/polymarket_winners",
    row="One outcome of a closed Polymarket market on the CLOB, with the winner flag.",
    columns=(
        SCHEDULED_DAY,
        Column("condition_id", TEXT, "on-chain id of the condition"),
        Column("position", pl.Int32(), "index of the outcome within its market, from 0"),
        _text("token_id", "token of the outcome"),
        _text("outcome", "name of the outcome"),
        _exact_price("price", "price of the outcome"),
        _flag("winner", "whether the outcome won"),
        _flag("is_50_50_outcome", "whether the market was resolved 50-50"),
        _flag("closed", "whether trading has ended"),
        _flag("accepting_orders", "whether the book accepts orders"),
        *FETCHED,
    ),
    key=("day", "condition_id", "position"),
    partitioned_by=("day",),
)

POLYMARKET_PRICES = Table(
    name="raw/polymarket_prices",
    row="One past price of a Polymarket market's YES token, or of its first outcome without one.",
    columns=(
        SCHEDULED_DAY,
        Column("market_id", TEXT, "Gamma's market id"),
        Column("token_id", TEXT, "the token"),
        Column("at", TIME, "t of the response, the time of the price", UTC),
        Column("price", EXACT_PRICE, "p of the response, a trade or a midpoint (the venue does not state which)", DOLLARS),
        Column("period_minutes", pl.Int32(), "requested fidelity, the usual time between two prices", "minutes"),
        *FETCHED,
    ),
    key=("day", "market_id", "at"),
    partitioned_by=("day",),
)

#: Transient kinds of failures -> column of the pulls that counts them.
FAILURES = {
    "rate limit": "failures_rate_limit",
    "server": "failures_server",
    "timeout": "failures_timeout",
    "connection": "failures_connection",
    "malformed": "failures_malformed",
}


def _pull_table(venue: str) -> Table:
    return Table(
        name=f"raw/{venue}_pulls",
        row="Request statistics of one pull of a UTC day, from its stored pages and manifest.",
        columns=(
            Column("day", pl.Date(), "pulled day; partition", UTC),
            Column("pull", TEXT, "folder of the pages, relative to the root of the lake"),
            Column("final", pl.Boolean(), "whether all markets of the day were settled, so that nothing more is expected"),
            Column("requests", pl.Int64(), "number of stored pages"),
            Column(
                "attempts",
                pl.Int64(),
                "number of requests sent by the process that finished the pull, including retries; null in older pulls",
                nullable=True,
            ),
            *(Column(column, pl.Int64(), f"number of these that failed with {kind}", nullable=True) for kind, column in FAILURES.items()),
            Column(
                "limited_seconds",
                pl.Float64(),
                "time spent waiting for rate limits, summed over concurrent requests",
                "seconds",
                nullable=True,
            ),
            Column("started_at", TIME, "time of the first response", UTC),
            Column("finished_at", TIME, "time of the last response", UTC),
            Column("known_at", TIME, "when the row became known (finished_at)", UTC),
        ),
        key=("day",),
        partitioned_by=("day",),
        max_age=DAILY,
    )


KALSHI_PULLS = _pull_table("kalshi")
POLYMARKET_PULLS = _pull_table("polymarket")


def _reject_table(venue: str) -> Table:
    return Table(
        name=f"raw/{venue}_rejects",
        row="One invalid object in a response of the venue, with the reason.",
        columns=(
            DAY,
            Column("venue", TEXT, "kalshi or polymarket"),
            Column("table", TEXT, "raw table for which the object was meant"),
            _text("record_id", "ticker of the object, if any"),
            _text("field", "invalid field; null if the object as a whole is invalid"),
            _text("value", "invalid value as text, cut to 200 characters"),
            Column("reason", TEXT, "what is wrong with the object"),
            BODY,
            Column("ordinal", pl.Int32(), "index of the object within its page, from 0"),
            *FETCHED,
        ),
        key=("day", "venue", "table", "request", "page", "ordinal", "reason"),
        partitioned_by=("day",),
    )


KALSHI_REJECTS = _reject_table("kalshi")
KALSHI_SERIES_REJECTS = Table(
    name="raw/kalshi_series_rejects",
    row="One invalid object of Kalshi's list of series, with the reason, as of the last pull.",
    columns=(replace(DAY, description="UTC day of the response"), *KALSHI_REJECTS.columns[1:]),
    key=KALSHI_REJECTS.key,
)
KALSHI_ARCHIVE_REJECTS = Table(
    name="raw/kalshi_archive_rejects",
    row="One invalid object of Kalshi's archive, with the reason, as of the last scan.",
    columns=(
        replace(DAY, description="UTC day of the market's close, or of the response if that is unreadable"),
        *KALSHI_REJECTS.columns[1:],
    ),
    key=KALSHI_REJECTS.key,
)
POLYMARKET_REJECTS = _reject_table("polymarket")

#: Table of rejected objects by venue.
REJECTS = {"kalshi": KALSHI_REJECTS, "polymarket": POLYMARKET_REJECTS}

#: Nanosecond precision, as receive times and some exchange times have it.
INSTANT = pl.Datetime("ns", "UTC")

RECORDING = Column("recording", TEXT, "name of the recording; partition")

RECORDINGS = Table(
    name="raw/recordings",
    row="One verbatim frame of a recording, in order of arrival.",
    columns=(
        RECORDING,
        Column("ordinal", pl.Int64(), "index of the frame in order of arrival, from 0"),
        Column("received_at", INSTANT, "time of receipt by the receiver's clock; null if an imported capture has none", UTC, nullable=True),
        Column("connection", pl.Int32(), "number of the connection within the recording, from 1"),
        Column("sid", pl.Int64(), "subscription on that connection; null if the frame has none", nullable=True),
        Column("seq", pl.Int64(), "sequence number of the frame on its subscription, over all markets; null if it has none", nullable=True),
        Column("type", TEXT, "type of the frame at the venue; orderbook_rest and trade_rest are polled pages", nullable=True),
        Column("market_ticker", TEXT, "market of the frame; null if it names none or several", nullable=True),
        Column("exchange_at", INSTANT, "time of the event by the exchange's clock; null if not stated", UTC, nullable=True),
        Column("frame", TEXT, "verbatim frame"),
    ),
    key=("recording", "ordinal"),
    partitioned_by=("recording",),
)

RECORDING_GAPS = Table(
    name="raw/recording_gaps",
    row="One gap in a recording: skipped sequence numbers, or a period in which one market's book is invalid.",
    columns=(
        RECORDING,
        Column("gap", pl.Int32(), "index of the gap within the recording, from 0"),
        Column(
            "kind",
            TEXT,
            "lost (skipped numbers), partial (expected holes, for a whole subscription) or book (invalid book)",
        ),
        Column(
            "cause",
            TEXT,
            "for a book: gap (skipped numbers), break (end of the connection), error with a code or unsubscribed (end of the subscription), "
            "start (no snapshot at the start), or a fault of the frames; else null",
            nullable=True,
        ),
        Column("connection", pl.Int32(), "number of the connection"),
        Column("sid", pl.Int64(), "subscription on that connection"),
        Column("first_seq", pl.Int64(), "first skipped number; null for a book", nullable=True),
        Column("last_seq", pl.Int64(), "last skipped number; null for a book", nullable=True),
        Column("missing", pl.Int64(), "number of missing frames; null for a book", nullable=True),
        Column("start_ordinal", pl.Int64(), "last frame before the gap; null without one", nullable=True),
        Column("start_at", INSTANT, "time of receipt of that frame", UTC, nullable=True),
        Column(
            "end_ordinal",
            pl.Int64(),
            "frame that ended the gap (the next number, or the book's snapshot); null without one",
            nullable=True,
        ),
        Column("end_at", INSTANT, "time of receipt of that frame", UTC, nullable=True),
        Column("markets", pl.List(pl.String()), "affected markets; for lost numbers, all known markets of the subscription"),
    ),
    key=("recording", "gap"),
    partitioned_by=("recording",),
    version="2",
)

TABLES = (
    KALSHI_SERIES,
    KALSHI_SERIES_REJECTS,
    KALSHI_EVENTS,
    KALSHI_MARKETS,
    KALSHI_ARCHIVE,
    KALSHI_ARCHIVE_REJECTS,
    KALSHI_CANDLES,
    KALSHI_REJECTS,
    KALSHI_PULLS,
    POLYMARKET_EVENTS,
    POLYMARKET_MARKETS,
    POLYMARKET_WINNERS,
    POLYMARKET_PRICES,
    POLYMARKET_REJECTS,
    POLYMARKET_PULLS,
    RECORDINGS,
    RECORDING_GAPS,
)
