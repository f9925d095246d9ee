"""Daily partitions of this world, and conversion and grouping of partition keys.

Not here: other partitions (assets/<group>/partitions.py).
Concept: https://docs.dagster.io/guides/build/partitions-and-backfills
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import dagster as dg
from dagster_shared.check import CheckError

from bellwether.lake.partitions import Partition
from bellwether.settings import World, settings
from bellwether.tables import Table


def days_ahead(end: date) -> int:
    """Return the days from today to `end`, at least 0. Dagster needs this number as `end_offset` if the sandbox's clock is ahead of today."""
    return max(0, (end - datetime.now(UTC).date()).days)


def daily_partitions() -> dg.DailyPartitionsDefinition:
    """Define one partition per UTC day from the first day of the settings. In the sandbox, whose clock is fixed, the last day is the clock's."""
    config = settings()
    start = config.first_day.strftime("%Y-%m-%d")
    if config.world is not World.SANDBOX:
        return dg.DailyPartitionsDefinition(start_date=start, timezone="UTC")
    end = config.now().date()
    return dg.DailyPartitionsDefinition(start_date=start, end_date=end.isoformat(), timezone="UTC", end_offset=days_ahead(end))


DAY = daily_partitions()


#: Maximum of days of a run; the start of a run costs far more than a day.
MAX_DAYS = 100
#: Policy of daily backfills. In a fleet several runs share a month.
DAYS_PER_RUN = dg.BackfillPolicy.multi_run(max_partitions_per_run=5 if settings().fleet else MAX_DAYS)
#: Maximum of days whose rows a step has in memory.
CHUNK = 31
#: Policy of one run per backfill, which stores each partition when it is made.
ONE_RUN = dg.BackfillPolicy.single_run()
#: Policy of independent partitions: in a fleet one run each.
INDEPENDENT = dg.BackfillPolicy.multi_run(max_partitions_per_run=1) if settings().fleet else ONE_RUN

#: Tags of the partitions of a run: one, or the first and the last of a range.
PARTITION, RANGE_START, RANGE_END = "dagster/partition", "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"

ALL_DAYS = dg.AllPartitionMapping()


def partition_keys(context: dg.AssetExecutionContext) -> list[str]:
    """Return the partition keys of a run, sorted. Raises `dg.Failure` without retries for a partition that does not exist."""
    try:
        return sorted(context.partition_keys)
    except CheckError as error:
        definition = context.assets_def.partitions_def
        existing = definition.get_partition_keys() if definition else ()
        requested = dict.fromkeys(context.run.tags.get(tag) for tag in (PARTITION, RANGE_START, RANGE_END))
        span = f"{existing[0]} to {existing[-1]}" if existing else "none"
        unknown = ", ".join(name for name in requested if name and name not in existing)
        raise dg.Failure(f"unknown partition {unknown}; existing ones: {span}", allow_retries=False) from error


def from_key(declared: Table, key: str) -> Partition:
    """Convert a Dagster partition key to a partition of the lake. A key of several dimensions has them in the order of their names, joined by "|"."""
    dimensions = dict(zip(sorted(declared.partitioned_by), key.split("|"), strict=True)) if len(declared.partitioned_by) > 1 else None
    return tuple(dimensions[name] for name in declared.partitioned_by) if dimensions else (key,)


def to_key(declared: Table, partition: Partition) -> str:
    """Convert a partition of the lake to a Dagster partition key; empty if the table has no partitions."""
    return "|".join(value for _, value in sorted(zip(declared.partitioned_by, partition, strict=True)))


def group_days(days: Iterable[str], *, most: int = MAX_DAYS, step: timedelta = timedelta(days=1)) -> list[tuple[str, str]]:
    """Group ISO days into ranges of consecutive days. Returns the (first, last) day of each range.

    most: maximum days of a range. step: distance of consecutive days, such as a week for first days of weeks.
    """
    groups: list[list[str]] = []
    for day in sorted(days):
        if groups and len(groups[-1]) < most and date.fromisoformat(groups[-1][-1]) + step == date.fromisoformat(day):
            groups[-1].append(day)
        else:
            groups.append([day])
    return [(span[0], span[-1]) for span in groups]


