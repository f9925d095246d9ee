"""Checks of data quality: rules as data for each table, and what evaluates them with Polars and Great Expectations.

The rules themselves are declared per domain; `bellwether.checks.rules` has those of all.
"""

from __future__ import annotations

from bellwether.checks.expectations import CheckOutcome, validate
from bellwether.checks.gate import require
from bellwether.checks.rule import Rule
from bellwether.checks.rules import rules_for

__all__ = ["CheckOutcome", "Rule", "require", "rules_for", "validate"]
