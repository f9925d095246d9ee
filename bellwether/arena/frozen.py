"""What a week fixes once, as JSON: its universe, and the cohort that starts in it. Stored as records in the journal (`bellwether.arena.records`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from bellwether.arena.facts import Agent
from bellwether.arena.fees import KalshiFees, UnknownFees
from bellwether.arena.identity import AgentKey
from bellwether.arena.market import Market, MarketStatus
from bellwether.arena.methodology import Methodology, Venue
from bellwether.arena.prompt import FIRST_VERSION
from bellwether.arena.terms import Terms
from bellwether.arena.universe import Universe, frozen
from bellwether.venues.polymarket.fees import FREE, FeeSchedule, Regime


@dataclass(frozen=True)
class FrozenUniverse:
    """A week's universe on a venue as of an instant. reconstructed: made afterwards. source: what from, in words. rejects: listed objects that are no
    market."""

    universe: Universe
    at: datetime
    reconstructed: bool
    source: str
    rejects: int = 0
    venue: Venue = "polymarket"


@dataclass(frozen=True)
class FrozenCohort:
    """The cohort that starts in a week: who decides by family (a model of the registry or a rule), by which methodology, from which lineup.

    reconstructed: its weeks are decided afterwards, and none of them live. started_at: as of when. terms: of its models, by family; empty in cohorts
    that were started before terms were kept. prompt: version of its prompts.
    """

    week: date
    lineup: str
    methodology: str
    reconstructed: bool
    members: Mapping[str, str]
    started_at: datetime
    terms: Mapping[str, Terms] = field(default_factory=dict)
    prompt: str = FIRST_VERSION

    def agents(self, rules: Methodology) -> list[Agent]:
        """Its agents, by family."""
        return [
            Agent(AgentKey(self.week, family).agent_id, str(self.week), family, self.methodology, rules.cash)
            for family in sorted(self.members)
        ]


def encoded_universe(found: FrozenUniverse) -> bytes:
    """A universe as JSON in UTF-8; the same universe gives the same bytes."""
    said = {
        "at": found.at.isoformat(),
        "reconstructed": found.reconstructed,
        "source": found.source,
        "rejects": found.rejects,
        "markets": [_said(market) for market in found.universe.markets],
        **({} if found.venue == "polymarket" else {"venue": found.venue}),
    }
    return json.dumps(said, ensure_ascii=True, separators=(",", ":")).encode()


def universe_of(body: bytes) -> FrozenUniverse:
    """The universe that a record holds."""
    said = json.loads(body)
    markets = frozen([_market(one) for one in said["markets"]])
    at, venue = datetime.fromisoformat(said["at"]), said.get("venue", "polymarket")
    return FrozenUniverse(markets, at, said["reconstructed"], said["source"], said["rejects"], venue)


def encoded_cohort(found: FrozenCohort) -> bytes:
    """A cohort as JSON in UTF-8; the same cohort gives the same bytes."""
    said = {
        "week": found.week.isoformat(),
        "lineup": found.lineup,
        "methodology": found.methodology,
        "reconstructed": found.reconstructed,
        "members": dict(found.members),
        "started_at": found.started_at.isoformat(),
        "terms": {family: terms.as_json() for family, terms in found.terms.items()},
        "prompt": found.prompt,
    }
    return json.dumps(said, sort_keys=True, separators=(",", ":")).encode()


def cohort_of(body: bytes) -> FrozenCohort:
    """The cohort that a record holds."""
    said = json.loads(body)
    week, started_at = date.fromisoformat(said["week"]), datetime.fromisoformat(said["started_at"])
    terms = {family: Terms.of_json(one) for family, one in said.get("terms", {}).items()}
    return FrozenCohort(**{**said, "week": week, "started_at": started_at, "terms": terms})


def fee_text(fees: FeeSchedule | KalshiFees | UnknownFees) -> str:
    """Terms of fees as JSON."""
    said = {**asdict(fees), "regime": fees.regime.name} if isinstance(fees, FeeSchedule) else asdict(fees)
    return json.dumps(said, default=str, sort_keys=True, separators=(",", ":"))


def _fees(text: str | None) -> FeeSchedule | KalshiFees | UnknownFees:
    if text is None:
        return FREE
    said = json.loads(text)
    if "rules" in said:
        return KalshiFees(**said)
    if "reason" in said:
        return UnknownFees(**said)
    # A fractional exponent is text, as all decimals are; a whole one is a number.
    exact = {name: Decimal(said[name]) for name in ("rate", "rebate_rate", "exponent") if isinstance(said[name], str)}
    return FeeSchedule(**{**said, **exact, "regime": Regime[said["regime"]]})


_FIELDS = tuple(one.name for one in fields(Market) if one.init)


def _said(market: Market) -> dict[str, Any]:
    said = {name: getattr(market, name) for name in _FIELDS}
    closes_at = market.closes_at.isoformat() if market.closes_at else None
    return {**said, "closes_at": closes_at, "fees": None if market.fees is FREE or market.fees == FREE else fee_text(market.fees)}


def _market(said: Mapping[str, Any]) -> Market:
    lists = {name: tuple(said[name]) for name in ("outcomes", "prices", "token_ids")}
    closes_at = datetime.fromisoformat(said["closes_at"]) if said["closes_at"] else None
    return Market(**{**said, **lists, "closes_at": closes_at, "status": MarketStatus(said["status"]), "fees": _fees(said["fees"])})
