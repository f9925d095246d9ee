"""Out-of-date partitions, found in the manifests: each names the versions of the inputs that its rows were made from.

Not here: which tables are made from which (the graph), or running anything (orchestration/runner.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from hashlib import sha256

from bellwether.lake.lake import Lake
from bellwether.lake.manifest import Manifest
from bellwether.lake.partitions import Partition
from bellwether.tables import Table

#: By lake and table: the mark of the last commit, and the partitions found then. On a store with indexes a file goes only by a commit.
_seen: dict[tuple[str, str], tuple[str | None, dict[Partition, Manifest]]] = {}
#: Stands for a version of an input that a partition may not have been made from: it equals none.
UNKNOWN = "?"


@dataclass(frozen=True, slots=True)
class Recipe:
    """The inputs of a table.

    Attributes:
        table: the table that is made.
        inputs: the tables that it is made from.
        ignored: names of inputs whose changes leave it up to date.
        code: version of the code that makes it; manifests with another one are out of date.
    """

    table: Table
    inputs: tuple[Table, ...] = ()
    ignored: frozenset[str] = frozenset()
    code: str | None = None
    followed: tuple[Table, ...] = field(init=False)

    def __post_init__(self) -> None:
        followed = tuple(source for source in self.inputs if source.name not in self.ignored)
        object.__setattr__(self, "followed", followed)


def reads(table: Table, partition: Partition, source: Table, other: Partition) -> bool:
    """Whether a partition of a table is made from a partition of its input.

    They agree in the columns by which both are partitioned. Of an input in `table.history` all partitions up to its own are read.
    """
    if source.name in table.history:
        return other[0] <= partition[0]
    own = dict(zip(table.partitioned_by, partition, strict=True))
    return all(own.get(name, value) == value for name, value in zip(source.partitioned_by, other, strict=True))


class Staleness:
    """The lake at one moment. Each table is listed once, when it is first needed.

    today: the UTC day of the world's clock; of tables that are written many times an hour it is left out of the versions.
    """

    def __init__(self, lake: Lake, today: date) -> None:
        self._lake, self._today = lake, today.isoformat()
        self._stored: dict[str, dict[Partition, Manifest]] = {}
        self._marks: dict[str, str | None] = {}

    def stored(self, table: Table) -> dict[Partition, Manifest]:
        """The partitions of a table whose file is there, made by the table's current rules.

        On a store a process lists the files of a table again only after a commit: a sensor tick without one costs a single request.
        """
        if table.name not in self._stored:
            self._stored[table.name] = self._since_last_commit(table) if self._lake.has_index else self._found(table)
        return self._stored[table.name]

    def _since_last_commit(self, table: Table) -> dict[Partition, Manifest]:
        self._marks = self._marks or self._lake.marks()
        place, mark = (self._lake.uri, table.name), self._marks.get(table.name)
        if mark is None or _seen.get(place, (None, {}))[0] != mark:
            _seen[place] = mark, self._found(table)
        return _seen[place][1]

    def _found(self, table: Table) -> dict[Partition, Manifest]:
        return self._lake.notes(table) if table.outside else self._lake.intact(table)

    def versions(self, recipe: Recipe, partition: Partition) -> dict[str, str]:
        """By input a digest of the versions of all its partitions that a partition is made from."""
        found = {}
        for source in recipe.inputs:
            lines = [f"{'/'.join(other)}={made.sha256}" for other, made in self._inputs(recipe, partition, source)]
            found[source.name] = sha256("\n".join(lines).encode()).hexdigest()[:32]
        return found

    def due(self, recipe: Recipe, wanted: Iterable[Partition], *, sound: bool = False) -> list[Partition]:
        """The partitions among `wanted` that are missing or out of date. sound: damaged files count as missing; their bytes are read."""
        return [partition for partition in wanted if self._is_due(recipe, partition, sound=sound)]

    def makeable(self, recipe: Recipe) -> set[Partition]:
        """Partitions whose inputs are stored: all of them where the table is partitioned, any of them otherwise."""
        columns, stored = recipe.table.partitioned_by, {source: self.stored(source) for source in recipe.followed}
        if not columns:
            return {()} if any(stored.values()) else set()
        covering = [source for source in recipe.followed if set(columns) <= set(source.partitioned_by)]
        found = [{_projected(source, other, columns) for other in stored[source]} for source in covering]
        return {
            partition
            for partition in (set.intersection(*found) if found else set())
            if all(self._inputs(recipe, partition, source) for source in recipe.followed)
        }

    def _is_due(self, recipe: Recipe, partition: Partition, *, sound: bool) -> bool:
        made = self.stored(recipe.table).get(partition)
        if made is None or (sound and made.file and not self._lake.is_sound(made)):
            return True
        if None not in (made.code_version, recipe.code) and made.code_version != recipe.code:
            return True
        if made.inputs is None:
            return self._is_older(recipe, partition, made)
        now = self.versions(recipe, partition)
        return any(made.inputs.get(source.name) != now[source.name] for source in recipe.followed)

    def _is_older(self, recipe: Recipe, partition: Partition, made: Manifest) -> bool:
        """Manifests from before versions were stored: an input that was written later may have changed."""
        inputs = (other for source in recipe.followed for _, other in self._inputs(recipe, partition, source))
        return any(other.written_at > made.written_at and other.run_id != made.run_id for other in inputs)

    def _inputs(self, recipe: Recipe, partition: Partition, source: Table) -> list[tuple[Partition, Manifest]]:
        if source.partitioned_by in {(), recipe.table.partitioned_by} and source.name not in recipe.table.history:
            same = partition if source.partitioned_by else ()
            made = self._one(source, same)
            found = [(same, made)] if made else []
        else:
            found = [pair for pair in sorted(self.stored(source).items()) if reads(recipe.table, partition, source, pair[0])]
        return [(other, made) for other, made in found if not (source.often and other[:1] == (self._today,))]

    def _one(self, table: Table, partition: Partition) -> Manifest | None:
        return self.stored(table).get(partition)


class AsRead(Staleness):
    """The lake as a step has read it.

    loaded: by table, the manifests of what was loaded. since: when the run began; what another run has written later, and the step may not have
    read, has an unknown version.
    """

    def __init__(
        self, lake: Lake, today: date, loaded: Mapping[str, Mapping[Partition, Manifest]], *, since: datetime, run_id: str
    ) -> None:
        super().__init__(lake, today)
        self._loaded, self._since, self._run_id = loaded, since, run_id

    def stored(self, table: Table) -> dict[Partition, Manifest]:
        """The partitions of a table; those that were not loaded are looked up."""
        if table.name not in self._stored:
            found = dict(self._loaded.get(table.name, {}))
            others = [partition for partition in self._lake.partitions(table) if partition not in found]
            self._stored[table.name] = found | self._looked_up(table, others)
        return self._stored[table.name]

    def _one(self, table: Table, partition: Partition) -> Manifest | None:
        return self._loaded.get(table.name, {}).get(partition) or self._looked_up(table, [partition]).get(partition)

    def _looked_up(self, table: Table, wanted: Collection[Partition]) -> dict[Partition, Manifest]:
        found = {}
        for partition, made in self._lake.legible(table, wanted).items() if wanted else ():
            if made.written_at >= self._since and made.run_id != self._run_id:
                found[partition] = replace(made, sha256=UNKNOWN)
            elif made.version == table.version:
                found[partition] = made
        return found


def _projected(source: Table, partition: Partition, columns: Collection[str]) -> Partition:
    values = dict(zip(source.partitioned_by, partition, strict=True))
    return tuple(values[name] for name in columns)
