"""The arena: agents bet paper money on prediction markets, week by week. Pure functions compute ledger, marks (values of positions) and scores
from facts: agents, trades, settlements and prices.

No I/O and no scheduler: quotes, evidence and times are arguments. docs/arena.md states the rules with an example. Names are imported on first
use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bellwether.lazy import lazy_names

if TYPE_CHECKING:
    from bellwether.arena.account import Account
    from bellwether.arena.decision import Decision
    from bellwether.arena.execution import MarketData, execute
    from bellwether.arena.facts import Agent, Result, Settlement, Trade
    from bellwether.arena.identity import AgentKey, DecisionKey
    from bellwether.arena.ledger import Ledger, fold
    from bellwether.arena.market import Market, Quote
    from bellwether.arena.methodology import Methodology, methodologies
    from bellwether.arena.parsing import Limits, parse_decision
    from bellwether.arena.scores import score_bets

_HOMES = {
    "account": ("Account",),
    "decision": ("Decision",),
    "execution": ("MarketData", "execute"),
    "facts": ("Agent", "Result", "Settlement", "Trade"),
    "identity": ("AgentKey", "DecisionKey"),
    "ledger": ("Ledger", "fold"),
    "market": ("Market", "Quote"),
    "methodology": ("Methodology", "methodologies"),
    "parsing": ("Limits", "parse_decision"),
    "scores": ("score_bets",),
}

__all__ = [
    "Account",
    "Agent",
    "AgentKey",
    "Decision",
    "DecisionKey",
    "Ledger",
    "Limits",
    "Market",
    "MarketData",
    "Methodology",
    "Quote",
    "Result",
    "Settlement",
    "Trade",
    "execute",
    "fold",
    "methodologies",
    "parse_decision",
    "score_bets",
]

__getattr__ = lazy_names(__name__, _HOMES)
