"""Asset checks for the rules that the domains declare: one check step for each asset step.

A check examines the partitions of its run, or all if it is executed alone, and has one result per run. If a blocking rule is broken in some of several
partitions, the failure of the step names them.
Not here: rules and their evaluation (bellwether/checks).
Concept: https://docs.dagster.io/guides/test/asset-checks
"""

from collections.abc import Iterable, Iterator, Sequence

import dagster as dg

from bellwether import checks
from bellwether.checks import CheckOutcome
from bellwether.checks.rule import Rule, columns_read, lake_checks, rules_for
from bellwether.errors import QualityError
from bellwether.lake import Slice
from bellwether.lake.partitions import Partition
from bellwether.settings import settings
from bellwether.tables import Table, table
from orchestration.asset_declarations import key
from orchestration.partitions import CHUNK, RANGE_END, RANGE_START, keys_between, to_key
from orchestration.steps import step_failure
from resources import LakeResource, lake_partition


def build_checks(assets: Iterable[dg.AssetsDefinition]) -> list[dg.AssetChecksDefinition]:
    """Build one check step for each asset step whose tables have rules."""
    steps = []
    for definition in assets:
        names = [name for name in ("/".join(key.path) for key in definition.keys) if rules_for(name)]
        if names:
            group = table(names[0]).group
            step = names[0].replace("/", "_") if len(names) == 1 else f"{group}_{definition.op.name.removeprefix(f'{group}__')}"
            steps.append(_build_step(step, names, definition.partitions_def))
    return steps


def _build_step(step: str, tables: Sequence[str], partitions: dg.PartitionsDefinition | None) -> dg.AssetChecksDefinition:
    """Build the check step `check_<step>`, which evaluates all rules of several tables. partitions: definition of their partitions."""

    @dg.multi_asset_check(
        name=f"check_{step}",
        specs=[
            dg.AssetCheckSpec(rule.name, asset=key(name), description=rule.description, blocking=rule.blocking)
            for name in tables
            for rule in rules_for(name)
        ],
        can_subset=True,
        compute_kind="polars",
    )
    def check(context: dg.AssetCheckExecutionContext, lake: LakeResource) -> Iterator[dg.AssetCheckResult]:
        selected = {(check.asset_key, check.name) for check in context.selected_asset_check_keys}
        keys = _run_partitions(context, partitions)
        failures: dict[str, Exception] = {}
        for name in tables:
            rules = [rule for rule in rules_for(name) if (key(name), rule.name) in selected]
            if rules:
                yield from _check_table(lake, table(name), _lake_partitions(table(name), partitions, keys), rules, failures)
        if failures and keys and len(failures) < len(keys):
            raise step_failure(failures)

    return check


def _check_table(
    lake: LakeResource,
    declared: Table,
    partitions: list[Partition] | None,
    rules: Sequence[Rule],
    failures: dict[str, Exception],
) -> Iterator[dg.AssetCheckResult]:
    """Evaluate rules on a table, and yield one result per rule. If a rule cannot be evaluated, the step fails.

    failures: filled with the partitions that break a blocking rule.
    """
    rows = lake.lake.slice(declared, partitions, missing="skip")
    stored = [manifest.partition for manifest in rows.manifests]
    size = CHUNK if declared.partitioned_by == ("day",) else 1
    chunks = [rows.restrict(stored[start : start + size]) for start in range(0, len(stored), size)] or [rows]
    of_chunks = [_validate_chunk(lake, chunk, rules) for chunk in chunks]
    for number, rule in enumerate(rules):
        outcomes = [outcomes[number] for outcomes in of_chunks]
        crashed = next((outcome for outcome in outcomes if outcome.passed is None), None)
        if crashed:
            raise dg.Failure(f"the check {rule.name} of {declared.name} could not be evaluated, independent of the data: {crashed.crashed}")
        if rule.blocking:
            for chunk, outcome in zip(chunks, outcomes, strict=True):
                failures |= {} if outcome.passed else _broken_partitions(lake, chunk, rule)
        yield _result(declared, outcomes, rule.expected if rule.is_expected else "")


