"""Sensors: registered releases and forecasters become partitions; derived tables follow their inputs.

Not here: the registry itself (bellwether/registry) or the conditions (automation.py).
Concept: https://docs.dagster.io/guides/automate/sensors
"""

from __future__ import annotations

from collections.abc import Iterable

import dagster as dg

from bellwether.settings import settings
from orchestration.partitions import FORECASTER, RELEASE


def missing(registered: Iterable[str], existing: Iterable[str]) -> list[str]:
    """Registered names that are no partition yet, in the registry's order. Nothing is ever removed: a run may hold it."""
    have = set(existing)
    return [name for name in registered if name not in have]


def registered_partitions(instance: dg.DagsterInstance) -> list[dg.AddDynamicPartitionsRequest]:
    """Requests for every forecaster, and every release of this world, that is registered and that Dagster does not know yet."""
    from bellwether.forecasting import forecasters
    from bellwether.questions import releases

    here = [name for name, release in releases().items() if settings().world in release.worlds]
    requests = []
    for definition, names in ((RELEASE, here), (FORECASTER, list(forecasters()))):
        new = missing(names, instance.get_dynamic_partitions(str(definition.name)))
        if new:
            requests.append(definition.build_add_request(new))
    return requests


@dg.sensor(
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Adds every forecaster, and every release of this world, from the registry to the partitions.",
)
def registry(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
    """Add what the registry has and the partitions lack; a registry that cannot be read fails the tick and changes nothing."""
    requests = registered_partitions(context.instance)
    if not requests:
        return dg.SkipReason("every registered release and forecaster is a partition")
    return dg.SensorResult(dynamic_partitions_requests=requests)


automation = dg.AutomationConditionSensorDefinition(
    "automation",
    target=dg.AssetSelection.all(),
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Lets derived tables follow what they are made from.",
)

SENSORS = (registry, automation)
