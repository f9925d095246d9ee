"""Methodologies (`registry/methodologies.toml`): all parameters for running and scoring a cohort (the agents that start in one week)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from bellwether import registry
from bellwether.arena.units import CENT, micros
from bellwether.errors import ConfigError, suggestion
from bellwether.units import MicroDollars, MicroShares

FILE = "methodologies.toml"
DEFAULT = "v1"

Venue = Literal["polymarket", "kalshi"]
Limit = Literal["bet", "decision"]
Fill = Literal["mid", "realistic"]
Primary = Literal["brier_size", "brier_stated", "return"]

_Dollars = Annotated[Decimal, Field(gt=0, le=10**9, decimal_places=6)]
_Count = Annotated[int, Field(ge=1, le=100_000, strict=True)]


class Methodology(BaseModel):
    """Parameters for running and scoring a cohort.

    venue: where its cohorts bet. initial_cash, minimum_bet: dollars. bet_fraction: share of the cash before a decision that may be bet. limit:
    whether that applies to each bet or to all bets of a decision. primary: metrics that rank. universe: number of markets in a run.
    decision_cohorts: number of the latest cohorts that decide. deadline_hours: hours after the start of a week until which decisions are made.
    temperature, max_tokens, timeout_seconds, malformed_retries: parameters of calls. fill: at the midpoint, or against the book. fees: whether
    fees are charged. share_step: step of fills in shares. unknown_winner: whether a market that ended without a known winner is refunded after
    `grace_days` of polling or stays open. confirmations: number of consecutive observations that confirm a result, unless `dispute_hours` have
    passed since it became final. mark_minutes: interval of marks. source_gap: reported difference of two price sources in dollars.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    title: Annotated[str, Field(min_length=1)]
    venue: Venue = "polymarket"
    initial_cash: _Dollars
    minimum_bet: _Dollars
    bet_fraction: Annotated[Decimal, Field(gt=0, le=1, decimal_places=6)]
    limit: Limit
    primary: Annotated[tuple[Primary, ...], Field(min_length=1)]
    universe: Annotated[int, Field(ge=1, le=5000, strict=True)]
    decision_cohorts: _Count
    deadline_hours: Annotated[int, Field(ge=1, le=168, strict=True)]
    temperature: Annotated[float, Field(ge=0, le=2)]
    max_tokens: Annotated[int, Field(ge=1, le=1_000_000, strict=True)]
    timeout_seconds: _Count
    malformed_retries: Annotated[int, Field(ge=0, le=10, strict=True)]
    fill: Fill
    fees: Literal["none", "venue"]
    share_step: Annotated[Decimal, Field(gt=0, le=1, decimal_places=6)]
    unknown_winner: Literal["refund", "defer"]
    grace_days: Annotated[int, Field(ge=1, le=365, strict=True)]
    confirmations: Annotated[int, Field(ge=1, le=10, strict=True)]
    dispute_hours: Annotated[int, Field(ge=0, le=1000, strict=True)]
    mark_minutes: Annotated[int, Field(ge=1, le=60, strict=True)]
    source_gap: Annotated[Decimal, Field(ge=0, le=1, decimal_places=6)]

    @model_validator(mode="after")
    def _check_limits(self) -> Self:
        if self.minimum_bet > self.bet_fraction * self.initial_cash:
            raise ValueError(f"minimum_bet {self.minimum_bet} is above bet_fraction × initial_cash, so that no bet is possible; lower it")
        if 60 % self.mark_minutes:
            raise ValueError(f"mark_minutes {self.mark_minutes} is not a divisor of 60; choose one")
        return self

    @property
    def cash(self) -> MicroDollars:
        """Initial cash of an agent in micro-dollars."""
        return MicroDollars(micros(self.initial_cash))

    @property
    def smallest_bet(self) -> MicroDollars:
        """Minimum bet in micro-dollars."""
        return MicroDollars(micros(self.minimum_bet))

    @property
    def step(self) -> MicroShares:
        """Smallest step of the size of a fill in micro-shares."""
        return MicroShares(micros(self.share_step))

    def largest_bet(self, cash: MicroDollars) -> MicroDollars:
        """Return the maximum of one bet, or with the `limit` "decision" of all bets of a decision together, in micro-dollars, rounded down.

        cash: before the decision, in micro-dollars.
        """
        fraction = self.bet_fraction.as_integer_ratio()
        return MicroDollars(max(cash, 0) * fraction[0] // fraction[1])

    def printed_largest_bet(self, cash: MicroDollars) -> MicroDollars:
        """Return `largest_bet` rounded down to whole cents, as printed in prompts."""
        return MicroDollars(self.largest_bet(cash) // CENT * CENT)

    @property
    def grace(self) -> timedelta:
        """Time for which a market that ended without a known winner is polled before its bets are refunded."""
        return timedelta(days=self.grace_days)

    @property
    def dispute_window(self) -> timedelta:
        """Time after a result became final at the venue. Once it has passed, a single observation confirms the result."""
        return timedelta(hours=self.dispute_hours)


def methodologies(folder: Path | None = None) -> Mapping[str, Methodology]:
    """Load all methodologies by name: the built-in ones, then those of `methodologies.toml` in `folder`.

    Raises `ConfigError` naming file, entry, field and value.
    """
    entries = registry.read(FILE, folder)
    return MappingProxyType({name: _resolve_inheritance(name, entries, ()).parse(Methodology) for name in entries})


def load_methodology(name: str = DEFAULT, folder: Path | None = None) -> Methodology:
    """Load a methodology by name. Raises `ConfigError` for an unknown name, suggesting close matches."""
    rules = methodologies(folder)
    if name in rules:
        return rules[name]
    raise ConfigError(f"choosing a methodology: {name!r:.80} does not exist; {suggestion(name, rules)}")


def _resolve_inheritance(name: str, entries: Mapping[str, registry.Entry], below: tuple[str, ...]) -> registry.Entry:
    entry = entries[name]
    parent = entry.fields.get("like")
    if parent is None:
        return entry
    if not isinstance(parent, str) or parent not in entries:
        raise entry.error("like", "unknown methodology", f"choose from {', '.join(entries)}")
    if parent in (*below, name):
        raise entry.error("like", "is circular", "choose a methodology that does not inherit from this one")
    own = {field: value for field, value in entry.fields.items() if field != "like"}
    return registry.Entry(entry.file, name, {**_resolve_inheritance(parent, entries, (*below, name)).fields, **own})
