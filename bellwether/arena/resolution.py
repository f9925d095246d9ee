"""From evidence to settlements: when a result counts for the cohorts of a methodology, and what it pays.

Each piece of evidence is judged by the rules of clean/resolutions (`bellwether.venues.polymarket.resolution`). A result counts after as many
consecutive observations as the methodology requires, or once the dispute window has passed at an observation. A later confirmed result that
differs is a correction.

Markets are polled for evidence: awaited ones less often the longer nothing changes, settled ones for corrections, missing ones with back-off.
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
from bellwether.arena.market import MarketStatus, fold_case
from bellwether.arena.methodology import Methodology
from bellwether.arena.units import MICROS, price_micros
from bellwether.units import SharePrice
from bellwether.venues.polymarket.resolution import EVIDENCE, resolve_markets


class Ruling(NamedTuple):
    """Judgement of one piece of evidence.

    result: None if the market ended without a known winner. payouts: (case-folded outcome, micro-dollars per share). Only these two are
    compared. winner: in the venue's spelling.
    """

    result: Result | None
    payouts: tuple[tuple[str, SharePrice], ...] = ()
    winner: str | None = None

    def pays_like(self, other: Ruling | None) -> bool:
        """Return whether both rulings pay the same."""
        return other is not None and self[:2] == other[:2]


UNKNOWN = Ruling(None)


class Observation(NamedTuple):
    """One observation of a market. ruling: None while it is open. final_at: when the result became final at the venue. rule: the rule that decided."""

    market_id: str
    observed_at: datetime
    ruling: Ruling | None
    rule: str
    final_at: datetime | None = None
    by_operator: bool = False


@dataclass(frozen=True, slots=True)
class Incident:
    """Evidence that contradicts a settlement without a new result. The settlement is kept until a result is confirmed again."""

    market_id: str
    observed_at: datetime
    found: str


def judge_evidence(evidence: pl.DataFrame) -> list[Observation]:
    """Convert rows of `evidence` to observations. Columns: `EVIDENCE`, with `fetched_at` as time of observation; others are ignored."""
    if evidence.is_empty():
        return []
    judged = resolve_markets(evidence.select(list(EVIDENCE)))
    return [_judge_row(row) for row in judged.iter_rows(named=True)]


def _judge_row(row: Mapping[str, Any]) -> Observation:
    ruling: Ruling | None = None
    if row["status"] == "settled":
        ruling = _build_ruling(row["winner"], row["outcome_reason"], tuple(row["outcomes"]), tuple(row["outcome_prices"] or ()))
    elif row["final"]:
        ruling = UNKNOWN
    return Observation(row["market_id"], row["fetched_at"], ruling, row["rule"], row["settled_at"])


def _build_ruling(winner: str | None, reason: str | None, outcomes: tuple[str, ...], prices: tuple[Decimal, ...]) -> Ruling:
    if winner is not None:
        return Ruling(
            Result.WON, tuple((fold_case(name), SharePrice(MICROS * (fold_case(name) == fold_case(winner)))) for name in outcomes), winner
        )
    if reason == "void":
        return Ruling(Result.SPLIT, tuple((fold_case(name), SharePrice(MICROS // len(outcomes))) for name in outcomes))
    parts = [price for price in map(price_micros, prices) if price is not None]
    if reason == "scalar" and len(parts) == len(prices) == len(outcomes) and sum(parts) <= MICROS:
        return Ruling(Result.SPLIT, tuple((fold_case(name), part) for name, part in zip(outcomes, parts, strict=True)))
    return UNKNOWN


def cancellation(market_id: str, at: datetime, by: str) -> Observation:
    """Return the observation of a market cancelled by an operator, which counts at once."""
    return Observation(market_id, at, Ruling(Result.CANCELLED), f"cancelled by {by}", at, by_operator=True)


def derive_settlements(seen: Iterable[Observation], methodology: Methodology) -> list[Settlement]:
    """Derive all settlements from observations, corrections included, by market and time. The order of `seen` does not matter."""
    return [one for _, found in _group_by_market(seen) for one in _MarketHistory(methodology).follow(found)[0]]


def find_incidents(seen: Iterable[Observation], methodology: Methodology) -> list[Incident]:
    """Return observations that contradict a settlement: markets that are open, disputed or without a winner again."""
    return [one for _, found in _group_by_market(seen) for one in _MarketHistory(methodology).follow(found)[1]]


def _group_by_market(seen: Iterable[Observation]) -> Iterable[tuple[str, list[Observation]]]:
    ordered = sorted(seen, key=_observation_order)
    if any(_observation_order(one) == _observation_order(other) for one, other in pairwise(ordered)):
        # Observations of the same instant: sort by content, so that the order of the input has no effect.
        ordered.sort(key=lambda one: (_observation_order(one), repr(one.ruling)))
    return [(market_id, list(found)) for market_id, found in groupby(ordered, key=lambda one: one.market_id)]


def _observation_order(one: Observation) -> tuple[str, datetime, bool, str]:
    return one.market_id, one.observed_at, one.by_operator, one.rule


class _MarketHistory:
    """State of one market while its observations are processed."""

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
        if one.by_operator or self._is_confirmed(one):
            self._settle(one, ruling)

    def _is_confirmed(self, one: Observation) -> bool:
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


def missing_evidence_row(market_id: str, at: datetime) -> dict[str, Any]:
    """Build a row of evidence for a market that the venue did not list, or whose record is unreadable."""
    return {"market_id": market_id, "outcomes": [], "missing": True, "fetched_at": at}


def evidence_row(
    market: Mapping[str, Any], *, fetched_at: datetime, winners: Sequence[str] | None = None, is_50_50: bool | None = None
) -> dict[str, Any]:
    """Build a row of evidence from one observation: a row of raw/polymarket_markets and the CLOB's flags."""
    row = {name: market.get(name) for name in EVIDENCE}
    return {**row, "winners": None if winners is None else list(winners), "is_50_50": is_50_50, "fetched_at": fetched_at}