def _validate_chunk(lake: LakeResource, rows: Slice, rules: Sequence[Rule]) -> list[CheckOutcome]:
    fitted = [rule.fit(lake.lake, rows) if rule.fit else rule for rule in rules]
    return checks.validate(rows.table, rows.scan().select(columns_read(rows.table, fitted)).collect(), fitted)


def _broken_partitions(lake: LakeResource, rows: Slice, rule: Rule) -> dict[str, Exception]:
    """Return the partitions whose rows break a rule, each with an exception that states why."""
    broken: dict[str, Exception] = {}
    for manifest in rows.manifests:
        (outcome,) = _validate_chunk(lake, rows.restrict([manifest.partition]), [rule])
        if not outcome.passed:
            reason = f"{outcome.failing_rows} of {outcome.rows} rows of {rows.table.name} break the rule {rule.name} ({rule.description})"
            broken[to_key(rows.table, manifest.partition)] = QualityError(reason)
    return broken


def _result(declared: Table, outcomes: Sequence[CheckOutcome], expected: str) -> dg.AssetCheckResult:
    """Combine a rule's outcomes over all chunks of rows. expected: why this world breaks the rule on purpose, so that the check passes; else empty."""
    total, failing = sum(outcome.rows for outcome in outcomes), sum(outcome.failing_rows for outcome in outcomes)
    sample = next((outcome.sample for outcome in outcomes if outcome.sample), "")
    return dg.AssetCheckResult(
        asset_key=key(declared.name),
        check_name=outcomes[0].name,
        passed=bool(expected) or all(outcome.passed for outcome in outcomes),
        description=f"Expected in the sandbox: {expected}" if expected and failing else None,
        severity=dg.AssetCheckSeverity.ERROR if outcomes[0].blocking else dg.AssetCheckSeverity.WARN,
        metadata={
            "rows": total,
            "failing rows": failing,
            "failing share": failing / total if total else 0.0,
            **({"sample": dg.MetadataValue.md(sample)} if sample else {}),
        },
    )


def _run_partitions(context: dg.AssetCheckExecutionContext, definition: dg.PartitionsDefinition | None) -> list[str] | None:
    """Return the partition keys of the run; None for a run without partitions."""
    if definition is None:
        return None
    if context.has_partition_key:
        return [context.partition_key]
    if RANGE_START not in context.run.tags:
        return None
    return keys_between(definition, context.run.tags[RANGE_START], context.run.tags[RANGE_END], context.instance)


def _lake_partitions(declared: Table, definition: dg.PartitionsDefinition | None, keys: list[str] | None) -> list[tuple[str, ...]] | None:
    """Convert partition keys to partitions of a table. Returns None, which means all partitions, if `keys` is None."""
    if definition is None:
        return [()]
    return None if keys is None else [lake_partition(declared, name) for name in keys]


#: Time of evaluation of the checks of the whole lake.
EVALUATED = "It checks the whole lake: evaluated every day at 03:20 UTC and by the job `operations`, not by pulls."

LAKE_CHECKS = dg.AssetSelection.checks(*(dg.AssetCheckKey(key(check.table), check.name) for check in lake_checks()))

#: Job of the checks of the whole lake.
OPERATIONS = dg.define_asset_job(
    "operations", LAKE_CHECKS, description="Check the whole lake: freshness, completeness, prices and rate limits."
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
    """Evaluate the checks that read the whole lake, not only the partitions of a run."""
    for check in lake_checks():
        asset = key(check.table)
        if dg.AssetCheckKey(asset, check.name) not in context.selected_asset_check_keys:
            continue
        observation = check.evaluate(lake.lake, settings().now())
        yield dg.AssetCheckResult(
            asset_key=asset,
            check_name=check.name,
            passed=observation.passed,
            severity=dg.AssetCheckSeverity.WARN,
            description=observation.found,
            metadata=dict(observation.numbers),
        )
