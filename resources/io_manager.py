"""I/O manager that stores outputs of assets in the lake, and loads inputs lazily as `Slice` (some partitions of a table).

Not here: validation, files and catalog (bellwether/lake).
Concept: https://docs.dagster.io/guides/build/io-managers
"""

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC
from typing import Any, Literal

import dagster as dg
import polars as pl
from pydantic import PrivateAttr

from bellwether.errors import ConfigError, SchemaError
from bellwether.formatting import markdown_table
from bellwether.lake import Lake, Manifest, Slice
from bellwether.lake.catalog import OutrunError
from bellwether.lake.partitions import Partition, split_rows
from bellwether.lake.staleness import LoadedLake, TableInputs
from bellwether.settings import settings
from bellwether.tables import TABLES, Table, table
from resources.lake import LakeResource

#: Metadata of an input: "skip" or "error" for missing upstream partitions.
MISSING = "missing"
#: Metadata of an input of all days: true includes the current day.
UNDER_WAY = "under_way"
#: Maximum characters of a text.
WIDTH = 40
#: Maximum number of columns.
COLUMNS = 12


class Unchanged:
    """Returned by an asset in place of rows that are stored already and stay as they are."""


class LakeIOManager(dg.ConfigurableIOManager):
    """I/O manager of tables. The asset `group/name` writes the table `group/name`, with the same partitions.

    An asset returns a `polars.DataFrame` or an iterable of frames, which is written in bounded memory. In a run over several partitions it returns a
    mapping from partition key to either or to `Unchanged`, a single frame, or an iterator of (partition keys, frame); frames of several partitions are
    split by the table's partition columns. Downstream assets receive a `bellwether.lake.Slice`.
    """

    lake: dg.ResourceDependency[LakeResource]

    _base: int | None = PrivateAttr(default=None)
    _loaded: dict[str, dict[str, dict[Partition, Manifest]]] = PrivateAttr(default_factory=dict)
    _staged: dict[tuple[str, int], dict[str, list[Manifest]]] = PrivateAttr(default_factory=dict)

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """Record the lake's latest commit. Inputs written later may differ from what the steps of the run read, and outputs written later by another
        run are not replaced.
        """
        self._base, self._loaded, self._staged = self.lake.lake.catalog.head(), {}, {}

    def handle_output(self, context: dg.OutputContext, obj: Any) -> None:
        """Write the output of an asset, one file per partition of the run, and attach metadata to the materializations.

        All outputs of a step become current with its last one. Raises `SchemaError` for rows that do not match the table or the partitions, `LakeError`
        if they cannot be stored, and `dg.Failure` without retries if another run has written one of the partitions since this run began.
        """
        declared = table("/".join(context.asset_key.path))
        keys = list(context.asset_partition_keys) if context.has_asset_partitions else []
        partitions = {key: lake_partition(declared, key) for key in keys}
        lake, started = self.lake.lake, time.perf_counter()
        step = _step(context)
        versions, written, staged = self._versions(step, context.asset_key), dict[str, Manifest](), list[Manifest]()
        for key, partition, own in _split_rows(declared, partitions, obj):
            if isinstance(own, Unchanged):
                written[key] = _stored_manifest(lake, declared, partition)
            else:
                written[key] = lake.stage(declared, partition, own, run_id=context.run_id, **versions(partition))
                staged.append(written[key])
        if step is None:
            self._commit(staged)
        else:
            # Later outputs of this step may be computed from this one.
            self._loaded.setdefault(step.step.key, {})[declared.name] = {manifest.partition: manifest for manifest in written.values()}
            self._switch(step, context.name, staged)
        seconds = time.perf_counter() - started
        if step is not None:
            step.set_data_version(context.asset_key, _data_version(written))
        if step is not None and len(written) > 1:
            for key, manifest in written.items():
                step.add_asset_metadata({"dagster/partition_row_count": manifest.rows}, context.asset_key, key)
            last, manifest = list(written.items())[-1]
            rows = lake.slice_from(declared, {manifest.partition: manifest})
            step.add_asset_metadata(_preview(rows.head()), context.asset_key, last)
        else:
            rows = lake.slice_from(declared, {manifest.partition: manifest for manifest in written.values()})
            first = obj.select(declared.names) if isinstance(obj, pl.DataFrame) else rows
            context.add_output_metadata({**_metadata(lake, rows), "seconds": round(seconds, 3), **_preview(first.head())})

    def load_input(self, context: dg.InputContext) -> Slice:
        """Load those partitions of an upstream table that the step reads.

        Raises `LakeError` for a missing partition, unless the step reads all partitions, or all of one dimension. The input's metadata `missing`
        ("skip" or "error") takes precedence. With its metadata `under_way`, the current UTC day is included, which Dagster does not list yet.
        """
        declared = table("/".join(context.asset_key.path))
        keys = list(context.asset_partition_keys) if context.has_asset_partitions else []
        if context.definition_metadata.get(UNDER_WAY):
            keys.append(settings().now().astimezone(UTC).date().isoformat())
        partitions = [lake_partition(declared, key) for key in keys] if context.has_asset_partitions else [()]
        rows = self.lake.lake.slice(declared, partitions, missing=_missing_policy(context))
        step = _step(context)
        self._loaded.setdefault(step.step.key if step else "", {})[declared.name] = {
            manifest.partition: manifest for manifest in rows.manifests
        }
        return rows

    def store(self, context: dg.AssetExecutionContext, key: str, rows: Mapping[str, Any]) -> None:
        """Write a partition of several tables at once, before the step ends. The step must then return `Unchanged` for this partition.
        rows: by table.
        """
        step, staged = context.get_step_execution_context(), list[Manifest]()
        for name, own in rows.items():
            declared = table(name)
            partition, versions = lake_partition(declared, key), self._versions(step, dg.AssetKey(name.split("/")))
            staged.append(self.lake.lake.stage(declared, partition, own, run_id=context.run_id, **versions(partition)))
        self._commit(staged)

    def _switch(self, step: Any, output: str, staged: list[Manifest]) -> None:
        """Commit the files of a step with its last output."""
        attempt = (step.step.key, step.previous_attempt_count)
        outputs = self._staged.setdefault(attempt, {})
        outputs[output] = staged
        tables = step.assets_def.keys_by_output_name if step.assets_def else step.selected_output_names  # the others are results of checks
        if outputs.keys() >= set(tables) & set(step.selected_output_names):
            self._commit([manifest for manifests in self._staged.pop(attempt).values() for manifest in manifests])

    def _commit(self, staged: Sequence[Manifest]) -> None:
        try:
            self.lake.lake.commit(staged, base=self._base)
        except OutrunError as error:
            raise dg.Failure(str(error), allow_retries=False) from error

    def _versions(self, step: Any, key: dg.AssetKey) -> Callable[[Partition], dict[str, Any]]:
        """Return a function that gives for a partition the versions of its inputs and of the code, as the catalog records them."""
        if step is None or step.assets_def is None:
            return lambda partition: {}
        declared = table("/".join(key.path))
        names = ["/".join(parent.path) for parent in step.assets_def.asset_deps[key]]
        recipe = TableInputs(declared, tuple(TABLES[name] for name in sorted(names) if name in TABLES and name != declared.name))
        loaded, code = self._loaded.get(step.step.key, {}), step.assets_def.code_versions_by_key.get(key)
        lake = self.lake.lake
        state = LoadedLake(
            lake, settings().now().date(), loaded, base=lake.catalog.head() if self._base is None else self._base, run_id=step.run_id
        )
        return lambda partition: {"inputs": state.versions(recipe, partition), "code_version": code}


