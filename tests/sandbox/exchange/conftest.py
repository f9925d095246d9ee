"""Markets of every liquidity in a generated world, and its exchange."""

from __future__ import annotations

import pytest

from bellwether.sandbox import GeneratedWorld
from bellwether.sandbox.exchange.flow import OrderFlow
from bellwether.sandbox.exchange.generated_exchange import GeneratedExchange
from bellwether.sandbox.world.model import Market


@pytest.fixture(scope="session")
def exchange(world: GeneratedWorld) -> GeneratedExchange:
    return GeneratedExchange(world)


@pytest.fixture(scope="session")
def markets(world: GeneratedWorld) -> list[Market]:
    """Markets of one week, including combos."""
    return [market for home in range(160, 167) for event in world.day(home).events for market in event.markets]


@pytest.fixture(scope="session")
def flows(markets: list[Market]) -> list[OrderFlow]:
    return [OrderFlow(market.tape(), market.trading, market.life.closes) for market in markets]
