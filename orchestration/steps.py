"""Steps that make several partitions, the reasons why steps failed, and the lines that steps show as progress of a command.

Concept: https://docs.dagster.io/guides/log-debug/logging/custom-logging
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import dagster as dg
import polars as pl

from bellwether import checks
from bellwether.errors import BellwetherError, VenueError
from bellwether.venues.http.retry import RefusedError
from orchestration.asset_declarations import key
from orchestration.partitions import partition_keys
from resources.io_manager import LakeIOManager, Unchanged
from resources.venues import STOPPED

#: Metadata of a failure: reasons of failed partitions by key.
_PARTITIONS = "partitions"


def causes(event: dg.DagsterEvent) -> Iterator[str]:
    """Yield the message of a step's failure, then the messages of its causes; the innermost is last. event: the step's failure."""
    error = event.step_failure_data.error
    while error is not None:
        yield " ".join(error.message.split())
        error = error.cause


def failure_reason(event: dg.DagsterEvent) -> str:
    """Return in one line why a step failed: the description of a `dg.Failure`, else the innermost cause; empty if nothing is recorded."""
    data = event.step_failure_data
    if data.user_failure_data is not None and data.user_failure_data.description:
        return " ".join(data.user_failure_data.description.split())
    return ["", *causes(event)][-1]


def partitions_failure(reasons: Mapping[str, str], *, allow_retries: bool) -> dg.Failure:
    """Create the `dg.Failure` of a step in which some partitions failed. reasons: by partition key."""
    described = "; ".join(f"{partition}: {text}" for partition, text in reasons.items())
    return dg.Failure(f"failed for {described}", metadata={_PARTITIONS: dg.MetadataValue.json(dict(reasons))}, allow_retries=allow_retries)


def failure_reasons(event: dg.DagsterEvent) -> dict[str, str]:
    """Return why partitions failed, by key; empty unless `partitions_failure` created the step's failure."""
    failure = event.step_failure_data.user_failure_data
    reasons = failure.metadata.get(_PARTITIONS) if failure else None
    return dict(reasons.value) if isinstance(reasons, dg.JsonMetadataValue) and isinstance(reasons.value, Mapping) else {}


#: Rows of one partition by table, and metadata of its materialization by table.
PartitionRows = tuple[Mapping[str, Any], Mapping[str, Mapping[str, Any]]]
#: Output of a step.
StepOutput = dg.AssetMaterialization | dg.MaterializeResult[Any]


def make_each(
    context: dg.AssetExecutionContext, lake: LakeIOManager, tables: Sequence[str], make: Callable[[str], PartitionRows]
) -> Iterator[StepOutput]:
    """Make and store the partitions of a run one after the other, and yield the outputs of the step.

    make: returns the rows of a partition by table, and its metadata. A partition that fails or breaks a blocking rule does not stop the others; the
    step fails at the end.
    """
    keys, metadata, failures = partition_keys(context), dict[str, Mapping[str, Mapping[str, Any]]](), dict[str, Exception]()
    for partition in keys:
        try:
            rows, metadata_by_table = make(partition)
            require_blocking(tables, rows)
            lake.store(context, partition, {name: rows[name] for name in tables})
        except Exception as error:
            if len(keys) == 1 or _is_stopped(error):
                raise (dg.Failure(str(error), allow_retries=False) if isinstance(error, BellwetherError) else error) from error
            failures[partition] = error
        else:
            metadata[partition] = metadata_by_table
        report(f"{len(metadata) + len(failures)} of {len(keys)}, {partition}")
    if failures:
        yield from yield_materializations(tables, metadata)
        raise step_failure(failures)
    yield from yield_outputs(context, tables, keys, metadata)


def yield_outputs(
    context: dg.AssetExecutionContext, tables: Sequence[str], keys: Sequence[str], metadata: Mapping[str, Mapping[str, Mapping[str, Any]]]
) -> Iterator[StepOutput]:
    """Yield the outputs of a step whose partitions are stored already, and materializations of stored tables that the run does not select.

    keys: of the partitions. metadata: by partition and table.
    """
    for name in tables:
        if key(name) not in context.selected_asset_keys:
            yield from yield_materializations([name], metadata)
            continue
        for partition, by_table in metadata.items():
            context.add_asset_metadata(by_table.get(name, {}), key(name), partition)
        yield dg.MaterializeResult(key(name), value=dict.fromkeys(keys, Unchanged()))


def require_blocking(tables: Iterable[str], rows: Mapping[str, Any]) -> None:
    """Raise `QualityError` if rows break a blocking rule. rows: by table; those that are not data frames are left to the asset checks."""
    for name in tables:
        if isinstance(rows[name], pl.DataFrame):
            checks.require(name, rows[name].lazy())


def yield_materializations(
    tables: Iterable[str], metadata: Mapping[str, Mapping[str, Mapping[str, Any]]]
) -> Iterator[dg.AssetMaterialization]:
    """Yield a materialization of each partition that a step has stored before it fails because of others. metadata: by partition and table."""
    for name in tables:
        for partition, by_table in metadata.items():
            yield dg.AssetMaterialization(key(name), partition=partition, metadata=by_table.get(name, {}))


def step_failure(failures: Mapping[str, Exception]) -> dg.Failure:
    """Create the `dg.Failure` of a step from the errors of its partitions. Dagster retries the step unless no retry can help."""
    reasons = {
        name: (error.description or "") if isinstance(error, dg.Failure) else str(error) or type(error).__name__
        for name, error in failures.items()
    }
    final = all(_is_final(error) for error in failures.values())
    return partitions_failure(reasons, allow_retries=not final)


def _is_final(error: Exception) -> bool:
    """Return True if a retry would fail in the same way. False for unavailable venues, and for unexpected exceptions."""
    from bellwether.venues.http.retry import TooLargeError

    if isinstance(error, dg.Failure):
        return not error.allow_retries
    return isinstance(error, RefusedError | TooLargeError) or (isinstance(error, BellwetherError) and not isinstance(error, VenueError))


def _is_stopped(error: Exception) -> bool:
    return isinstance(error, dg.Failure) and error.description == STOPPED


# --- progress -------------------------------------------------------------------------------------------------------------

#: Receives every line that a step logs; set by the command line.
listener: ContextVar[Callable[[str], None] | None] = ContextVar("listener", default=None)


class _ProgressHandler(logging.Handler):
    """Log handler that passes the lines of steps to `listener`."""

    def emit(self, record: logging.LogRecord) -> None:
        receive = listener.get()
        meta = getattr(record, "dagster_meta", None) or {}
        line = str(meta.get("orig_message") or record.getMessage())
        # Skipped steps follow from a failure, which is reported itself.
        if receive is not None and not meta.get("dagster_event") and not line.startswith("Dependencies for step "):
            receive(line)


def _make_logger(init_context: dg.InitLoggerContext) -> logging.Logger:
    logger = logging.Logger("bellwether.console", level=logging.INFO)
    logger.addHandler(_ProgressHandler())
    return logger


#: Logger of the runs of the command line.
progress = dg.LoggerDefinition(_make_logger, description="Lines logged by steps, for the progress of the command line.")


def report(line: str) -> None:
    """Pass a line to the command's `listener`, without writing it to the log of the run."""
    receive = listener.get()
    if receive is not None:
        receive(line)
