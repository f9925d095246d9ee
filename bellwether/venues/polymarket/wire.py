"""Parsing of Gamma's markets and events, and of the CLOB's past prices and markets, into raw tables; invalid objects become rows of
raw/polymarket_rejects.

Gamma has lists inside strings, numbers as text, and names in camel case.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

import polars as pl

from bellwether.tables.raw import POLYMARKET_EVENTS, POLYMARKET_MARKETS, POLYMARKET_PRICES, POLYMARKET_WINNERS
from bellwether.tables.schema import EXACT_PRICE, SIZE, USDC
from bellwether.venues.http.page import VenuePage
from bellwether.venues.polymarket.routes import parse_requested_tokens
from bellwether.venues.wire.columns import (
    DecimalRule,
    ObjectShape,
    Record,
    RejectReasons,
    Typed,
    WireColumns,
    find_repeats,
    format_number,
    to_records,
)
from bellwether.venues.wire.rejects import (
    NO_TRADING_IDS,
    UNKNOWN_VERSION,
    WITHOUT_END,
    Origin,
    ParsedRecords,
    Quarantine,
    build_records,
    keep_rows,
    repeat_value,
)

#: Decimals of columns of prices and amounts. Further decimals are truncated instead of rounded, so that no price becomes 1.
PRICE_PLACES, USDC_PLACES = 20, 6

#: Patterns of ids that the venue accepts. Condition ids of Protocol V2 may have 62 digits.
ID, CONDITION_ID = r"^[0-9]{1,90}$", r"^0x(?:[0-9a-fA-F]{62}|[0-9a-fA-F]{64})$"

E = TypeVar("E", pl.Series, pl.Expr)

_SHORT_ZONE = re.compile(r"^(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d(?:\.\d+)?[+-]\d\d)$")


def to_plain_decimal(value: Any, places: int) -> Any:
    """Convert a number or numeric text to decimal text, truncated after `places` decimals; return other values unchanged."""
    text = format_number(value) if type(value) in (int, float) else value
    if type(text) is not str:
        return value
    whole, dot, decimals = text.partition(".")
    return f"{whole}.{decimals[:places]}" if dot and decimals.isascii() and decimals.isdigit() else text


def _decimal(dtype: pl.DataType, digits: int, places: int, highest: int) -> DecimalRule:
    return DecimalRule(
        "",
        rf"^-?[0-9]{{1,{digits}}}(\.[0-9]{{1,{places}}})?$",
        dtype,
        f"not a decimal of at most {digits} digits and {places} decimals",
        highest,
        text=lambda value: to_plain_decimal(value, places),
    )


PRICE = _decimal(EXACT_PRICE, 4, PRICE_PLACES, 1)
#: A quote at 0 or 1 is a missing quote; a trade at 0 means that nothing traded.
QUOTE = replace(PRICE, absent=(0, 1))
TRADE = replace(PRICE, absent=(0,))
AMOUNT = _decimal(USDC, 18, USDC_PLACES, 10**18)
ORDER_SIZE = _decimal(SIZE, 16, 2, 10**16)
RATIO = _decimal(pl.Decimal(10, 6), 4, 6, 9999)
BASIS_POINTS = DecimalRule("", r"^[0-9]{1,9}$", pl.Int64(), "not a whole number of basis points", 10**9, text=format_number)


def unpack_list(value: Any) -> Any:
    """Parse a JSON list inside a text, with numbers as text; return lists and other values unchanged, and None for an empty text."""
    if type(value) is not str:
        return value
    try:
        return json.loads(value, parse_int=str, parse_float=str) if value.strip() else None
    except ValueError:
        return value


def normalize_condition(condition: E) -> E:
    """Normalize a condition id to lower case and 64 digits; Protocol V2 may omit the last two, which are zero."""
    return condition.str.to_lowercase().str.pad_end(66, "0")


def unpack_decimals(value: Any, places: int) -> Any:
    """Parse a JSON list like `unpack_list`, and convert each element to decimal text of at most `places` decimals."""
    items = unpack_list(value)
    return [to_plain_decimal(item, places) for item in items] if type(items) is list else items


def format_time(value: Any) -> Any:
    """Convert a time to RFC 3339: 2026-07-24 00:00:16+00 becomes 2026-07-24T00:00:16+00:00."""
    return _SHORT_ZONE.sub(r"\1T\2:00", value) if type(value) is str else value


def take_first(value: Any) -> Any:
    """Return the first element of a list, None for an empty list, and other values unchanged."""
    return (value[0] if value else None) if type(value) is list else value


def extract_texts(value: Any, field: str) -> Any:
    """Return the texts under `field` of the objects in a list; return other values unchanged."""
    if type(value) is not list or not all(type(item) is dict for item in value):
        return value
    return [item[field] for item in value if item.get(field)]


def parse_price_lists(columns: WireColumns, field: str, texts: pl.Series) -> pl.Series:
    """Parse lists of decimal texts into lists of prices in [0, 1]; invalid lists are noted as problems of `field`."""
    fits = texts.list.eval(pl.element().str.contains(PRICE.pattern)).list.all()
    columns.note_where(~fits, field, f"a price in it is {PRICE.unfit}")
    lists = texts.zip_with(fits, pl.Series([[]], dtype=texts.dtype)).cast(pl.List(EXACT_PRICE))
    columns.note_where(~lists.list.eval(pl.element().is_between(0, 1)).list.all(), field, "a price in it lies outside [0, 1]")
    return lists


def prepare_records(records: Sequence[Record], **readers: Any) -> list[Record]:
    """Return copies of `records` with converted fields. readers: conversion by name of the field."""
    return [{**record, **{name: read(record.get(name)) for name, read in readers.items()}} if record else record for record in records]


#: Column of the table -> field in the response, if they differ.
NAMES = {
    "market_id": "id",
    "condition_id": "conditionId",
    "question_id": "questionID",
    "resolution_source": "resolutionSource",
    "outcome_prices": "outcomePrices",
    "group_item_title": "groupItemTitle",
    "neg_risk": "negRisk",
    "uma_resolution_status": "umaResolutionStatus",
    "uma_statuses": "umaResolutionStatuses",
    "resolution_status": "resolutionStatus",
    "lower_bound": "lowerBound",
    "upper_bound": "upperBound",
    "accepting_orders": "acceptingOrders",
    "best_bid": "bestBid",
    "best_ask": "bestAsk",
    "last_trade_price": "lastTradePrice",
    "tick_size": "orderPriceMinTickSize",
    "min_order_size": "orderMinSize",
    "fees_enabled": "feesEnabled",
    "fee_type": "feeType",
    "taker_base_fee": "takerBaseFee",
    "maker_base_fee": "makerBaseFee",
}
#: Protocol version -> field with the ids under which its markets trade. The other field may be present, too.
TRADING_IDS = {"v1": "clobTokenIds", "v2": "positionIds"}
MARKET = ObjectShape(
    tickers=("id",),
    texts=(
        "conditionId",
        "questionID",
        "slug",
        "question",
        "description",
        "resolutionSource",
        "groupItemTitle",
        "category",
        "umaResolutionStatus",
        "resolutionStatus",
        "feeType",
    ),
    text_lists=("outcomes", "outcomePrices", *TRADING_IDS.values(), "umaResolutionStatuses", "tags"),
    times={
        "created_at": "createdAt",
        "updated_at": "updatedAt",
        "start_time": "startDate",
        "end_time": "endDate",
        "closed_at": "closedTime",
        "uma_end_at": "umaEndDate",
    },
    decimals={
        "volume": AMOUNT,
        "liquidity": AMOUNT,
        "lowerBound": AMOUNT,
        "upperBound": AMOUNT,
        "bestBid": QUOTE,
        "bestAsk": QUOTE,
        "lastTradePrice": TRADE,
        "orderPriceMinTickSize": PRICE,
        "orderMinSize": ORDER_SIZE,
        "takerBaseFee": BASIS_POINTS,
        "makerBaseFee": BASIS_POINTS,
    },
    flags=("negRisk", "closed", "active", "archived", "acceptingOrders", "feesEnabled"),
    names=NAMES,
)
FEE_NAMES = {"fee_rate": "rate", "fee_exponent": "exponent", "rebate_rate": "rebateRate", "taker_only": "takerOnly"}
FEES = ObjectShape(tickers=(), decimals={"rate": RATIO, "exponent": RATIO, "rebateRate": RATIO}, flags=("takerOnly",), names=FEE_NAMES)
EVENT = ObjectShape(
    tickers=(),
    texts=("id", "slug", "title", "seriesSlug"),
    names={"event_id": "id", "event_slug": "slug", "event_title": "title", "series_slug": "seriesSlug"},
)

#: A market that closed this long before its scheduled end belongs to the day on which it closed.
DISTANT = timedelta(days=45)
#: Markets that ended before this time had an automated market maker instead of an order book.
FIRST_BOOKS = datetime(2023, 1, 1, tzinfo=UTC)
_NOT_DEPLOYED = (None, "", "0x")
_LENGTHS = "not as many as there are outcomes"


def _record(record: Record) -> Record:
    """Normalize a market object: unpack lists, convert amounts to decimal text, and keep only the ids under which it trades."""
    event = take_first(record.get("events"))
    tags = record.get("tags") or (event.get("tags") if type(event) is dict else None)
    amounts = {name: to_plain_decimal(record.get(name), USDC_PLACES) for name in ("volume", "liquidity")}
    protocol = _protocol(record)
    ids = {field: unpack_list(record.get(field)) if version == protocol else None for version, field in TRADING_IDS.items()}
    names = {"protocol": protocol, "conditionId": None if record.get("conditionId") in _NOT_DEPLOYED else record["conditionId"]}
    return {**record, **amounts, **ids, **names, "event": _event(event), "tags": extract_texts(tags, "slug")}


def _protocol(record: Record) -> str | None:
    """Return the protocol version of a market, "v1" or "v2"; None if it is neither.

    A market without a version is v1, unless it has only position ids.
    """
    stated = record.get("version")
    if stated in (None, ""):
        only_positions = unpack_list(record.get("positionIds")) and not unpack_list(record.get("clobTokenIds"))
        return None if only_positions else "v1"
    version = f"v{str(stated).strip().lower().removeprefix('v').removesuffix('.0')}"
    return version if version in TRADING_IDS else None


def _event(event: Any) -> Any:
    """Add the slug of its series to the event inside a market object."""
    if type(event) is not dict:
        return event
    series = take_first(event.get("series"))
    slug = event.get("seriesSlug") or (series.get("slug") if type(series) is dict else None)
    return event | {"seriesSlug": slug}


def parse_markets(objects: Sequence[Any], origin: Origin, *, day: date, by_close: Collection[str] | None = ()) -> ParsedRecords:
    """Parse Gamma's markets of one page into rows of raw/polymarket_markets. day: of rejects without an endDate. by_close: ids of markets
    (None: all) that may belong to the day on which they closed.

    A row's day is the UTC day of its endDate. Markets in `by_close` get the day of closedTime instead if their endDate is missing or more
    than `DISTANT` after closedTime; a missing endDate becomes closedTime. These are rejects: objects without an id or an endDate, with
    invalid ids, with more or fewer prices or tokens than outcomes, with an invalid value, or with unknown trading ids. Missing keys are
    null, missing lists are empty.
    """
    problems = RejectReasons()
    price, amount = partial(to_plain_decimal, places=PRICE_PLACES), partial(to_plain_decimal, places=USDC_PLACES)
    records = prepare_records(
        [_record(record) for record in to_records(objects, problems)],
        outcomes=unpack_list,
        outcomePrices=partial(unpack_decimals, places=PRICE_PLACES),
        umaResolutionStatuses=unpack_list,
        bestBid=price,
        bestAsk=price,
        lastTradePrice=price,
        orderPriceMinTickSize=price,
        orderMinSize=amount,
        lowerBound=amount,
        upperBound=amount,
        **dict.fromkeys(MARKET.times.values(), format_time),
    )
    columns = WireColumns(records, problems)
    typed = columns.typed(MARKET)
    by_field = [typed.pop(field) for field in TRADING_IDS.values()]
    typed["token_ids"] = by_field[0].zip_with(by_field[0].list.len() > 0, by_field[1])
    typed["outcome_prices"] = parse_price_lists(columns, "outcomePrices", typed["outcome_prices"])
    typed |= columns.part("feeSchedule").typed(FEES) | columns.part("event").typed(EVENT)
    end, closed = typed["end_time"], typed["closed_at"]
    named = pl.repeat(True, len(end), eager=True) if by_close is None else typed["market_id"].is_in(list(by_close))
    is_off = named & closed.is_not_null() & (end.is_null() | (end > closed + DISTANT))
    typed["end_time"] = end.zip_with(end.is_not_null() | ~is_off, closed)
    columns.note_where(typed["end_time"].is_null(), "endDate", WITHOUT_END)
    columns.note_crossed(typed["best_bid"], typed["best_ask"], "bestBid")
    _check_forms(columns, typed)
    _check_trading_ids(columns, typed)
    frame = pl.DataFrame(
        {**typed, **_tokens(typed), "day": closed.zip_with(is_off, typed["end_time"]).cast(pl.Date()), "body": columns.bodies(objects)},
    )
    return Quarantine(POLYMARKET_MARKETS, "id", day, origin).sift(frame, objects, problems)


def _check_forms(columns: WireColumns, typed: Typed) -> None:
    """Note ids of a wrong form, and lists of different lengths, as problems."""
    columns.note_where(~typed["market_id"].str.contains(ID), "id", "not a number in text")
    columns.note_where(~typed["condition_id"].str.contains(CONDITION_ID), "conditionId", "not 0x and 62 or 64 hexadecimal digits")
    columns.note_where(~typed["event_id"].str.contains(ID), "events", "the event's id is not a number in text")
    lengths = typed["outcome_prices"].list.len()
    columns.note_where((lengths > 0) & (lengths != typed["outcomes"].list.len()), "outcomePrices", _LENGTHS)


def _check_trading_ids(columns: WireColumns, typed: Typed) -> None:
    """Note every market without valid trading ids as a problem.

    Markets without an order book need none: they are not deployed yet, or older than order books.
    """
    versions = pl.Series(columns.values("protocol"), dtype=pl.String())
    columns.note_where(versions.is_null(), "version", UNKNOWN_VERSION)
    ids, count = typed["token_ids"], typed["token_ids"].list.len()
    numbers = ids.list.eval(pl.element().str.contains(ID)).list.all()
    without_book = pl.Series([record.get("enableOrderBook") is False for record in columns.records], dtype=pl.Boolean())
    excused = typed["condition_id"].is_null() | without_book | (typed["end_time"] < FIRST_BOOKS).fill_null(True)
    for version, field in TRADING_IDS.items():
        is_version = (versions == version).fill_null(False)
        columns.note_where(is_version & ~numbers, field, "a trading id in it is not a number in text")
        columns.note_where(is_version & (count > 0) & (count != typed["outcomes"].list.len()), field, _LENGTHS)
        columns.note_where(is_version & (count == 0) & ~excused, field, NO_TRADING_IDS)


def _tokens(typed: Typed) -> Typed:
    """Return the market type and the tokens of YES and NO, by the names of the outcomes."""
    names = pl.col("outcomes").list.eval(pl.element().str.strip_chars().str.to_lowercase())
    binary = names.list.sort() == pl.lit(["no", "yes"], dtype=pl.List(pl.String))
    first_is_yes = names.list.first() == "yes"
    first, second = (pl.col("token_ids").list.get(place, null_on_oob=True) for place in (0, 1))
    frame = pl.DataFrame({"outcomes": typed["outcomes"], "token_ids": typed["token_ids"]}).select(
        market_type=pl.when(binary).then(pl.lit("binary")).when(names.list.len() == 2).then(pl.lit("named")).otherwise(pl.lit("multi")),
        yes_token=pl.when(binary).then(pl.when(first_is_yes).then(first).otherwise(second)),
        no_token=pl.when(binary).then(pl.when(first_is_yes).then(second).otherwise(first)),
    )
    return frame.to_dict()


GAMMA_EVENT = ObjectShape(
    tickers=("id",),
    texts=("slug", "ticker", "title", "description", "category", "series_id", "series_slug", "series_title"),
    text_lists=("tags", "tag_labels"),
    times={
        "created_at": "createdAt",
        "updated_at": "updatedAt",
        "start_time": "startDate",
        "end_time": "endDate",
        "closed_at": "closedTime",
    },
    decimals={"volume": AMOUNT, "liquidity": AMOUNT},
    flags=("negRisk", "closed", "active", "archived"),
    names={"event_id": "id", "neg_risk": "negRisk"},
)


def _event_record(record: Record) -> Record:
    series = take_first(record.get("series"))
    series = series if type(series) is dict else {}
    return {
        **record,
        "tags": extract_texts(record.get("tags"), "slug"),
        "tag_labels": extract_texts(record.get("tags"), "label"),
        "series_id": series.get("id"),
        "series_slug": record.get("seriesSlug") or series.get("slug"),
        "series_title": series.get("title"),
    }


def parse_events(objects: Sequence[Any], origin: Origin, *, day: date) -> ParsedRecords:
    """Parse Gamma's events of one page into rows of raw/polymarket_events in partition `day`; nested markets are left out."""
    problems = RejectReasons()
    amount = partial(to_plain_decimal, places=USDC_PLACES)
    records = [_event_record(record) if record else record for record in to_records(objects, problems)]
    times = dict.fromkeys(GAMMA_EVENT.times.values(), format_time)
    columns = WireColumns(prepare_records(records, volume=amount, liquidity=amount, **times), problems)
    typed = columns.typed(GAMMA_EVENT)
    columns.note_where(~typed["event_id"].str.contains(ID), "id", "not a number in text")
    bodies = [{name: value for name, value in item.items() if name != "markets"} if type(item) is dict else item for item in objects]
    frame = pl.DataFrame({**typed, "day": repeat_value(day, pl.Date(), len(objects)), "body": columns.bodies(bodies)})
    repeats = find_repeats(frame.select("event_id"), bodies, problems, field="id", kind="event of the same id")
    return Quarantine(POLYMARKET_EVENTS, "id", day, origin).sift(frame, bodies, problems, unwanted=repeats)


