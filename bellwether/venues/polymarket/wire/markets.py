"""Parsing of Gamma's market objects into rows of raw/polymarket_markets."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any

import polars as pl

from bellwether.tables.raw import POLYMARKET_MARKETS
from bellwether.venues.polymarket.wire.rules import (
    AMOUNT,
    BASIS_POINTS,
    CONDITION_ID,
    ID,
    ORDER_SIZE,
    PRICE,
    PRICE_PLACES,
    QUOTE,
    RATIO,
    TRADE,
    USDC_PLACES,
    extract_texts,
    format_id,
    format_time,
    parse_price_lists,
    prepare_records,
    rename_columns,
    take_first,
    to_plain_decimal,
    unpack_decimals,
    unpack_ids,
    unpack_list,
)
from bellwether.venues.wire.columns import Record, RejectReasons, Typed, WireColumns, to_records
from bellwether.venues.wire.rejects import NO_TRADING_IDS, UNKNOWN_VERSION, WITHOUT_END, Origin, ParsedRecords, Quarantine
from bellwether.venues.wire.shapes import ObjectShape

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
)
FEES = ObjectShape(tickers=(), decimals={"rate": RATIO, "exponent": RATIO, "rebateRate": RATIO}, flags=("takerOnly",))
FEE_NAMES = {"fee_rate": "rate", "fee_exponent": "exponent", "rebate_rate": "rebateRate", "taker_only": "takerOnly"}
EVENT = ObjectShape(tickers=(), texts=("id", "slug", "title", "seriesSlug"))
EVENT_NAMES = {"event_id": "id", "event_slug": "slug", "event_title": "title", "series_slug": "seriesSlug"}

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
    amounts = {name: to_plain_decimal(_either(record, name, f"{name}Num"), USDC_PLACES) for name in ("volume", "liquidity")}
    protocol = _protocol(record)
    ids = {field: unpack_ids(record.get(field)) if version == protocol else None for version, field in TRADING_IDS.items()}
    names = {"protocol": protocol, "conditionId": None if record.get("conditionId") in _NOT_DEPLOYED else record["conditionId"]}
    return {**record, **amounts, **ids, **names, "event": _event(event), "tags": extract_texts(tags, "slug")}


def _protocol(record: Record) -> str | None:
    """Return the protocol version of a market, "v1" or "v2"; None if it is neither.

    A market without a version is v1, unless it has only position ids.
    """
    stated = record.get("version")
    if stated in (None, ""):
        only_positions = unpack_ids(record.get("positionIds")) and not unpack_ids(record.get("clobTokenIds"))
        return None if only_positions else "v1"
    version = f"v{str(stated).strip().lower().removeprefix('v').removesuffix('.0')}"
    return version if version in TRADING_IDS else None


def _event(event: Any) -> Any:
    """Normalize the event inside a market object: its id as text, and the slug of its series."""
    if type(event) is not dict:
        return event
    series = take_first(event.get("series"))
    slug = event.get("seriesSlug") or (series.get("slug") if type(series) is dict else None)
    return event | {"id": format_id(event.get("id")), "seriesSlug": slug}


def _either(record: Record, name: str, twin: str) -> Any:
    """Return the field `name` of a record, or `twin` if that is missing or empty."""
    return record.get(twin) if record.get(name) in (None, "") else record[name]


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
        [_record(record) for record in to_records(objects, "id", problems)],
        id=format_id,
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
    typed = rename_columns(columns, MARKET, NAMES)
    by_field = [typed.pop(field) for field in TRADING_IDS.values()]
    typed["token_ids"] = by_field[0].zip_with(by_field[0].list.len() > 0, by_field[1])
    typed["outcome_prices"] = parse_price_lists(columns, "outcomePrices", typed["outcome_prices"])
    typed |= rename_columns(columns.part("feeSchedule"), FEES, FEE_NAMES) | rename_columns(columns.part("event"), EVENT, EVENT_NAMES)
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
