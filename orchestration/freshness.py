"""Which partitions are out of date, read from Dagster's own record of materializations and from the lake.

Not here: running anything (runner.py).
Concept: https://docs.dagster.io/guides/build/assets/asset-versioning-and-caching
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from itertools import takewhile

import dagster as dg
from dagster._core.definitions.data_version import DATA_VERSION_IS_USER_PROVIDED_TAG, DATA_VERSION_TAG

from bellwether.lake import Lake
from bellwether.lake.partitions import Partition
from bellwether.tables import TABLES, Table
from resources import lake_partition

#: Materializations of a partition among which the first of the same rows is looked for.
_LOOKED_AT = 50


def stale(wanted: Iterable[str], made: Sequence[Mapping[str, int]], sources: Sequence[Mapping[str, int]]) -> list[str]:
    """Keys of `wanted` that some output lacks, or of which some source has changed since some output was made.

    Each mapping goes from partition key to a storage id, which grows with time: of an output its latest materialization, of a source its latest change.
    """

    def is_stale(key: str) -> bool:
        ids = [output.get(key) for output in made]
        if any(found is None for found in ids):
            return True
        oldest = min(found for found in ids if found is not None)
        return any(_is_newer(source, key, oldest) for source in sources)

    return [key for key in wanted if is_stale(key)]


def spans(days: Iterable[str], most: int = 31) -> list[tuple[str, str]]:
    """Days (ISO) as closed ranges of neighbours, at most `most` long."""
    ranges: list[list[str]] = []
    for day in sorted(days):
        if ranges and len(ranges[-1]) < most and date.fromisoformat(ranges[-1][-1]) + timedelta(days=1) == date.fromisoformat(day):
            ranges[-1].append(day)
        else:
            ranges.append([day])
    return [(span[0], span[-1]) for span in ranges]


def _is_newer(source: Mapping[str, int], key: str, than: int) -> bool:
    # What was made last is known of all; since when its rows are there is looked up where it matters.
    return not (isinstance(source, Changes) and source.latest.get(key, 0) <= than) and source.get(key, 0) > than


class Changes(Mapping[str, int]):
    """By partition of an asset, the storage id of the materialization that first made the rows that are there: the same rows made again are no change.

    latest: storage ids of the latest materializations, by partition. Where nobody stated what tells rows apart, each counts as a change.
    """

    def __init__(self, instance: dg.DagsterInstance, key: dg.AssetKey, latest: Mapping[str, int]) -> None:
        self._instance, self._key, self.latest = instance, key, latest
        self._found: dict[str, int] = {}

    def __getitem__(self, partition: str) -> int:
        if partition not in self._found:
            latest = self.latest[partition]
            wanted = dg.AssetRecordsFilter(self._key, asset_partitions=[partition])
            records = self._instance.fetch_materializations(wanted, limit=_LOOKED_AT).records
            version = data_version(records[0]) if records else None
            same = takewhile(lambda record: version is not None and data_version(record) == version, records)
            self._found[partition] = min((record.storage_id for record in same), default=latest)
        return self._found[partition]

    def __iter__(self) -> Iterator[str]:
        return iter(self.latest)

    def __len__(self) -> int:
        return len(self.latest)


def data_version(record: dg.EventLogRecord) -> str | None:
    """What tells the rows of a materialization apart from others: where the step stated it. Dagster makes one up otherwise."""
    made = record.asset_materialization
    tags = made.tags if made else None
    return tags.get(DATA_VERSION_TAG) if tags and tags.get(DATA_VERSION_IS_USER_PROVIDED_TAG) == "true" else None


class Record:
    """What Dagster's storage says was materialized when, by which version of the code, as far as the lake still has it."""

    def __init__(self, instance: dg.DagsterInstance, defs: dg.Definitions, lake: Lake) -> None:
        self._instance, self._lake = instance, lake
        self._graph = defs.resolve_asset_graph()

    def partitions(self, key: dg.AssetKey, among: Iterable[str] | None = None) -> dict[str, int]:
        """Storage id of the latest materialization of every partition that the lake has; nothing when an older code version made them.

        The lake has a partition when its file is there with its size; those `among`, or all when left out, are compared with their checksums too.
        """
        if not self._is_current(key):
            return {}
        found = dict(self._instance.get_latest_storage_id_by_partition(key, dg.DagsterEventType.ASSET_MATERIALIZATION))
        declared = TABLES.get("/".join(key.path))
        if declared is None or not found:
            return found
        stored = self._lake.intact(declared)
        compared = set(found if among is None else among)
        return {
            partition: number
            for partition, number in found.items()
            if (manifest := stored.get(_partition(declared, partition))) is not None
            and (partition not in compared or self._lake.is_sound(manifest))
        }

    def changes(self, key: dg.AssetKey, among: Iterable[str] | None = None) -> Changes:
        """As `partitions`, of an asset that others are made from: since when its rows are as they are."""
        return Changes(self._instance, key, self.partitions(key, among))

    def whole(self, key: dg.AssetKey) -> int | None:
        """Storage id of the latest materialization of an asset, whatever the partition; None when there is none, or the lake has nothing of it."""
        records = self._instance.fetch_materializations(key, limit=1).records
        if not records or not self._is_current(key):
            return None
        declared = TABLES.get("/".join(key.path))
        if declared is None:
            return records[0].storage_id
        stored = self._lake.intact(declared)
        # The one file of a table without partitions is compared with its checksum; all files of another would take too long.
        sound = bool(declared.partitioned_by) or all(map(self._lake.is_sound, stored.values()))
        return records[0].storage_id if stored and sound else None

    def _is_current(self, key: dg.AssetKey) -> bool:
        latest, declared = self._instance.get_latest_materialization_event(key), self._graph.get(key).code_version
        if latest is None or latest.asset_materialization is None or declared is None:
            return True
        return (latest.asset_materialization.tags or {}).get("dagster/code_version") == declared


def _partition(declared: Table, key: str) -> Partition:
    """A Dagster partition key as the lake's. As text, those of several dimensions are in the order of their names."""
    if len(declared.partitioned_by) < 2:
        return (key,)
    return lake_partition(declared, dg.MultiPartitionKey(dict(zip(sorted(declared.partitioned_by), key.split("|"), strict=True))))
