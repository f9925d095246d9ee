"""Brier scores of bets: of the confidence implied by the size, of the stated probability, and of the price paid.

Each bet is scored once, by the resolution in force, even if its position was sold earlier. Split and cancelled markets give no score. The Brier
score of a probability p that the bet's side wins is (p - won)^2, in a binary market equal to (p_yes - o_yes)^2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import fsum
from typing import NamedTuple

from bellwether.arena.facts import Result, Trade
from bellwether.arena.ledger import Ledger
from bellwether.arena.market import fold_case
from bellwether.arena.units import MICROS


class Score(NamedTuple):
    """Scores of one bet (a BUY trade).

    p_yes, o_yes: of a binary market, p_yes from the implied confidence; None otherwise. brier_size, brier_stated, brier_price: Brier scores of
    the confidence, of the stated probability (None if missing), and of the price paid.
    """

    trade_id: str
    agent_id: str
    market_id: str
    side: str
    winner: str
    won: bool
    confidence: float | None
    probability: float | None
    price: float
    p_yes: float | None
    o_yes: int | None
    brier_size: float | None
    brier_stated: float | None
    brier_price: float
    resolved_at: datetime


@dataclass(frozen=True, slots=True)
class Summary:
    """Mean scores of the bets of an agent or family; None without bets.

    scored: bets on markets with a winner. stated: those with a probability. unscored: those without a confidence in [0, 1]. win_rate: share of
    winners among the scored bets.
    """

    scored: int
    stated: int
    unscored: int
    brier_size: float | None
    brier_stated: float | None
    brier_price: float | None
    win_rate: float | None


def brier(probability: float, happened: bool | int) -> float:
    """Return the Brier score of a probability: the square of (probability - happened)."""
    return (probability - bool(happened)) ** 2


def exact_mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are not None, computed with an exact sum; None without values."""
    defined = [value for value in values if value is not None]
    return fsum(defined) / len(defined) if defined else None


def score_bets(ledger: Ledger) -> list[Score]:
    """Score every bet on a market with a winner. The scores are sorted by trade id."""
    scores = []
    for (methodology, market_id), settlement in ledger.settlements.items():
        if settlement.result is not Result.WON or settlement.winner is None:
            continue
        for trade in ledger.bets.get(market_id, ()):
            if ledger.accounts[trade.agent_id].agent.methodology == methodology:
                scores.append(score_bet(trade, settlement.winner, settlement.known_at))
    return sorted(scores)


def score_bet(trade: Trade, winner: str, resolved_at: datetime) -> Score:
    """Score one bet. winner: winning side of the market."""
    won = fold_case(trade.side) == fold_case(winner)
    confidence = trade.confidence if trade.confidence is not None and 0 <= trade.confidence <= 1 else None
    price = trade.price / MICROS
    p_yes = None if confidence is None or not trade.binary else confidence if fold_case(trade.side) == "yes" else 1 - confidence
    return Score(
        trade_id=trade.trade_id,
        agent_id=trade.agent_id,
        market_id=trade.market_id,
        side=trade.side,
        winner=winner,
        won=won,
        confidence=trade.confidence,
        probability=trade.probability,
        price=price,
        p_yes=p_yes,
        o_yes=int(fold_case(winner) == "yes") if trade.binary else None,
        brier_size=None if confidence is None else brier(confidence, won),
        brier_stated=None if trade.probability is None else brier(trade.probability, won),
        brier_price=brier(price, won),
        resolved_at=resolved_at,
    )


def summary(scores: Sequence[Score]) -> Summary:
    """Compute the mean scores of the bets of an agent or family."""
    sized = [score.brier_size for score in scores if score.brier_size is not None]
    stated = [score.brier_stated for score in scores if score.brier_stated is not None]
    return Summary(
        scored=len(scores),
        stated=len(stated),
        unscored=len(scores) - len(sized),
        brier_size=exact_mean(sized),
        brier_stated=exact_mean(stated),
        brier_price=exact_mean(score.brier_price for score in scores),
        win_rate=exact_mean(float(score.won) for score in scores),
    )
