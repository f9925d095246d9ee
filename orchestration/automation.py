"""When derived tables follow what they are made from.

Not here: clocks (schedules.py) and new partitions (sensors.py).
Concept: https://docs.dagster.io/guides/automate/declarative-automation
"""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

import dagster as dg

from orchestration.orphans import commands_at_work
from orchestration.out_of_date import MOST_ATTEMPTS, OutOfDate


class CommandAtWork(dg.AutomationCondition):
    """True while a command executes runs: it makes what follows from them itself, and what it leaves is made afterwards."""

    @property
    def name(self) -> str:
        """How it is shown in the UI."""
        return "a command is at work"

    def evaluate(self, context: dg.AutomationContext) -> dg.AutomationResult:
        """All candidates or none."""
        view = context.asset_graph_view
        is_true = not context.candidate_subset.is_empty and commands_at_work(view.instance)
        return dg.AutomationResult(context, true_subset=context.candidate_subset if is_true else view.get_empty_subset(key=context.key))


def _follow(label: str, *ignored: str, attempts: int = MOST_ATTEMPTS) -> dg.AutomationCondition:
    """For a table whose partition needs exactly its own partition upstream.

    As `eager()`, of every partition and not only the latest, but what is under way is looked at before what is stored, so that a run that ends meanwhile is not
    repeated; and an update is settled by a run that began after it, not by any that ends after it.
    """
    condition, keys = dg.AutomationCondition, [dg.AssetKey(name.split("/")) for name in ignored]
    out_of_date = OutOfDate(keys, attempts)
    updated = condition.newly_missing() | condition.any_deps_updated()
    settled = condition.newly_updated() & ~out_of_date
    followed = (
        updated.since(settled | condition.initial_evaluation())
        & ~condition.any_deps_missing()
        & ~condition.any_deps_in_progress()
        & ~condition.in_progress()
        & ~CommandAtWork()
        & (out_of_date | condition.any_deps_match(condition.will_be_requested()))
    )
    return (followed.ignore(dg.AssetSelection.assets(*keys)) if keys else followed).with_label(label)


FOLLOW = _follow("follows its inputs of the same partition")

#: The same where a run may ask models that cost money: a failure waits for a person or for newer inputs.
FOLLOW_ONCE = _follow("follows its inputs of the same partition, and tries once", attempts=1)

#: For a table over many upstream partitions: `eager()` would wait for ever, because some upstream partition is always missing. It does not run in the
#: tick that requests its inputs, nor while they are made: it would read them as they were. What arrives while it runs is made up for afterwards.
FOLLOW_ANY = (
    ~dg.AutomationCondition.any_deps_match(dg.AutomationCondition.will_be_requested())
    & ~dg.AutomationCondition.any_deps_in_progress()
    & ~dg.AutomationCondition.in_progress()
    & ~CommandAtWork()
    & OutOfDate()
).with_label("follows any newer input")


def follow_except(*ignored: str) -> dg.AutomationCondition:
    """`FOLLOW`, but the named tables neither trigger nor are waited for; the UI names them by their last parts."""
    return _follow(f"follows its inputs, not {' or '.join(name.split('/')[1] for name in ignored)}", *ignored)


class RunsAutomatically(dg.AutomationCondition):
    """True for partitions whose automation costs nothing or is named by the settings: no clock may spend money that nobody allowed.

    A subclass says along which dimension of the partition (`dimension`), and for which of its names (`names`); it may leave partitions out
    (`leaves`).
    """

    dimension: ClassVar[str]

    def names(self) -> Collection[str]:
        """Names along the dimension that run automatically in this world."""
        raise NotImplementedError

    def leaves(self, partition: str) -> bool:
        """Whether a partition is a person's to ask for, whatever its name along the dimension."""
        return False

    def evaluate(self, context: dg.AutomationContext) -> dg.AutomationResult:
        """The candidates whose name along the dimension runs automatically, and that are not left to a person."""
        names = self.names()
        candidates = context.candidate_subset
        found = candidates.expensively_compute_partition_keys()
        keys = {partition for partition in found if _named(partition, self.dimension) in names and not self.leaves(partition)}
        return dg.AutomationResult(context, true_subset=candidates.compute_intersection_with_partition_keys(keys))


def _named(partition: str, dimension: str) -> str:
    """One dimension of a partition. As text it is the first: Dagster writes them in the order of their names, and all of ours are first in theirs."""
    return partition.keys_by_dimension[dimension] if isinstance(partition, dg.MultiPartitionKey) else partition.partition("|")[0]
