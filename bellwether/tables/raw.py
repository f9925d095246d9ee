"""Raw tables: verbatim data of the venues, with the request and the time of each page."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from bellwether.tables.schema import CONTRACTS, DOLLARS, EXACT_PRICE, PRICE, SIZE, TEXT, TIME, USDC, UTC, Column, Table

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


SCHEDULED_DAY = Column(
    "day",
    pl.Date(),
    "UTC day of the market's endDate; the partition. endDate is the scheduled end, the only end that Gamma can be asked for; it never moves "
    "with the resolution, so a market that resolves early keeps its day",
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
    row="One Polymarket market whose scheduled end lies on this UTC day, typed, beside Gamma's object as it came.",
    columns=(
        SCHEDULED_DAY,
        Column("market_id", TEXT, "Gamma's id of the market; its identity on the venue"),
        _text("condition_id", "the condition's id on chain; the CLOB's name for the market"),
        _text("question_id", "id of the question"),
        _text("event_id", "Gamma's id of its event"),
        _text("event_slug", "name of its event in addresses"),
        _text("event_title", "title of its event"),
        _text("series_slug", "name of the event's series in addresses"),
        _text("slug", "name of the market in addresses"),
        _text("question", "the question"),
        _text("description", "resolution rules"),
        _text("resolution_source", "where the outcome is read off"),
        Column("outcomes", pl.List(pl.String()), "names of the outcomes, in the venue's order; empty when it sent none"),
        Column(
            "outcome_prices",
            pl.List(EXACT_PRICE),
            "price of each outcome, in the order of outcomes, cut to 20 decimals; empty when the venue sent none",
            DOLLARS,
        ),
        Column(
            "token_ids",
            pl.List(pl.String()),
            "id that each outcome trades by (token of Protocol V1, position of V2), in the order of outcomes; empty before the market is deployed",
        ),
        _text("yes_token", "token of the outcome called yes, in any case; null when there is none"),
        _text("no_token", "token of the outcome called no, in any case; null when there is none"),
        Column(
            "market_type",
            TEXT,
            "binary: exactly yes and no, in any order; named: exactly two other outcomes; multi: every other number of outcomes",
        ),
        _text("group_item_title", "what tells the market from the others of its event"),
        _flag("neg_risk", "at most one market of the event resolves yes"),
        _text("category", "category as the market states it; only old markets do"),
        Column("tags", pl.List(pl.String()), "slugs of the tags of the market or its event, where the answer has them"),
        _time("created_at", "createdAt of the wire"),
        _time("updated_at", "updatedAt of the wire"),
        _time("start_time", "startDate of the wire: trading opens"),
        Column("end_time", TIME, "endDate of the wire: the scheduled end", UTC),
        _time("closed_at", "closedTime of the wire: when trading really ended"),
        _time("uma_end_at", "umaEndDate of the wire: when the resolution became final"),
        _text("uma_resolution_status", "requested, proposed, disputed, resolved or settled; an open set of words"),
        Column("uma_statuses", pl.List(pl.String()), "umaResolutionStatuses of the wire: the words so far; empty when it sent none"),
        _text("resolution_status", "resolutionStatus of newer objects: inactive, active or resolved"),
        Column("lower_bound", USDC, "lower bound of an early scalar market", "unit of the question", nullable=True),
        Column("upper_bound", USDC, "upper bound of an early scalar market", "unit of the question", nullable=True),
        _flag("closed", "trading has ended; not the same as resolved"),
        _flag("active", "listed"),
        _flag("archived", "archived by the venue"),
        _flag("accepting_orders", "the book takes orders"),
        _usdc("volume", "dollars traded"),
        _usdc("liquidity", "dollars that rest in the book"),
        _exact_price("best_bid", "best bid for the first outcome; null when none"),
        _exact_price("best_ask", "best ask for the first outcome; null when none"),
        _exact_price("last_trade_price", "last trade of the first outcome; null when never traded"),
        _exact_price("tick_size", "smallest step of prices"),
        Column("min_order_size", SIZE, "smallest order", "shares", nullable=True),
        _flag("fees_enabled", "trades pay fees"),
        _text("fee_type", "name of the fee formula; an open set of words"),
        _ratio("fee_rate", "feeSchedule.rate of the wire"),
        _ratio("fee_exponent", "feeSchedule.exponent of the wire"),
        _flag("taker_only", "only takers pay"),
        _ratio("rebate_rate", "share of the fees that makers get back"),
        _basis_points("taker_base_fee", "takerBaseFee of the wire"),
        _basis_points("maker_base_fee", "makerBaseFee of the wire"),
        BODY,
        *FETCHED,
    ),
    key=("day", "market_id"),
    partitioned_by=("day",),
)

POLYMARKET_EVENTS = Table(
    name="raw/polymarket_events",
    row="One Polymarket event of at least one market whose scheduled end lies on this UTC day.",
    columns=(
        SCHEDULED_DAY,
        Column("event_id", TEXT, "Gamma's id of the event"),
        _text("slug", "name of the event in addresses"),
        _text("ticker", "ticker of the event"),
        _text("title", "title"),
        _text("description", "description"),
        _text("category", "category as the event states it; only old events do"),
        Column("tags", pl.List(pl.String()), "slugs of its tags; empty when it has none"),
        Column("tag_labels", pl.List(pl.String()), "labels of its tags, in the order of tags"),
        _text("series_id", "Gamma's id of its series"),
        _text("series_slug", "name of its series in addresses"),
        _text("series_title", "title of its series"),
        _flag("neg_risk", "at most one market of the event resolves yes"),
        _time("created_at", "createdAt of the wire"),
        _time("updated_at", "updatedAt of the wire"),
        _time("start_time", "startDate of the wire"),
        _time("end_time", "endDate of the wire: the scheduled end"),
        _time("closed_at", "closedTime of the wire"),
        _flag("closed", "all its markets are closed"),
        _flag("active", "listed"),
        _flag("archived", "archived by the venue"),
        _usdc("volume", "dollars traded"),
        _usdc("liquidity", "dollars that rest in the books"),
        Column("body", TEXT, "the object as it came but for its nested markets, as JSON text"),
        *FETCHED,
    ),
    key=("day", "event_id"),
    partitioned_by=("day",),
)

POLYMARKET_WINNERS = Table(
    name="raw/polymarket_winners",
    row="One outcome of a closed Polymarket market as the CLOB states it, with whether it won.",
    columns=(
        SCHEDULED_DAY,
        Column("condition_id", TEXT, "the condition's id on chain"),
        Column("position", pl.Int32(), "position of the outcome within its market, from 0"),
        _text("token_id", "token of the outcome"),
        _text("outcome", "name of the outcome"),
        _exact_price("price", "price of the outcome"),
        _flag("winner", "the outcome has won"),
        _flag("is_50_50_outcome", "the market was resolved half and half"),
        _flag("closed", "trading has ended"),
        _flag("accepting_orders", "the book takes orders"),
        *FETCHED,
    ),
    key=("day", "condition_id", "position"),
    partitioned_by=("day",),
)

POLYMARKET_PRICES = Table(
    name="raw/polymarket_prices",
    row="One past price of a Polymarket market's YES token, or of its first outcome's where it has no outcome called yes.",
    columns=(
        SCHEDULED_DAY,
        Column("market_id", TEXT, "Gamma's id of the market"),
        Column("token_id", TEXT, "the token"),
        Column("at", TIME, "t of the wire: the instant of the price", UTC),
        Column("price", EXACT_PRICE, "p of the wire; the venue does not say whether it is a trade or the middle of the book", DOLLARS),
        Column("period_minutes", pl.Int32(), "fidelity that was asked for: the usual time between two prices", "minutes"),
        *FETCHED,
    ),
    key=("day", "market_id", "at"),
    partitioned_by=("day",),
)

POLYMARKET_BOOK = Table(
    name="raw/polymarket_book",
    row="One price level of an order book of the CLOB at one instant.",
    columns=(
        Column("token_id", TEXT, "the token"),
        Column("at", TIME, "timestamp of the wire", UTC),
        Column("side", TEXT, "bid or ask"),
        Column("level", pl.Int32(), "place within the side, from 0; 0 is the best price"),
        Column("price", EXACT_PRICE, "price", DOLLARS),
        Column("size", USDC, "size that rests at the price; cut to 6 decimals", "shares"),
        _text("condition_id", "the condition's id on chain"),
        _text("hash", "the venue's hash of the book"),
        _exact_price("tick_size", "smallest step of prices"),
        Column("min_order_size", SIZE, "smallest order", "shares", nullable=True),
        Column("skipped_levels", pl.Int32(), "levels of the book that were left out as unusable", nullable=True),
        _flag("neg_risk", "at most one market of the event resolves yes"),
        _exact_price("last_trade_price", "last trade; null when never traded"),
        *FETCHED,
    ),
    key=("token_id", "at", "side", "level"),
)

#: Kinds of failures that may pass -> the column of the pulls that counts them.
FAILURES = {
    "rate limit": "failures_rate_limit",
    "server": "failures_server",
    "timeout": "failures_timeout",
    "connection": "failures_connection",
    "malformed": "failures_malformed",
}


def _pulls(venue: str) -> Table:
    return Table(
        name=f"raw/{venue}_pulls",
        row="One pull of a UTC day: what it took, as its stored pages and their note tell.",
        columns=(
            Column("day", pl.Date(), "the day pulled; the partition", UTC),
            Column("pull", TEXT, "folder of the pages of the pull, below the root of the lake"),
            Column("final", pl.Boolean(), "everything of the day was settled, so that nothing more is expected"),
            Column("requests", pl.Int64(), "pages stored"),
            Column(
                "attempts",
                pl.Int64(),
                "calls sent by the process that ended the pull, with repetitions; null where the pull is older than this count",
                nullable=True,
            ),
            *(Column(column, pl.Int64(), f"of these, failures of the kind {kind}", nullable=True) for kind, column in FAILURES.items()),
            Column("limited_seconds", pl.Float64(), "waiting for rate limits, summed over calls side by side", "seconds", nullable=True),
            Column("started_at", TIME, "when the venue gave the first answer", UTC),
            Column("finished_at", TIME, "when the venue gave the last answer", UTC),
            Column("known_at", TIME, "as of when this row was known: finished_at", UTC),
        ),
        key=("day",),
        partitioned_by=("day",),
    )


KALSHI_PULLS = _pulls("kalshi")
POLYMARKET_PULLS = _pulls("polymarket")


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
KALSHI_SERIES_REJECTS = Table(
    name="raw/kalshi_series_rejects",
    row="One object of Kalshi's list of series that does not fit, with the reason and the object itself, as of the last pull.",
    columns=(replace(DAY, description="UTC day of the answer"), *KALSHI_REJECTS.columns[1:]),
    key=KALSHI_REJECTS.key,
)
KALSHI_ARCHIVE_REJECTS = Table(
    name="raw/kalshi_archive_rejects",
    row="One object of Kalshi's archive that does not fit, with the reason and the object itself, as of the last scan.",
    columns=(
        replace(DAY, description="UTC day of the market's close, or of the answer where that cannot be read"),
        *KALSHI_REJECTS.columns[1:],
    ),
    key=KALSHI_REJECTS.key,
)
POLYMARKET_REJECTS = _rejects("polymarket")

#: Where the objects of each venue that do not fit are filed.
REJECTS = {"kalshi": KALSHI_REJECTS, "polymarket": POLYMARKET_REJECTS}

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
)
