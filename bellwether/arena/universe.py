"""The universe: the open markets that all agents of a run are shown, chosen once, frozen and identified by a hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, TypeVar

from bellwether.arena.market import Market, MarketStatus, UnknownFees, complement, folded, is_binary, within
from bellwether.arena.units import MICROS, divided, micros, price_micros
from bellwether.errors import SchemaError
from bellwether.units import MicroDollars, MicroShares, SharePrice
from bellwether.venues.polymarket.fees import FeeSchedule, schedule_of
from bellwether.venues.polymarket.wire.markets import FEE_NAMES

Amount = TypeVar("Amount")
#: Micro-dollars by which a listed price may differ from the middle of its book: venues round it to a hundredth of a cent.
_ROUNDING = 100


@dataclass(frozen=True)
class Universe:
    """The markets of a run, the largest volume first, and the SHA-256 of everything in them that is shown or decides."""

    markets: tuple[Market, ...]
    digest: str

    @property
    def by_id(self) -> Mapping[str, Market]:
        """The markets by id."""
        return {market.market_id: market for market in self.markets}


def universe(markets: Iterable[Market], limit: int, at: datetime) -> Universe:
    """The `limit` markets of the largest volume that can be traded at an instant; of equal volume the smaller id first.

    Of one id the first counts, unknown volume counts 0.
    """
    first: dict[str, Market] = {}
    for market in markets:
        if market.market_id and is_tradable(market, at):
            first.setdefault(market.market_id, market)
    chosen = sorted(first.values(), key=lambda market: (-(market.volume or 0), market.market_id))[:limit]
    return frozen(chosen)


def frozen(markets: Sequence[Market]) -> Universe:
    """The universe of these markets, in this order."""
    return Universe(tuple(markets), _digest(markets))


def market_of(row: Mapping[str, Any], at: datetime) -> Market:
    """A market of the arena from a row of raw/polymarket_markets, as of an instant, which decides on its fees. Raises `SchemaError` without an id.

    A price of the row that is missing, outside [0, 1], or the middle of a book with one side, is None, unless there was a trade (`_prices`). Fee terms
    that cannot be read are `UnknownFees`.
    """
    market_id = row.get("market_id")
    if not market_id:
        raise SchemaError(f"reading a market for the universe: {row.get('question')!r:.80} has no market_id; look at the stored page")
    outcomes = tuple(row.get("outcomes") or ())
    return Market(
        market_id=market_id,
        question=row.get("question") or "(no question)",
        outcomes=outcomes,
        prices=_prices(row, len(outcomes)),
        token_ids=tuple(row.get("token_ids") or ()),
        category=row.get("category"),
        event_id=row.get("event_id"),
        volume=_millionths(MicroDollars, row.get("volume")),
        closes_at=row.get("end_time"),
        status=status_of(row),
        tick=_millionths(SharePrice, row.get("tick_size")),
        min_shares=_millionths(MicroShares, row.get("min_order_size")),
        fees=_fees(row, at),
    )


def status_of(row: Mapping[str, Any]) -> MarketStatus:
    """Status of a market by a row of raw/polymarket_markets. Closed is not resolved: results are a matter of `bellwether.arena.resolution`."""
    word = folded(str(row.get("uma_resolution_status") or ""))
    if row.get("closed"):
        return {"proposed": MarketStatus.PROPOSED, "disputed": MarketStatus.DISPUTED}.get(word, MarketStatus.CLOSED)
    tradable = row.get("active") is not False and row.get("accepting_orders") is not False and bool(row.get("outcomes"))
    return MarketStatus.ACTIVE if tradable else MarketStatus.CLOSED


def is_tradable(market: Market, at: datetime) -> bool:
    """Return whether a market can be traded at an instant: it is open, its listed end has not passed, and a side has a price at which it can be bought."""
    ended = market.closes_at is not None and market.closes_at <= at
    sides = ("YES", "NO") if is_binary(market.outcomes) else market.outcomes
    return market.status is MarketStatus.ACTIVE and not ended and any(market.price(side) for side in sides)


def _prices(row: Mapping[str, Any], count: int) -> tuple[SharePrice | None, ...]:
    """The price of each outcome in the listing.

    Of a book that lacks a side the venue lists the middle between the other side and 0 or 1, at which nothing trades. The last trade takes its place,
    moved to the side that is quoted where it contradicts that; without a trade there is no price.
    """
    listed = [price_micros(price) for price in (list(row.get("outcome_prices") or ()) + [None] * count)[:count]]
    bid, ask, last = (price_micros(row.get(name)) or None for name in ("best_bid", "best_ask", "last_trade_price"))
    ask = None if ask == MICROS else ask
    middle = divided((bid or 0) + (ask or MICROS), 2)
    if count != 2 or (bid and ask) or listed[0] is None or abs(listed[0] - middle) > _ROUNDING:
        return tuple(listed)
    first = None if last is None else within(last, bid, ask)
    return first, None if first is None else complement(first)


def _digest(markets: Sequence[Market]) -> str:
    rows = [
        [
            *(
                market.market_id,
                market.question,
                market.outcomes,
                market.prices,
                market.token_ids,
                market.category,
                market.event_id,
                market.volume,
            ),
            *(market.closes_at and market.closes_at.isoformat(), market.status, market.tick, market.min_shares, repr(market.fees)),
        ]
        for market in markets
    ]
    return hashlib.sha256(json.dumps(rows, ensure_ascii=True, separators=(",", ":")).encode()).hexdigest()


def _millionths(unit: Callable[[int], Amount], value: Decimal | int | str | None) -> Amount | None:
    return None if value is None else unit(micros(value))


def _fees(row: Mapping[str, Any], at: datetime) -> FeeSchedule | UnknownFees:
    names = {"id": "market_id", "feeType": "fee_type", "feesEnabled": "fees_enabled", "takerBaseFee": "taker_base_fee"}
    stated: dict[str, Any] = {field: row.get(column) for field, column in names.items()}
    terms = {wire: row.get(column) for column, wire in FEE_NAMES.items()}
    if any(value is not None for value in terms.values()):
        stated["feeSchedule"] = {name: value for name, value in terms.items() if value is not None}
    try:
        return schedule_of(stated, at, category=row.get("category"))
    except SchemaError as unknown:
        return UnknownFees(str(unknown))
