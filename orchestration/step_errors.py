"""What a step failed of, as its code said it.

Not here: whom it is told to (alarms.py, runner.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import dagster as dg

#: Metadata of a failure: why each partition failed, by its key.
_PARTITIONS = "partitions"


def causes(event: dg.DagsterEvent) -> Iterator[str]:
    """The messages of a step's failure and of what caused it, the innermost last; none where Dagster recorded none."""
    error = event.step_failure_data.error
    while error is not None:
        yield " ".join(error.message.split())
        error = error.cause


def reason(event: dg.DagsterEvent) -> str:
    """Why a step failed, in one line: the description of a `dg.Failure`, otherwise the innermost cause; empty where Dagster recorded neither."""
    data = event.step_failure_data
    if data.user_failure_data is not None and data.user_failure_data.description:
        return " ".join(data.user_failure_data.description.split())
    return ["", *causes(event)][-1]


def failed_partitions(reasons: Mapping[str, str], *, allow_retries: bool) -> dg.Failure:
    """The failure of a step over several partitions some of which failed, for these `reasons`, while the others were finished."""
    described = "; ".join(f"{partition}: {text}" for partition, text in reasons.items())
    return dg.Failure(f"failed for {described}", metadata={_PARTITIONS: dg.MetadataValue.json(dict(reasons))}, allow_retries=allow_retries)


def partitions_of(event: dg.DagsterEvent) -> dict[str, str]:
    """Why each partition failed, by its key, where the step's failure is one of `failed_partitions`."""
    failure = event.step_failure_data.user_failure_data
    found = failure.metadata.get(_PARTITIONS) if failure else None
    return dict(found.value) if isinstance(found, dg.JsonMetadataValue) and isinstance(found.value, Mapping) else {}
