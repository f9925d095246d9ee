"""Detection of out-of-date partitions: the catalog records the versions of the inputs from which each was computed.

Each table's inputs are in the Dagster graph; `orchestration/runner.py` starts the runs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from hashlib import sha256

from bellwether.formatting import counted
from bellwether.lake.catalog import Manifest
from bellwether.lake.lake import Lake
from bellwether.lake.partitions import Partition
from bellwether.settings import World, settings
from bellwether.tables import TABLES, Table

#: Version of an input that a partition may not have read: it equals no version.
UNKNOWN = "?"
#: Number of outdated tables that a description names.
_NAMED = 3


@dataclass(frozen=True, slots=True)
class TableInputs:
    """A computed table and the tables from which it is computed.

    Attributes:
        table: the computed table.
        inputs: tables from which it is computed.
        followed: inputs whose changes make it outdated.
        code: version of the code that computes it; partitions of another one are out of date.
    """

    table: Table
    inputs: tuple[Table, ...] = ()
    code: str | None = None
    followed: tuple[Table, ...] = field(init=False)

    def __post_init__(self) -> None:
        followed = tuple(source for source in self.inputs if source.name not in self.table.ignored)
        object.__setattr__(self, "followed", followed)


def is_read(table: Table, partition: Partition, source: Table, other: Partition) -> bool:
    """Return True if computing `partition` of `table` reads the partition `other` of the input table `source`.

    They agree in the columns by which both are partitioned. Of an input in `table.history` all partitions up to its own are read.
    """
    if source.name in table.history:
        return other[0] <= partition[0]
    own = dict(zip(table.partitioned_by, partition, strict=True))
    return all(own.get(name, value) == value for name, value in zip(source.partitioned_by, other, strict=True))


class Staleness:
    """Comparison of partitions with their inputs at one moment. The partitions of each table are listed once, on first use.

    today: UTC day of the world's clock. Today's partitions of frequently written tables are left out of the versions.
    """

    def __init__(self, lake: Lake, today: date) -> None:
        self._lake, self._today = lake, today.isoformat()
        self._stored: dict[str, dict[Partition, Manifest]] = {}

    def stored_partitions(self, table: Table) -> dict[Partition, Manifest]:
        """Return the partitions whose file exists and was written under the table's current version, with their manifests."""
        if table.name not in self._stored:
            self._stored[table.name] = self._lake.intact_manifests(table)
        return self._stored[table.name]

    def versions(self, recipe: TableInputs, partition: Partition) -> dict[str, str]:
        """Return a digest for each input table, computed from the digests of the partitions that are read to compute `partition`."""
        digests = {}
        for source in recipe.inputs:
            lines = [f"{'/'.join(other)}={manifest.digest}" for other, manifest in self._inputs(recipe, partition, source)]
            digests[source.name] = sha256("\n".join(lines).encode()).hexdigest()[:32]
        return digests

    def find_outdated(self, recipe: TableInputs, wanted: Iterable[Partition], *, sound: bool = False) -> list[Partition]:
        """Return those of `wanted` that are missing or out of date. sound: also verify files, and count damaged ones as missing."""
        return [partition for partition in wanted if self._is_outdated(recipe, partition, sound=sound)]

    def find_buildable(self, recipe: TableInputs) -> set[Partition]:
        """Return the partitions that can be computed from stored inputs.
        A partitioned table needs all of its inputs, an unpartitioned one at least one.
        """
        columns, stored = recipe.table.partitioned_by, {source: self.stored_partitions(source) for source in recipe.followed}
        if not columns:
            return {()} if any(stored.values()) else set()
        covering = [source for source in recipe.followed if set(columns) <= set(source.partitioned_by)]
        places = {source: [source.partitioned_by.index(name) for name in columns] for source in covering}
        candidates = [{tuple(other[place] for place in places[source]) for other in stored[source]} for source in covering]
        return {
            partition
            for partition in (set.intersection(*candidates) if candidates else set())
            if all(self._inputs(recipe, partition, source) for source in recipe.followed)
        }

    def _is_outdated(self, recipe: TableInputs, partition: Partition, *, sound: bool) -> bool:
        manifest = self.stored_partitions(recipe.table).get(partition)
        if manifest is None or (sound and manifest.file and not self._lake.is_sound(manifest)):
            return True
        if None not in (manifest.code_version, recipe.code) and manifest.code_version != recipe.code:
            return True
        if manifest.inputs is None:
            return self._predates_inputs(recipe, partition, manifest)
        current = self.versions(recipe, partition)
        return any(manifest.inputs.get(source.name) != current[source.name] for source in recipe.followed)

    def _predates_inputs(self, recipe: TableInputs, partition: Partition, manifest: Manifest) -> bool:
        """Return True if an input was written after this partition. Used for partitions written outside the graph."""
        inputs = (other for source in recipe.followed for _, other in self._inputs(recipe, partition, source))
        return any(other.number > manifest.number and other.run_id != manifest.run_id for other in inputs)

    def _inputs(self, recipe: TableInputs, partition: Partition, source: Table) -> list[tuple[Partition, Manifest]]:
        """Return the stored partitions of `source` that are read to compute `partition`."""
        if source.partitioned_by in {(), recipe.table.partitioned_by} and source.name not in recipe.table.history:
            same = partition if source.partitioned_by else ()
            manifest = self._manifest(source, same)
            pairs = [(same, manifest)] if manifest else []
        else:
            pairs = [pair for pair in sorted(self.stored_partitions(source).items()) if is_read(recipe.table, partition, source, pair[0])]
        return [(other, manifest) for other, manifest in pairs if not (source.often and other[:1] == (self._today,))]

    def _manifest(self, table: Table, partition: Partition) -> Manifest | None:
        return self.stored_partitions(table).get(partition)


