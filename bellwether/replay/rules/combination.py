"""One rule set for the markets of several: what a replay does with all of them must be the same, fees and units are those of each market."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from types import MappingProxyType

from bellwether.errors import ConfigError
from bellwether.replay.rules.ruleset import UNITS, RuleSet

#: Fields that are of a market or describe the set; all others say how the whole replay is run.
_OF_A_MARKET = {"name", "venue", "title", "since", "default", "fees", "sources", *UNITS}


def combined(sets: Sequence[RuleSet]) -> RuleSet:
    """The rules under which markets of these sets are replayed together; the only set where all are one.

    Its name is theirs, joined with `+` in the order in which they first come; fees and units are for each market to say. Raises `ConfigError` for sets
    that want the replay run in different ways.
    """
    different = list({rules.name: rules for rules in sets}.values())
    first = different[0]
    if len(different) == 1:
        return first
    for other in different[1:]:
        for field in fields(RuleSet):
            wanted, found = getattr(first, field.name), getattr(other, field.name)
            if field.name not in _OF_A_MARKET and wanted != found:
                raise ConfigError(
                    f"combining rules: {first.name} has {field.name} = {wanted!r} and {other.name} {found!r}, which holds for a whole replay; "
                    "name rules that agree with --rules, or replay the episodes apart"
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
