"""JSON objects of the generated world as of an instant, in Kalshi's current format."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import numpy as np
import orjson

from bellwether.sandbox.timestamps import DAY, format_time, midnight
from bellwether.sandbox.world.candles import PRICES, format_contracts, format_dollars
from bellwether.sandbox.world.catalogue import QuestionSeries
from bellwether.sandbox.world.model import FIRST_DAY, Market
from bellwether.sandbox.world.tape import DOLLAR, NO_ASK, NO_BID, Level, MarketTape, list_bids

Body = dict[str, Any]


def _quote(tape: MarketTape, slot: int, closed: bool) -> tuple[int, int, int, int]:
    """Return bid, ask and their sizes in a slot; no bid and no ask before the opening and after the close."""
    if closed or slot < 0:
        return NO_BID, NO_ASK, 0, 0
    return int(tape.bid[slot]), int(tape.ask[slot]), int(tape.bid_size[slot]), int(tape.ask_size[slot])


def _trading_fields(market: Market, at: int) -> Body:
    """Build the fields with quotes, last price, volume and open interest."""
    life, tape = market.life, market.tape()
    slot, previous = tape.at(at), tape.at(at - DAY)
    bid, ask, bid_size, ask_size = _quote(tape, slot, at >= life.closes)
    old_bid, old_ask, _, _ = _quote(tape, previous, at - DAY >= life.closes)
    volume = tape.volume_at(at)
    return {
        "last_price_dollars": PRICES[tape.last[slot] if slot >= 0 else 0],
        "no_ask_dollars": PRICES[DOLLAR - bid],
        "no_bid_dollars": PRICES[DOLLAR - ask],
        "open_interest_fp": format_contracts(int(tape.open_interest[slot]) if slot >= 0 else 0),
        "previous_price_dollars": PRICES[tape.last[previous] if previous >= 0 else 0],
        "previous_yes_ask_dollars": PRICES[old_ask],
        "previous_yes_bid_dollars": PRICES[old_bid],
        "volume_24h_fp": format_contracts(volume - tape.volume_at(at - DAY)),
        "volume_fp": format_contracts(volume),
        "yes_ask_dollars": PRICES[ask],
        "yes_ask_size_fp": format_contracts(ask_size),
        "yes_bid_dollars": PRICES[bid],
        "yes_bid_size_fp": format_contracts(bid_size),
    }


def build_market(market: Market, at: int) -> bytes:
    """Build the market's object as of an instant."""
    life, determination, settled = market.life, market.determined(at), market.life.settlement(at)
    body = {
        **market.terms,
        **_trading_fields(market, at),
        "close_time": format_time(life.announced_close(at)),
        "expiration_value": determination.expiration_value if determination else "",
        "result": determination.result if determination else "",
        "status": life.status(at),
        "updated_time": format_time(life.updated(at)),
    }
    if determination is not None and determination.value is not None:
        body["settlement_value_dollars"] = format_dollars(determination.value)
    if settled is not None:
        body["settlement_ts"] = format_time(settled)
    return orjson.dumps(body, option=orjson.OPT_SORT_KEYS)


def build_series(series: QuestionSeries) -> Body:
    """Build the series' object."""
    family = series.family
    return {
        "additional_prohibitions": None,
        "category": family.category,
        "categories": [family.category],
        "contract_terms_url": f"https://contracts.example/terms/{series.ticker}.pdf",
        "contract_url": f"https://contracts.example/certifications/{series.ticker}.pdf",
        "exchange_index": 0,
        "fee_multiplier": 0.5 if family.category == "Financials" else 1,
        "fee_type": "quadratic_with_maker_fees" if family.category in ("Sports", "Elections") else "quadratic",
        "frequency": "custom",
        "last_updated_ts": format_time(midnight(FIRST_DAY)),
        "settlement_sources": family.sources,
        "tags": [family.category],
        "ticker": series.ticker,
        "title": series.title,
    }


def build_book(market: Market, at: int) -> Body:
    """Build the order book: bids of both sides, best last; empty before the opening and after the close."""
    tape = market.tape()
    bid, ask, bid_size, ask_size = _quote(tape, tape.at(at), at >= market.life.closes)
    sides: dict[str, list[Level]] = {"yes_dollars": [], "no_dollars": []}
    if bid != NO_BID:
        grid = market.trading.grid
        sides = {"yes_dollars": list_bids(grid, bid, bid_size), "no_dollars": list_bids(grid, DOLLAR - ask, ask_size)}
    levels = {side: [(PRICES[price], format_contracts(size)) for price, size in reversed(bids)] for side, bids in sides.items()}
    return {"ticker": market.ticker, "orderbook_fp": levels}


def build_trades(market: Market, start: int, end: int) -> Iterator[tuple[int, Body]]:
    """Yield the instant and the object of each trade in [start, end], newest first."""
    tape = market.tape()
    times = tape.times
    for slot in np.flatnonzero((tape.price > 0) & (times >= start) & (times <= end))[::-1].tolist():
        at, price = int(times[slot]), int(tape.price[slot])
        side, book_side = ("yes", "bid") if price == tape.ask[slot] else ("no", "ask")
        yield (
            at,
            {
                "trade_id": str(uuid.uuid5(uuid.NAMESPACE_URL, f"{market.trading.entropy}/{slot}")),
                "ticker": market.ticker,
                "created_time": format_time(at),
                "count_fp": format_contracts(int(tape.size[slot])),
                "yes_price_dollars": PRICES[price],
                "no_price_dollars": PRICES[DOLLAR - price],
                "taker_side": side,
                "taker_outcome_side": side,
                "taker_book_side": book_side,
                "is_block_trade": False,
            },
        )


def build_status() -> Body:
    """Build the status of the exchange, which is always open."""
    return {
        "exchange_active": True,
        "exchange_estimated_resume_time": None,
        "intra_exchange_transfers_active": True,
        "trading_active": True,
    }


def build_cutoff(at: int) -> Body:
    """Build the instants before which records are only in the archive, which are all `at`."""
    names = ("market_positions_last_updated_ts", "market_settled_ts", "orders_updated_ts", "trades_created_ts")
    return dict.fromkeys(names, format_time(at))


def build_historical_candle(candle: Body) -> Body:
    """Convert a candle to the format of the archive's routes: field names have no suffixes, and missing prices are null."""
    names = ("open", "low", "high", "close", "mean", "previous")
    return {
        "end_period_ts": candle["end_period_ts"],
        "open_interest": candle["open_interest_fp"],
        "price": {name: candle["price"].get(f"{name}_dollars") for name in names},
        "volume": candle["volume_fp"],
        **{side: {name.removesuffix("_dollars"): price for name, price in candle[side].items()} for side in ("yes_ask", "yes_bid")},
    }