POINT = ObjectShape(tickers=(), decimals={"p": PRICE})


def parse_prices(pages: Sequence[VenuePage], market_of: Mapping[str, str], *, day: date, period_minutes: int) -> ParsedRecords:
    """Parse pages of past prices, each of one token as points {t, p} (Unix seconds and price), into rows of raw/polymarket_prices, with one price per
    page and time. market_of: id of the market of each requested token.

    A second point with the same t is dropped if it is equal, else it is a reject; a point without a price is a reject.
    """
    # Of copies of the pages, so that their parsed JSON, which takes several times their bytes, is not kept.
    histories = [replace(page).items("history") for page in pages]
    tokens = [token for page in pages for token in parse_requested_tokens(page)]
    problems, counts = RejectReasons(), list(map(len, histories))
    points = [point for history in histories for point in history]
    numbers = [number for number, count in enumerate(counts) for _ in range(count)]
    frame = _points(points, problems, day, period_minutes).with_columns(
        number=pl.Series(numbers, dtype=pl.UInt32()),
        market_id=pl.Series([market_of[tokens[number]] for number in numbers], dtype=pl.String()),
        token_id=pl.Series([tokens[number] for number in numbers], dtype=pl.String()),
    )
    repeats = find_repeats(frame.select("number", "at"), points, problems, field="p", kind="price of the same instant")
    quarantines = [Quarantine(POLYMARKET_PRICES, "t", day, page.origin) for page in pages]
    return build_records(POLYMARKET_PRICES, quarantines, counts, keep_rows(frame, problems.keys() | repeats), points, problems=problems)


