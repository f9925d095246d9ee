"""Replay: recorded books and trades become episodes; agents trade them in a deterministic simulator.

`from bellwether.replay import Agent, BUY, CENT, CONTRACT, YES` is all that most agents need; docs/agents.md shows how to write one. Nothing is
imported before it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bellwether.replay.agents.agent import Agent, CompiledAgent, EpisodeInfo, MarketInfo, cents, contracts
    from bellwether.replay.agents.context import AgentContext, requests
    from bellwether.replay.agents.limits import BudgetError, OrderError
    from bellwether.replay.agents.views import Book, Market, Order
    from bellwether.replay.backtest import Backtest, BacktestSettings, Failure, run
    from bellwether.replay.episode import load
    from bellwether.replay.prepared import Prepared, prepare
    from bellwether.replay.units import BUY, CENT, CONTRACT, DOLLAR, MICROS, MINUTE, NO, SECOND, SELL, YES

_HOMES = {
    "agents.agent": ("Agent", "CompiledAgent", "EpisodeInfo", "MarketInfo", "cents", "contracts"),
    "agents.context": ("AgentContext", "requests"),
    "agents.limits": ("BudgetError", "OrderError"),
    "agents.views": ("Book", "Market", "Order"),
    "backtest": ("Backtest", "BacktestSettings", "Failure", "run"),
    "episode": ("load",),
    "prepared": ("Prepared", "prepare"),
    "units": ("BUY", "CENT", "CONTRACT", "DOLLAR", "MICROS", "MINUTE", "NO", "SECOND", "SELL", "YES"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "BUY",
    "CENT",
    "CONTRACT",
    "DOLLAR",
    "MICROS",
    "MINUTE",
    "NO",
    "SECOND",
    "SELL",
    "YES",
    "Agent",
    "AgentContext",
    "Backtest",
    "BacktestSettings",
    "Book",
    "BudgetError",
    "CompiledAgent",
    "EpisodeInfo",
    "Failure",
    "Market",
    "MarketInfo",
    "Order",
    "OrderError",
    "Prepared",
    "cents",
    "contracts",
    "load",
    "prepare",
    "requests",
    "run",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