def record_inputs(lake: Lake, context: dg.AssetExecutionContext, declared: Table, read: Mapping[str, Slice]) -> None:
    """Record which inputs a file outside the lake, such as a report, was made from, so that changed inputs make it outdated. read: the loaded
    inputs.
    """
    loaded = {rows.table.name: {manifest.partition: manifest for manifest in rows.manifests} for rows in read.values()}
    partition = (context.partition_key,) if declared.partitioned_by else ()
    state = LoadedLake(lake, settings().now().date(), loaded, base=0, run_id=context.run_id)  # only loaded inputs were read
    recipe = TableInputs(declared, tuple(rows.table for rows in read.values()))
    lake.record_inputs(declared, partition, run_id=context.run_id, inputs=state.versions(recipe, partition))


def lake_partition(declared: Table, key: str) -> Partition:
    """Convert a Dagster partition key to a partition of the lake. Dimensions of the key must be named like the table's partition columns."""
    columns = sorted(declared.partitioned_by)
    dimensions = key.keys_by_dimension if isinstance(key, dg.MultiPartitionKey) else dict(zip(columns, str(key).split("|"), strict=False))
    if set(dimensions) != set(declared.partitioned_by):
        raise ConfigError(
            f"asset {declared.name}: its partition {key!r} has the dimensions ({', '.join(dimensions)}), "
            f"the table is partitioned by ({', '.join(declared.partitioned_by)}); name the dimensions after the columns"
        )
    return tuple(dimensions[name] for name in declared.partitioned_by)


def _split_rows(declared: Table, partitions: Mapping[str, Partition], obj: Any) -> Iterable[tuple[str, Partition, Any]]:
    """Split the output of an asset by partition. Returns triples of Dagster's partition key, partition of the lake, and rows. obj: the output."""
    if isinstance(obj, Mapping):
        if set(obj) != set(partitions):
            odd = sorted(set(obj) ^ set(partitions))
            raise SchemaError(
                f"table {declared.name}: the asset must return rows for exactly the run's partitions; not so for {', '.join(odd[:5])}"
            )
        return [(key, partition, obj[key]) for key, partition in partitions.items()]
    if not partitions:
        return [("", (), obj)]
    if len(partitions) == 1:
        return [(key, partition, obj) for key, partition in partitions.items()]
    if isinstance(obj, Iterator):
        return _split_chunks(declared, partitions, obj)
    if not isinstance(obj, pl.DataFrame):
        raise _split_error(declared, partitions, obj)
    rows = split_rows(declared, obj, partitions.values())
    return [(key, partition, rows[partition]) for key, partition in partitions.items()]


