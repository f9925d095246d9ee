"""States of the one decision of an agent in a week."""

from __future__ import annotations

from enum import StrEnum


class DecisionState(StrEnum):
    """OPEN: no answer yet. IN_PROGRESS: another worker has its lease. READ: the answer is stored, and no leg of it was executed yet. FINISHED: a leg was
    executed, or there is none. REFUSED: every leg was refused, for good. FAILED: the model gave no usable response, for good. BLOCKED: no call can
    succeed now (credit, key, budget, network)."""

    OPEN = "open"
    IN_PROGRESS = "in progress"
    READ = "read"
    FINISHED = "finished"
    REFUSED = "refused"
    FAILED = "failed"
    BLOCKED = "blocked"


#: States in which an answer was read and nothing more is executed.
ANSWERED = frozenset({DecisionState.FINISHED, DecisionState.REFUSED})
#: States that a further run does not change.
FINAL = ANSWERED | {DecisionState.FAILED}
