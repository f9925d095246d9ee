"""Facts: what happened, as it became known. Everything else is computed from them (`bellwether.arena.ledger`)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Literal, NamedTuple

from bellwether.arena.methodology import Methodology
from bellwether.units import MicroDollars, MicroShares, SharePrice

Action = Literal["BUY", "SELL"]


class Agent(NamedTuple):
    """An agent of a cohort, with the cash it starts with (micro-dollars)."""

    agent_id: str
    cohort: str
    family: str
    methodology: str
    initial_cash: MicroDollars


class Trade(NamedTuple):
    """An executed leg of a decision, with the quote it saw.

    trade_id: cohort/family/week/leg. position_id: the id of the trade that opened the position; its own when it opens one. shares: micro-shares.
    price: micro-dollars per share, the average over the levels of the book that it took. amount: micro-dollars paid or received, without the fee.
    fee: micro-dollars. bid, mid, ask: of the side, at `quoted_at`, from `quote_source`. executed_at: when it became known. base: micro-dollars of cash before the
    decision, which the limits were computed from. confidence: implied by the size, of a BUY. probability: that the side wins, where it was stated.
    binary: the market's sides are YES and NO. skipped_levels: unusable levels of the book; None in trades from before they were counted.
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
    confidence: float | None = None
    probability: float | None = None
    bid: SharePrice | None = None
    mid: SharePrice | None = None
    ask: SharePrice | None = None
    quoted_at: datetime | None = None
    quote_source: str = "clob"
    binary: bool = True
    skipped_levels: int | None = None


class Result(StrEnum):
    """The end of a market: one outcome won; no outcome won and every side is paid a part; or the cost is refunded."""

    WON = "won"
    SPLIT = "split"
    CANCELLED = "cancelled"


class Settlement(NamedTuple):
    """A resolution that counts, for the cohorts of one methodology, from `known_at` on.

    payouts: micro-dollars per share by outcome, compared without case; empty when costs are refunded. winner: the outcome's own name. rule: what
    decided. number: from 1; a second settlement of a market corrects the first.
    """

    market_id: str
    methodology: str
    known_at: datetime
    result: Result
    payouts: Mapping[str, SharePrice]
    winner: str | None = None
    rule: str = ""
    number: int = 1


def confidence(amount: MicroDollars, base: MicroDollars, methodology: Methodology) -> float:
    """The confidence that a bet of `amount` implies when the cash before the decision is `base` (micro-dollars): its share of the largest bet, 1 at most.

    The formula of the seed, c = min(a / (0.25 b), 1); 0 when there is no cash.
    """
    if base <= 0:
        return 0.0
    numerator, denominator = methodology.bet_fraction.as_integer_ratio()
    return min(amount * denominator / (numerator * base), 1.0)
