"""Rule sets: the rules of a venue since a certain day, as versioned data (`rules.toml`) that results name."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import date
from fractions import Fraction
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args, get_type_hints

from bellwether.errors import ConfigError
from bellwether.replay.rules.choices import (
    Decisions,
    FillRatio,
    FinalCurve,
    Grid,
    Join,
    MakerSellPrice,
    MarkMissing,
    Netting,
    Observations,
    Queue,
    Samples,
    Tie,
    Venue,
)
from bellwether.units import Lots, MicroDollars

#: Name of PredictionMarketBench's own rules, which are not data but code: `bellwether.replay.pmb`.
PMB = "pmb-2026-01"
_DATA = Path(__file__).with_name("rules.toml")


#: Fields that may differ between the markets of a run, in the order of the columns of `Tape.units`.
UNITS = ("min_lots", "lot_step", "fee_unit", "balance_unit", "rebate_unit", "rebate_above")


@dataclass(frozen=True, slots=True)
class FeeRates:
    """Fee rates for takers and makers, each the factor of price × (1 − price) in the fee per contract, in dollars."""

    taker: Fraction
    maker: Fraction


#: Rates of rules without fees.
_FREE: Mapping[str, FeeRates] = MappingProxyType({"*": FeeRates(Fraction(0), Fraction(0))})
_POLYMARKET_FEES_SINCE = 2026


@dataclass(frozen=True, slots=True)
class RuleSet:
    """Rules of one venue from a day on. Units: lots, micro-dollars.

    name: `<venue>-<day>`, stored in every result. since: first day in force. default: whether `rules_for` chooses it; variants are chosen
    by name. decisions, samples: when the agent acts and equity is sampled: on a fixed time grid, or at book rows and events as in the
    original. tie: order of books and prints within an instant. consume: own taker fills reduce the displayed size until the level changes.
    remainder_rests: the rest of a crossing GTC order rests. gtd_rests: a GTD order may rest at all. through: prints beyond a resting
    order's price fill it. crossing: a book that crosses a resting order fills it. join: what an order queues behind. netting: whether YES
    and NO of a market net to a dollar. collateral: orders reserve their maximum cost. mark_missing: mark of a position without a quote.
    trade_after_settlement, self_trade_allowed: whether that is possible. maker_sell_price: price at which a maker's sale is booked. grid:
    prices allowed for orders. min_lots, lot_step: sizes allowed for orders. fee_unit: trade fees are rounded up to it. balance_unit:
    changes of the balance are rounded down to it at the trader's cost, with an accumulator per order; 0: no rounding. rebate_unit: unit of
    the accumulator's rebates; rebate_above: only when it exceeds the unit. queue: default queue model. general: version of the rules common
    to all sets of the venues. observations: the agent sees cash, equity and resting orders live, or as of its step, with filled orders
    still listed. fill_ratio, final_curve: definitions of the metrics. fees: rates by the fee type of a market, `*` for every other.
    sources: sources of the rules.
    """

    name: str
    venue: Venue
    title: str
    since: date
    default: bool
    decisions: Decisions
    samples: Samples
    tie: Tie
    consume: bool
    remainder_rests: bool
    gtd_rests: bool
    through: bool
    crossing: bool
    join: Join
    netting: Netting
    collateral: bool
    mark_missing: MarkMissing
    trade_after_settlement: bool
    maker_sell_price: MakerSellPrice
    grid: Grid
    self_trade_allowed: bool
    min_lots: Lots
    lot_step: Lots
    fee_unit: MicroDollars
    balance_unit: MicroDollars
    rebate_unit: MicroDollars
    rebate_above: bool
    queue: Queue
    general: int
    observations: Observations
    fill_ratio: FillRatio
    final_curve: FinalCurve
    fees: Mapping[str, FeeRates]
    sources: tuple[str, ...]

    @property
    def units(self) -> tuple[int, ...]:
        """Values of the fields `UNITS`, which are size limits and rounding units, as integers: a row of `Tape.units`."""
        return tuple(int(getattr(self, name)) for name in UNITS)

    @property
    def is_free(self) -> bool:
        """True if all fees are zero."""
        return self.fees == _FREE

    @property
    def uses_fee_terms(self) -> bool:
        """True if fees depend on a market's fee terms. False if all markets pay the same, or the rules are older than fee terms."""
        return "*" not in self.fees and (self.venue != "polymarket" or self.since.year >= _POLYMARKET_FEES_SINCE)


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
    """Build a rule set from its values in `rules.toml`. Raises `ConfigError` for a text that a field does not allow."""
    rates = {kind: FeeRates(Fraction(rate["taker"]), Fraction(rate["maker"])) for kind, rate in values.pop("fees").items()}
    sources = tuple(values.pop("sources"))
    rules = RuleSet(name=name, fees=MappingProxyType(rates), sources=sources, **values)
    types = get_type_hints(RuleSet)
    for field in fields(RuleSet):
        choices, value = get_args(types[field.name]), getattr(rules, field.name)
        if choices and isinstance(value, str) and value not in choices:
            raise ConfigError(f"reading {_DATA.name}: {name} has {field.name} = {value!r}; choose one of {', '.join(map(str, choices))}")
    return rules
