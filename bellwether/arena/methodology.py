"""Methodologies: everything that decides how a cohort is run and scored, as data (`registry/methodologies.toml`)."""

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
Fallback = Literal["listing", "none"]
Primary = Literal["brier_size", "brier_stated", "return"]

_Dollars = Annotated[Decimal, Field(gt=0, le=10**9, decimal_places=6)]
_Count = Annotated[int, Field(ge=1, le=100_000, strict=True)]


class Methodology(BaseModel):
    """One methodology.

    venue: on whose markets its cohorts bet. initial_cash, minimum_bet: dollars. bet_fraction: part of the cash before a decision that may be bet.
    limit: whether that holds for each bet or for all bets of a decision together. confidence: how a bet's size becomes a confidence. primary: the metrics that rank. universe: markets of a
    run. decision_cohorts: so many of the newest cohorts decide. deadline_hours: after the start of a week, until which its decisions may be made.
    temperature, max_tokens, timeout_seconds, malformed_retries: of a call. fill: at the midpoint, or at ask and bid. fallback: the price of `mid`
    fills where the venue has no midpoint: the listing's, or none. fees: charged or not.
    share_step: shares that a fill is a multiple of, in shares. void: half-and-half markets pay each side its part, or refund. unknown_winner: what
    becomes of a market of which the venue says that it is over and not who won: its cost is refunded once it has been polled for `grace_days`, or
    it stays open. confirmations: so often a result must be seen, unless `dispute_hours` have passed since it became final. mark_minutes: between
    two marks. source_gap: dollars by which two sources of a price may differ without being reported.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    title: Annotated[str, Field(min_length=1)]
    venue: Venue = "polymarket"
    initial_cash: _Dollars
    minimum_bet: _Dollars
    bet_fraction: Annotated[Decimal, Field(gt=0, le=1, decimal_places=6)]
    limit: Limit
    confidence: Literal["share_of_largest_bet"]
    primary: Annotated[tuple[Primary, ...], Field(min_length=1)]
    universe: Annotated[int, Field(ge=1, le=5000, strict=True)]
    decision_cohorts: _Count
    deadline_hours: Annotated[int, Field(ge=1, le=168, strict=True)]
    temperature: Annotated[float, Field(ge=0, le=2)]
    max_tokens: Annotated[int, Field(ge=1, le=1_000_000, strict=True)]
    timeout_seconds: _Count
    malformed_retries: Annotated[int, Field(ge=0, le=10, strict=True)]
    fill: Fill
    fallback: Fallback = "none"
    fees: Literal["none", "venue"]
    share_step: Annotated[Decimal, Field(gt=0, le=1, decimal_places=6)]
    void: Literal["split", "refund"]
    unknown_winner: Literal["refund", "defer"]
    grace_days: Annotated[int, Field(ge=1, le=365, strict=True)]
    confirmations: Annotated[int, Field(ge=1, le=10, strict=True)]
    dispute_hours: Annotated[int, Field(ge=0, le=1000, strict=True)]
    mark_minutes: Annotated[int, Field(ge=1, le=60, strict=True)]
    source_gap: Annotated[Decimal, Field(ge=0, le=1, decimal_places=6)]

    @model_validator(mode="after")
    def _first_bet_is_possible(self) -> Self:
        if self.minimum_bet > self.bet_fraction * self.initial_cash:
            raise ValueError(f"minimum_bet {self.minimum_bet} is above bet_fraction × initial_cash: no bet would be possible")
        if 60 % self.mark_minutes:
            raise ValueError(f"mark_minutes {self.mark_minutes} does not divide an hour")
        return self

    @property
    def cash(self) -> MicroDollars:
        """Micro-dollars that an agent starts with."""
        return MicroDollars(micros(self.initial_cash))

    @property
    def least(self) -> MicroDollars:
        """Micro-dollars of the smallest bet."""
        return MicroDollars(micros(self.minimum_bet))

    @property
    def step(self) -> MicroShares:
        """Micro-shares that a fill is a multiple of."""
        return MicroShares(micros(self.share_step))

    def most(self, cash: MicroDollars) -> MicroDollars:
        """Micro-dollars that may be bet (each time, or in all: see `limit`) when the cash before the decision is `cash`; cut, never rounded up."""
        fraction = self.bet_fraction.as_integer_ratio()
        return MicroDollars(max(cash, 0) * fraction[0] // fraction[1])

    def printed_most(self, cash: MicroDollars) -> MicroDollars:
        """`most`, cut to whole cents as prompts print it."""
        return MicroDollars(self.most(cash) // CENT * CENT)

    @property
    def grace(self) -> timedelta:
        """Time for which an unknown winner is polled before it is refunded."""
        return timedelta(days=self.grace_days)

    @property
    def dispute_window(self) -> timedelta:
        """After the end of which one observation of a final result is enough."""
        return timedelta(hours=self.dispute_hours)


def methodologies(folder: Path | None = None) -> Mapping[str, Methodology]:
    """Every methodology by name: the built-in ones, then those of `methodologies.toml` in `folder`.

    Raises `ConfigError` that names file, entry, field and value.
    """
    entries = registry.read(FILE, folder)
    return MappingProxyType({name: _parsed(_inherited(name, entries, ())) for name in entries})


def methodology(name: str = DEFAULT, folder: Path | None = None) -> Methodology:
    """Return the methodology of that name. Raises `ConfigError` for an unknown name, with close matches."""
    known = methodologies(folder)
    if name in known:
        return known[name]
    raise ConfigError(f"choosing a methodology: none is called {name!r:.80}; {suggestion(name, known)}")


def _parsed(entry: registry.Entry) -> Methodology:
    return entry.parse(Methodology)


def _inherited(name: str, entries: Mapping[str, registry.Entry], below: tuple[str, ...]) -> registry.Entry:
    entry = entries[name]
    parent = entry.fields.get("like")
    if parent is None:
        return entry
    if not isinstance(parent, str) or parent not in entries:
        raise entry.error("like", "no such methodology", f"there are {', '.join(entries)}")
    if parent in (*below, name):
        raise entry.error("like", "goes in a circle", "name a methodology that does not lead back here")
    own = {field: value for field, value in entry.fields.items() if field != "like"}
    return registry.Entry(entry.file, name, {**_inherited(parent, entries, (*below, name)).fields, **own})
