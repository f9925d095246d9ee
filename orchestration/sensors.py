"""Shared sensors: partitions of registered names, and backfills of all assets.

Not here: registries (bellwether/domains) and updates of derived tables (automation.py).
Concept: https://docs.dagster.io/guides/automate/sensors
"""

from __future__ import annotations

from collections.abc import Iterable

import dagster as dg
from dagster._core.execution.backfill import BulkActionStatus
from dagster._utils.error import SerializableErrorInfo

from bellwether.domains import load_domains, resolve_reference
from orchestration.automation import automation


def find_missing(registered: Iterable[str], existing: Iterable[str]) -> list[str]:
    """Return registered names without a partition, in the order of the registry. Partitions are never removed."""
    have = set(existing)
    return [name for name in registered if name not in have]


def registered_partitions(instance: dg.DagsterInstance) -> list[dg.AddDynamicPartitionsRequest]:
    """Return requests for registered names without a partition."""
    requests = []
    for domain in load_domains():
        for name, function in domain.partitions.items():
            new = find_missing(resolve_reference(function)(), instance.get_dynamic_partitions(name))
            if new:
                requests.append(dg.AddDynamicPartitionsRequest(name, new))
    return requests


def unavailable() -> dict[str, str]:
    """Return registered names that cannot be materialized yet, with the reasons."""
    return {name: why for domain in load_domains() if domain.waiting for name, why in resolve_reference(domain.waiting)().items()}


#: Backfills that the sensor examines, the latest first.
_LOOKED_AT = 20
#: Reason why a backfill of all assets is stopped.
ALL_ASSETS = (
    "A backfill of all assets is stopped: it would pull every day, query every model and run every backtest again. Launch a job (days, evaluate, "
    "rank, replay, arena_week), or materialize a group or single assets"
)
#: Names of registered partitions, for users.
_REGISTERED = ", ".join(name for domain in load_domains() for name in domain.partitions)


@dg.sensor(
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description=f"Adds partitions of registered names: {_REGISTERED}.",
)
def registry(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
    """Add missing partitions. A registry that cannot be read fails the tick."""
    requests = registered_partitions(context.instance)
    if not requests:
        lacking = unavailable()
        marked = f". Not available yet: {', '.join(f'{name} ({why})' for name, why in lacking.items())}" if lacking else ""
        return dg.SkipReason(f"all registered names ({_REGISTERED}) have partitions{marked}")
    return dg.SensorResult(dynamic_partitions_requests=requests)


@dg.sensor(
    minimum_interval_seconds=15,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description='Stops a backfill of all assets and partitions (the button "Materialize all" of the whole graph), with the reason. '
    "Launch a job, or materialize a group or single assets.",
)
def backfills(context: dg.SensorEvaluationContext) -> dg.SkipReason:
    """Stop backfills that target every asset; their runs are canceled."""
    assert context.repository_def is not None
    every = context.repository_def.asset_graph.materializable_asset_keys
    stopped = []
    for backfill in context.instance.get_backfills(limit=_LOOKED_AT):
        if backfill.status is BulkActionStatus.REQUESTED and every <= set(backfill.asset_selection or ()):
            error = SerializableErrorInfo(ALL_ASSETS, [], None)
            context.instance.update_backfill(backfill.with_error(error).with_status(BulkActionStatus.FAILING))
            stopped.append(backfill.backfill_id)
    return dg.SkipReason(f"stopped: {', '.join(stopped)}. {ALL_ASSETS}" if stopped else "no backfill targets all assets")


SENSORS = (registry, automation, backfills)
