"""Checks of data quality: rules as data for each table, and what evaluates them with Polars and Great Expectations."""

from __future__ import annotations

from bellwether.checks.expectations import CheckOutcome, validate
from bellwether.checks.gate import require
from bellwether.checks.rules import RULES, Rule, rules_for

__all__ = ["RULES", "CheckOutcome", "Rule", "require", "rules_for", "validate"]
