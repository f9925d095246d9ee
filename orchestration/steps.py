"""Steps over several partitions, and reasons of failed steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import dagster as dg
import polars as pl

from bellwether import checks
from bellwether.errors import BellwetherError, VenueError
from bellwether.venues.http.retry import RefusedError
from orchestration.asset_declarations import key
from orchestration.partitions import partition_keys
from orchestration.progress import report
from resources.io_manager import LakeIOManager, Unchanged
from resources.venues import STOPPED

#: Metadata of a failure: reasons of failed partitions by key.
_PARTITIONS = "partitions"


def causes(event: dg.DagsterEvent) -> Iterator[str]:
    """Yield the messages of a step's failure and its causes, the innermost last."""
    error = event.step_failure_data.error
    while error is not None:
        yield " ".join(error.message.split())
        error = error.cause


def failure_reason(event: dg.DagsterEvent) -> str:
    """Return the reason of a step's failure in one line: description of a `dg.Failure`, or the innermost cause, or empty."""
    data = event.step_failure_data
    if data.user_failure_data is not None and data.user_failure_data.description:
        return " ".join(data.user_failure_data.description.split())
    return ["", *causes(event)][-1]


def partitions_failure(reasons: Mapping[str, str], *, allow_retries: bool) -> dg.Failure:
    """Create the failure of a step in which some partitions failed for these `reasons`."""
    described = "; ".join(f"{partition}: {text}" for partition, text in reasons.items())
    return dg.Failure(f"failed for {described}", metadata={_PARTITIONS: dg.MetadataValue.json(dict(reasons))}, allow_retries=allow_retries)


def failure_reasons(event: dg.DagsterEvent) -> dict[str, str]:
    """Return the reasons of failed partitions by key; empty unless the failure was created by `partitions_failure`."""
    failure = event.step_failure_data.user_failure_data
    found = failure.metadata.get(_PARTITIONS) if failure else None
    return dict(found.value) if isinstance(found, dg.JsonMetadataValue) and isinstance(found.value, Mapping) else {}


#: Rows of one partition by table, and by table the metadata of its materialization.
PartitionRows = tuple[Mapping[str, Any], Mapping[str, Mapping[str, Any]]]
#: Output of a step.
StepOutput = dg.AssetMaterialization | dg.Output[Any]


def make_each(
    context: dg.AssetExecutionContext, lake: LakeIOManager, tables: Sequence[str], make: Callable[[str], PartitionRows]
) -> Iterator[StepOutput]:
    """Make and store the partitions of a run one by one, and yield the outputs of the step.

    A partition that fails or breaks a blocking rule does not stop the others; the step fails at the end.
    """
    names, shown, failures = partition_keys(context), dict[str, Mapping[str, Mapping[str, Any]]](), dict[str, Exception]()
    for name in names:
        try:
            rows, shown_of_tables = make(name)
            require_blocking(tables, rows)
            for one in tables:
                lake.store(context, one, name, rows[one])
        except Exception as error:
            if len(names) == 1 or _is_stopped(error):
                raise (dg.Failure(str(error), allow_retries=False) if isinstance(error, BellwetherError) else error) from error
            failures[name] = error
        else:
            shown[name] = shown_of_tables
        report(f"{len(shown) + len(failures)} of {len(names)}, {name}")
    if failures:
        yield from yield_materializations(tables, shown)
        raise step_failure(failures)
    yield from yield_outputs(context, tables, names, shown)


def yield_outputs(
    context: dg.AssetExecutionContext, tables: Sequence[str], names: Sequence[str], shown: Mapping[str, Mapping[str, Mapping[str, Any]]]
) -> Iterator[StepOutput]:
    """Yield the outputs of a step whose partitions `names` are stored. shown: metadata by partition and table."""
    for name, of_tables in shown.items():
        for one, metadata in of_tables.items():
            context.add_asset_metadata(metadata, key(one), name)
    for one in tables:
        output = one.split("/")[1]
        yield dg.Output({name: Unchanged() for name in names}, output if output in context.op_def.output_dict else "result")


def require_blocking(tables: Iterable[str], rows: Mapping[str, Any]) -> None:
    """Raise `QualityError` if rows in memory break a blocking rule of their table. Other rows are left to the asset checks."""
    for one in tables:
        if isinstance(rows[one], pl.DataFrame):
            checks.require(one, rows[one].lazy())


def yield_materializations(
    tables: Iterable[str], shown: Mapping[str, Mapping[str, Mapping[str, Any]]]
) -> Iterator[dg.AssetMaterialization]:
    """Yield materializations of stored partitions of a step in which others failed."""
    for one in tables:
        for name, of_tables in shown.items():
            yield dg.AssetMaterialization(key(one), partition=name, metadata=of_tables.get(one, {}))


def step_failure(failures: Mapping[str, Exception]) -> dg.Failure:
    """Create the failure of a step in which some partitions failed. It is retried unless all reasons are final."""
    reasons = {
        name: (error.description or "") if isinstance(error, dg.Failure) else str(error) or type(error).__name__
        for name, error in failures.items()
    }
    final = all(_is_final(error) for error in failures.values())
    return partitions_failure(reasons, allow_retries=not final)


def _is_final(error: Exception) -> bool:
    """Return whether a retry would fail in the same way; false for unavailable venues and for bugs."""
    from bellwether.venues.http.response_body import TooLargeError

    if isinstance(error, dg.Failure):
        return not error.allow_retries
    return isinstance(error, RefusedError | TooLargeError) or (isinstance(error, BellwetherError) and not isinstance(error, VenueError))


def _is_stopped(error: Exception) -> bool:
    return isinstance(error, dg.Failure) and error.description == STOPPED
