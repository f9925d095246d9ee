"""From evidence to settlements: when a result counts, for the cohorts of a methodology, and what it pays.

One piece of evidence is judged by the rules of clean/resolutions (`bellwether.venues.polymarket.resolution`). It counts when it was seen as often
as the methodology asks, in observations that follow each other, or when the window for disputes had passed at the observation. Until then nothing
happens. A result that is confirmed later and differs corrects the first.

Markets are polled for evidence: awaited ones less often the longer nothing happens, settled ones for corrections, missing ones with back-off.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import polars as pl

from bellwether.arena.facts import Result, Settlement
from bellwether.arena.ledger import Book
from bellwether.arena.market import MarketStatus, folded
from bellwether.arena.methodology import Methodology
from bellwether.arena.units import MICROS, price_micros
from bellwether.units import SharePrice
from bellwether.venues.polymarket.resolution import EVIDENCE, resolve


class Ruling(NamedTuple):
    """The verdict of one piece of evidence.

    result: None when the market is over and no winner is known. payouts: (outcome without case, micro-dollars per share). Rulings are compared by these
    two. winner: as the venue spells it.
    """

    result: Result | None
    payouts: tuple[tuple[str, SharePrice], ...] = ()
    winner: str | None = None

    def pays_like(self, other: Ruling | None) -> bool:
        """Return whether both pay the same."""
        return other is not None and self[:2] == other[:2]


UNKNOWN = Ruling(None)


class Observation(NamedTuple):
    """One look at a market. ruling: None while it is not over. final_at: when the result became final by the venue. rule: what decided."""

    market_id: str
    observed_at: datetime
    ruling: Ruling | None
    rule: str
    final_at: datetime | None = None
    by_operator: bool = False


@dataclass(frozen=True, slots=True)
class Incident:
    """Evidence that takes back what was settled without saying what holds instead; the settlement is kept until a result is confirmed again."""

    market_id: str
    observed_at: datetime
    found: str


def observations(evidence: pl.DataFrame) -> list[Observation]:
    """Observations from rows of `evidence`: columns of `EVIDENCE` with `fetched_at` as the time of observation; others are left aside."""
    if evidence.is_empty():
        return []
    judged = resolve(evidence.select(list(EVIDENCE)))
    return [_observation(row) for row in judged.iter_rows(named=True)]


def _observation(row: Mapping[str, Any]) -> Observation:
    ruling: Ruling | None = None
    if row["status"] == "settled":
        ruling = _ruling(row["winner"], row["outcome_reason"], tuple(row["outcomes"]), tuple(row["outcome_prices"] or ()))
    elif row["final"]:
        ruling = UNKNOWN
    return Observation(row["market_id"], row["fetched_at"], ruling, row["rule"], row["settled_at"])


def _ruling(winner: str | None, reason: str | None, outcomes: tuple[str, ...], prices: tuple[Decimal, ...]) -> Ruling:
    if winner is not None:
        return Ruling(Result.WON, tuple((folded(name), SharePrice(MICROS * (folded(name) == folded(winner)))) for name in outcomes), winner)
    if reason == "void":
        return Ruling(Result.SPLIT, tuple((folded(name), SharePrice(MICROS // len(outcomes))) for name in outcomes))
    parts = [price for price in map(price_micros, prices) if price is not None]
    if reason == "scalar" and len(parts) == len(prices) == len(outcomes) and sum(parts) <= MICROS:
        return Ruling(Result.SPLIT, tuple((folded(name), part) for name, part in zip(outcomes, parts, strict=True)))
    return UNKNOWN


def cancelled(market_id: str, at: datetime, by: str) -> Observation:
    """An operator's word that a market is cancelled: it counts at once."""
    return Observation(market_id, at, Ruling(Result.CANCELLED), f"cancelled by {by}", at, by_operator=True)


def settlements(seen: Iterable[Observation], methodology: Methodology) -> list[Settlement]:
    """Every settlement that follows from what was observed, corrections included, by market and time. The order of `seen` is no matter."""
    return [one for _, found in _by_market(seen) for one in _Market(methodology).follow(found)[0]]


def incidents(seen: Iterable[Observation], methodology: Methodology) -> list[Incident]:
    """Observations that do not fit what was settled: a market that is open again, disputed again, or without a winner again."""
    return [one for _, found in _by_market(seen) for one in _Market(methodology).follow(found)[1]]


def _by_market(seen: Iterable[Observation]) -> Iterable[tuple[str, list[Observation]]]:
    ordered = sorted(seen, key=_when)
    if any(_when(one) == _when(other) for one, other in pairwise(ordered)):
        # Several looks at one instant: the order in which they were given may not decide.
        ordered.sort(key=lambda one: (_when(one), repr(one.ruling)))
    return [(market_id, list(found)) for market_id, found in groupby(ordered, key=lambda one: one.market_id)]


def _when(one: Observation) -> tuple[str, datetime, bool, str]:
    return one.market_id, one.observed_at, one.by_operator, one.rule


