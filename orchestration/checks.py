"""Asset checks: one multi-check per table, or per step that makes several, with the rules that the domains declare.

A check looks at the partitions of its run, or at all when it is executed by itself. It has one result per partition, but for the
tables by day: their runs are often a month long, and a result of each rule for each day is most of what such a run would store.
Not here: the rules and how they are evaluated (bellwether/checks).
Concept: https://docs.dagster.io/guides/test/asset-checks
"""

from collections.abc import Iterable, Iterator, Sequence

import dagster as dg

from bellwether.checks.rule import Rule, columns_read
from bellwether.checks.rules import lake_checks, rules_for
from bellwether.settings import settings
from bellwether.tables import Table, table
from orchestration.declare import key
from orchestration.partitions import RANGE_END, RANGE_START
from resources import LakeResource, lake_partition

_Yielded = dg.AssetCheckResult | dg.AssetCheckEvaluation | dg.Output[None]


def checks_of(assets: Iterable[dg.AssetsDefinition]) -> list[dg.AssetChecksDefinition]:
    """The rules of all tables that the assets make: one check step for each step of theirs whose tables have any."""
    found = []
    for made in assets:
        names = [name for name in ("/".join(key.path) for key in made.keys) if rules_for(name)]
        if names:
            group = table(names[0]).group
            step = names[0].replace("/", "_") if len(names) == 1 else f"{group}_{made.op.name.removeprefix(f'{group}__')}"
            found.append(_suite(step, names, made.partitions_def, by_partition=made.backfill_policy is None))
    return found


def _suite(name: str, tables: Sequence[str], partitions: dg.PartitionsDefinition | None, *, by_partition: bool) -> dg.AssetChecksDefinition:
    """All rules of some tables as one check step, `check_<name>`."""
    of_results = partitions if by_partition else None

    @dg.multi_asset_check(
        name=f"check_{name}",
        specs=[
            dg.AssetCheckSpec(rule.name, asset=key(one), description=rule.description, blocking=rule.blocking, partitions_def=of_results)
            for one in tables
            for rule in rules_for(one)
        ],
        can_subset=True,
        compute_kind="polars",
    )
    def check(context: dg.AssetCheckExecutionContext, lake: LakeResource) -> Iterator[_Yielded]:
        wanted = {(found.asset_key, found.name) for found in context.selected_asset_check_keys}
        made = _of_the_run(context, partitions)
        for one in tables:
            chosen = [rule for rule in rules_for(one) if (key(one), rule.name) in wanted]
            if of_results is not None and made and len(made) > 1:
                yield from _each_checked(lake, table(one), made, chosen)
            elif chosen:
                yield from _checked(lake, table(one), _in_lake(table(one), partitions, made), chosen)

    return check


def _each_checked(lake: LakeResource, declared: Table, partitions: Sequence[str], rules: Sequence[Rule]) -> Iterator[_Yielded]:
    """A result per rule and partition; Dagster's own results have the partition of the run, and none in a run over several."""
    for partition in partitions:
        for result in _checked(lake, declared, [lake_partition(declared, partition)], rules) if rules else ():
            yield dg.AssetCheckEvaluation(
                asset_key=key(declared.name),
                check_name=str(result.check_name),
                passed=result.passed,
                metadata=result.metadata,
                severity=result.severity,
                blocking=next(rule.blocking for rule in rules if rule.name == result.check_name),
                partition=partition,
            )
    for rule in rules:
        yield dg.Output(None, dg.AssetCheckSpec(rule.name, asset=key(declared.name)).get_python_identifier())


def _checked(
    lake: LakeResource, declared: Table, partitions: list[tuple[str, ...]] | None, rules: Sequence[Rule]
) -> Iterator[dg.AssetCheckResult]:
    """One result per rule of a table. A rule that could not be evaluated fails the step: it says nothing about the data."""
    from bellwether.checks import validate

    rows = lake.lake.slice(declared, partitions, missing="skip")
    rules = [rule.fit(lake.lake, rows) if rule.fit else rule for rule in rules]
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


def _of_the_run(context: dg.AssetCheckExecutionContext, definition: dg.PartitionsDefinition | None) -> list[str] | None:
    """Keys of the partitions that the run made; None for a run without partitions."""
    if definition is None:
        return None
    if context.has_partition_key:
        return [context.partition_key]
    if RANGE_START not in context.run.tags:
        return None
    first, last = context.run.tags[RANGE_START], context.run.tags[RANGE_END]
    return list(definition.get_partition_keys_in_range(dg.PartitionKeyRange(first, last)))


def _in_lake(declared: Table, definition: dg.PartitionsDefinition | None, keys: list[str] | None) -> list[tuple[str, ...]] | None:
    """The same as partitions of a table; None, which is all of them, for a run without partitions."""
    if definition is None:
        return [()]
    return None if keys is None else [lake_partition(declared, found) for found in keys]


#: Why a new installation shows the checks of the whole lake as not evaluated.
EVALUATED = "It looks at the whole lake: not evaluated by pulls, but every day at 03:20 UTC, or when the job `operations` is launched."

LAKE_CHECKS = dg.AssetSelection.checks(*(dg.AssetCheckKey(key(check.table), check.name) for check in lake_checks()))

#: The checks that look at the whole lake: once a day, not once per day of a backfill.
OPERATIONS = dg.define_asset_job(
    "operations", LAKE_CHECKS, description="Is the lake fresh and complete, do markets have prices, what held the pulls up?"
)


@dg.multi_asset_check(
    name="check_lake",
    specs=[
        dg.AssetCheckSpec(check.name, asset=key(check.table), description=f"{check.description}. {EVALUATED}") for check in lake_checks()
    ],
    can_subset=True,
    compute_kind="polars",
)
def whole_lake(context: dg.AssetCheckExecutionContext, lake: LakeResource) -> Iterator[dg.AssetCheckResult]:
    """What operators want to know of the lake as a whole: fresh, complete, priced, unhindered."""
    for check in lake_checks():
        asset = key(check.table)
        if dg.AssetCheckKey(asset, check.name) not in context.selected_asset_check_keys:
            continue
        found = check.evaluate(lake.lake, settings().now())
        yield dg.AssetCheckResult(
            asset_key=asset,
            check_name=check.name,
            passed=found.passed,
            severity=dg.AssetCheckSeverity.WARN,
            description=found.found,
            metadata=dict(found.numbers),
        )
