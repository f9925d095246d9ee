"""The arena: agents bet paper money on prediction markets, week by week. Pure functions compute ledger, marks (values of positions) and scores
from facts: agents, trades, settlements and prices.

No I/O and no scheduler: quotes, evidence and times are arguments. docs/arena.md states the rules with an example. Names are imported on first
use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bellwether.lazy import lazy_names

if TYPE_CHECKING:
    from bellwether.arena.account import Account, Position
    from bellwether.arena.decision import Action, Bet, Decision, Problem, Reason, Refusal, Sell
    from bellwether.arena.execution import ExecutionResult, MarketData, execute
    from bellwether.arena.facts import Agent, Result, Settlement, Trade
    from bellwether.arena.identity import AgentKey, DecisionKey, week_of
    from bellwether.arena.invariants import violations
    from bellwether.arena.ledger import Ledger, LedgerEntry, Violation, fold
    from bellwether.arena.market import Level, Market, Quote
    from bellwether.arena.marks import HeldPrice, Mark, Valuation, drawdown, valuation
    from bellwether.arena.methodology import Methodology, methodologies
    from bellwether.arena.parsing import Limits, parse_decision
    from bellwether.arena.scores import Score, Summary, brier, multiclass_brier, score_bets, summary
    from bellwether.units import MicroDollars, MicroShares, SharePrice

_HOMES = {
    "account": ("Account", "Position"),
    "decision": ("Action", "Bet", "Decision", "Problem", "Reason", "Refusal", "Sell"),
    "execution": ("ExecutionResult", "MarketData", "execute"),
    "facts": ("Agent", "Result", "Settlement", "Trade"),
    "identity": ("AgentKey", "DecisionKey", "week_of"),
    "invariants": ("violations",),
    "ledger": ("Ledger", "LedgerEntry", "Violation", "fold"),
    "market": ("Level", "Market", "Quote"),
    "marks": ("HeldPrice", "Mark", "Valuation", "drawdown", "valuation"),
    "methodology": ("Methodology", "methodologies"),
    "parsing": ("Limits", "parse_decision"),
    "scores": ("Score", "Summary", "brier", "multiclass_brier", "score_bets", "summary"),
    "units": ("MicroDollars", "MicroShares", "SharePrice"),
}

__all__ = [
    "Account",
    "Action",
    "Agent",
    "AgentKey",
    "Bet",
    "Decision",
    "DecisionKey",
    "ExecutionResult",
    "HeldPrice",
    "Ledger",
    "LedgerEntry",
    "Level",
    "Limits",
    "Mark",
    "Market",
    "MarketData",
    "Methodology",
    "MicroDollars",
    "MicroShares",
    "Position",
    "Problem",
    "Quote",
    "Reason",
    "Refusal",
    "Result",
    "Score",
    "Sell",
    "Settlement",
    "SharePrice",
    "Summary",
    "Trade",
    "Valuation",
    "Violation",
    "brier",
    "drawdown",
    "execute",
    "fold",
    "methodologies",
    "multiclass_brier",
    "parse_decision",
    "score_bets",
    "summary",
    "valuation",
    "violations",
    "week_of",
]

__getattr__ = lazy_names(__name__, _HOMES)