class _Market:
    """Follows one market through its observations."""

    def __init__(self, methodology: Methodology) -> None:
        self._methodology = methodology
        self._streak: list[Observation] = []
        self._current: Ruling | None = None
        self._settlements: list[Settlement] = []
        self._incidents: list[Incident] = []

    def follow(self, seen: Sequence[Observation]) -> tuple[list[Settlement], list[Incident]]:
        for one in seen:
            self._look(one)
        return self._settlements, self._incidents

    def _look(self, one: Observation) -> None:
        ruling, settled = one.ruling, self._current is not None
        if ruling is not None and ruling.pays_like(self._current):
            self._streak = []
            return
        if ruling is None or (ruling == UNKNOWN and settled):
            self._streak = []
            if settled:
                self._incidents.append(Incident(one.market_id, one.observed_at, one.rule))
            return
        if self._streak and not ruling.pays_like(self._streak[-1].ruling):
            self._streak = []
        if not self._streak or self._streak[-1].observed_at != one.observed_at:
            self._streak.append(one)
        if one.by_operator or self._confirmed(one):
            self._settle(one, ruling)

    def _confirmed(self, one: Observation) -> bool:
        often = len(self._streak) >= self._methodology.confirmations
        if one.ruling == UNKNOWN:
            patient = one.observed_at - self._streak[0].observed_at >= self._methodology.grace
            return often and patient and self._methodology.unknown_winner == "refund"
        past = one.final_at is not None and one.final_at + self._methodology.dispute_window <= one.observed_at
        return often or past

    def _settle(self, one: Observation, ruling: Ruling) -> None:
        refund = ruling.result in (None, Result.CANCELLED) or (ruling.result is Result.SPLIT and self._methodology.void == "refund")
        settlement = Settlement(
            market_id=one.market_id,
            methodology=self._methodology.name,
            known_at=one.observed_at,
            result=Result.CANCELLED if refund else ruling.result or Result.CANCELLED,
            payouts={} if refund else dict(ruling.payouts),
            winner=ruling.winner,
            rule=one.rule,
            number=len(self._settlements) + 1,
        )
        self._current, self._streak = ruling, []
        self._settlements.append(settlement)


def missing_look(market_id: str, at: datetime) -> dict[str, Any]:
    """A row of evidence for a market that the venue did not list, or not readably."""
    return {"market_id": market_id, "outcomes": [], "missing": True, "fetched_at": at}


def evidence_of(
    market: Mapping[str, Any], *, fetched_at: datetime, winners: Sequence[str] | None = None, is_50_50: bool | None = None
) -> dict[str, Any]:
    """A row of evidence from a row of raw/polymarket_markets and the CLOB's flags, as one look at a market brought them."""
    row = {name: market.get(name) for name in EVIDENCE}
    return {**row, "winners": None if winners is None else list(winners), "is_50_50": is_50_50, "fetched_at": fetched_at}


#: Between two looks at a market that is over or past its close: at first, and at most.
FIRST, LONGEST = timedelta(minutes=10), timedelta(hours=6)
#: Between two looks at one that is open and not yet due.
OPEN = timedelta(hours=6)
#: For so long after its settlement a market is polled for a correction, once a UTC day, so that one run looks at all of them.
CORRECTIONS = timedelta(days=14)
DAILY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Polled:
    """Summary of the looks at a market so far.

    same: how many of the last looks agree, from 1. missing: the venue did not list it at the last look.
    """

    status: MarketStatus
    looked_at: datetime
    same: int = 1
    closes_at: datetime | None = None
    missing: bool = False


def awaited(book: Book) -> list[str]:
    """Markets with a bet that no settlement has scored, cancelled or split for its methodology: of held positions and of those sold before."""
    return sorted(
        market_id
        for market_id, trades in book.bets.items()
        if any((book.accounts[trade.agent_id].agent.methodology, market_id) not in book.settlements for trade in trades)
    )


def correctable(book: Book, now: datetime) -> list[str]:
    """Settled markets whose last settlement is not older than `CORRECTIONS`."""
    settled: dict[str, datetime] = {}
    for (_, market_id), one in book.settlements.items():
        settled[market_id] = max(one.known_at, settled.get(market_id, one.known_at))
    return sorted({market_id for market_id, at in settled.items() if now - at <= CORRECTIONS} - set(awaited(book)))


def next_look(polled: Polled | None, *, settled: bool = False) -> datetime | None:
    """The time of the next look at a market; None for now, as there was none. Doubles while the looks agree, up to `LONGEST`, or a day if missing."""
    if polled is None:
        return None
    if settled:
        return datetime.combine(polled.looked_at.date() + DAILY, time(), UTC)
    is_open = polled.status is MarketStatus.ACTIVE and (polled.closes_at is None or polled.looked_at < polled.closes_at)
    if is_open and not polled.missing:
        soon = polled.looked_at + OPEN
        return soon if polled.closes_at is None else min(soon, max(polled.closes_at, polled.looked_at + FIRST))
    return polled.looked_at + min(FIRST * 2 ** min(polled.same - 1, 20), DAILY if polled.missing else LONGEST)


def due(book: Book, polled: Mapping[str, Polled], now: datetime, *, final: Collection[str] = ()) -> list[str]:
    """Markets whose next look is not after `now`: awaited ones, and settled ones that are not `final`."""
    settled = [market_id for market_id in correctable(book, now) if market_id not in final]
    times = {market_id: next_look(polled.get(market_id), settled=True) for market_id in settled}
    times |= {market_id: next_look(polled.get(market_id)) for market_id in awaited(book)}
    return [market_id for market_id, at in sorted(times.items()) if at is None or at <= now]
