"""Sensors of all domains: what is registered becomes a partition, derived tables follow their inputs, and finished runs are compressed.

Not here: what is registered (bellwether/domains), the conditions (automation.py), or how long runs are kept (history.py).
Concept: https://docs.dagster.io/guides/automate/sensors
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

import dagster as dg

from bellwether.domains import domains, resolve
from orchestration.automation import automation
from orchestration.history import compress_ended

#: Runs that one tick compresses: a tenth of a second each, and a tick may take a minute.
_AT_ONCE = 50


def missing(registered: Iterable[str], existing: Iterable[str]) -> list[str]:
    """Registered names that are no partition yet, in the registry's order. Nothing is ever removed: a run may hold it."""
    have = set(existing)
    return [name for name in registered if name not in have]


def registered_partitions(instance: dg.DagsterInstance) -> list[dg.AddDynamicPartitionsRequest]:
    """Requests for everything that the domains register and that Dagster does not know yet."""
    requests = []
    for domain in domains():
        for name, function in domain.partitions.items():
            new = missing(resolve(function)(), instance.get_dynamic_partitions(name))
            if new:
                requests.append(dg.AddDynamicPartitionsRequest(name, new))
    return requests


def waiting() -> dict[str, str]:
    """Registered names of which no partition can be made yet, with the reason."""
    return {name: why for domain in domains() if domain.waiting for name, why in resolve(domain.waiting)().items()}


#: What the domains register, in words.
_REGISTERED = ", ".join(name for domain in domains() for name in domain.partitions)


@dg.sensor(
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description=f"Adds to the partitions of this world what is registered and is none yet: {_REGISTERED}.",
)
def registry(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
    """Add what the registry has and the partitions lack; a registry that cannot be read fails the tick and changes nothing."""
    requests = registered_partitions(context.instance)
    if not requests:
        lacking = waiting()
        marked = f". Cannot be asked yet: {', '.join(f'{name} ({why})' for name, why in lacking.items())}" if lacking else ""
        return dg.SkipReason(f"everything registered ({_REGISTERED}) is a partition{marked}")
    return dg.SensorResult(dynamic_partitions_requests=requests)


@dg.sensor(
    minimum_interval_seconds=300,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Compresses runs that ended ten minutes ago or before: megabytes of events become kilobytes, and read as they did. It launches nothing.",
)
def compression(context: dg.SensorEvaluationContext) -> dg.SkipReason:
    """Compress finished runs of the UI; the command line compresses its own."""
    done = compress_ended(context.instance, datetime.now(UTC), _AT_ONCE)
    return dg.SkipReason(f"{done} runs compressed" if done else "no run ended that is not compressed")


SENSORS = (registry, automation, compression)
