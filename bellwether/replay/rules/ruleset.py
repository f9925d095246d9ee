"""Rule sets: the rules of a venue since a certain day, as versioned data (`rules.toml`) that results name."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from bellwether.errors import ConfigError
from bellwether.units import Lots, MicroDollars

#: Name of PredictionMarketBench's own rules, which are code and not in `rules.toml`.
PMB = "pmb-2026-01"
_DATA = Path(__file__).with_name("rules.toml")

Venue = Literal["kalshi", "polymarket"]


#: Fields that may differ between the markets of a run, in the order of the columns of `Tape.units`.
UNITS = ("min_lots", "lot_step", "fee_unit", "balance_unit", "rebate_unit", "rebate_above")


@dataclass(frozen=True, slots=True)
class FeeRates:
    """Fee rates for takers and makers, each the factor of price × (1 − price) in the fee per contract, in dollars."""

    taker: Fraction
    maker: Fraction


_POLYMARKET_FEES_SINCE = 2026


@dataclass(frozen=True, slots=True)
class RuleSet:
    """Rules of one venue from a day on that differ between venues or days: fees, their rounding, and sizes. Units: lots, micro-dollars.

    name: `<venue>-<day>`, stored in every result. since: first day in force. default: whether `rules_for` chooses it; variants are chosen
    by name. min_lots, lot_step: sizes allowed for orders. fee_unit: trade fees are rounded to it. balance_unit: changes of the balance are
    rounded down to it at the trader's cost, with an accumulator per order; 0: no rounding. rebate_unit: unit of the accumulator's rebates;
    rebate_above: only when it exceeds the unit. fees: rates by the fee type of a market. sources: sources of the rules.
    """

    name: str
    venue: Venue
    title: str
    since: date
    default: bool
    min_lots: Lots
    lot_step: Lots
    fee_unit: MicroDollars
    balance_unit: MicroDollars
    rebate_unit: MicroDollars
    rebate_above: bool
    fees: Mapping[str, FeeRates]
    sources: tuple[str, ...]

    @property
    def units(self) -> tuple[int, ...]:
        """Values of the fields `UNITS`, which are size limits and rounding units, as integers: a row of `Tape.units`."""
        return tuple(int(getattr(self, name)) for name in UNITS)

    @property
    def uses_fee_terms(self) -> bool:
        """True if fees depend on a market's fee terms. False if the rules are older than these."""
        return self.venue != "polymarket" or self.since.year >= _POLYMARKET_FEES_SINCE


#: PredictionMarketBench's own rules: what results and language models read of them. Their fees are floats, computed in `bellwether.replay.pmb`.
PMB_RULES = RuleSet(
    name=PMB,
    venue="kalshi",
    title="PredictionMarketBench of January 2026, with its quirks and float fees",
    since=date(2026, 1, 1),
    default=False,
    min_lots=Lots(1),
    lot_step=Lots(1),
    fee_unit=MicroDollars(10_000),
    balance_unit=MicroDollars(0),
    rebate_unit=MicroDollars(0),
    rebate_above=False,
    fees=MappingProxyType({"quadratic": FeeRates(Fraction("0.07"), Fraction("0.0175"))}),
    sources=("The benchmark's published simulator (fee model kalshi_oct_2025).",),
)


def rule_set(name: str) -> RuleSet:
    """Return the rule set `name`. Raises `ConfigError` for an unknown name."""
    try:
        return rule_sets()[name]
    except KeyError:
        raise ConfigError(f"choosing the rules: unknown rule set {name!r}; choose one of {', '.join(rule_sets())}") from None


def rules_for(venue: str, day: date) -> RuleSet:
    """Return a venue's newest default rule set that is in force on a day.

    Raises `ConfigError` for an unknown venue or a day before its first rules.
    """
    of_venue = [rules for rules in rule_sets().values() if rules.venue == venue and rules.default]
    if not of_venue:
        venues = sorted({rules.venue for rules in rule_sets().values()})
        raise ConfigError(f"choosing the rules: no rules for venue {venue!r}; choose one of {', '.join(venues)}")
    in_force = [rules for rules in of_venue if rules.since <= day]
    if not in_force:
        first = min(of_venue, key=lambda rules: rules.since)
        raise ConfigError(f"choosing the rules: the first of {venue} are of {first.since}, which is after {day}; name a rule set")
    return max(in_force, key=lambda rules: rules.since)


@cache
def rule_sets() -> Mapping[str, RuleSet]:
    """Return all rule sets by name."""
    stated = tomllib.loads(_DATA.read_text(encoding="utf-8"))
    return MappingProxyType({name: _rule_set(name, _inherit_values(name, stated)) for name in stated})


def _inherit_values(name: str, stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return a rule set's values in `rules.toml`, including values inherited from the set named by `like`. stated: the file's content."""
    own = dict(stated[name])
    parent = own.pop("like", None)
    return own if parent is None else {**_inherit_values(parent, stated), **own}


def _rule_set(name: str, values: dict[str, Any]) -> RuleSet:
    """Build a rule set from its values in `rules.toml`."""
    rates = {kind: FeeRates(Fraction(rate["taker"]), Fraction(rate["maker"])) for kind, rate in values.pop("fees").items()}
    sources = tuple(values.pop("sources"))
    return RuleSet(name=name, fees=MappingProxyType(rates), sources=sources, **values)


def combine_rules(sets: Sequence[RuleSet]) -> RuleSet:
    """Combine rule sets into one for a replay of all their markets. If all are the same set, it is returned unchanged.

    The name joins theirs with `+` in order of first appearance. Fees and units are those of each market (`Tape.fees`, `Tape.units`).
    """
    different = list({rules.name: rules for rules in sets}.values())
    if len(different) == 1:
        return different[0]
    return replace(
        different[0],
        name="+".join(rules.name for rules in different),
        title="; ".join(rules.title for rules in different),
        since=max(rules.since for rules in different),
        default=False,
        fees=MappingProxyType({f"{rules.name}: {kind}": rates for rules in different for kind, rates in rules.fees.items()}),
        sources=tuple(dict.fromkeys(source for rules in different for source in rules.sources)),
    )
