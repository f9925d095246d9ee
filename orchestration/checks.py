"""Asset checks: one multi-check per checked table, its rules from bellwether/checks.

Not here: the rules and how they are evaluated (bellwether/checks).
Concept: https://docs.dagster.io/guides/test/asset-checks
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import dagster as dg

from assets.declare import key
from assets.raw import DAY_TABLES
from bellwether.checks.rules import RULES, Rule, rules_for
from bellwether.lake import Slice
from bellwether.tables import Table, table
from orchestration.partitions import DAY, RELEASE, RELEASE_FORECASTER
from resources import LakeResource

REJECTS = "raw/rejects"

PARTITIONS: dict[tuple[str, ...], dg.PartitionsDefinition] = {
    ("day",): DAY,
    ("release",): RELEASE,
    ("release", "forecaster"): RELEASE_FORECASTER,
}


def suite(name: str, rules: Sequence[Rule]) -> dg.AssetChecksDefinition:
    """All rules of the table `name` as one check step: Great Expectations is imported once, in that step."""
    declared = table(name)
    partitions = PARTITIONS.get(declared.partitioned_by)
    asset = key(name)

    @dg.multi_asset_check(
        name=f"check_{declared.group}_{declared.short_name}",
        specs=[
            dg.AssetCheckSpec(rule.name, asset=asset, description=rule.description, blocking=rule.blocking, partitions_def=partitions)
            for rule in rules
        ],
        ins={"rows": dg.AssetIn(asset)},
        compute_kind="great_expectations",
    )
    def check(lake: LakeResource, rows: Slice) -> Iterator[dg.AssetCheckResult]:
        from bellwether.checks.expectations import validate

        asked = rules_for(name, objects=_objects_per_day(lake, rows)) if name == REJECTS else rules
        outcomes = validate(declared, rows.scan().select(_read_by(declared, asked)).collect(), asked)
        for outcome in outcomes:
            if outcome.passed is None:
                continue
            yield dg.AssetCheckResult(
                asset_key=asset,
                check_name=outcome.name,
                passed=outcome.passed,
                severity=dg.AssetCheckSeverity.ERROR if outcome.blocking else dg.AssetCheckSeverity.WARN,
                metadata={
                    "rows": outcome.rows,
                    "failing rows": outcome.failing_rows,
                    "failing share": outcome.failing_share,
                    **({"sample": dg.MetadataValue.md(outcome.sample)} if outcome.sample else {}),
                },
            )
        for outcome in outcomes:
            if outcome.passed is None:
                raise dg.Failure(f"the check {outcome.name} of {name} could not run (this says nothing about the data): {outcome.crashed}")

    return check


def _objects_per_day(lake: LakeResource, rejects: Slice) -> int:
    """How many objects the pulls behind these rejects stored, per day: what their number is measured against."""
    days = [manifest.partition for manifest in rejects.manifests]
    stored = sum(lake.lake.slice(table(name), days, missing="skip").rows for name in DAY_TABLES if name != REJECTS)
    return stored // max(len(days), 1)


def _read_by(declared: Table, rules: Sequence[Rule]) -> list[str]:
    """The columns that the rules look at and the key that names a failing row; verbatim bodies stay on disk."""
    read = {*declared.key}.union(*(rule.columns for rule in rules))
    return [name for name in declared.names if name in read]


def all_checks() -> list[dg.AssetChecksDefinition]:
    """One check definition per table that has rules."""
    return [suite(name, rules) for name, rules in RULES.items()]
