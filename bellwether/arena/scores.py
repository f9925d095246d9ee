"""Scores of bets on markets that have a winner: of the confidence that the size implies, of the probability that was stated, and of the price paid.

A bet is scored once, by the resolution in force, also when its position was sold before. Markets that were split or cancelled have no winner, and no
score. The Brier score of a probability p that the bet's side wins is (p - won)^2, which in a binary market is the same as (p_yes - o_yes)^2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import fsum
from typing import NamedTuple

from bellwether.arena.facts import Result, Trade
from bellwether.arena.ledger import Book
from bellwether.arena.market import folded
from bellwether.arena.units import MICROS

#: Brier score of a coin: what a probability of one half gets, whatever happens.
COIN = 0.25


class Score(NamedTuple):
    """The scores of one bet (a BUY trade).

    p_yes, o_yes: of a binary market, from the size's point of view; None in others. brier_size, brier_stated, brier_price: of the confidence, of the
    stated probability (None where none was), and of the price that was paid.
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
    """Means over the scored bets of an agent or a family; None without any.

    n: bets with a score. stated: those with a probability. unscored: those whose confidence is missing or outside [0, 1]. skill: 1 - score / reference.
    skill_price compares with the price paid, over the same bets. win_rate: share of winners among bets on markets that have one.
    """

    n: int
    stated: int
    unscored: int
    brier_size: float | None
    brier_stated: float | None
    brier_price: float | None
    skill_coin: float | None
    skill_price: float | None
    skill_stated_price: float | None
    win_rate: float | None


def brier(probability: float, happened: bool | int) -> float:
    """(f - o)^2."""
    return (probability - bool(happened)) ** 2


def multiclass_brier(probabilities: Mapping[str, float], outcome: str) -> float:
    """Of probabilities for all outcomes: the sum of (f - o)^2 over them, from 0 to 2."""
    return fsum(brier(p, folded(name) == folded(outcome)) for name, p in probabilities.items())


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of what is not None, independent of the order; None of nothing."""
    defined = [value for value in values if value is not None]
    return fsum(defined) / len(defined) if defined else None


def skill(score: float | None, reference: float | None = COIN) -> float | None:
    """1 - score / reference; None without either, or with a reference of 0."""
    return None if score is None or not reference else 1 - score / reference


def score_bets(book: Book) -> list[Score]:
    """The score of every bet on a market that has a winner, in the order of trades."""
    found = []
    for (methodology, market_id), settlement in book.settlements.items():
        if settlement.result is not Result.WON or settlement.winner is None:
            continue
        for trade in book.bets.get(market_id, ()):
            if book.accounts[trade.agent_id].agent.methodology == methodology:
                found.append(score(trade, settlement.winner, settlement.known_at))
    return sorted(found)


def score(trade: Trade, winner: str, resolved_at: datetime) -> Score:
    """The scores of one bet on a market that `winner` won."""
    won = folded(trade.side) == folded(winner)
    sized = trade.confidence if trade.confidence is not None and 0 <= trade.confidence <= 1 else None
    price = trade.price / MICROS
    p_yes = None if sized is None or not trade.binary else sized if folded(trade.side) == "yes" else 1 - sized
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
        o_yes=int(folded(winner) == "yes") if trade.binary else None,
        brier_size=None if sized is None else brier(sized, won),
        brier_stated=None if trade.probability is None else brier(trade.probability, won),
        brier_price=brier(price, won),
        resolved_at=resolved_at,
    )


def summary(found: Sequence[Score]) -> Summary:
    """The means over scores of one agent, or of all agents of a family in all cohorts: each bet counts once."""
    sized = [one for one in found if one.brier_size is not None]
    stated = [one for one in found if one.brier_stated is not None]
    brier_size, brier_stated = mean(one.brier_size for one in sized), mean(one.brier_stated for one in stated)
    return Summary(
        n=len(sized),
        stated=len(stated),
        unscored=len(found) - len(sized),
        brier_size=brier_size,
        brier_stated=brier_stated,
        brier_price=mean(one.brier_price for one in found),
        skill_coin=skill(brier_size),
        skill_price=skill(brier_size, mean(one.brier_price for one in sized)),
        skill_stated_price=skill(brier_stated, mean(one.brier_price for one in stated)),
        win_rate=mean(float(one.won) for one in found),
    )
