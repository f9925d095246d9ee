"""Which runs go first: those that people launch before those that start by themselves, as many at once as the machine has processors.

Concept: https://docs.dagster.io/guides/operate/managing-concurrency
"""

from __future__ import annotations

import os

#: Tag of runs that start by themselves. `dagster.yaml` leaves one place that they cannot take.
LAUNCHED_BY = "bellwether/launched_by"
AUTOMATION, COMMAND = "automation", "command"
#: Tags of automatic runs: of the runs that wait, those of users go first, then those with a deadline, then the others.
AUTOMATIC = {LAUNCHED_BY: AUTOMATION, "dagster/priority": "-2"}
DUE = {**AUTOMATIC, "dagster/priority": "-1"}


def runs_at_once(processors: int | None = None) -> tuple[int, int]:
    """Runs that this machine should execute at once, and how many of them may have started by themselves."""
    processors = processors or len(os.sched_getaffinity(0))
    return max(2, processors), max(1, processors - 1)