class LoadedLake(Staleness):
    """Comparison of partitions with their inputs for a running step. For inputs that the step has loaded, the loaded version counts.

    loaded: manifests of the loaded partitions, by table. base: the catalog's head when the run began; a partition that another run has written since
    has an unknown version, because the step may not have read it.
    """

    def __init__(self, lake: Lake, today: date, loaded: Mapping[str, Mapping[Partition, Manifest]], *, base: int, run_id: str) -> None:
        super().__init__(lake, today)
        self._loaded, self._base, self._run_id = loaded, base, run_id

    def stored_partitions(self, table: Table) -> dict[Partition, Manifest]:
        """Return the partitions of a table with their manifests: as loaded by the step, otherwise as stored in the lake."""
        if table.name not in self._stored:
            loaded = dict(self._loaded.get(table.name, {}))
            self._stored[table.name] = self._look_up(table) | loaded
        return self._stored[table.name]

    def _manifest(self, table: Table, partition: Partition) -> Manifest | None:
        return self._loaded.get(table.name, {}).get(partition) or self._look_up(table, [partition]).get(partition)

    def _look_up(self, table: Table, wanted: Collection[Partition] | None = None) -> dict[Partition, Manifest]:
        manifests = {}
        for partition, manifest in self._lake.manifests(table, wanted).items():
            if manifest.number > self._base and manifest.run_id != self._run_id:
                manifests[partition] = replace(manifest, digest=UNKNOWN)
            elif manifest.version == table.version:
                manifests[partition] = manifest
        return manifests


def find_delays(lake: Lake, tables: Iterable[Table]) -> dict[str, datetime]:
    """Find tables whose rebuild failed or is overdue, among `tables` (listed first) and the tables from which they are computed.

    A rebuild is overdue when an input has other rows than those that a partition was computed from, as the catalog records them. In the live world a
    table is also overdue when its newest partition is older than `Table.max_age`.

    Returns the time of the rows of each such table by its name: when the oldest outdated, otherwise the newest partition was written.
    """
    config = settings()
    state, now = Staleness(lake, config.now().date()), lake.clock()
    delays: dict[str, datetime] = {}
    waiting, seen = list(tables), set[str]()
    while waiting:
        table = waiting.pop(0)
        if table.name in seen:
            continue
        seen.add(table.name)
        stored = state.stored_partitions(table)
        recipes = _recorded_recipes(table, stored)
        outdated = [stored[partition].written_at for recipe, part in recipes.items() for partition in state.find_outdated(recipe, part)]
        newest = max((manifest.written_at for manifest in stored.values()), default=now)
        if outdated:
            delays[table.name] = min(outdated)
        elif config.world is World.LIVE and table.max_age is not None and now - newest > table.max_age:
            delays[table.name] = newest
        waiting.extend(source for recipe in recipes for source in recipe.followed)
    return delays


def _recorded_recipes(table: Table, stored: Mapping[Partition, Manifest]) -> dict[TableInputs, list[Partition]]:
    """Return the partitions of a table by the inputs that the catalog records."""
    recipes: dict[TableInputs, list[Partition]] = defaultdict(list)
    for partition, manifest in stored.items():
        if manifest.inputs:
            recipes[TableInputs(table, tuple(TABLES[name] for name in sorted(manifest.inputs) if name in TABLES))].append(partition)
    return recipes


def describe_delays(delays: Mapping[str, datetime]) -> str:
    """Describe tables whose rebuild failed or is overdue in one sentence; empty without any. delays: from `find_delays`."""
    if not delays:
        return ""
    named = [f"{name} of {at:%Y-%m-%d %H:%M} UTC" for name, at in list(delays.items())[:_NAMED]]
    if len(delays) > _NAMED:
        named.append(f"and {counted(len(delays) - _NAMED, 'other table')}")
    return f"Out of date, because a rebuild failed or is overdue: {', '.join(named)}."
