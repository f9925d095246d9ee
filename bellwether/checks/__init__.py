"""Data quality: rules for each table, evaluated in Polars or with Great Expectations.

Each domain declares its rules once (`bellwether.checks.<domain>`); `bellwether.checks.rule` collects them.
"""

from __future__ import annotations

from bellwether.checks.rule import Rule, rules_for
from bellwether.checks.validation import CheckOutcome, require, validate

__all__ = ["CheckOutcome", "Rule", "require", "rules_for", "validate"]
