"""What a step failed of, as its code said it.

Not here: whom it is told to (alarms.py, runner.py).
"""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg


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