def _split_chunks(
    declared: Table, partitions: Mapping[str, Partition], chunks: Iterator[tuple[Sequence[str], pl.DataFrame]]
) -> Iterator[tuple[str, Partition, Any]]:
    for chunk in chunks:
        if not isinstance(chunk, tuple):
            raise _split_error(declared, partitions, chunks)
        keys, frame = chunk
        rows = split_rows(declared, frame, [partitions[key] for key in keys])
        yield from ((key, partitions[key], rows[partitions[key]]) for key in keys)


def _split_error(declared: Table, partitions: Mapping[str, Partition], obj: Any) -> SchemaError:
    return SchemaError(
        f"table {declared.name}: the run writes {len(partitions)} partitions and the asset returned {type(obj).__name__}; "
        "return a polars.DataFrame, or a mapping from partition key to rows"
    )


def _stored_manifest(lake: Lake, declared: Table, partition: Partition) -> Manifest:
    """Return the manifest of a stored partition. Raises `LakeError` if the partition is missing."""
    return lake.slice(declared, [partition]).manifests[0]


def _missing_policy(context: dg.InputContext) -> Literal["error", "skip"]:
    """Return whether `load_input` skips missing upstream partitions ("skip") or raises an exception ("error")."""
    stated = context.definition_metadata.get(MISSING)
    if stated not in (None, "error", "skip"):
        raise ConfigError(
            f"reading {'/'.join(context.asset_key.path)}: the input's metadata {MISSING!r} is {stated!r}; use 'error' or 'skip'"
        )
    return stated or ("skip" if _reads_all(context) else "error")


def _reads_all(context: dg.InputContext) -> bool:
    """Return True if the step reads every upstream partition, or every value of an upstream dimension by which it is not itself partitioned."""
    step = _step(context)
    if step is None or step.assets_def is None or not context.has_asset_partitions:
        return False
    mapping = step.assets_def.get_partition_mapping_for_dep(context.asset_key)
    if isinstance(mapping, dg.AllPartitionMapping):
        return True
    if mapping is not None and not isinstance(mapping, dg.MultiToSingleDimensionPartitionMapping):
        return False
    own = step.entity_partitions_def
    across = isinstance(context.asset_partitions_def, dg.MultiPartitionsDefinition) and not isinstance(own, dg.MultiPartitionsDefinition)
    return own is None or across


def _step(context: dg.OutputContext | dg.InputContext) -> Any:
    """Return the context of the running step; None in tests that build a context without a step."""
    try:
        return context.step_context
    except dg.DagsterInvariantViolationError:
        return None


def _metadata(lake: Lake, rows: Slice) -> dict[str, Any]:
    """Return the metadata of one written partition: number of rows, file, and size. The size is text, since the UI would plot a number.

    A run over several partitions states only the rows of each, and a preview of the last, since Dagster stores an event per partition.
    """
    declared = rows.table
    return {
        "dagster/row_count": rows.rows,
        **({"dagster/partition_row_count": rows.rows} if declared.partitioned_by else {}),
        "dagster/table_name": f"{declared.group}.{declared.short_name}",
        "dagster/storage_kind": "parquet",
        "dagster/uri": rows.files[0] if rows.files else lake.storage.location(declared.name),
        "size": format_size(sum(manifest.bytes for manifest in rows.manifests)),
    }


def format_size(count: int) -> str:
    """Format a number of bytes as kB or MB."""
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.1f} kB"


def _data_version(written: Mapping[str, Manifest]) -> dg.DataVersion:
    """Return Dagster's data version of an output: the digest of its rows, or one of all partitions. written: manifests by partition key."""
    if len(written) == 1:
        (manifest,) = written.values()
        return dg.DataVersion(manifest.digest)
    return dg.DataVersion(hashlib.sha256("".join(f"{key}={manifest.digest}\n" for key, manifest in written.items()).encode()).hexdigest())


def _preview(rows: pl.DataFrame) -> dict[str, Any]:
    return {"preview": dg.MetadataValue.md(preview_markdown(rows))}


def preview_markdown(frame: pl.DataFrame) -> str:
    """Render the first columns of `frame` as a Markdown table. Every text is shortened and formatted as code."""
    columns = frame.columns[:COLUMNS]
    rows = (["" if value is None else _render_code(str(value)) for value in row] for row in frame.select(columns).iter_rows())
    lines = markdown_table([*map(_render_code, columns)], rows)
    omitted = frame.width - len(columns)
    return "\n".join([*lines, "", f"{omitted} more columns"] if omitted else lines)


def _render_code(text: str) -> str:
    cut = text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"
    plain = "".join(character if character.isprintable() else " " for character in cut)
    return f"`{plain.replace('`', chr(39)).replace('|', '¦')}`" if plain.strip() else ""
