"""Rule sets: which one a day has, and that the data says what the code can read."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from datetime import date

import pytest

from bellwether.errors import ConfigError
from bellwether.replay.rules import rule_set, rule_sets, rules_for


@pytest.mark.parametrize(
    ("venue", "day", "name"),
    [
        ("kalshi", date(2024, 2, 3), "kalshi-2021-07-01"),
        ("kalshi", date(2025, 6, 30), "kalshi-2021-07-01"),
        ("kalshi", date(2025, 7, 1), "kalshi-2025-07-01"),
        ("kalshi", date(2026, 3, 18), "kalshi-2026-03-09"),
        ("kalshi", date(2026, 8, 17), "kalshi-2026-05-28"),
        ("kalshi", date(2026, 11, 1), "kalshi-2026-08-30"),
        ("polymarket", date(2025, 1, 1), "polymarket-2020-10-01"),
        ("polymarket", date(2026, 2, 1), "polymarket-2026-01-01"),
        ("polymarket", date(2026, 3, 29), "polymarket-2026-03-06"),
        ("polymarket", date(2026, 3, 31), "polymarket-2026-03-30"),
        ("polymarket", date(2026, 6, 30), "polymarket-2026-04-01"),
        ("polymarket", date(2026, 7, 1), "polymarket-2026-07-01"),
    ],
)
def test_a_day_has_the_newest_rules_in_force(venue: str, day: date, name: str):
    assert rules_for(venue, day).name == name


def test_every_set_is_named_by_its_venue_and_day_and_says_where_it_is_from():
    for name, rules in rule_sets().items():
        assert rules.name == name and rules.title and rules.sources
        if name != "pmb-2026-01":
            assert name.removesuffix("-cents") == f"{rules.venue}-{rules.since}"


def test_unknown_names_venues_and_early_days_say_what_there_is():
    with pytest.raises(ConfigError, match=r"no rule set 'kalshi-1999'; there are kalshi-2021-07-01"):
        rule_set("kalshi-1999")
    with pytest.raises(ConfigError, match="none for venue 'manifold'; there are for kalshi, polymarket"):
        rules_for("manifold", date(2026, 1, 1))
    with pytest.raises(ConfigError, match="the first of kalshi are of 2021-07-01, which is after 2020-01-01"):
        rules_for("kalshi", date(2020, 1, 1))


def test_a_rule_set_cannot_be_changed():
    rules = rule_set("pmb-2026-01")
    with pytest.raises(FrozenInstanceError):
        rules.consume = True  # type: ignore[misc]
    with pytest.raises(TypeError):
        rule_sets()["mine"] = rules  # type: ignore[index]
