"""Simulator in which agents trade recorded episodes, with deterministic results.

Most agents need only `from bellwether.replay import Agent, BUY, CENT, CONTRACT, YES`; see docs/agents.md. Names are imported lazily.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bellwether.errors import OrderError
from bellwether.lazy import lazy_names

if TYPE_CHECKING:
    from bellwether.replay.agents.agent import Agent, CompiledAgent, cents, contracts
    from bellwether.replay.agents.context import AgentContext
    from bellwether.replay.agents.limits import BudgetError, Failure
    from bellwether.replay.agents.loader import AgentSource
    from bellwether.replay.agents.records import Book, EpisodeInfo, Fill, MarketInfo, OrderUpdate, Position, Trade
    from bellwether.replay.agents.views import Market, Order
    from bellwether.replay.backtest import Backtest, run
    from bellwether.replay.episode.folder import load
    from bellwether.replay.preparation import Prepared, prepare
    from bellwether.replay.settings import BacktestSettings, Limits
    from bellwether.replay.sweep import Candidate, Sweep, SweepResults
    from bellwether.replay.units import BUY, CENT, CONTRACT, DOLLAR, MICROS, MINUTE, NO, SECOND, SELL, YES
    from bellwether.units import CentiCents, Lots, MicroDollars

_HOMES = {
    "agents.agent": ("Agent", "CompiledAgent", "cents", "contracts"),
    "agents.context": ("AgentContext",),
    "agents.limits": ("BudgetError", "Failure"),
    "agents.loader": ("AgentSource",),
    "agents.records": ("Book", "EpisodeInfo", "Fill", "MarketInfo", "OrderUpdate", "Position", "Trade"),
    "agents.views": ("Market", "Order"),
    "backtest": ("Backtest", "run"),
    "episode.folder": ("load",),
    "preparation": ("Prepared", "prepare"),
    "settings": ("BacktestSettings", "Limits"),
    "sweep": ("Candidate", "Sweep", "SweepResults"),
    "units": (
        "BUY", "CENT", "CONTRACT", "DOLLAR", "MICROS", "MINUTE", "NO", "SECOND", "SELL", "YES", "CentiCents", "Lots", "MicroDollars",
    ),
}  # fmt: skip

__all__ = [
    "BUY", "CENT", "CONTRACT", "DOLLAR", "MICROS", "MINUTE", "NO", "SECOND", "SELL", "YES", "Agent", "AgentContext", "AgentSource", "Backtest",
    "BacktestSettings", "Book", "BudgetError", "Candidate", "CentiCents", "CompiledAgent", "EpisodeInfo", "Failure", "Fill",
    "Limits", "Lots", "Market", "MarketInfo", "MicroDollars", "Order", "OrderError", "OrderUpdate", "Position",
    "Prepared", "Sweep", "SweepResults", "Trade", "cents", "contracts", "load", "prepare", "run",
]  # fmt: skip

__getattr__ = lazy_names(__name__, _HOMES)
