"""Tags that set the priority of runs: runs of users come before automatic ones, and marks of the arena before both.

Concept: https://docs.dagster.io/guides/operate/managing-concurrency
"""

from __future__ import annotations

#: Tag of automatic runs, for which `dagster.yaml` reserves one place less.
LAUNCHED_BY = "bellwether/launched_by"
AUTOMATION, COMMAND = "automation", "command"
#: Tags of automatic runs. Queued runs of users go first, then runs with a deadline, then other automatic runs.
AUTOMATIC = {LAUNCHED_BY: AUTOMATION, "dagster/priority": "-2"}
DUE = {**AUTOMATIC, "dagster/priority": "-1"}
#: Tag of the arena's marks, which take seconds: they start before all other runs, and do not wait for automatic ones.
PROMPT = {"dagster/priority": "1"}
