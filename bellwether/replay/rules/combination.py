"""Combination of the rule sets of several markets that are replayed together.

Rules that apply to the whole replay must agree; fees, size limits and rounding units may differ between markets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from types import MappingProxyType

from bellwether.errors import ConfigError
from bellwether.replay.rules.ruleset import UNITS, RuleSet

#: Fields that belong to a market or describe the set; all others apply to the whole replay.
_OF_A_MARKET = {"name", "venue", "title", "since", "default", "fees", "sources", *UNITS}


def combine_rules(sets: Sequence[RuleSet]) -> RuleSet:
    """Combine rule sets into one for a replay of all their markets. If all are the same set, it is returned unchanged.

    The name joins theirs with `+` in order of first appearance. Raises `ConfigError` if sets disagree on a rule that applies to the whole
    run.
    """
    different = list({rules.name: rules for rules in sets}.values())
    first = different[0]
    if len(different) == 1:
        return first
    for other in different[1:]:
        for field in fields(RuleSet):
            value, different_value = getattr(first, field.name), getattr(other, field.name)
            if field.name not in _OF_A_MARKET and value != different_value:
                raise ConfigError(
                    f"combining rules: {first.name} has {field.name} = {value!r} and {other.name} {different_value!r}, which applies to the whole replay; "
                    "name rules that agree with --rules, or replay the episodes separately"
                )
    return replace(
        first,
        name="+".join(rules.name for rules in different),
        title="; ".join(rules.title for rules in different),
        since=max(rules.since for rules in different),
        default=False,
        fees=MappingProxyType({f"{rules.name}: {kind}": rates for rules in different for kind, rates in rules.fees.items()}),
        sources=tuple(dict.fromkeys(source for rules in different for source in rules.sources)),
    )