def _points(points: Sequence[Any], problems: RejectReasons, day: date, period_minutes: int) -> pl.DataFrame:
    """Parse the times and prices of points; invalid points are noted in `problems`."""
    columns = WireColumns(prepare_records(to_records(points, problems), p=partial(to_plain_decimal, places=PRICE_PLACES)), problems)
    frame = pl.DataFrame(
        {
            "at": columns.epoch("t"),
            "price": columns.typed(POINT)["p"],
            "day": repeat_value(day, pl.Date(), len(points)),
            "period_minutes": repeat_value(period_minutes, pl.Int32(), len(points)),
        }
    )
    columns.note_where(frame["price"].is_null(), "p", "missing")
    return frame


CLOB_MARKET = ObjectShape(tickers=("condition_id",), flags=("is_50_50_outcome", "closed", "accepting_orders"))
TOKEN = ObjectShape(tickers=(), texts=("token_id", "outcome"), decimals={"price": PRICE}, flags=("winner",))


def parse_winners(pages: Sequence[VenuePage], *, day: date) -> ParsedRecords:
    """Parse pages of the CLOB, each of one market, into rows of raw/polymarket_winners in partition `day`, one per outcome. pages: at least
    one.

    A market with an invalid outcome, or without outcomes, is a reject.
    """
    problems, objects = RejectReasons(), [page.json for page in pages]
    columns = WireColumns(to_records(objects, problems), problems)
    markets = pl.DataFrame(columns.typed(CLOB_MARKET))
    columns.note_where(~markets["condition_id"].str.contains(CONDITION_ID), "condition_id", "not 0x and 62 or 64 hexadecimal digits")
    lists = columns.values("tokens")
    fits = [type(tokens) is list and bool(tokens) and all(type(token) is dict for token in tokens) for tokens in lists]
    columns.note_where(~pl.Series(fits, dtype=pl.Boolean()), "tokens", "not a list of outcomes")
    owners = [index for index, tokens in enumerate(lists) if fits[index] for _ in tokens]
    positions = [position for index, tokens in enumerate(lists) if fits[index] for position in range(len(tokens))]
    tokens = _parse_tokens([token for index, tokens in enumerate(lists) if fits[index] for token in tokens], owners, columns)
    frame = (
        markets[owners]
        .hstack(tokens)
        .with_columns(
            day=repeat_value(day, pl.Date(), len(owners)),
            position=pl.Series(positions, dtype=pl.Int32()),
            number=pl.Series(owners, dtype=pl.UInt32()),
        )
    )
    valid = keep_rows(frame, {place for place, owner in enumerate(owners) if owner in problems})
    quarantines = [Quarantine(POLYMARKET_WINNERS, "condition_id", day, page.origin) for page in pages]
    return build_records(POLYMARKET_WINNERS, quarantines, [1] * len(pages), valid, objects, problems=problems)


def _parse_tokens(tokens: Sequence[Any], owners: Sequence[int], markets: WireColumns) -> pl.DataFrame:
    """Parse the outcomes (`tokens`) of all markets. owners: for each outcome, the position of its market, for which its problems are
    noted.
    """
    problems = RejectReasons()
    records = prepare_records(tokens, price=partial(to_plain_decimal, places=PRICE_PLACES))
    frame = pl.DataFrame(WireColumns(records, problems, "tokens.").typed(TOKEN))
    for place, problem in problems.items():
        markets.problems.note(owners[place], problem.field, problem.value, problem.reason)
    return frame
