"""Data quality: rules for each table, evaluated with Polars in the Dagster graph, and with Great Expectations for its Data Docs.

Each domain declares its rules once (`bellwether.checks.<domain>`); `bellwether.checks.rule` collects them.
"""

from __future__ import annotations

from bellwether.checks.rule import Rule, rules_for
from bellwether.checks.validation import CheckOutcome, require, validate

__all__ = ["CheckOutcome", "Rule", "require", "rules_for", "validate"]
