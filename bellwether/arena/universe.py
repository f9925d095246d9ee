"""The universe: the open markets that all agents of a run are shown, chosen once, frozen and identified by a hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, TypeVar

from bellwether.arena.fees import UnknownFees
from bellwether.arena.market import Market, MarketStatus, folded, is_binary
from bellwether.arena.units import micros, price_micros
from bellwether.errors import SchemaError
from bellwether.units import MicroDollars, MicroShares, SharePrice
from bellwether.venues.polymarket.fees import FeeSchedule, schedule_of
from bellwether.venues.polymarket.wire.markets import FEE_NAMES

Amount = TypeVar("Amount")


@dataclass(frozen=True)
class Universe:
    """The markets of a run, the largest volume first, and the SHA-256 of everything in them that is shown or decides."""

    markets: tuple[Market, ...]
    digest: str

    @property
    def by_id(self) -> Mapping[str, Market]:
        """The markets by id."""
        return {market.market_id: market for market in self.markets}


def universe(markets: Iterable[Market], limit: int) -> Universe:
    """The `limit` open markets of the largest volume; of equal volume the smaller id first. Of one id the first counts, unknown volume counts 0."""
    first: dict[str, Market] = {}
    for market in markets:
        if market.market_id and market.status is MarketStatus.ACTIVE:
            first.setdefault(market.market_id, market)
    chosen = sorted(first.values(), key=lambda market: (-(market.volume or 0), market.market_id))[:limit]
    return frozen(chosen)


def frozen(markets: Sequence[Market]) -> Universe:
    """The universe of these markets, in this order."""
    return Universe(tuple(markets), _digest(markets))


def market_of(row: Mapping[str, Any], at: datetime) -> Market:
    """A market of the arena from a row of raw/polymarket_markets, as of an instant, which decides on its fees. Raises `SchemaError` without an id.

    A price of the row that is missing, or outside [0, 1], is None. Fee terms that cannot be read are `UnknownFees`.
    """
    market_id = row.get("market_id")
    if not market_id:
        raise SchemaError(f"reading a market for the universe: {row.get('question')!r:.80} has no market_id; look at the stored page")
    outcomes = tuple(row.get("outcomes") or ())
    prices = list(row.get("outcome_prices") or ())
    return Market(
        market_id=market_id,
        question=row.get("question") or "(no question)",
        outcomes=outcomes,
        prices=tuple(price_micros(price) for price in (prices + [None] * len(outcomes))[: len(outcomes)]),
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
    """Where a row of raw/polymarket_markets says that a market stands. Closed is not resolved: results are a matter of `bellwether.arena.resolution`."""
    word = folded(str(row.get("uma_resolution_status") or ""))
    if row.get("closed"):
        return {"proposed": MarketStatus.PROPOSED, "disputed": MarketStatus.DISPUTED}.get(word, MarketStatus.CLOSED)
    tradable = row.get("active") is not False and row.get("accepting_orders") is not False and bool(row.get("outcomes"))
    return MarketStatus.ACTIVE if tradable else MarketStatus.CLOSED


def tradable(market: Market) -> bool:
    """Whether any side of a market has a price at which it can be bought."""
    sides = ("YES", "NO") if is_binary(market.outcomes) else market.outcomes
    return any(market.price(side) for side in sides)


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
    stated: dict[str, Any] = {"id": row.get("market_id"), "feeType": row.get("fee_type"), "feesEnabled": row.get("fees_enabled")}
    terms = {wire: row.get(column) for column, wire in FEE_NAMES.items()}
    if any(value is not None for value in terms.values()):
        stated["feeSchedule"] = {name: value for name, value in terms.items() if value is not None}
    try:
        return schedule_of(stated, at, category=row.get("category"))
    except SchemaError as unknown:
        return UnknownFees(str(unknown))
