"""Asset checks: one multi-check per table, or per step that makes several, with the rules of bellwether/checks.

A check looks at the partitions of its run, or at all when it is executed by itself. Its result carries no partition: Dagster keeps
one per run, and a run is often a month of days.
Not here: the rules and how they are evaluated (bellwether/checks).
Concept: https://docs.dagster.io/guides/test/asset-checks
"""

from collections.abc import Iterator, Sequence

import dagster as dg

from assets.declare import key
from assets.raw import KALSHI_TABLES, POLYMARKET_TABLES
from assets.replay import BACKTEST_TABLES
from bellwether.checks.operations import LOOKS
from bellwether.checks.rules import RULES, Rule, columns_read, rules_for
from bellwether.lake import Slice
from bellwether.settings import settings
from bellwether.tables import Table, table
from orchestration.partitions import DAY, EPISODE, EPISODE_AGENT, RECORDING, RELEASE, RELEASE_FORECASTER
from resources import LakeResource, lake_partition

REJECTS = {"raw/kalshi_rejects": tuple(KALSHI_TABLES), "raw/polymarket_rejects": tuple(POLYMARKET_TABLES)}

#: Tags of a run over a range of partitions.
RANGE_START, RANGE_END = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"

PARTITIONS: dict[tuple[str, ...], dg.PartitionsDefinition] = {
    ("day",): DAY,
    ("recording",): RECORDING,
    ("release",): RELEASE,
    ("release", "forecaster"): RELEASE_FORECASTER,
    ("episode",): EPISODE,
    ("episode", "agent"): EPISODE_AGENT,
}


#: Tables that one step makes are checked by one step.
TOGETHER = {"raw_kalshi_day": tuple(KALSHI_TABLES), "raw_polymarket_day": tuple(POLYMARKET_TABLES), "replay_backtest": BACKTEST_TABLES}


def suite(name: str, tables: Sequence[str]) -> dg.AssetChecksDefinition:
    """All rules of some tables as one check step, `check_<name>`."""
    rules = {one: RULES[one] for one in tables if one in RULES}

    @dg.multi_asset_check(
        name=f"check_{name}",
        specs=[
            dg.AssetCheckSpec(rule.name, asset=key(one), description=rule.description, blocking=rule.blocking)
            for one in rules
            for rule in rules[one]
        ],
        can_subset=True,
        compute_kind="great_expectations",
    )
    def check(context: dg.AssetCheckExecutionContext, lake: LakeResource) -> Iterator[dg.AssetCheckResult]:
        wanted = {(found.asset_key, found.name) for found in context.selected_asset_check_keys}
        for one, declared in rules.items():
            chosen = [rule for rule in declared if (key(one), rule.name) in wanted]
            if chosen:
                yield from _checked(context, lake, table(one), chosen)

    return check


def _checked(
    context: dg.AssetCheckExecutionContext, lake: LakeResource, declared: Table, rules: Sequence[Rule]
) -> Iterator[dg.AssetCheckResult]:
    """One result per rule of a table. A rule that could not be evaluated fails the step: it says nothing about the data."""
    from bellwether.checks.expectations import validate

    rows = lake.lake.slice(declared, _of_the_run(context, declared), missing="skip")
    if declared.name in REJECTS:
        names = {rule.name for rule in rules}
        rules = [rule for rule in rules_for(declared.name, objects=_objects_per_day(lake, rows)) if rule.name in names]
    outcomes = validate(declared, rows.scan().select(columns_read(declared, rules)).collect(), rules)
    for outcome in outcomes:
        if outcome.passed is None:
            continue
        yield dg.AssetCheckResult(
            asset_key=key(declared.name),
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
            raise dg.Failure(
                f"the check {outcome.name} of {declared.name} could not run (this says nothing about the data): {outcome.crashed}"
            )


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
    tables = (name for name in REJECTS[rejects.table.name] if name not in REJECTS)
    stored = sum(lake.lake.slice(table(name), days, missing="skip").rows for name in tables)
    return stored // max(len(days), 1)


#: Why a new installation shows the checks of the whole lake as not evaluated.
EVALUATED = "It looks at the whole lake: not evaluated by pulls, but every day at 03:20 UTC, or when the job `operations` is launched."


@dg.multi_asset_check(
    name="check_lake",
    specs=[dg.AssetCheckSpec(look.name, asset=key(look.table), description=f"{look.description}. {EVALUATED}") for look in LOOKS],
    can_subset=True,
    compute_kind="polars",
)
def whole_lake(context: dg.AssetCheckExecutionContext, lake: LakeResource) -> Iterator[dg.AssetCheckResult]:
    """What operators want to know of the lake as a whole: fresh, complete, priced, unhindered."""
    for look in LOOKS:
        asset = key(look.table)
        if dg.AssetCheckKey(asset, look.name) not in context.selected_asset_check_keys:
            continue
        seen = look.see(lake.lake, settings().now())
        yield dg.AssetCheckResult(
            asset_key=asset,
            check_name=look.name,
            passed=seen.passed,
            severity=dg.AssetCheckSeverity.WARN,
            description=seen.found,
            metadata=dict(seen.numbers),
        )


def all_checks() -> list[dg.AssetChecksDefinition]:
    """The rules of every table that has any, and the looks at the lake as a whole."""
    together = {name for tables in TOGETHER.values() for name in tables}
    alone = {name.replace("/", "_"): (name,) for name in RULES if name not in together}
    return [*(suite(name, tables) for name, tables in {**TOGETHER, **alone}.items()), whole_lake]
