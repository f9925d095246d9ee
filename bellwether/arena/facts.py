"""Facts of the arena: agents, trades and settlements. Ledger, marks and scores are computed from facts (`bellwether.arena.ledger`)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Literal, NamedTuple

from bellwether.arena.methodology import Methodology
from bellwether.units import MicroDollars, MicroShares, SharePrice

Action = Literal["BUY", "SELL"]


class Agent(NamedTuple):
    """An agent: the competitor of one family in one cohort (the agents that start in the same week). initial_cash: micro-dollars."""

    agent_id: str
    cohort: str
    family: str
    methodology: str
    initial_cash: MicroDollars


class Trade(NamedTuple):
    """An executed bet or sale of a decision, with the quote at which it was filled.

    trade_id: cohort/family/week/leg. position_id: id of the trade that opened the position. shares: micro-shares. price: average fill price in
    micro-dollars per share. amount: micro-dollars paid or received, without the fee. fee: micro-dollars. bid, mid, ask: quote of the side at
    `quoted_at` from `quote_source`. executed_at: when the trade became known. base: cash before the decision in micro-dollars, which determines
    the limits. confidence: implied by the size of a BUY. probability: stated probability that the side wins, if any. binary: whether the sides
    are YES and NO. skipped_levels: unusable levels of the book. unmatched: part of the amount without a counterparty in the book,
    in micro-dollars; None if the quote has no sizes.
    """

    trade_id: str
    agent_id: str
    market_id: str
    side: str
    action: Action
    position_id: str
    shares: MicroShares
    price: SharePrice
    amount: MicroDollars
    fee: MicroDollars
    executed_at: datetime
    base: MicroDollars
    mid: SharePrice
    confidence: float | None = None
    probability: float | None = None
    bid: SharePrice | None = None
    ask: SharePrice | None = None
    quoted_at: datetime | None = None
    quote_source: str = "clob"
    binary: bool = True
    skipped_levels: int = 0
    unmatched: MicroDollars | None = None


class Result(StrEnum):
    """Kind of settlement. WON: one outcome won. SPLIT: every side is paid a part. CANCELLED: costs are refunded."""

    WON = "won"
    SPLIT = "split"
    CANCELLED = "cancelled"


class Settlement(NamedTuple):
    """Settlement of a market for all cohorts of one methodology, in force from `known_at` until a later settlement corrects it.

    payouts: micro-dollars per share by case-folded outcome; empty if costs are refunded. winner: name of the winning outcome. rule: the rule
    that decided. number: from 1; later settlements of a market correct the first.
    """

    market_id: str
    methodology: str
    known_at: datetime
    result: Result
    payouts: Mapping[str, SharePrice]
    winner: str | None = None
    rule: str = ""
    number: int = 1


def implied_confidence(amount: MicroDollars, base: MicroDollars, methodology: Methodology) -> float:
    """Return the confidence that the size of a bet implies: `amount` divided by the largest allowed bet, at most 1. base: cash before the
    decision. Both are micro-dollars.

    Formula of Forecaster Arena: c = min(a / (0.25 b), 1); 0 without cash.
    """
    if base <= 0:
        return 0.0
    numerator, denominator = methodology.bet_fraction.as_integer_ratio()
    return min(amount * denominator / (numerator * base), 1.0)
