"""The universe: the open markets offered to all agents of a week."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, TypeVar

from bellwether.arena.market import Market, MarketStatus, UnknownFees, fold_case, is_binary
from bellwether.arena.units import MICROS, micros, price_micros
from bellwether.errors import SchemaError
from bellwether.units import MicroDollars, MicroShares, SharePrice
from bellwether.venues.polymarket.fees import FeeSchedule, schedule_of
from bellwether.venues.polymarket.wire import FEE_NAMES

Amount = TypeVar("Amount")


@dataclass(frozen=True)
class Universe:
    """Markets offered in a week, in order, and the SHA-256 of their fields."""

    markets: tuple[Market, ...]
    digest: str

    @property
    def by_id(self) -> Mapping[str, Market]:
        """Markets by id."""
        return {market.market_id: market for market in self.markets}


def select_universe(markets: Iterable[Market], limit: int, at: datetime) -> Universe:
    """Select, of the markets that are tradable at an instant, the `limit` with the largest volume; ties by id.

    Of markets with the same id only the first is used. Unknown volume counts as 0.
    """
    first: dict[str, Market] = {}
    for market in markets:
        if market.market_id and is_tradable(market, at):
            first.setdefault(market.market_id, market)
    chosen = sorted(first.values(), key=lambda market: (-(market.volume or 0), market.market_id))[:limit]
    return build_universe(chosen)


def build_universe(markets: Sequence[Market]) -> Universe:
    """Build a universe of markets in the given order."""
    return Universe(tuple(markets), _digest(markets))


def market_from_row(row: Mapping[str, Any], at: datetime) -> Market:
    """Convert a row of raw/polymarket_markets to a market, with the fees as of an instant. Raises `SchemaError` without an id.

    Prices are None if missing, outside [0, 1], or if the listing quotes only one side. Fee terms that cannot be parsed are `UnknownFees`.
    """
    market_id = row.get("market_id")
    if not market_id:
        raise SchemaError(f"reading a market for the universe: {row.get('question')!r:.80} has no market_id; look at the stored page")
    outcomes = tuple(row.get("outcomes") or ())
    return Market(
        market_id=market_id,
        question=row.get("question") or "(no question)",
        outcomes=outcomes,
        prices=_listed_prices(row, len(outcomes)),
        token_ids=tuple(row.get("token_ids") or ()),
        category=row.get("category"),
        event_id=row.get("event_id"),
        volume=_to_unit(MicroDollars, row.get("volume")),
        closes_at=row.get("end_time"),
        status=status_from_row(row),
        tick=_to_unit(SharePrice, row.get("tick_size")),
        min_shares=_to_unit(MicroShares, row.get("min_order_size")),
        fees=_parse_fees(row, at),
    )


def status_from_row(row: Mapping[str, Any]) -> MarketStatus:
    """Return the status of a market from its row of raw/polymarket_markets. RESOLVED is never returned, because only evidence shows a resolution."""
    status = fold_case(str(row.get("uma_resolution_status") or ""))
    if row.get("closed"):
        return {"proposed": MarketStatus.PROPOSED, "disputed": MarketStatus.DISPUTED}.get(status, MarketStatus.CLOSED)
    tradable = row.get("active") is not False and row.get("accepting_orders") is not False and bool(row.get("outcomes"))
    return MarketStatus.ACTIVE if tradable else MarketStatus.CLOSED


def is_tradable(market: Market, at: datetime) -> bool:
    """Return whether a market can be traded at an instant: it is active, has not reached its listed end, and a side has a price above 0."""
    ended = market.closes_at is not None and market.closes_at <= at
    sides = ("YES", "NO") if is_binary(market.outcomes) else market.outcomes
    return market.status is MarketStatus.ACTIVE and not ended and any(market.price(side) for side in sides)


def _listed_prices(row: Mapping[str, Any], count: int) -> tuple[SharePrice | None, ...]:
    """Return the listed price of each outcome; None unless both sides are quoted. count: number of outcomes.

    For a one-sided book the venue lists the midpoint between the quoted side and 0 or 1, or an earlier price. Nothing trades at either.
    """
    bid, ask = (price_micros(row.get(name)) for name in ("best_bid", "best_ask"))
    listed = row.get("outcome_prices") if bid and ask and ask < MICROS else None
    return tuple(price_micros(price) for price in (list(listed or ()) + [None] * count)[:count])


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


def _to_unit(unit: Callable[[int], Amount], value: Decimal | int | str | None) -> Amount | None:
    return None if value is None else unit(micros(value))


def _parse_fees(row: Mapping[str, Any], at: datetime) -> FeeSchedule | UnknownFees:
    names = {"id": "market_id", "feeType": "fee_type", "feesEnabled": "fees_enabled", "takerBaseFee": "taker_base_fee"}
    stated: dict[str, Any] = {field: row.get(column) for field, column in names.items()}
    terms = {wire: row.get(column) for column, wire in FEE_NAMES.items()}
    if any(value is not None for value in terms.values()):
        stated["feeSchedule"] = {name: value for name, value in terms.items() if value is not None}
    try:
        return schedule_of(stated, at, category=row.get("category"))
    except SchemaError as unknown:
        return UnknownFees(str(unknown))
