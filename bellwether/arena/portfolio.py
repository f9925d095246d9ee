"""What an agent is shown of its own: every open position, valued as the marks value it."""

from __future__ import annotations

from collections.abc import Mapping

from bellwether.arena.account import Account, Position
from bellwether.arena.market import Market, MarketStatus
from bellwether.arena.marks import Price, PriceKey, mark
from bellwether.arena.prompt import Holding, Portfolio


def portfolio(account: Account, prices: Mapping[PriceKey, Price], markets: Mapping[str, Market]) -> Portfolio:
    """The portfolio of an account at the newest prices, positions in the order in which they were opened.

    markets: those that are known, by id, inside and outside of the universe; a position on any other is shown as one that cannot be sold.
    """
    held = sorted(account.open.values(), key=lambda position: (position.opened_at, position.position_id))
    return Portfolio(account.cash, tuple(_holding(position, prices, markets.get(position.market_id)) for position in held))


def _holding(position: Position, prices: Mapping[PriceKey, Price], market: Market | None) -> Holding:
    found = mark(position, prices)
    return Holding(
        position_id=position.position_id,
        question=market.question if market else f"market {position.market_id}",
        side=position.side,
        shares=position.shares,
        cost=position.cost,
        price=found.price,
        value=found.value,
        open_market=market is not None and market.status is MarketStatus.ACTIVE,
    )
