"""JSON objects of books, trades and WebSocket messages, in the venue's current format."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from bellwether.sandbox.exchange.exchange import BOOKS, TICKER, TRADES, ExchangeBook, Level, StreamMessage
from bellwether.sandbox.exchange.flow import NO, SIDES, YES, LevelChange, OrderFlow, TradePrint
from bellwether.sandbox.timestamps import SECOND, format_time, parse_time
from bellwether.sandbox.world.candles import PRICES, format_contracts, format_dollars
from bellwether.sandbox.world.model import Market, WorldEvent
from bellwether.sandbox.world.tape import DOLLAR, NO_ASK, NO_BID

MILLISECOND = SECOND // 1000

Body = dict[str, Any]


def build_uuid(*parts: object) -> str:
    """Build a UUID from the hash of `parts`."""
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    return str(uuid.UUID(bytes=digest[:16], version=4))


def build_market_id(market: Market) -> str:
    """Build the `market_id` of a market."""
    return build_uuid("market", *market.trading.entropy, market.ticker)


def format_levels(side: dict[int, int]) -> tuple[Level, ...]:
    """Format the levels of a side, given as size by price."""
    return tuple((PRICES[price], format_contracts(size)) for price, size in side.items())


def _milliseconds(at: int) -> Body:
    return {"ts": format_time(at // MILLISECOND * MILLISECOND), "ts_ms": at // MILLISECOND}


def _seconds(at: int) -> Body:
    return {"ts": at // SECOND, "ts_ms": at // MILLISECOND}


def build_snapshot(book: ExchangeBook, uuid_of_market: str, at: int) -> StreamMessage:
    """Build the message with a complete book; a side without levels is left out."""
    sides = {"yes_dollars_fp": book.yes, "no_dollars_fp": book.no}
    body = {"market_ticker": book.ticker, "market_id": uuid_of_market, "clock": book.clock}
    return StreamMessage(at, BOOKS, "orderbook_snapshot", book.ticker, {**body, **{name: side for name, side in sides.items() if side}})


def build_delta(change: LevelChange, ticker: str, uuid_of_market: str) -> StreamMessage:
    """Build the message about the change of a level."""
    sign = "-" if change.delta < 0 else ""
    body = {
        "market_ticker": ticker,
        "market_id": uuid_of_market,
        "clock": change.clock,
        "price_dollars": PRICES[change.price],
        "delta_fp": sign + format_contracts(abs(change.delta)),
        "side": SIDES[change.side],
        **_milliseconds(change.at),
    }
    return StreamMessage(change.at, BOOKS, "orderbook_delta", ticker, body)


def _trade_fields(trade: TradePrint, market: Market) -> Body:
    return {
        "trade_id": build_uuid("trade", *market.trading.entropy, trade.slot, trade.number),
        "count_fp": format_contracts(trade.size),
        "yes_price_dollars": PRICES[trade.price],
        "no_price_dollars": PRICES[DOLLAR - trade.price],
        "taker_side": SIDES[trade.taker],
        "taker_outcome_side": SIDES[trade.taker],
        "taker_book_side": "bid" if trade.taker == YES else "ask",
        "is_block_trade": trade.block,
    }


def build_trade(trade: TradePrint, market: Market) -> Body:
    """Build a trade in the format of GET /markets/trades."""
    return {**_trade_fields(trade, market), "ticker": market.ticker, "created_time": format_time(trade.at)}


def build_trade_message(trade: TradePrint, market: Market) -> StreamMessage:
    """Build a trade message of the WebSocket."""
    body = {**_trade_fields(trade, market), "market_ticker": market.ticker, **_seconds(trade.at)}
    return StreamMessage(trade.at, TRADES, "trade", market.ticker, body)


def build_ticker(market: Market, flow: OrderFlow, uuid_of_market: str, at: int) -> StreamMessage:
    """Build the ticker message of a market at an instant after its opening."""
    tape, slot = flow.tape, flow.tape.at(at)
    bid, ask, bid_size, ask_size = NO_BID, NO_ASK, 0, 0
    if at < flow.closes:
        (bid, bid_size), (no_bid, ask_size) = flow.best(slot, YES), flow.best(slot, NO)
        ask = DOLLAR - no_bid
    volume, interest = int(tape.volume[slot]), int(tape.open_interest[slot])
    last = flow.last_print(slot)
    body = {
        "market_id": uuid_of_market,
        "market_ticker": market.ticker,
        "price_dollars": PRICES[int(tape.last[slot])],
        "yes_bid_dollars": PRICES[bid],
        "yes_ask_dollars": PRICES[ask],
        "volume_fp": format_contracts(volume),
        "open_interest_fp": format_contracts(interest),
        "dollar_volume": volume // 200,
        "dollar_open_interest": interest // 200,
        "yes_bid_size_fp": format_contracts(bid_size),
        "yes_ask_size_fp": format_contracts(ask_size),
        "last_trade_size_fp": format_contracts(last.size if last else 0),
        **_seconds(at),
        "time": format_time(at // MILLISECOND * MILLISECOND),
    }
    return StreamMessage(at, TICKER, "ticker", market.ticker, body)


def build_event_created(event: WorldEvent, channel: str) -> StreamMessage:
    """Build the message about a new event. channel: for ordinary or for multivariate events."""
    terms = event.body
    body: Body = {
        "event_ticker": event.ticker,
        "exchange_index": terms["exchange_index"],
        "title": terms["title"],
        "subtitle": terms["sub_title"],
        "collateral_return_type": terms["collateral_return_type"],
        "series_ticker": event.series_ticker,
    }
    if "strike_period" in terms:
        body["strike_period"] = terms["strike_period"]
    return StreamMessage(event.created, channel, "event_lifecycle", event.ticker, body)


def _created(market: Market) -> Body:
    """Build the body about the creation of a market."""
    terms = market.terms
    ranges = {} if market.is_combo else {"price_ranges": terms["price_ranges"]}
    names = ("title", "yes_sub_title", "no_sub_title", "rules_primary", "rules_secondary", "can_close_early", "event_ticker")
    strikes = {name: terms[name] for name in ("strike_type", "floor_strike", "cap_strike", "custom_strike") if name in terms}
    return {
        "event_type": "created",
        "exchange_index": terms["exchange_index"],
        "open_ts": market.life.opens // SECOND,
        "close_ts": market.life.scheduled // SECOND,
        "price_level_structure": terms["price_level_structure"],
        **ranges,
        "additional_metadata": {
            "name": terms["yes_sub_title"],
            **{name: terms[name] for name in names},
            "expected_expiration_ts": parse_time(terms["expected_expiration_time"]) // SECOND,
            **strikes,
        },
    }


def _determined(market: Market) -> Body:
    """Build the body about the determination of a market's result."""
    value = market.determination.value
    body: Body = {"event_type": "determined", "determination_ts": market.life.determined // SECOND, "result": market.determination.result}
    return body if value is None else {**body, "settlement_value": format_dollars(value)}


def build_lifecycle(market: Market, channel: str) -> Iterable[StreamMessage]:
    """Build the lifecycle messages of a market, from its creation to its settlement, in order."""
    life = market.life
    steps: list[tuple[int, Body]] = [
        (life.created, _created(market)),
        (life.opens, {"event_type": "activated", "is_deactivated": False}),
        (life.closes, {"event_type": "deactivated", "is_deactivated": True}),
        (life.determined, _determined(market)),
        (life.settled, {"event_type": "settled", "settled_ts": life.settled // SECOND}),
    ]
    if life.closes != life.scheduled:
        steps.insert(2, (life.closes, {"event_type": "close_date_updated", "close_ts": life.closes // SECOND}))
    return (StreamMessage(at, channel, channel, market.ticker, {"market_ticker": market.ticker, **body}) for at, body in steps)


def _other(price: str) -> str:
    """Return the complement of a price, one dollar minus the price, with the same number of decimals."""
    return str(1 - Decimal(price))


def to_yes_prices(message: StreamMessage) -> Body:
    """Return the body of a book message with the NO prices converted to prices of YES (one dollar minus the price)."""
    body = message.body
    if body.get("side") == "no":
        return {**body, "price_dollars": _other(body["price_dollars"])}
    if "no_dollars_fp" in body:
        return {**body, "no_dollars_fp": [(_other(price), size) for price, size in body["no_dollars_fp"]]}
    return body
