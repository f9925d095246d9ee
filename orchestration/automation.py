"""When derived tables follow what they are made from.

Not here: clocks (schedules.py) and new partitions (sensors.py).
Concept: https://docs.dagster.io/guides/automate/declarative-automation
"""

from __future__ import annotations

import dagster as dg

#: For a table whose partition needs exactly its own partition upstream.
FOLLOW = dg.AutomationCondition.eager()

#: For a table over many upstream partitions: `eager()` would wait for ever, because some upstream partition is always missing.
FOLLOW_ANY = (
    dg.AutomationCondition.any_deps_updated().since_last_handled()
    & dg.AutomationCondition.all_deps_blocking_checks_passed()
    & ~dg.AutomationCondition.any_deps_in_progress()
    & ~dg.AutomationCondition.in_progress()
).with_label("follow_any")


def follow_except(*ignored: str) -> dg.AutomationCondition:
    """`FOLLOW`, but changes of the named tables alone do not trigger."""
    return dg.AutomationCondition.eager().ignore(dg.AssetSelection.assets(*(dg.AssetKey(name.split("/")) for name in ignored)))
