"""Statements of docs/venues.md about the venues are true."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

from bellwether.checks.operations import LAKE_CHECKS, PATIENCE_DAYS, TOLERATED_REFUSALS
from bellwether.tables import TABLES
from bellwether.tables.raw import FAILURES
from bellwether.venues.http.client import RateLimit
from bellwether.venues.http.paging import MOST_HOLES
from bellwether.venues.http.retry import REFUSALS, RetryPolicy
from bellwether.venues.kalshi.client import KalshiClient
from bellwether.venues.polymarket.client import ClobClient, GammaClient
from bellwether.venues.polymarket.resolution import SILENCE, _rules

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "venues.md").read_text("utf-8")
NUMBERS = {5: "five"}


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def cells(text: str) -> list[list[str]]:
    """Return the rows of the tables of `text`, including headers."""
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|") and "---" not in line
    ]


def test_the_rules_stand_in_their_order_with_what_they_say() -> None:
    listed = [row for row in cells(section("What an outcome is")) if row[0].startswith("`")]
    assert [row[0].strip("`") for row in listed] == [rule.name for rule in _rules()]
    assert [row[2] for row in listed] == [rule.status for rule in _rules()]
    for row, rule in zip(listed, _rules(), strict=True):
        assert row[3] == rule.reason if rule.reason else row[3].startswith("the ")
    assert f"{SILENCE.days} days" in section("What an outcome is")


def test_every_look_at_the_lake_is_listed_and_no_other() -> None:
    listed = [name for row in cells(section("Health checks")) for name in re.findall(r"`(\w+)`", row[0])]
    assert sorted(listed) == sorted(look.name for look in LAKE_CHECKS)
    assert f"more than {PATIENCE_DAYS} days" in PAGE
    assert f"more than {TOLERATED_REFUSALS:.0%}".replace("%", " %") in PAGE


def test_every_kind_of_failure_is_listed() -> None:
    kinds = ", ".join(row[1] for row in cells(section("How a call fails")))
    for kind in (*FAILURES, *REFUSALS.values(), "refused", "paging"):
        assert kind in kinds


def test_the_bounds_are_those_of_the_clients() -> None:
    retry, text = RetryPolicy(), section("How a call fails")
    assert f"up to {retry.attempts} times within {retry.seconds:g} seconds" in text
    assert f"{retry.base:g}, 1, 2 … {retry.cap:g} seconds" in text
    assert f"nothing for {RateLimit().timeout:g} seconds" in text
    assert f"More than {NUMBERS[MOST_HOLES]} in a row" in text
    rates = {row[0]: row[1] for row in cells(section("Rate limits"))}
    for name, client in (("Kalshi", KalshiClient), ("Gamma", GammaClient), ("CLOB", ClobClient)):
        limits = client.usual_limits
        assert rates[name] == f"{limits.tokens_per_second / limits.tokens_per_read:g}"
        assert f"at most {limits.connections} calls" in section("Rate limits")


def test_the_tables_named_exist() -> None:
    named = re.findall(r"`((?:raw|clean)/[a-z_]+)`", PAGE)
    assert len(named) > 5
    assert set(named) <= set(TABLES)


def test_the_example_of_fees_gives_what_it_says() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(code, "venues.md", "exec"), names)
    terms = names["terms"]
    assert terms.source == "market"  # type: ignore[attr-defined]
    assert terms.fee(Decimal(100), Decimal("0.4"), "buy") == Decimal("0.72000")  # type: ignore[attr-defined]