#: Initial and maximum polling interval of a market that has ended or passed its close.
FIRST, LONGEST = timedelta(minutes=10), timedelta(hours=6)
#: Polling interval of a market that is open and not yet due.
OPEN = timedelta(hours=6)
#: Time after a settlement in which a market is polled for corrections, once per UTC day, so that one run observes all of them.
CORRECTIONS = timedelta(days=14)
DAILY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class PollState:
    """Polling state of a market.

    same: number of latest observations that agree, from 1. missing: whether the venue did not list it last time.
    """

    status: MarketStatus
    looked_at: datetime
    same: int = 1
    closes_at: datetime | None = None
    missing: bool = False


def awaited_markets(book: Book) -> list[str]:
    """Return the markets with a bet that no settlement has scored, cancelled or split, even if its position was sold."""
    return sorted(
        market_id
        for market_id, trades in book.bets.items()
        if any((book.accounts[trade.agent_id].agent.methodology, market_id) not in book.settlements for trade in trades)
    )


def correctable_markets(book: Book, now: datetime) -> list[str]:
    """Return the settled markets whose last settlement is at most `CORRECTIONS` old."""
    settled: dict[str, datetime] = {}
    for (_, market_id), one in book.settlements.items():
        settled[market_id] = max(one.known_at, settled.get(market_id, one.known_at))
    return sorted({market_id for market_id, at in settled.items() if now - at <= CORRECTIONS} - set(awaited_markets(book)))


def next_look_time(polled: PollState | None, *, settled: bool = False) -> datetime | None:
    """Return the time of the next observation of a market; None means now. The interval doubles while observations agree, up to `LONGEST`."""
    if polled is None:
        return None
    if settled:
        return datetime.combine(polled.looked_at.date() + DAILY, time(), UTC)
    is_open = polled.status is MarketStatus.ACTIVE and (polled.closes_at is None or polled.looked_at < polled.closes_at)
    if is_open and not polled.missing:
        soon = polled.looked_at + OPEN
        return soon if polled.closes_at is None else min(soon, max(polled.closes_at, polled.looked_at + FIRST))
    return polled.looked_at + min(FIRST * 2 ** min(polled.same - 1, 20), DAILY if polled.missing else LONGEST)


def markets_due(book: Book, polled: Mapping[str, PollState], now: datetime, *, final: Collection[str] = ()) -> list[str]:
    """Return the markets to observe by `now`: awaited ones, and settled ones that are not `final`."""
    settled = [market_id for market_id in correctable_markets(book, now) if market_id not in final]
    times = {market_id: next_look_time(polled.get(market_id), settled=True) for market_id in settled}
    times |= {market_id: next_look_time(polled.get(market_id)) for market_id in awaited_markets(book)}
    return [market_id for market_id, at in sorted(times.items()) if at is None or at <= now]
