"""JSON objects of the generated world as of an instant, in Kalshi's current format."""

from __future__ import annotations

from typing import Any

import orjson

from bellwether.sandbox.timestamps import DAY, format_time, midnight
from bellwether.sandbox.world.candles import PRICES, format_contracts, format_dollars
from bellwether.sandbox.world.catalogue import QuestionSeries
from bellwether.sandbox.world.model import FIRST_DAY, Market
from bellwether.sandbox.world.tape import DOLLAR, NO_ASK, NO_BID, MarketTape

_WIPED = (NO_BID, NO_ASK, 0, 0)


def _quote(tape: MarketTape, slot: int, closed: bool) -> tuple[int, int, int, int]:
    """Return bid, ask and their sizes in a slot; no bid and no ask before the opening and after the close."""
    if closed or slot < 0:
        return _WIPED
    return int(tape.bid[slot]), int(tape.ask[slot]), int(tape.bid_size[slot]), int(tape.ask_size[slot])


def _trading_fields(market: Market, at: int) -> dict[str, Any]:
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
    life, determination = market.life, market.determination
    body = {
        **market.terms,
        **_trading_fields(market, at),
        "close_time": format_time(life.announced_close(at)),
        "expiration_value": determination.expiration_value if at >= life.determined else "",
        "result": determination.result if at >= life.determined else "",
        "status": life.status(at),
        "updated_time": format_time(life.updated(at)),
    }
    if at >= life.determined and determination.value is not None:
        body["settlement_value_dollars"] = format_dollars(determination.value)
    if at >= life.settled:
        body["settlement_ts"] = format_time(life.settled)
    return orjson.dumps(body, option=orjson.OPT_SORT_KEYS)


def find_final(market: Market) -> int:
    """Return the instant from which the market's object no longer changes."""
    return max(market.life.settled, market.life.closes + DAY)


def build_series(series: QuestionSeries) -> dict[str, Any]:
    """Build the series' object."""
    family = series.family
    document = f"{series.ticker.removeprefix('KX')}.pdf"
    return {
        "additional_prohibitions": None,
        "category": family.category,
        "categories": [family.category],
        "contract_terms_url": f"https://contracts.example/terms/{document}",
        "contract_url": f"https://contracts.example/certifications/{document}",
        "exchange_index": 0,
        "fee_multiplier": 0.5 if family.category == "Financials" else 1,
        "fee_type": "quadratic_with_maker_fees" if family.category in ("Sports", "Elections") else "quadratic",
        "frequency": family.frequency,
        "last_updated_ts": format_time(midnight(FIRST_DAY)),
        "settlement_sources": [{"name": family.source[0], "url": family.source[1]}],
        "tags": list(family.tags),
        "ticker": series.ticker,
        "title": series.title,
    }
