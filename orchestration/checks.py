"""Asset checks: one multi-check per checked table, its rules from bellwether/checks.

A check looks at the partitions of its run, or at all when it is executed by itself. Its result carries no partition: Dagster keeps
one per run, and a run is often a month of days.
Not here: the rules and how they are evaluated (bellwether/checks).
Concept: https://docs.dagster.io/guides/test/asset-checks
"""

from collections.abc import Iterator, Sequence

import dagster as dg

from assets.declare import key
from assets.raw import DAY_TABLES
from bellwether.checks.rules import RULES, Rule, columns_read, rules_for
from bellwether.lake import Slice
from bellwether.tables import Table, table
from orchestration.partitions import DAY, RELEASE, RELEASE_FORECASTER
from resources import LakeResource, lake_partition

REJECTS = "raw/kalshi_rejects"

#: Tags of a run over a range of partitions.
RANGE_START, RANGE_END = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"

PARTITIONS: dict[tuple[str, ...], dg.PartitionsDefinition] = {
    ("day",): DAY,
    ("release",): RELEASE,
    ("release", "forecaster"): RELEASE_FORECASTER,
}


def suite(name: str, rules: Sequence[Rule]) -> dg.AssetChecksDefinition:
    """All rules of the table `name` as one check step: Great Expectations is imported once, in that step."""
    declared = table(name)
    asset = key(name)

    @dg.multi_asset_check(
        name=f"check_{declared.group}_{declared.short_name}",
        specs=[dg.AssetCheckSpec(rule.name, asset=asset, description=rule.description, blocking=rule.blocking) for rule in rules],
        compute_kind="great_expectations",
    )
    def check(context: dg.AssetCheckExecutionContext, lake: LakeResource) -> Iterator[dg.AssetCheckResult]:
        from bellwether.checks.expectations import validate

        rows = lake.lake.slice(declared, _of_the_run(context, declared), missing="skip")
        asked = rules_for(name, objects=_objects_per_day(lake, rows)) if name == REJECTS else rules
        outcomes = validate(declared, rows.scan().select(columns_read(declared, asked)).collect(), asked)
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


def _of_the_run(context: dg.AssetCheckExecutionContext, declared: Table) -> list[tuple[str, ...]] | None:
    """Partitions of `declared` that the run made; None, which is all, for a run without partitions."""
    definition = PARTITIONS.get(declared.partitioned_by)
    if definition is None:
        return [()]
    if context.has_partition_key:
        return [lake_partition(declared, context.partition_key)]
    if RANGE_START not in context.run.tags:
        return None
    first, last = context.run.tags[RANGE_START], context.run.tags[RANGE_END]
    return [lake_partition(declared, found) for found in definition.get_partition_keys_in_range(dg.PartitionKeyRange(first, last))]


def _objects_per_day(lake: LakeResource, rejects: Slice) -> int:
    """How many objects the pulls behind these rejects stored, per day: what their number is measured against."""
    days = [manifest.partition for manifest in rejects.manifests]
    stored = sum(lake.lake.slice(table(name), days, missing="skip").rows for name in DAY_TABLES if name != REJECTS)
    return stored // max(len(days), 1)


def all_checks() -> list[dg.AssetChecksDefinition]:
    """One check definition per table that has rules."""
    return [suite(name, rules) for name, rules in RULES.items()]