def range_tags(partitions: Sequence[str]) -> dict[str, str]:
    """Return the tags of a run that state its partitions. partitions: all keys of its range; empty, or an empty key, for none."""
    if len(partitions) > 1:
        return {RANGE_START: partitions[0], RANGE_END: partitions[-1]}
    return {PARTITION: partitions[0]} if any(partitions) else {}


def group_keys(
    definition: dg.PartitionsDefinition[Any] | None,
    keys: Iterable[str],
    instance: dg.DagsterInstance,
    policy: dg.BackfillPolicy | None = None,
) -> list[list[str]]:
    """Group partition keys so that one run can make each group: consecutive keys, or a rectangle in two dimensions.

    policy: backfill policy that limits the keys of a run; in two dimensions either to one, or not at all.
    """
    most = policy.max_partitions_per_run if policy else None
    groups = _group_neighbours(definition, keys, instance)
    return groups if most is None else [group[first : first + most] for group in groups for first in range(0, len(group), most)]


def _group_neighbours(
    definition: dg.PartitionsDefinition[Any] | None, keys: Iterable[str], instance: dg.DagsterInstance
) -> list[list[str]]:
    """Group partition keys into the largest ranges that one run can have. Arguments as in `group_keys`."""
    if isinstance(definition, dg.MultiPartitionsDefinition):
        first, second = (dimension.partitions_def for dimension in definition.partitions_defs)
        rows: dict[str, list[str]] = defaultdict(list)
        for key in keys:
            column, _, row = key.partition("|")
            rows[row].append(column)
        equal: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for row, columns in rows.items():
            for span in _group_neighbours(first, columns, instance):
                equal[tuple(span)].append(row)
        rectangles = ((span, part) for span, several in equal.items() for part in _group_neighbours(second, several, instance))
        return [[f"{column}|{row}" for row in part for column in span] for span, part in rectangles]
    if definition is None:
        return [[key] for key in keys]
    order = {name: place for place, name in enumerate(definition.get_partition_keys(dynamic_partitions_store=instance))}
    groups: list[list[str]] = []
    for key in sorted(keys, key=order.__getitem__):
        if groups and order[groups[-1][-1]] + 1 == order[key] and len(groups[-1]) < MAX_DAYS:
            groups[-1].append(key)
        else:
            groups.append([key])
    return groups


def keys_from_tags(definition: dg.PartitionsDefinition[Any] | None, tags: Mapping[str, str], instance: dg.DagsterInstance) -> list[str]:
    """Return the partition keys of a run, read from its tags: one partition or a range; all keys if the tags name none."""
    if definition is None:
        return [""]
    if PARTITION in tags:
        return [tags[PARTITION]]
    if RANGE_START in tags:
        return keys_between(definition, tags[RANGE_START], tags[RANGE_END], instance)
    return list(definition.get_partition_keys(dynamic_partitions_store=instance))


def keys_between(definition: dg.PartitionsDefinition[Any], first: str, last: str, instance: dg.DagsterInstance) -> list[str]:
    """Return the partition keys from `first` to `last` in Dagster's order. In two dimensions these are opposite corners of a rectangle, all of
    which is returned.
    """
    if isinstance(definition, dg.MultiPartitionsDefinition):
        ends = zip(definition.partitions_defs, first.split("|"), last.split("|"), strict=True)
        columns, rows = (keys_between(dimension.partitions_def, start, end, instance) for dimension, start, end in ends)
        return [f"{column}|{row}" for row in rows for column in columns]
    names = list(definition.get_partition_keys(dynamic_partitions_store=instance))
    return names[names.index(first) : names.index(last) + 1] if first in names and last in names else []
