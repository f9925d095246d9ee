"""Kalshi's taker fees: terms by series and event, formula and rounding by date, both as the replay has them (`bellwether.replay.rules`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from bellwether.errors import ConfigError, SchemaError
from bellwether.replay.rules.fees import OrderFees
from bellwether.replay.rules.ruleset import rule_set, rules_for
from bellwether.replay.rules.terms import fee_terms
from bellwether.venues.polymarket.fees import Side

#: Fee type of a market whose event and series state none.
GENERAL = "quadratic"


@dataclass(frozen=True, slots=True)
class KalshiFees:
    """What takers pay in a market. rules: name of the rule set in force. kind: the venue's fee type. multiplier: on the formula, as decimal text."""

    rules: str
    kind: str = GENERAL
    multiplier: str = "1"

    def of_order(self, fills: Iterable[tuple[Decimal, Decimal]], side: Side) -> list[Decimal]:
        """Dollars that each fill (contracts, dollars per contract) of one order costs, what rounds the balance and what is given back included."""
        order = OrderFees(rule_set(self.rules), {"type": self.kind, "multiplier": self.multiplier})
        return [order.fill(contracts, price, action=side).net for contracts, price in fills]


@dataclass(frozen=True, slots=True)
class UnknownFees:
    """Terms that cannot be read: a methodology that charges fees refuses trades. reason: what is wrong with them."""

    reason: str


def fees_of(event: Mapping[str, Any] | None, series: Mapping[str, Any] | None, at: datetime) -> KalshiFees | UnknownFees:
    """The terms at an instant, from rows of raw/kalshi_events and raw/kalshi_series; what the event states wins over its series.

    The instant decides on the formula. Where neither states a fee type the general fee is charged.
    """
    rules = rules_for("kalshi", at.date())
    stated: dict[str, Any] = {}
    for row, kind, multiplier in (
        (series or {}, "fee_type", "fee_multiplier"),
        (event or {}, "fee_type_override", "fee_multiplier_override"),
    ):
        found = {"type": row.get(kind), "multiplier": row.get(multiplier)}
        stated |= {name: value for name, value in found.items() if value is not None}
    try:
        fee_terms(rules, stated)
    except (ConfigError, SchemaError) as unknown:
        return UnknownFees(str(unknown))
    return KalshiFees(rules.name, stated.get("type", GENERAL), _plain(stated.get("multiplier", 1)))


def _plain(multiplier: Any) -> str:
    text = f"{Decimal(str(multiplier)):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
