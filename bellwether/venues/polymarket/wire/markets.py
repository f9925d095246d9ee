"""Gamma's market objects -> rows of raw/polymarket_markets."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import date, timedelta
from functools import partial
from typing import Any

import polars as pl

from bellwether.tables.raw import POLYMARKET_MARKETS
from bellwether.venues.polymarket.wire.rules import (
    AMOUNT,
    BASIS_POINTS,
    ORDER_SIZE,
    PRICE,
    PRICE_PLACES,
    QUOTE,
    RATIO,
    TRADE,
    USDC_PLACES,
    first_object,
    id_text,
    instant_text,
    plain,
    plain_list,
    prepared,
    price_lists,
    renamed,
    texts_of,
    unpacked,
)
from bellwether.venues.wire.columns import Columns, Problems, Record, Typed, records_of
from bellwether.venues.wire.rejects import Origin, Parsed, Quarantine
from bellwether.venues.wire.shapes import Shape

#: Column of the table -> field of the wire, where they differ.
NAMES = {
    "market_id": "id",
    "condition_id": "conditionId",
    "question_id": "questionID",
    "resolution_source": "resolutionSource",
    "outcome_prices": "outcomePrices",
    "token_ids": "clobTokenIds",
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
MARKET = Shape(
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
    text_lists=("outcomes", "outcomePrices", "clobTokenIds", "umaResolutionStatuses", "tags"),
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
FEES = Shape(tickers=(), decimals={"rate": RATIO, "exponent": RATIO, "rebateRate": RATIO}, flags=("takerOnly",))
FEE_NAMES = {"fee_rate": "rate", "fee_exponent": "exponent", "rebate_rate": "rebateRate", "taker_only": "takerOnly"}
EVENT = Shape(tickers=(), texts=("id", "slug", "title", "seriesSlug"))
EVENT_NAMES = {"event_id": "id", "event_slug": "slug", "event_title": "title", "series_slug": "seriesSlug"}

#: A market that was answered so long before its scheduled end is of the day on which it closed, where its closing is listed.
DISTANT = timedelta(days=45)
#: What identifies things on this venue; a call by anything else would be refused.
ID, CONDITION_ID = r"^[0-9]{1,90}$", r"^0x[0-9a-fA-F]{64}$"


def _record(record: Record) -> Record:
    """The object with its lists unpacked and its numbers as plain text; amounts stand under one of two names."""
    event = first_object(record.get("events"))
    tags = record.get("tags") or (event.get("tags") if type(event) is dict else None)
    amounts = {name: plain(_either(record, name, f"{name}Num"), USDC_PLACES) for name in ("volume", "liquidity")}
    return {**record, **amounts, "event": _event(event), "tags": texts_of(tags, "slug")}


def _event(event: Any) -> Any:
    if type(event) is not dict:
        return event
    series = first_object(event.get("series"))
    slug = event.get("seriesSlug") or (series.get("slug") if type(series) is dict else None)
    return event | {"id": id_text(event.get("id")), "seriesSlug": slug}


def _either(record: Record, name: str, twin: str) -> Any:
    return record.get(twin) if record.get(name) in (None, "") else record[name]


def parse_markets(objects: Sequence[Any], origin: Origin, *, day: date, by_close: Collection[str] | None = ()) -> Parsed:
    """Rows of raw/polymarket_markets for Gamma's market objects of one page.

    A row's day is the UTC day of its endDate; that of its closedTime for the markets in `by_close` (None: for all) that have no endDate, which
    is then taken to be closedTime, or one more than `DISTANT` after it. A reject is filed under that day too, or under `day` where there is none. Objects without an
    id or an endDate, with ids of another form, with more or fewer prices or tokens than outcomes, and with a value that cannot be right are
    rejects. Missing keys are null, missing lists are empty.
    """
    problems = Problems()
    price, amount = partial(plain, places=PRICE_PLACES), partial(plain, places=USDC_PLACES)
    records = prepared(
        [_record(record) for record in records_of(objects, "id", problems)],
        id=id_text,
        outcomes=unpacked,
        outcomePrices=partial(plain_list, places=PRICE_PLACES),
        clobTokenIds=unpacked,
        umaResolutionStatuses=unpacked,
        bestBid=price,
        bestAsk=price,
        lastTradePrice=price,
        orderPriceMinTickSize=price,
        orderMinSize=amount,
        lowerBound=amount,
        upperBound=amount,
        **dict.fromkeys(MARKET.times.values(), instant_text),
    )
    columns = Columns(records, problems)
    typed = renamed(columns, MARKET, NAMES)
    typed["outcome_prices"] = price_lists(columns, "outcomePrices", typed["outcome_prices"])
    typed |= renamed(columns.part("feeSchedule"), FEES, FEE_NAMES) | renamed(columns.part("event"), EVENT, EVENT_NAMES)
    end, closed = typed["end_time"], typed["closed_at"]
    named = pl.repeat(True, len(end), eager=True) if by_close is None else typed["market_id"].is_in(list(by_close))
    is_off = named & closed.is_not_null() & (end.is_null() | (end > closed + DISTANT))
    typed["end_time"] = end.zip_with(end.is_not_null() | ~is_off, closed)
    columns.note_where(typed["end_time"].is_null(), "endDate", "missing: without an end a market belongs to no day")
    _check_forms(columns, typed)
    _check_lengths(columns, typed)
    frame = pl.DataFrame(
        {**typed, **_tokens(typed), "day": closed.zip_with(is_off, typed["end_time"]).cast(pl.Date()), "body": columns.bodies(objects)},
    )
    return Quarantine(POLYMARKET_MARKETS, "id", day, origin).sift(frame, objects, problems)


def _check_forms(columns: Columns, typed: Typed) -> None:
    columns.note_where(~typed["market_id"].str.contains(ID), "id", "not a number in text")
    columns.note_where(~typed["condition_id"].str.contains(CONDITION_ID), "conditionId", "not 0x and 64 hexadecimal digits")
    columns.note_where(~typed["event_id"].str.contains(ID), "events", "the event's id is not a number in text")
    columns.note_where(
        ~typed["token_ids"].list.eval(pl.element().str.contains(ID)).list.all(), "clobTokenIds", "a token in it is not a number in text"
    )


def _check_lengths(columns: Columns, typed: Typed) -> None:
    for column, field in (("outcome_prices", "outcomePrices"), ("token_ids", "clobTokenIds")):
        lengths = typed[column].list.len()
        columns.note_where((lengths > 0) & (lengths != typed["outcomes"].list.len()), field, "not as many as there are outcomes")


def _tokens(typed: Typed) -> Typed:
    """The kind of market and the tokens of yes and no, found by the outcomes' names."""
    words = pl.col("outcomes").list.eval(pl.element().str.strip_chars().str.to_lowercase())
    binary = words.list.sort() == pl.lit(["no", "yes"], dtype=pl.List(pl.String))
    first_is_yes = words.list.first() == "yes"
    first, second = (pl.col("token_ids").list.get(place, null_on_oob=True) for place in (0, 1))
    frame = pl.DataFrame({"outcomes": typed["outcomes"], "token_ids": typed["token_ids"]}).select(
        market_type=pl.when(binary).then(pl.lit("binary")).when(words.list.len() == 2).then(pl.lit("named")).otherwise(pl.lit("multi")),
        yes_token=pl.when(binary).then(pl.when(first_is_yes).then(first).otherwise(second)),
        no_token=pl.when(binary).then(pl.when(first_is_yes).then(second).otherwise(first)),
    )
    return frame.to_dict()
