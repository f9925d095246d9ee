"""Settlements of markets, derived from evidence (what a venue states about a market's resolution) by the rules of a methodology; and when to poll
for evidence.

Each piece of evidence is judged by the rules of clean/resolutions (`bellwether.venues.polymarket.resolution`). A result counts after as many
consecutive observations as the methodology requires, or once the dispute window has passed at an observation. A later confirmed result that
differs is a correction.

Markets are polled for evidence: unsettled ones with bets (awaited) less often the longer nothing changes, settled ones for corrections,
missing ones with back-off.
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
from bellwether.arena.ledger import Ledger
from bellwether.arena.market import MarketStatus, fold_case
from bellwether.arena.methodology import Methodology
from bellwether.arena.units import MICROS, price_micros
from bellwether.units import SharePrice
from bellwether.venues.polymarket.resolution import EVIDENCE, resolve_markets


class Ruling(NamedTuple):
    """Result and payouts that follow from one observation of a market.

    result: None if the market ended without a known winner. payouts: (case-folded outcome, micro-dollars per share). Only these two are
    compared. winner: in the venue's spelling.
    """

    result: Result | None
    payouts: tuple[tuple[str, SharePrice], ...] = ()
    winner: str | None = None

    def pays_like(self, other: Ruling | None) -> bool:
        """Return whether the other ruling has the same result and payouts; False for None."""
        return other is not None and self[:2] == other[:2]


UNKNOWN = Ruling(None)


class Observation(NamedTuple):
    """Content of one piece of evidence about a market. ruling: result and payouts; None while the market has no final result. final_at: when the
    result became final at the venue. rule: the rule that decided.
    """

    market_id: str
    observed_at: datetime
    ruling: Ruling | None
    rule: str
    final_at: datetime | None = None
    by_operator: bool = False


@dataclass(frozen=True, slots=True)
class Incident:
    """Evidence that contradicts a settlement but has no new result. The settlement is kept until another result is confirmed."""

    market_id: str
    observed_at: datetime
    found: str


def judge_evidence(evidence: pl.DataFrame) -> list[Observation]:
    """Return an observation per row of evidence: the result and payouts that follow from the row. Columns: those of `EVIDENCE`, with `fetched_at`
    as time; further columns are ignored.
    """
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
    """Build the observation that an operator cancelled a market. This observation settles the market at once, without confirmation. by: the
    operator.
    """
    return Observation(market_id, at, Ruling(Result.CANCELLED), f"cancelled by {by}", at, by_operator=True)


def derive_settlements(evidence: Iterable[Observation], methodology: Methodology) -> list[Settlement]:
    """Derive the settlements of markets, including corrections, from observations in any order. The result is sorted by market and time."""
    return [
        settlement for _, observations in _group_by_market(evidence) for settlement in _MarketHistory(methodology).process(observations)[0]
    ]


def find_incidents(evidence: Iterable[Observation], methodology: Methodology) -> list[Incident]:
    """Return where observations contradict a settlement without a new result: the market is open, disputed or without a winner again."""
    return [incident for _, observations in _group_by_market(evidence) for incident in _MarketHistory(methodology).process(observations)[1]]


def _group_by_market(observations: Iterable[Observation]) -> Iterable[tuple[str, list[Observation]]]:
    ordered = sorted(observations, key=_observation_order)
    if any(_observation_order(observation) == _observation_order(other) for observation, other in pairwise(ordered)):
        # Observations of the same instant: sort by content, so that the order of the input has no effect.
        ordered.sort(key=lambda observation: (_observation_order(observation), repr(observation.ruling)))
    return [(market_id, list(group)) for market_id, group in groupby(ordered, key=lambda observation: observation.market_id)]


def _observation_order(observation: Observation) -> tuple[str, datetime, bool, str]:
    return observation.market_id, observation.observed_at, observation.by_operator, observation.rule


class _MarketHistory:
    """Settlements and incidents of one market, derived from its observations in order of time."""

    def __init__(self, methodology: Methodology) -> None:
        self._methodology = methodology
        self._streak: list[Observation] = []
        self._current: Ruling | None = None
        self._settlements: list[Settlement] = []
        self._incidents: list[Incident] = []

    def process(self, observations: Sequence[Observation]) -> tuple[list[Settlement], list[Incident]]:
        for observation in observations:
            self._add(observation)
        return self._settlements, self._incidents

    def _add(self, observation: Observation) -> None:
        ruling, settled = observation.ruling, self._current is not None
        if ruling is not None and ruling.pays_like(self._current):
            self._streak = []
            return
        if ruling is None or (ruling == UNKNOWN and settled):
            self._streak = []
            if settled:
                self._incidents.append(Incident(observation.market_id, observation.observed_at, observation.rule))
            return
        if self._streak and not ruling.pays_like(self._streak[-1].ruling):
            self._streak = []
        if not self._streak or self._streak[-1].observed_at != observation.observed_at:
            self._streak.append(observation)
        if observation.by_operator or self._is_confirmed(observation):
            self._settle(observation, ruling)

    def _is_confirmed(self, observation: Observation) -> bool:
        is_repeated = len(self._streak) >= self._methodology.confirmations
        if observation.ruling == UNKNOWN:
            has_waited = observation.observed_at - self._streak[0].observed_at >= self._methodology.grace
            return is_repeated and has_waited and self._methodology.unknown_winner == "refund"
        is_final = observation.final_at is not None and observation.final_at + self._methodology.dispute_window <= observation.observed_at
        return is_repeated or is_final

    def _settle(self, observation: Observation, ruling: Ruling) -> None:
        refund = ruling.result in (None, Result.CANCELLED)
        settlement = Settlement(
            market_id=observation.market_id,
            methodology=self._methodology.name,
            known_at=observation.observed_at,
            result=Result.CANCELLED if refund else ruling.result or Result.CANCELLED,
            payouts={} if refund else dict(ruling.payouts),
            winner=ruling.winner,
            rule=observation.rule,
            number=len(self._settlements) + 1,
        )
        self._current, self._streak = ruling, []
        self._settlements.append(settlement)


def build_missing_evidence_row(market_id: str, at: datetime) -> dict[str, Any]:
    """Build a row of evidence for a market that the venue did not list, or whose record is unreadable."""
    return {"market_id": market_id, "outcomes": [], "missing": True, "fetched_at": at}


def build_evidence_row(
    market: Mapping[str, Any], *, fetched_at: datetime, winners: Sequence[str] | None = None, is_50_50: bool | None = None
) -> dict[str, Any]:
    """Build a row of evidence from a row of raw/polymarket_markets. winners, is_50_50: winning outcomes and 50-50 flag that the CLOB states; None
    if unknown.
    """
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
    """Results of the latest polls of a market.

    same: number of latest observations that agree, from 1. missing: whether the venue did not list it last time.
    """

    status: MarketStatus
    looked_at: datetime
    same: int = 1
    closes_at: datetime | None = None
    missing: bool = False


def find_awaited_markets(ledger: Ledger) -> list[str]:
    """Return the markets that have bets and are not settled yet, even if all shares were sold."""
    return sorted(
        market_id
        for market_id, trades in ledger.bets.items()
        if any((ledger.accounts[trade.agent_id].agent.methodology, market_id) not in ledger.settlements for trade in trades)
    )


def find_correctable_markets(ledger: Ledger, now: datetime) -> list[str]:
    """Return the settled markets whose last settlement is at most 14 days old (`CORRECTIONS`): their results may still be corrected."""
    settled: dict[str, datetime] = {}
    for (_, market_id), settlement in ledger.settlements.items():
        settled[market_id] = max(settlement.known_at, settled.get(market_id, settlement.known_at))
    return sorted({market_id for market_id, at in settled.items() if now - at <= CORRECTIONS} - set(find_awaited_markets(ledger)))


def next_poll_time(polled: PollState | None, *, settled: bool = False) -> datetime | None:
    """Return when to poll a market next; None means now. For ended or unlisted markets the interval doubles while observations agree. settled:
    poll once per day, for corrections.
    """
    if polled is None:
        return None
    if settled:
        return datetime.combine(polled.looked_at.date() + DAILY, time(), UTC)
    is_open = polled.status is MarketStatus.ACTIVE and (polled.closes_at is None or polled.looked_at < polled.closes_at)
    if is_open and not polled.missing:
        soon = polled.looked_at + OPEN
        return soon if polled.closes_at is None else min(soon, max(polled.closes_at, polled.looked_at + FIRST))
    return polled.looked_at + min(FIRST * 2 ** min(polled.same - 1, 20), DAILY if polled.missing else LONGEST)


def find_due_markets(ledger: Ledger, polled: Mapping[str, PollState], now: datetime, *, final: Collection[str] = ()) -> list[str]:
    """Return the markets to poll by `now`: unsettled ones with bets, and recently settled ones that are not in `final`. polled: latest polls by
    market. final: markets whose settlement cannot change.
    """
    settled = [market_id for market_id in find_correctable_markets(ledger, now) if market_id not in final]
    times = {market_id: next_poll_time(polled.get(market_id), settled=True) for market_id in settled}
    times |= {market_id: next_poll_time(polled.get(market_id)) for market_id in find_awaited_markets(ledger)}
    return [market_id for market_id, at in sorted(times.items()) if at is None or at <= now]
