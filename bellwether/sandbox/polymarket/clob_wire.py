"""CLOB objects of the generated world as of an instant: markets, books and prices."""

from __future__ import annotations

import hashlib
from decimal import Decimal
from functools import partial

import numpy as np

from bellwether.sandbox.polymarket import quotes
from bellwether.sandbox.polymarket.ids import Ids
from bellwether.sandbox.polymarket.model import ListedEvent, ListedMarket
from bellwether.sandbox.polymarket.quotes import RawLevel
from bellwether.sandbox.polymarket.resolution_steps import HALF
from bellwether.sandbox.polymarket.source import Level, Object, Point, PriceTimes, TokenBook
from bellwether.sandbox.polymarket.wire import format_decimal, format_seconds
from bellwether.sandbox.timestamps import MINUTE, SECOND
from bellwether.sandbox.world.tape import DOLLAR

_MILL, _HUNDREDTH = Decimal("0.001"), Decimal("0.01")


def _yes_value(market: ListedMarket, at: int) -> int:
    """Return the price of YES in 1/2000 dollar: before the close the price that follows from the quotes, afterwards the final value."""
    step = market.step(at)
    if step is not None and step.closed:
        return 2 * step.value if step.value is not None else 0
    quote = quotes.compute_quote(market, at)
    return quote.twice_price if quote else DOLLAR


def build_market(market: ListedMarket, event: ListedEvent, ids: Ids, at: int) -> Object:
    """Build a market's object; its tokens have no winner before the resolution."""
    closed, winner, step = market.closed(at), market.winner(at), market.step(at)
    yes = _yes_value(market, at)
    lost = step is not None and step.closed and step.value is None
    values = [0 if lost else yes if side == market.yes else 2 * DOLLAR - yes for side in (0, 1)]
    return {
        "enable_order_book": not closed,
        "active": True,
        "closed": closed,
        "archived": market.legacy == "zero" and closed,
        "accepting_orders": at >= market.opens - MINUTE and not closed,
        "accepting_order_timestamp": format_seconds(market.opens - MINUTE),
        "minimum_order_size": 5,
        "minimum_tick_size": market.tick / DOLLAR,
        "condition_id": market.condition_id,
        "question_id": market.question_id,
        "question": market.question,
        "description": market.description,
        "market_slug": market.slug,
        "end_date_iso": f"{format_seconds(market.ends)[:10]}T00:00:00Z" if market.ends is not None else None,
        "game_start_time": format_seconds(market.starts) if market.starts is not None else None,
        "seconds_delay": 3 if market.starts is not None and not market.recurring else 0,
        "fpmm": "",
        "maker_base_fee": market.fees.base,
        "taker_base_fee": market.fees.base,
        "notifications_enabled": True,
        "neg_risk": bool(event.group),
        "neg_risk_market_id": event.group,
        "neg_risk_request_id": ids.text("request", market.number) if event.group else "",
        "icon": f"https://images.example/{int(market.id) % 97}.png",
        "image": f"https://images.example/{int(market.id) % 97}.png",
        "rewards": {"rates": None, "min_size": 0, "max_spread": 0},
        "is_50_50_outcome": step is not None and step.final and step.value == HALF,
        "tokens": [
            {"token_id": market.tokens[side], "outcome": market.outcomes[side], "price": value / (2 * DOLLAR), "winner": side == winner}
            for side, value in enumerate(values)
        ],
        "tags": [tag.label for tag in event.tags] + ["All"],
    }


def _mirrored(levels: list[RawLevel]) -> list[RawLevel]:
    """Convert levels of one token to levels of the other token, at one dollar minus the price."""
    return [(DOLLAR - price, size) for price, size in levels]


def _wire(levels: list[RawLevel]) -> list[Level]:
    """Format levels as in a response, best last."""
    return [{"price": format_decimal(price, 3), "size": format_decimal(size, 2)} for price, size in reversed(levels)]


def _exact(levels: list[RawLevel]) -> tuple[tuple[Decimal, Decimal], ...]:
    return tuple((price * _MILL, size * _HUNDREDTH) for price, size in reversed(levels))


def build_book(market: ListedMarket, event: ListedEvent, side: int, seed: int, at: int) -> TokenBook | None:
    """Build the order book of one outcome's token (0 or 1, `side`); None before the opening and from the close on."""
    quote = quotes.compute_quote(market, at)
    if quote is None or market.closed(at):
        return None
    bids, asks = quotes.build_levels(market, seed, quote)
    if side != market.yes:
        bids, asks = _mirrored(asks), _mirrored(bids)
    last = quote.last if side == market.yes or not quote.last else DOLLAR - quote.last
    terms = {
        "min_order_size": "5",
        "tick_size": format_decimal(market.tick, 3),
        "neg_risk": bool(event.group),
        "last_trade_price": f"{last / DOLLAR:.3f}" if last else "",
    }
    names = {"market": market.condition_id, "asset_id": market.tokens[side], "timestamp": str(quote.since // 1000)}
    body = partial(_book_object, names, terms, _wire(bids), _wire(asks))
    return TokenBook(market.condition_id, market.tokens[side], _exact(bids), _exact(asks), body)


def _book_object(names: Object, terms: Object, bids: list[Level], asks: list[Level]) -> Object:
    sides = {"bids": bids, "asks": asks}
    digest = hashlib.sha1(repr((names, sides, terms)).encode(), usedforsecurity=False).hexdigest()
    return {**names, "hash": digest, **sides, **terms}


def compute_prices(market: ListedMarket, side: int, ticks: PriceTimes, at: int) -> list[Point]:
    """Compute the prices of one outcome's token (0 or 1, `side`) at the instants `ticks`, from the opening to the close and not after
    `at`.
    """
    begin = -(-max(ticks.first, market.opens) // ticks.step)
    end = min(ticks.last, at, market.closes - 1) // ticks.step
    if begin > end:
        return []
    times = np.arange(begin, end + 1, dtype=np.int64) * ticks.step
    doubled = quotes.compute_twice_prices(market, times)
    if side != market.yes:
        doubled = 2 * DOLLAR - doubled
    return list(zip((times // SECOND).tolist(), (doubled / (2 * DOLLAR)).tolist(), strict=True))
