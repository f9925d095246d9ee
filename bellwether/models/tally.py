"""Counts of what a client did, by model."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from bellwether.journal.facts import Outcome, Reply


@dataclass(slots=True)
class Tally:
    """What was done for one model in this run.

    Attributes:
        asked: attempts that were sent.
        answered: calls that got their answer. reused: answers and final failures that were taken from the journal. unanswered: calls without an answer.
        failures: attempts that failed, by outcome.
        prompt_tokens, completion_tokens, reasoning_tokens: of all attempts that say it.
        cost: of all attempts whose cost is known, in micro-dollars. unknown_costs: attempts whose cost is not known.
        seconds: of all attempts together, from request to reply.
        stopped: why no more calls are made; "" while they are.
    """

    asked: int = 0
    answered: int = 0
    reused: int = 0
    unanswered: int = 0
    failures: Counter[Outcome] = field(default_factory=Counter)
    prompt_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    cost: int = 0
    unknown_costs: int = 0
    seconds: float = 0.0
    stopped: str = ""

    def count(self, outcome: Outcome, reply: Reply) -> None:
        """Add an attempt that was sent."""
        usage = reply.usage
        self.asked += 1
        if outcome is not Outcome.OK:
            self.failures[outcome] += 1
        self.prompt_tokens += usage.prompt_tokens or 0
        self.completion_tokens += usage.completion_tokens or 0
        self.reasoning_tokens += usage.reasoning_tokens or 0
        self.cost += usage.cost or 0
        self.unknown_costs += usage.cost is None
        self.seconds += (reply.latency_ms or 0) / 1000

    def to_dict(self) -> dict[str, Any]:
        """Its counts as JSON."""
        counts = {name: getattr(self, name) for name in self.__slots__}
        return {
            **counts,
            "failures": {outcome.value: count for outcome, count in sorted(self.failures.items())},
            "seconds": round(self.seconds, 1),
        }
