"""Refuses rows that break a blocking rule, where they would reach a ranking."""

from __future__ import annotations

import polars as pl

from bellwether.checks.expectations import validate
from bellwether.checks.rule import columns_read
from bellwether.checks.rules import rules_for
from bellwether.errors import QualityError
from bellwether.tables import table


def require(name: str, rows: pl.LazyFrame) -> None:
    """Check `rows` of the table `name` against its blocking rules.

    Raises `QualityError` naming the first rule that is broken, how often and where, or a rule that could not be evaluated.
    """
    declared = table(name)
    rules = [rule for rule in rules_for(name) if rule.blocking]
    for outcome in validate(declared, rows.select(columns_read(declared, rules)).collect(), rules):
        if outcome.crashed:
            raise QualityError(f"checking {name}: the rule {outcome.name} could not be evaluated: {outcome.crashed}")
        if not outcome.passed:
            raise QualityError(
                f"checking {name}: {outcome.failing_rows} of {outcome.rows} rows break the rule {outcome.name} ({outcome.description}); "
                f"pull and clean those days again, or mend their source. First rows:\n{outcome.sample}"
            )
