"""The result of a call: an answer, or the reason for its absence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bellwether.journal import CallKey, Outcome, Usage
from bellwether.journal.facts import NO_USAGE, NOT_STATED, Served
from bellwether.models.ending import Ending, ending_of
from bellwether.models.wire.call import ToolCall


@dataclass(frozen=True, slots=True)
class Answer:
    """A model's answer, as it is stored in the journal.

    Attributes:
        key: of the call.
        content: the answer's text; "" where the model only calls tools.
        reasoning: its reasoning, where the provider shows it.
        finish_reason: why it stopped, in the provider's word; see `ended`.
        usage, latency_ms: of the attempt that brought the answer.
        attempts: the number of that attempt, from 1.
        spent: of all attempts of the call, those that failed included; a sum is None as long as a part of it is not known.
        reused: whether it was taken from the journal, and nothing was paid now.
        tool_calls: tools that the model asks for.
        thoughts: fields that the provider wants back in the message that repeats these calls.
        served: the model that answered, as the response states it.
    """

    key: CallKey
    content: str
    reasoning: str | None = field(default=None, repr=False)
    finish_reason: str | None = None
    usage: Usage = NO_USAGE
    latency_ms: int | None = None
    attempts: int = 1
    reused: bool = False
    tool_calls: tuple[ToolCall, ...] = ()
    thoughts: Mapping[str, Any] = field(default_factory=dict, repr=False)
    spent: Usage = NO_USAGE
    served: Served = NOT_STATED

    @property
    def ended(self) -> bool:
        """True if the model ended the text itself. Without a known reason it counts as cut."""
        return ending_of(self.finish_reason) is Ending.NORMAL

    @property
    def cut(self) -> bool:
        """True if a limit ended the text, by the finish reason."""
        return ending_of(self.finish_reason) is Ending.CUT


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """A call that has no answer, and why.

    Attributes:
        key: of the call.
        outcome, reason: of the last attempt.
        attempts, usage: of all its attempts so far, in this run and before; what was spent in vain.
        final: whether it was given up for good; otherwise the next run asks again.
        reused: whether it had been given up before.
    """

    key: CallKey
    outcome: Outcome
    reason: str
    attempts: int
    usage: Usage = NO_USAGE
    final: bool = False
    reused: bool = False

    @property
    def without_text(self) -> bool:
        """True for an answer that was empty or reasoning alone: another question may bring its text."""
        return self.final and self.outcome in (Outcome.MALFORMED, Outcome.TRUNCATION)
