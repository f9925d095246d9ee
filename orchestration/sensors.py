"""Shared sensors: the one that adds partitions for names in the registry, such as forecasters, and `automation`.

Not here: registries (bellwether/domains) and updates of derived tables (automation.py).
Concept: https://docs.dagster.io/guides/automate/sensors
"""

from __future__ import annotations

from collections.abc import Iterable

import dagster as dg

from bellwether.domains import load_domains, resolve_reference
from orchestration.automation import automation


def find_missing(registered: Iterable[str], existing: Iterable[str]) -> list[str]:
    """Return the names in `registered` that are not in `existing`, in the order of `registered`."""
    have = set(existing)
    return [name for name in registered if name not in have]


def registered_partitions(instance: dg.DagsterInstance) -> list[dg.AddDynamicPartitionsRequest]:
    """Return requests that add a Dagster partition for each registered name that has none. Partitions are never removed."""
    requests = []
    for domain in load_domains():
        for name, function in domain.partitions.items():
            new = find_missing(resolve_reference(function)(), instance.get_dynamic_partitions(name))
            if new:
                requests.append(dg.AddDynamicPartitionsRequest(name, new))
    return requests


def unavailable() -> dict[str, str]:
    """Return the registered names that cannot be materialized yet, each with the reason."""
    return {name: why for domain in load_domains() if domain.waiting for name, why in resolve_reference(domain.waiting)().items()}


#: Names of registered partitions, for users.
_REGISTERED = ", ".join(name for domain in load_domains() for name in domain.partitions)


@dg.sensor(
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description=f"Adds partitions of registered names: {_REGISTERED}.",
)
def registry(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
    """Add a partition for each registered name that has none. If a registry cannot be read, the tick fails."""
    requests = registered_partitions(context.instance)
    if not requests:
        lacking = unavailable()
        marked = f". Not available yet: {', '.join(f'{name} ({why})' for name, why in lacking.items())}" if lacking else ""
        return dg.SkipReason(f"all registered names ({_REGISTERED}) have partitions{marked}")
    return dg.SensorResult(dynamic_partitions_requests=requests)


SENSORS = (registry, automation)
